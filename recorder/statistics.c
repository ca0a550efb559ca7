// Smallest, largest and mean value, and how many are zero, NaN or infinite, at the speed at which memory is read. The
// compiler makes of each loop what the processors have that there are today, and the newest that is there runs.
#include "recorder/statistics.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "recorder/halves.h"

#define UNHANG_RECORDER_INSIDE
#include "unhang/recorder.h"

enum { BLOCK = 4096, HALVES_BLOCK = 16384, LARGE = 0x78000000 }; // LARGE: a float of 2^113, of which a block has a finite sum

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define FAST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FAST
#endif

static const uint8_t sizes[UNHANG_DTYPES] = {
	[UNHANG_FLOAT64] = 8,
	[UNHANG_FLOAT32] = 4,
	[UNHANG_FLOAT16] = 2,
	[UNHANG_BFLOAT16] = 2,
	[UNHANG_FLOAT8_E4M3] = 1,
	[UNHANG_INT64] = 8,
	[UNHANG_INT32] = 4,
	[UNHANG_INT16] = 2,
	[UNHANG_INT8] = 1,
	[UNHANG_UINT64] = 8,
	[UNHANG_UINT32] = 4,
	[UNHANG_UINT16] = 2,
	[UNHANG_UINT8] = 1,
	[UNHANG_BOOL] = 1,
	[UNHANG_FLOAT8_E5M2] = 1,
	[UNHANG_FLOAT8_E4M3_FNUZ] = 1,
	[UNHANG_FLOAT8_E5M2_FNUZ] = 1,
	[UNHANG_COMPLEX64] = 8,
	[UNHANG_COMPLEX128] = 16,
};

size_t dtype_size(uint32_t dtype) { return dtype < UNHANG_DTYPES ? sizes[dtype] : 0; }

void statistics_begin(struct statistics *s) { *s = (struct statistics){ .least = INFINITY, .most = -INFINITY }; }

double statistics_mean(const struct statistics *s)
{
	const uint64_t finite = s->elements - s->nans - s->infinities;
	return finite ? s->sum / (double)finite : NAN;
}

static void add_one(struct statistics *s, double v)
{
	s->zeros += v == 0;
	s->nans += isnan(v) != 0;
	s->infinities += isinf(v) != 0;
	if (!isfinite(v))
		return;
	s->least = v < s->least ? v : s->least;
	s->most = v > s->most ? v : s->most;
	s->sum += v;
}

/** The largest magnitude of a block, as bits: whether all of it is finite. */
FAST static uint32_t largest_bits(const float *data, size_t n)
{
	int32_t largest = 0;
	for (size_t i = 0; i < n; i++) {
		int32_t bits;
		memcpy(&bits, &data[i], sizeof(bits));
		bits &= 0x7fffffff;
		largest = bits > largest ? bits : largest;
	}
	return (uint32_t)largest;
}

/** What a block of finite floats comes to. */
struct block {
	float sum, least, most;
	uint32_t zeros;
};

static void block_add(struct statistics *s, const struct block *b)
{
	s->sum += (double)b->sum;
	s->zeros += b->zeros;
	s->least = (double)b->least < s->least ? (double)b->least : s->least;
	s->most = (double)b->most > s->most ? (double)b->most : s->most;
}

/** Nothing here is NaN or infinite, and the order of the sum does not matter: so the compiler may take many at a time. */
FAST __attribute__((optimize("O3", "fast-math"))) static void add_finite(struct block *restrict b, const float *restrict data,
									 size_t n)
{
	float sum = 0, least = b->least, most = b->most;
	uint32_t zeros = 0;
	for (size_t i = 0; i < n; i++) {
		const float v = data[i];
		sum += v;
		least = v < least ? v : least;
		most = v > most ? v : most;
		zeros += v == 0;
	}
	*b = (struct block){ sum, least, most, zeros };
}

static void add_block(struct statistics *s, const float *data, size_t n)
{
	struct block b = { 0, data[0], data[0], 0 };
	const uint32_t largest = largest_bits(data, n);
	// Values near the end of what a float can hold have a sum that is beyond.
	if (largest >= LARGE) {
		for (size_t i = 0; i < n; i++)
			add_one(s, (double)data[i]);
		return;
	}
	add_finite(&b, data, n);
	block_add(s, &b);
}

/** @data has any alignment. A block is as large as fits the first cache, because it is looked at twice. */
static void add_floats(struct statistics *s, const void *data, size_t n)
{
	for (size_t at = 0; at < n; at += BLOCK)
		add_block(s, (const float *)data + at, n - at < BLOCK ? n - at : BLOCK);
}

FAST static void widen_bfloat(float *restrict to, const uint16_t *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const uint32_t bits = (uint32_t)from[i] << 16;
		memcpy(&to[i], &bits, sizeof(bits));
	}
}

/** Exponent and fraction moved to a float's place, and the difference of the biases multiplied in: right for small ones, too. */
static void widen_half_slowly(float *restrict to, const uint16_t *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const uint32_t h = from[i], magnitude = h & 0x7fff, sign = (h & 0x8000) << 16;
		uint32_t bits = magnitude << 13, scaled;
		float v;
		memcpy(&v, &bits, sizeof(v));
		v *= 0x1p112f;
		memcpy(&scaled, &v, sizeof(scaled));
		// Infinities and NaN keep all bits of the exponent.
		bits = (magnitude >= 0x7c00 ? bits | 0x7f800000 : scaled) | sign;
		memcpy(&to[i], &bits, sizeof(bits));
	}
}

