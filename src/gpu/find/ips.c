// The IP blocks that the driver found, and the shader array: where the registers of each block are, and how many engines, arrays and
// compute units there are to look at.
#include <stdlib.h>

#include "base/bytes.h"
#include "gpu/find/found.h"

enum { DIES_MOST = 16, NAMES_MOST = 256, INSTANCES_MOST = 64, IPS_MOST = 2048, BASES_MOST = 64 };

/** Names of ip_discovery that differ from those of the registers. */
static const struct {
	const char *driver, *name;
} renamed[] = {
	{ "uvd", "vcn" },
	{ "nbif", "nbio" },
	{ "clka", "clk" },
	{ "dmu", "dcn" },
};

static struct str ip_name(struct arena *a, struct str name)
{
	char *lower = arena_z(a, name);
	for (char *c = lower; *c; c++)
		*c = char_lower(*c);
	for (size_t i = 0; i < ARRAY_SIZE(renamed); i++)
		if (!strcmp(lower, renamed[i].driver))
			return str_z(renamed[i].name);
	return str_z(lower);
}

static const char *const attributes[] = { "major", "minor", "revision", "harvest", "base_addr" };
enum { ATTRIBUTES = ARRAY_SIZE(attributes) };

/** One level of the tree: the names in each directory of @from that @wanted. */
struct level {
	struct str *paths; // below ip_discovery/die
	size_t n;
};

static bool is_ip_name(struct str s) { return s.n && !char_digit(s.p[0]) && !str_is(s, "num_ips"); }
static bool is_instance(struct str s)
{
	int64_t number;
	return str_number(s, &number) && number >= 0;
}

/** Lists the directories of @levels, a batch for each device, and replaces them by what they contain. */
static void descend(struct search *s, struct level *levels, bool (*wanted)(struct str), size_t most)
{
	struct arena *a = &s->to->arena;
	struct probe_batch *batches = arena_alloc(a, s->n * sizeof(*batches) + 1);
	for (size_t i = 0; i < s->n; i++) {
		size_t n = s->found[i].d.stuck.is ? 0 : levels[i].n;
		batches[i] = (struct probe_batch){ arena_alloc(a, n * sizeof(struct probe) + 1), n, s->to->tree, { 0 } };
		for (size_t j = 0; j < n; j++)
			batches[i].probes[j] =
				(struct probe){ .kind = PROBE_LIST,
						.path = arena_printf(a, STR_FMT "/ip_discovery/die/" STR_FMT,
								     STR_ARG(s->found[i].d.sysfs), STR_ARG(levels[i].paths[j]))
								.p };
	}
	look_run(s, batches, LOOK_MS);
	for (size_t i = 0; i < s->n; i++) {
		struct level below = { arena_alloc(a, IPS_MOST * sizeof(struct str)), 0 };
		for (size_t j = 0; j < batches[i].n; j++) {
			struct str *names;
			size_t n = lines_of(a, probe_text(&batches[i].probes[j]), most, &names);
			for (size_t m = 0; m < n && below.n < IPS_MOST; m++)
				if (wanted(names[m]))
					below.paths[below.n++] = arena_printf(a, STR_FMT "/" STR_FMT,
									      STR_ARG(levels[i].paths[j]), STR_ARG(names[m]));
		}
		levels[i] = below;
	}
}

static unsigned ips_number_of(const struct probe *p)
{
	int64_t number;
	return str_number(probe_text(p), &number) && number >= 0 && number <= UINT32_MAX ? (unsigned)number : 0;
}

static void read_ip(struct arena *a, struct str path, const struct probe *answers, struct ip *ret)
{
	struct str die = str_split(&path, '/'), name = str_split(&path, '/'), bases = probe_text(&answers[4]);
	int64_t number;
	*ret = (struct ip){ .name = ip_name(a, name), .harvested = ips_number_of(&answers[3]) != 0 };
	ret->die = str_number(die, &number) ? (unsigned)number : 0;
	ret->instance = str_number(path, &number) ? (unsigned)number : 0;
	for (size_t i = 0; i < 3; i++)
		ret->version[i] = ips_number_of(&answers[i]);
	uint32_t *list = arena_alloc(a, BASES_MOST * sizeof(*list));
	while (bases.n && ret->nbases < BASES_MOST && str_number(str_trim(str_split(&bases, '\n')), &number))
		list[ret->nbases++] = (uint32_t)number;
	ret->bases = list;
}

static int compare_ips(const void *a, const void *b)
{
	const struct ip *x = a, *y = b;
	int c = str_cmp(x->name, y->name);
	c = c ? c : (x->die > y->die) - (x->die < y->die);
	return c ? c : (x->instance > y->instance) - (x->instance < y->instance);
}

