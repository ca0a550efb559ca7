// Who tells what (witness.h): a table of facts and places.
#include "gpu/find/witness.h"

#include "base/bytes.h"
#include "gpu/find/found.h"

enum {
	GCA_BYTES = 36 * 4,
	FIRMWARE_BYTES = 16 << 10,
	QUERY_DEVICE = 0x16, // AMDGPU_INFO_DEV_INFO
	QUERY_BYTES = 252,
	QUERY_BITMAP = 56,
	NODES_MOST = 64, // of KFD: a GPU has at most one for each XCC
};

/** GCA: a word of amdgpu_gca_config; QUERY: bytes of struct drm_amdgpu_info_device; KFD: a property, summed up over its nodes where these
 * share it out. */
enum source { GCA, QUERY, QUERY_KHZ, KFD, KFD_SUM };

static const char *const places[] = {
	[GCA] = "amdgpu_gca_config", [QUERY] = "the render node",  [QUERY_KHZ] = "the render node",
	[KFD] = "KFD's topology",    [KFD_SUM] = "KFD's topology",
};

static const struct witness_row {
	const char *about, *fact;
	enum source source;
	unsigned at;
	const char *property;
	bool hex;
} rows[] = {
	{ "chip", "PCI device", GCA, 29, NULL, true },
	{ "chip", "PCI device", QUERY, 0, NULL, true },
	{ "chip", "PCI device", KFD, 0, "device_id", true },
	{ "chip", "revision", GCA, 30, NULL, true },
	{ "chip", "revision", QUERY, 12, NULL, true },
	{ "chip", "family", GCA, 27, NULL, false },
	{ "chip", "family", QUERY, 16, NULL, false },
	{ "shaders", "shader engines", GCA, 1, NULL, false },
	{ "shaders", "shader engines", QUERY, 20, NULL, false },
	{ "shaders", "arrays of an engine", GCA, 4, NULL, false },
	{ "shaders", "arrays of an engine", QUERY, 24, NULL, false },
	{ "shaders", "arrays of an engine", KFD, 0, "simd_arrays_per_engine", false },
	{ "shaders", "CUs of an array", GCA, 3, NULL, false },
	{ "shaders", "CUs of an array", QUERY, 248, NULL, false },
	{ "shaders", "CUs of an array", KFD, 0, "cu_per_simd_array", false },
	{ "shaders", "active CUs", QUERY, 48, NULL, false },
	{ "shaders", "XCCs", KFD_SUM, 0, "num_xcc", false },
	{ "registers", "GB_ADDR_CONFIG", GCA, 22, NULL, true },
	{ "clocks", "highest clock in MHz", QUERY_KHZ, 32, NULL, false },
	{ "clocks", "highest clock in MHz", KFD, 0, "max_engine_clk_fcompute", false },
	{ "firmware", "MEC", KFD, 0, "fw_version", true },
	{ "firmware", "SDMA0", KFD, 0, "sdma_fw_version", true },
};

/** What was asked, and the answers. */
struct witness_asked {
	struct probe gca, query, firmware;
	struct probe nodes[NODES_MOST];
	size_t nnodes;
};

static void witness_add(struct witnesses *w, const char *about, struct str fact, const char *place, struct str value)
{
	if (value.n)
		vec_push(&w->list, ((struct witness){ about, fact, str_z(place), value }));
}

static struct str witness_number(struct arena *a, uint64_t n, bool hex)
{
	return hex ? arena_printf(a, "0x%llx", (unsigned long long)n) : arena_printf(a, "%llu", (unsigned long long)n);
}

/** -1: it is not told. Zero is what a kernel answers that does not know it. */
static int64_t witness_value(const struct witness_row *r, const struct witness_asked *q)
{
	const struct probe *p = r->source == GCA ? &q->gca : &q->query;
	const size_t at = r->source == GCA ? 4 * r->at : r->at;
	int64_t sum = 0;
	switch (r->source) {
	case GCA:
	case QUERY:
		return p->end == PROBE_GOOD && at + 4 <= p->n && get_u32(p->data + at) ? (int64_t)get_u32(p->data + at) : -1;
	case QUERY_KHZ:
		return p->end == PROBE_GOOD && at + 8 <= p->n && get_u64(p->data + at) ?
			       (int64_t)(get_u64(p->data + at) / 1000) :
			       -1;
	default:
		for (size_t i = 0; i < (r->source == KFD_SUM ? q->nnodes : q->nnodes > 0); i++) {
			const int64_t one = kfd_property(probe_text(&q->nodes[i]), r->property);
			sum = one < 0 || sum < 0 ? -1 : sum + one;
		}
		return sum > 0 ? sum : -1;
	}
}

