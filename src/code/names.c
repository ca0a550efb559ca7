// Names around code: C++ functions without their mangling, targets such as gfx90a:sramecc+, and the URIs by which the runtime tells
// where an object came from.
#include <stdlib.h>

#include "base/child.h"
#include "base/door/library.h"
#include "code/names.h"

enum {
	NAME_BYTES = 4096, // longer ones are no names
	PLAIN_BYTES = 64 << 10,
	REFERENCES_SAFE = 16, // to parts of a name; each may double what it is written out to
};

// The C++ library's own demangler.
char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);
#define DEMANGLER_CALLS(call) call(__cxa_demangle)

struct demangler {
	LIBRARY_API(DEMANGLER_CALLS)
};

/** Older demanglers do not know the 16-bit types. They get other types in their place, which are replaced in the result. */
static void swap_types(struct text *out, struct str name, const char *const (*pairs)[2], size_t n)
{
	while (name.n) {
		size_t i = 0;
		while (i < n && !str_starts(name, str_z(pairs[i][0])))
			i++;
		text_add(out, i < n ? str_z(pairs[i][1]) : str_cut(name, 1));
		name = str_from(name, i < n ? strlen(pairs[i][0]) : 1);
	}
}

struct mangled {
	struct demangler by;
	const char *name;
};

static void demangle_to(const void *asked, struct arena *a, void *answer)
{
	const struct mangled *m = asked;
	int status = -1;
	_cleanup_free_ char *plain = m->by.__cxa_demangle(m->name, NULL, NULL, &status);
	if (plain && !status)
		*(struct str *)answer = arena_str(a, str_z(plain));
}

/** Few references to parts of itself cannot grow far; a name with many may be written to grow without end, so that a child with a deadline tries it. */
static struct str demangle_name(struct arena *a, const struct mangled *m)
{
	struct str plain = { 0 };
	size_t references = 0;
	for (const char *p = m->name; *p; p++)
		references += (p[0] == 'S' || p[0] == 'T') && (p[1] == '_' || char_digit(p[1]));
	if (references > REFERENCES_SAFE)
		child_call(&(struct child_task){ CHILD_DEMANGLE, demangle_to, &wire_one_text, .most = PLAIN_BYTES }, m, a,
			   &plain);
	else
		demangle_to(m, a, &plain);
	return plain;
}

struct str demangle(struct arena *a, struct str name)
{
	static const char *const known[][2] = { { "DF16b", "Dd" }, { "DF16_", "De" } };
	static const char *const plain_names[][2] = { { "decimal64", "bfloat16" }, { "decimal128", "half" } };
	name = str_trim(name);
	name = str_cut(name, name.n - str_among(name, STR_ENDS, " [clone .kd]|(.kd)|.kd|.intern.0").n);
	if (!str_starts(name, S("_Z")) || name.n > NAME_BYTES)
		return name;
	_cleanup_text_ struct text mangled = { 0 }, out = { 0 };
	swap_types(&mangled, name, known, 2);
	struct mangled m = { .name = arena_z(a, text_str(&mangled)) };
	const bool there = !LIBRARY_TAKE(&m.by, DEMANGLER_CALLS, "libstdc++.so.6");
	swap_types(&out, there ? demangle_name(a, &m) : (struct str){ 0 }, plain_names, 2);
	return out.n ? arena_str(a, text_str(&out)) : name;
}

struct str bare_name(struct str function)
{
	size_t begin = 0, end = 0;
	for (size_t i = 0; i < function.n; i++) {
		if (char_word(function.p[i])) {
			begin = i && char_word(function.p[i - 1]) ? begin : i;
			end = i + 1;
		} else if (end && (function.p[i] == '<' || (function.p[i] == '(' && end == i))) {
			break;
		}
	}
	return str_cut(str_from(function, begin), end - begin);
}

// --- targets ---

// How a family counts registers: wave32, wave64, granule_32, granule_64, accum_offset.
#define GCN false, true, 0, 4, false
#define CDNA false, true, 0, 8, true
#define RDNA true, true, 8, 4, false
#define WIDE true, false, 16, 0, false // 1024 VGPRs
#define NEW true, true, 0, 0, false    // not known how it counts