/** `gc 0 9.4.2 0x2000 0xa000 0x2402c00`. */
static void known_ip(struct arena *a, struct str line, struct ip *ret)
{
	int64_t number;
	*ret = (struct ip){ .name = str_word(&line) };
	ret->instance = str_number(str_word(&line), &number) ? (unsigned)number : 0;
	struct str version = str_word(&line);
	for (size_t i = 0; i < 3 && str_number(str_split(&version, '.'), &number); i++)
		ret->version[i] = (unsigned)number;
	uint32_t *list = arena_alloc(a, BASES_MOST * sizeof(*list));
	while (ret->nbases < BASES_MOST && str_number(str_word(&line), &number))
		list[ret->nbases++] = (uint32_t)number;
	ret->bases = list;
}

/** For a GPU whose driver lists no IP blocks. */
static void use_known(struct search *s, struct device *d)
{
	struct arena *a = &s->to->arena;
	const struct know_part *part = know_part(s->k, d->device, (int)d->revision);
	struct str id = part ? arena_printf(a, "ip-blocks-" STR_FMT, STR_ARG(part->gfx)) : (struct str){ 0 };
	const struct know_names *names = list_find_of(s->k->names.data, s->k->names.len, it, id.n && str_eq(it->head.id, id));
	if (names)
		d->ips = arena_alloc(a, IPS_MOST * sizeof(*d->ips));
	for (const struct know_pair *p = names ? names->names : NULL; p && d->nips < IPS_MOST; p = p->next)
		known_ip(a, p->value, &d->ips[d->nips++]);
}

void find_ips(struct search *s)
{
	struct arena *a = &s->to->arena;
	struct level *levels = arena_alloc(a, s->n * sizeof(*levels) + 1);
	for (size_t i = 0; i < s->n; i++)
		levels[i].n = lines_of(a, s->found[i].dies, DIES_MOST, &levels[i].paths);
	descend(s, levels, is_ip_name, NAMES_MOST);
	descend(s, levels, is_instance, INSTANCES_MOST);
	struct probe_batch *batches = arena_alloc(a, s->n * sizeof(*batches) + 1);
	for (size_t i = 0; i < s->n; i++) {
		size_t n = s->found[i].d.stuck.is ? 0 : levels[i].n;
		batches[i] = (struct probe_batch){
			arena_alloc(a, n * ATTRIBUTES * sizeof(struct probe) + 1), n * ATTRIBUTES, s->to->tree, { 0 }
		};
		for (size_t j = 0; j < n * ATTRIBUTES; j++)
			batches[i].probes[j].path =
				arena_printf(a, STR_FMT "/ip_discovery/die/" STR_FMT "/%s", STR_ARG(s->found[i].d.sysfs),
					     STR_ARG(levels[i].paths[j / ATTRIBUTES]), attributes[j % ATTRIBUTES])
					.p;
	}
	look_run(s, batches, LOOK_MS);
	for (size_t i = 0; i < s->n; i++) {
		struct device *d = &s->found[i].d;
		d->ips = arena_alloc(a, levels[i].n * sizeof(*d->ips) + 1);
		for (size_t j = 0; j < batches[i].n / ATTRIBUTES; j++)
			if (batches[i].probes[j * ATTRIBUTES].end == PROBE_GOOD)
				read_ip(a, levels[i].paths[j], &batches[i].probes[j * ATTRIBUTES], &d->ips[d->nips++]);
		if (!d->nips)
			use_known(s, d);
		qsort(d->ips, d->nips, sizeof(*d->ips), compare_ips);
		// Instances are numbered as the driver does in its files: only those that exist are counted. device_ip() goes by that.
		unsigned instance = 0;
		for (size_t j = 0; j < d->nips; j++) {
			instance = j && str_eq(d->ips[j].name, d->ips[j - 1].name) ? instance : 0;
			if (!d->ips[j].harvested)
				d->ips[j].instance = instance++;
		}
	}
}

// --- the shader array ---

enum {
	GCA_WORDS = 36,
	GCA_SES = 1,
	GCA_CUS = 3,
	GCA_SHS = 4,
	GCA_FAMILY = 27,
	GCA_APU = 33,
	QUERY_DEVICE = 0x16, // AMDGPU_INFO_DEV_INFO
	DEVICE_FAMILY = 16,  // offsets in struct drm_amdgpu_info_device
	DEVICE_SES = 20,
	DEVICE_SHS = 24,
	DEVICE_FLAGS = 136,
	MODE_SHIFT = 8,
	MODE_MASK = 3,
	MODE_GUEST = 1,
	DEVICE_CUS = 248,
	DEVICE_BYTES = 252,
};

/** Limits above what any GPU has. A greater number is no answer: it is all ones, or the file is not what it should be. (Each unit costs
 * reads.) */
enum { XCCS_MOST = 16, SES_MOST = 64, SHS_MOST = 16, CUS_MOST = 64, UNITS_MOST = 1024 };

