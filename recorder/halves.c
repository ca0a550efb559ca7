// Floats of 16 bits in vectors of 512 or 256 bits, as the processor has them: level 5 looks at every value of a kernel's buffers, and what
// this costs the job waits for. Without such vectors halves_add() says so, and its caller takes them one by one.
#include "recorder/halves.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

// Bits of a vector at most: tests try what processors of today would not.
#ifndef HALVES_WIDEST
#define HALVES_WIDEST 512
#endif

#ifdef __x86_64__
#define WIDE __attribute__((target("avx512f,avx512bw")))
#define NARROW __attribute__((target("avx2,f16c")))

enum { AHEAD = 2048 }; // bytes that are fetched beforehand: the processor does so by itself up to the end of a page only

/** One loop for all: memory is read while the one before is computed. @half is a constant where it is called. */
WIDE static inline __attribute__((always_inline)) void add_512(struct halves *h, bool half, const uint16_t *data, size_t n)
{
	const __m512i magnitude = _mm512_set1_epi16(0x7fff), one = _mm512_set1_epi16(1),
		      upper = _mm512_set1_epi32((int)0xffff0000);
	__m512i least = _mm512_set1_epi16(INT16_MAX), most = _mm512_set1_epi16(INT16_MIN), zeros = _mm512_setzero_si512();
	__m512 low = _mm512_setzero_ps(), high = _mm512_setzero_ps();
	for (size_t i = 0; i < n; i += 32) {
		const __m512i v = _mm512_loadu_si512(data + i);
		_mm_prefetch((const char *)(data + i) + AHEAD, _MM_HINT_T0);
		const __m512i key = _mm512_xor_si512(v, _mm512_and_si512(_mm512_srai_epi16(v, 15), magnitude));
		least = _mm512_min_epi16(least, key);
		most = _mm512_max_epi16(most, key);
		zeros = _mm512_mask_add_epi16(zeros, _mm512_testn_epi16_mask(v, magnitude), zeros, one);
		low = _mm512_add_ps(low, half ? _mm512_cvtph_ps(_mm512_castsi512_si256(v)) :
						_mm512_castsi512_ps(_mm512_slli_epi32(v, 16)));
		high = _mm512_add_ps(high, half ? _mm512_cvtph_ps(_mm512_extracti64x4_epi64(v, 1)) :
						  _mm512_castsi512_ps(_mm512_and_si512(v, upper)));
	}
	int16_t rows[3][32];
	_mm512_storeu_si512(rows[0], least);
	_mm512_storeu_si512(rows[1], most);
	_mm512_storeu_si512(rows[2], zeros);
	for (unsigned k = 0; k < 32; k++) {
		h->least = rows[0][k] < h->least ? rows[0][k] : h->least;
		h->most = rows[1][k] > h->most ? rows[1][k] : h->most;
		h->zeros += (uint16_t)rows[2][k];
	}
	h->sum = _mm512_reduce_add_ps(_mm512_add_ps(low, high));
}

NARROW static inline __attribute__((always_inline)) void add_256(struct halves *h, bool half, const uint16_t *data, size_t n)
{
	const __m256i magnitude = _mm256_set1_epi16(0x7fff), none = _mm256_setzero_si256(),
		      upper = _mm256_set1_epi32((int)0xffff0000);
	__m256i least = _mm256_set1_epi16(INT16_MAX), most = _mm256_set1_epi16(INT16_MIN), zeros = none;
	__m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
	for (size_t i = 0; i < n; i += 16) {
		const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(data + i));
		_mm_prefetch((const char *)(data + i) + AHEAD, _MM_HINT_T0);
		const __m256i key = _mm256_xor_si256(v, _mm256_and_si256(_mm256_srai_epi16(v, 15), magnitude));
		least = _mm256_min_epi16(least, key);
		most = _mm256_max_epi16(most, key);
		zeros = _mm256_sub_epi16(zeros, _mm256_cmpeq_epi16(_mm256_and_si256(v, magnitude), none));
		low = _mm256_add_ps(low, half ? _mm256_cvtph_ps(_mm256_castsi256_si128(v)) :
						_mm256_castsi256_ps(_mm256_slli_epi32(v, 16)));
		high = _mm256_add_ps(high, half ? _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)) :
						  _mm256_castsi256_ps(_mm256_and_si256(v, upper)));
	}
	int16_t rows[3][16];
	float sums[8];
	_mm256_storeu_si256((__m256i *)(void *)rows[0], least);
	_mm256_storeu_si256((__m256i *)(void *)rows[1], most);
	_mm256_storeu_si256((__m256i *)(void *)rows[2], zeros);
	_mm256_storeu_ps(sums, _mm256_add_ps(low, high));
	for (unsigned k = 0; k < 16; k++) {
		h->least = rows[0][k] < h->least ? rows[0][k] : h->least;
		h->most = rows[1][k] > h->most ? rows[1][k] : h->most;
		h->zeros += (uint16_t)rows[2][k];
		h->sum += k < 8 ? sums[k] : 0;
	}
}

WIDE static void half_512(struct halves *h, const uint16_t *data, size_t n) { add_512(h, true, data, n); }
WIDE static void bfloat_512(struct halves *h, const uint16_t *data, size_t n) { add_512(h, false, data, n); }
NARROW static void half_256(struct halves *h, const uint16_t *data, size_t n) { add_256(h, true, data, n); }
NARROW static void bfloat_256(struct halves *h, const uint16_t *data, size_t n) { add_256(h, false, data, n); }
#endif

bool halves_add(struct halves *h, bool half, const uint16_t *data, size_t n)
{
	*h = (struct halves){ .least = INT16_MAX, .most = INT16_MIN };
#ifdef __x86_64__
	if (HALVES_WIDEST >= 512 && __builtin_cpu_supports("avx512bw"))
		return (half ? half_512 : bfloat_512)(h, data, n), true;
	if (HALVES_WIDEST >= 256 && __builtin_cpu_supports("avx2")) // f16c came before it, and clang 14 has no word for that
		return (half ? half_256 : bfloat_256)(h, data, n), true;
#endif
	(void)half;
	(void)data;
	(void)n;
	return false;
}