static const struct code_target targets[] = {
	{ 0x20, "gfx600", GCN },
	{ 0x21, "gfx601", GCN },
	{ 0x3a, "gfx602", GCN },
	{ 0x22, "gfx700", GCN },
	{ 0x23, "gfx701", GCN },
	{ 0x24, "gfx702", GCN },
	{ 0x25, "gfx703", GCN },
	{ 0x26, "gfx704", GCN },
	{ 0x3b, "gfx705", GCN },
	{ 0x28, "gfx801", GCN, .xnack = true },
	{ 0x29, "gfx802", GCN },
	{ 0x2a, "gfx803", GCN },
	{ 0x3c, "gfx805", GCN },
	{ 0x2b, "gfx810", GCN, .xnack = true },
	{ 0x2c, "gfx900", GCN, .xnack = true },
	{ 0x2d, "gfx902", GCN, .xnack = true },
	{ 0x2e, "gfx904", GCN, .xnack = true },
	{ 0x2f, "gfx906", GCN, .xnack = true, .sramecc = true },
	{ 0x30, "gfx908", GCN, .xnack = true, .sramecc = true },
	{ 0x31, "gfx909", GCN, .xnack = true },
	{ 0x32, "gfx90c", GCN, .xnack = true },
	{ 0x3f, "gfx90a", CDNA, .xnack = true, .sramecc = true },
	{ 0x40, "gfx940", CDNA, .xnack = true, .sramecc = true },
	{ 0x4b, "gfx941", CDNA, .xnack = true, .sramecc = true },
	{ 0x4c, "gfx942", CDNA, .xnack = true, .sramecc = true },
	{ 0x4f, "gfx950", CDNA, .xnack = true, .sramecc = true },
	{ 0x33, "gfx1010", RDNA, .xnack = true },
	{ 0x34, "gfx1011", RDNA, .xnack = true },
	{ 0x35, "gfx1012", RDNA, .xnack = true },
	{ 0x42, "gfx1013", RDNA, .xnack = true },
	{ 0x36, "gfx1030", RDNA },
	{ 0x37, "gfx1031", RDNA },
	{ 0x38, "gfx1032", RDNA },
	{ 0x39, "gfx1033", RDNA },
	{ 0x3e, "gfx1034", RDNA },
	{ 0x3d, "gfx1035", RDNA },
	{ 0x45, "gfx1036", RDNA },
	{ 0x41, "gfx1100", RDNA },
	{ 0x46, "gfx1101", RDNA },
	{ 0x47, "gfx1102", RDNA },
	{ 0x44, "gfx1103", RDNA },
	{ 0x43, "gfx1150", RDNA },
	{ 0x4a, "gfx1151", RDNA },
	{ 0x55, "gfx1152", RDNA },
	{ 0x58, "gfx1153", RDNA },
	{ 0x57, "gfx1154", RDNA },
	{ 0x5d, "gfx1170", RDNA },
	{ 0x5e, "gfx1171", RDNA },
	{ 0x5c, "gfx1172", RDNA },
	{ 0x48, "gfx1200", RDNA },
	{ 0x4e, "gfx1201", RDNA },
	{ 0x49, "gfx1250", WIDE, .xnack = true, .sramecc = true },
	{ 0x5a, "gfx1251", WIDE, .xnack = true, .sramecc = true },
	{ 0x50, "gfx1310", NEW },
	{ 0x51, "gfx9-generic", GCN, .xnack = true },
	{ 0x5f, "gfx9-4-generic", CDNA, .xnack = true, .sramecc = true },
	{ 0x52, "gfx10-1-generic", RDNA, .xnack = true },
	{ 0x53, "gfx10-3-generic", RDNA },
	{ 0x54, "gfx11-generic", RDNA },
	{ 0x62, "gfx11-7-generic", RDNA },
	{ 0x59, "gfx12-generic", RDNA },
	{ 0x5b, "gfx12-5-generic", WIDE, .xnack = true, .sramecc = true },
	{ 0x63, "gfx13-generic", NEW },
};

enum { TARGETS = ARRAY_SIZE(targets) };

const struct code_target *code_target_of(unsigned mach) { return list_find(targets, TARGETS, it, it->mach == mach); }

const struct code_target *code_target_named(struct str name) { return list_find(targets, TARGETS, it, str_is(name, it->name)); }

// --- where a loaded object came from ---

static bool code_names_number(struct str s, uint64_t *ret)
{
	int64_t v;
	if (str_starts(s, S("0x")))
		return str_hex(s, ret);
	if (!s.n || !char_digit(s.p[0]) || !str_number(s, &v))
		return false;
	*ret = (uint64_t)v;
	return true;
}

static bool range(struct str s, struct code_uri *ret)
{
	bool offset = false, size = false;
	str_each (value, s, '&') {
		struct str key = str_split(&value, '=');
		if (str_is(key, "offset") && !offset)
			offset = code_names_number(value, &ret->offset);
		else if (str_is(key, "size") && !size)
			size = code_names_number(value, &ret->size);
		else
			return false;
	}
	return ret->has_range = offset && size;
}

static struct str decode(struct arena *a, struct str s)
{
	char *to = arena_alloc(a, s.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		uint64_t code;
		if (s.p[i] == '%' && s.n - i > 2 && char_hex(s.p[i + 1]) && str_hex(str_cut(str_from(s, i + 1), 2), &code)) {
			to[n++] = (char)code;
			i += 2;
		} else {
			to[n++] = s.p[i];
		}
	}
	return (struct str){ to, n };
}

bool code_uri_parse(struct arena *a, struct str uri, struct code_uri *ret)
{
	struct code_uri u = { .memory = str_starts(uri, S("memory://")) };
	if (!u.memory && !str_starts(uri, S("file://")))
		return false;
	struct str place = str_from(uri, u.memory ? 9 : 7);
	for (size_t i = place.n; i--;) {
		if (place.p[i] != '#' && place.p[i] != '?')
			continue;
		if (!range(str_from(place, i + 1), &u))
			return false;
		place = str_cut(place, i);
		break;
	}
	uint64_t pid = 0;
	if (u.memory) // old debuggers write memory://1234/mem
		place = str_split(&place, '/');
	if (u.memory ? !u.has_range || !code_names_number(place, &pid) || pid > INT32_MAX : !place.n)
		return false;
	u.pid = (int64_t)pid;
	u.path = u.memory ? (struct str){ 0 } : decode(a, place);
	*ret = u;
	return true;
}

bool code_uri_saved_as(struct str uri, struct str filename)
{
	if (uri.n != filename.n || !uri.n)
		return false;
	for (size_t i = 0; i < uri.n; i++) {
		char c = memchr(":/#?&=", uri.p[i], 6) ? '_' : uri.p[i];
		if (c != filename.p[i])
			return false;
	}
	return true;
}