/** Whether they are believable; then they are taken. */
static bool set_shaders(struct device *d, uint64_t ses, uint64_t shs_per_se, uint64_t cus_per_sh)
{
	if (!ses || ses > SES_MOST || !shs_per_se || shs_per_se > SHS_MOST || !cus_per_sh || cus_per_sh > CUS_MOST ||
	    ses * shs_per_se * cus_per_sh > UNITS_MOST)
		return false;
	d->shaders.ses = (unsigned)ses;
	d->shaders.shs_per_se = (unsigned)shs_per_se;
	d->shaders.cus_per_sh = (unsigned)cus_per_sh;
	return true;
}

/** From what the driver keeps of the GPU in debugfs; the first word is the version of the layout. */
static void use_gca(struct device *d, const struct probe *p)
{
	uint32_t words[GCA_WORDS] = { 0 };
	if (p->end != PROBE_GOOD || p->n < (GCA_SHS + 1) * 4)
		return;
	memcpy(words, p->data, p->n < sizeof(words) ? p->n : sizeof(words));
	if (!set_shaders(d, words[GCA_SES], words[GCA_SHS], words[GCA_CUS]))
		return;
	d->shaders.family = words[0] >= 2 ? words[GCA_FAMILY] : 0;
	d->apu |= words[0] >= 4 && words[GCA_APU];
}

static void use_query(struct device *d, const struct probe *p)
{
	if (p->end != PROBE_GOOD || p->n < DEVICE_BYTES ||
	    !set_shaders(d, get_u32(p->data + DEVICE_SES), get_u32(p->data + DEVICE_SHS), get_u32(p->data + DEVICE_CUS)))
		return;
	d->shaders.family = get_u32(p->data + DEVICE_FAMILY);
	d->apu |= get_u64(p->data + DEVICE_FLAGS) & 1;
	d->guest |= (get_u64(p->data + DEVICE_FLAGS) >> MODE_SHIFT & MODE_MASK) == MODE_GUEST; // older drivers do not say it
}

/** Asks each device whose array is not known yet and that may be asked; @make says whether there is a file to ask. */
static void ips_ask_each(struct search *s, bool (*make)(struct arena *a, const struct found *f, struct probe *ret),
			 void (*use)(struct device *d, const struct probe *p))
{
	struct arena *a = &s->to->arena;
	struct probe_batch *batches = arena_alloc(a, s->n * sizeof(*batches) + 1);
	for (size_t i = 0; i < s->n; i++) {
		struct probe *p = arena_alloc(a, sizeof(*p));
		if (!s->found[i].d.shaders.ses && look_awake(&s->found[i]) && make(a, &s->found[i], p))
			batches[i] = (struct probe_batch){ p, 1, s->to->tree, { 0 } };
	}
	look_run(s, batches, LOOK_ASK_MS);
	for (size_t i = 0; i < s->n; i++)
		if (batches[i].n)
			use(&s->found[i].d, batches[i].probes);
}

static bool make_gca(struct arena *a, const struct found *f, struct probe *ret)
{
	*ret = (struct probe){ .kind = PROBE_READ, .size = GCA_WORDS * 4 };
	ret->path = arena_printf(a, STR_FMT "/amdgpu_gca_config", STR_ARG(f->d.debugfs)).p;
	return f->d.debugfs.n > 0;
}

static bool make_query(struct arena *a, const struct found *f, struct probe *ret)
{
	static const struct amdgpu_query query = { .query = QUERY_DEVICE };
	*ret = (struct probe){ .kind = PROBE_QUERY, .argument = &query, .argument_size = sizeof(query), .size = DEVICE_BYTES };
	ret->path = arena_printf(a, "/dev/dri/renderD%d", f->d.render).p;
	return f->d.render >= 0;
}

/** debugfs knows most; KFD's topology is in memory; the render node is last, as opening it makes the driver set up a context. */
void find_shaders(struct search *s)
{
	ips_ask_each(s, make_gca, use_gca);
	for (size_t i = 0; i < s->nkfd; i++) {
		const struct kfd_node *k = &s->kfd[i];
		if (k->xccs > 0 && k->arrays > 0 && k->arrays_per_engine > 0 && k->cus_per_array > 0 && !k->of->d.shaders.ses)
			set_shaders(&k->of->d, (uint64_t)(k->arrays / k->xccs / k->arrays_per_engine),
				    (uint64_t)k->arrays_per_engine, (uint64_t)k->cus_per_array);
	}
	if (!s->to->tree)
		ips_ask_each(s, make_query, use_query);
	for (size_t i = 0; i < s->n; i++) {
		struct device *d = &s->found[i].d;
		while (d->shaders.xccs < XCCS_MOST && device_ip(d, S("gc"), d->shaders.xccs))
			d->shaders.xccs++;
		if (!d->shaders.xccs && d->shaders.ses)
			d->shaders.xccs = 1;
	}
}