#ifdef __x86_64__
__attribute__((target("avx512f"))) static size_t widen_half_16(float *to, const uint16_t *from, size_t n)
{
	size_t i = 0;
	for (; i + 16 <= n; i += 16)
		_mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(from + i))));
	return i;
}

__attribute__((target("avx,f16c"))) static size_t widen_half_8(float *to, const uint16_t *from, size_t n)
{
	size_t i = 0;
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
	return i;
}
#endif

static void widen_half(float *restrict to, const uint16_t *restrict from, size_t n)
{
	size_t done = 0;
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f"))
		done = widen_half_16(to, from, n);
	else if (__builtin_cpu_supports("avx2")) // f16c came before it, and clang 14 has no word for that
		done = widen_half_8(to, from, n);
#endif
	widen_half_slowly(to + done, from + done, n - done);
}

/** Where all are finite they are not written down as floats in between. false: they are not. */
static bool add_finite_16(struct statistics *s, bool half, const uint16_t *data, size_t n)
{
	const int limit = half ? 0x7c00 : LARGE >> 16; // magnitudes from here on are not finite, or too large for a sum
	struct halves h;
	if (!halves_add(&h, half, data, n) || h.most >= limit || h.least < -limit)
		return false;
	const uint16_t bits[2] = { (uint16_t)halves_order(h.least), (uint16_t)halves_order(h.most) };
	float ends[2];
	(half ? widen_half : widen_bfloat)(ends, bits, 2);
	block_add(s, &(struct block){ h.sum, ends[0] + 0.0f, ends[1] + 0.0f, h.zeros }); // -0 is 0
	return true;
}

static void add_wide_block(struct statistics *s, bool half, const uint16_t *data, size_t n)
{
	float room[BLOCK];
	(half ? widen_half : widen_bfloat)(room, data, n);
	add_block(s, room, n);
}

static void add_wide(struct statistics *s, bool half, const uint16_t *data, size_t n)
{
	for (size_t at = 0, step; at < n; at += step) {
		step = n - at < HALVES_BLOCK ? n - at : HALVES_BLOCK;
		const size_t whole = step / HALVES_AT_ONCE * HALVES_AT_ONCE;
		size_t done = whole && add_finite_16(s, half, data + at, whole) ? whole : 0;
		for (; done < step; done += step - done < BLOCK ? step - done : BLOCK)
			add_wide_block(s, half, data + at + done, step - done < BLOCK ? step - done : BLOCK);
	}
}

/** A float of 8 bits: @exponent bits of exponent; @fnuz: one NaN, no negative zero, no infinities; else E4M3 has no infinities either. */
static double float8(uint8_t bits, unsigned exponent, int fnuz)
{
	const unsigned fraction = 7 - exponent, e = bits >> fraction & ((1u << exponent) - 1),
		       m = bits & ((1u << fraction) - 1);
	const int bias = (1 << (exponent - 1)) - 1 + fnuz;
	if (fnuz && bits == 0x80)
		return (double)NAN;
	if (!fnuz && e == (1u << exponent) - 1 && exponent == 5)
		return m ? (double)NAN : (double)INFINITY;
	if (!fnuz && exponent == 4 && e == 15 && m == 7)
		return (double)NAN;
	const double v = ldexp((double)(e ? m + (1u << fraction) : m), (int)(e ? e : 1) - bias - (int)fraction);
	return bits & 0x80 ? -v : v;
}

static double element(uint32_t dtype, const char *at)
{
#define AS(type)                                                                                                               \
	({                                                                                                                     \
		type v_;                                                                                                       \
		memcpy(&v_, at, sizeof(v_));                                                                                   \
		(double)v_;                                                                                                    \
	})
	switch (dtype) {
	case UNHANG_FLOAT64:
		return AS(double);
	case UNHANG_INT64:
		return AS(int64_t);
	case UNHANG_INT32:
		return AS(int32_t);
	case UNHANG_INT16:
		return AS(int16_t);
	case UNHANG_INT8:
		return AS(int8_t);
	case UNHANG_UINT64:
		return AS(uint64_t);
	case UNHANG_UINT32:
		return AS(uint32_t);
	case UNHANG_UINT16:
		return AS(uint16_t);
	case UNHANG_FLOAT8_E4M3:
		return float8((uint8_t)*at, 4, 0);
	case UNHANG_FLOAT8_E5M2:
		return float8((uint8_t)*at, 5, 0);
	case UNHANG_FLOAT8_E4M3_FNUZ:
		return float8((uint8_t)*at, 4, 1);
	case UNHANG_FLOAT8_E5M2_FNUZ:
		return float8((uint8_t)*at, 5, 1);
	default:
		return AS(uint8_t);
	}
#undef AS
}

void statistics_add(struct statistics *s, uint32_t dtype, const void *data, size_t n)
{
	const size_t size = dtype_size(dtype);
	if (!size)
		return;
	s->elements += n;
	if (dtype == UNHANG_FLOAT32) {
		add_floats(s, data, n);
	} else if (dtype == UNHANG_FLOAT16 || dtype == UNHANG_BFLOAT16) {
		add_wide(s, dtype == UNHANG_FLOAT16, data, n);
	} else if (dtype == UNHANG_COMPLEX64 || dtype == UNHANG_COMPLEX128) {
		// Real and imaginary parts are elements of their own.
		s->elements += n;
		if (dtype == UNHANG_COMPLEX64)
			add_floats(s, data, 2 * n);
		for (size_t i = 0; dtype == UNHANG_COMPLEX128 && i < 2 * n; i++)
			add_one(s, element(UNHANG_FLOAT64, (const char *)data + i * 8));
	} else {
		for (size_t i = 0; i < n; i++)
			add_one(s, element(dtype, (const char *)data + i * size));
	}
}