static void witness_ask(const struct devices *all, const struct device *d, struct arena *a, struct witness_asked *q)
{
	static const struct amdgpu_query query = { .query = QUERY_DEVICE };
	struct probe_count count = { .patience = d->patience };
	const bool awake = device_awake(d);
	if (awake && d->debugfs.n) {
		q->gca = (struct probe){ .kind = PROBE_READ,
					 .size = GCA_BYTES,
					 .path = arena_printf(a, STR_FMT "/amdgpu_gca_config", STR_ARG(d->debugfs)).p };
		probe_run(a, &q->gca, 1, LOOK_ASK_MS, NULL, &count);
		q->firmware = (struct probe){ .size = FIRMWARE_BYTES,
					      .path = arena_printf(a, STR_FMT "/amdgpu_firmware_info", STR_ARG(d->debugfs)).p };
		probe_run(a, &q->firmware, 1, LOOK_ASK_MS, NULL, &count);
	}
	if (awake && d->render >= 0) {
		q->query = (struct probe){ .kind = PROBE_QUERY,
					   .argument = &query,
					   .argument_size = sizeof(query),
					   .size = QUERY_BYTES,
					   .path = arena_printf(a, "/dev/dri/renderD%d", d->render).p };
		probe_run(a, &q->query, 1, LOOK_ASK_MS, NULL, &count);
	}
	for (size_t i = 0; i < all->nkfd && q->nnodes < NODES_MOST; i++)
		if (&all->list[all->kfd[i].device] == d)
			q->nodes[q->nnodes++].path = arena_printf(a, "/sys/class/kfd/kfd/topology/nodes/%lld/properties",
								  (long long)all->kfd[i].node)
							     .p;
	if (q->nnodes)
		probe_run(a, q->nodes, q->nnodes, LOOK_MS, NULL, &count);
}

/** What needs more than one number. */
static void add_computed(const struct know *k, const struct device *d, const struct witness_asked *q, struct arena *a,
			 struct witnesses *w)
{
	const struct ip *gc = device_ip(d, S("gc"), 0);
	const struct know_part *part = know_part(k, d->device, (int)d->revision);
	const struct str node = q->nnodes ? probe_text(&q->nodes[0]) : (struct str){ 0 };
	const int64_t arrays = kfd_property(node, "array_count"), of_engine = kfd_property(node, "simd_arrays_per_engine");
	const int64_t xccs = kfd_property(node, "num_xcc"), target = kfd_property(node, "gfx_target_version");
	unsigned instances = 0;
	witness_add(w, "chip", S("gfx"), "ip_discovery", gc ? gfx_of_gc(k, gc->version) : (struct str){ 0 });
	witness_add(w, "chip", S("gfx"), "KFD's topology", target > 0 ? gfx_of_target(a, (uint32_t)target) : (struct str){ 0 });
	witness_add(w, "chip", S("gfx"), "what is known of its PCI ID", part ? part->gfx : (struct str){ 0 });
	witness_add(w, "chip", S("PCI device"), "sysfs", witness_number(a, d->device, true));
	witness_add(w, "chip", S("revision"), "sysfs", witness_number(a, d->revision, true));
	if (arrays > 0 && of_engine > 0)
		witness_add(w, "shaders", S("shader engines"), "KFD's topology",
			    witness_number(a, (uint64_t)(arrays / of_engine / (xccs > 0 ? xccs : 1)), false));
	if (d->active_cus > 0)
		witness_add(w, "shaders", S("active CUs"), "KFD's topology", witness_number(a, (uint64_t)d->active_cus, false));
	while (device_ip(d, S("gc"), instances))
		instances++;
	if (instances)
		witness_add(w, "shaders", S("XCCs"), "ip_discovery", witness_number(a, instances, false));
	if (d->vram_total > 0)
		witness_add(w, "registers", S("VRAM in MiB"), "mem_info_vram_total",
			    witness_number(a, (uint64_t)d->vram_total >> 20, false));
	for (size_t i = 0; i < d->nfirmware; i++)
		witness_add(w, "firmware", d->firmware[i].name, "fw_version in sysfs",
			    witness_number(a, d->firmware[i].version, true));
	struct firmware f;
	str_each (line, probe_text(&q->firmware), '\n')
		if (firmware_info_line(line, &f))
			witness_add(w, "firmware", f.name, "amdgpu_firmware_info", witness_number(a, f.version, true));
}

void device_witnesses(const struct know *k, const struct devices *all, const struct device *d, struct arena *a,
		      struct witnesses *ret)
{
	struct witness_asked *q = arena_alloc(a, sizeof(*q));
	*ret = (struct witnesses){ 0 };
	witness_ask(all, d, a, q);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const int64_t value = witness_value(&rows[i], q);
		if (value >= 0)
			witness_add(ret, rows[i].about, str_z(rows[i].fact), places[rows[i].source],
				    witness_number(a, (uint64_t)value, rows[i].hex));
	}
	add_computed(k, d, q, a, ret);
	ret->cus_known = q->query.end == PROBE_GOOD && q->query.n >= QUERY_BITMAP + sizeof(ret->cus);
	if (ret->cus_known)
		memcpy(ret->cus, q->query.data + QUERY_BITMAP, sizeof(ret->cus));
}

uint32_t witness_cus(const struct witnesses *w, const struct shader_array *x, unsigned se, unsigned sh)
{
	// The driver packs what is more than four engines into further columns.
	const unsigned column = sh + se / CU_ROWS * x->shs_per_se;
	return w->cus_known && column < CU_ROWS ? w->cus[se % CU_ROWS][column] : 0;
}
