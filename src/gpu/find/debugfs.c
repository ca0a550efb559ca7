// Finds a device's directory in debugfs. Its name is the PCI address or a number; the file `name` in it says which device it is.
#include "gpu/find/found.h"

struct directory {
	struct str name;
	const struct probe *said, *firmware;
};

static bool belongs(const struct directory *o, const struct device *d, bool tree)
{
	struct str text = probe_text(o->said), device = { 0 };
	int64_t number = -1;
	bool own = str_eq(o->name, d->pci), numbered = str_number(o->name, &number) && number >= 0;
	if (text.n) {
		str_word(&text);
		return str_behind(str_word(&text), S("dev="), &device) && str_eq(device, d->pci) && (own || numbered);
	}
	return tree && (own || (numbered && (number == d->card || number == d->render)));
}

static void take(struct search *s, struct device *d, const struct directory *o)
{
	d->debugfs = arena_printf(&s->to->arena, "/sys/kernel/debug/dri/" STR_FMT, STR_ARG(o->name));
}

/** Takes the lowest number. Render nodes have higher numbers, and less in their directories. */
static void take_best(struct search *s, struct device *d, const struct directory *list, size_t n)
{
	int64_t best = INT64_MAX;
	for (size_t i = 0; i < n; i++) {
		int64_t number = -1;
		if (!belongs(&list[i], d, s->to->tree))
			continue;
		if (!str_eq(list[i].name, d->pci))
			str_number(list[i].name, &number);
		if (number >= best)
			continue;
		best = number;
		take(s, d, &list[i]);
	}
}

/** A tree with one GPU, and one directory that only amdgpu makes. */
static void take_only(struct search *s, const struct directory *list, size_t n)
{
	const struct directory *only = NULL;
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		if (list[i].firmware->end == PROBE_GOOD && !probe_text(list[i].said).n) {
			only = &list[i];
			count++;
		}
	if (s->n == 1 && count == 1 && !s->found[0].d.debugfs.n)
		take(s, &s->found[0].d, only);
}

static bool lists(struct str text, struct str name)
{
	while (text.n)
		if (str_eq(str_split(&text, '\n'), name))
			return true;
	return false;
}

/** The driver offers no reset to a virtual function (amdgpu_debugfs_fence_init()). What the file does is never tried: its name tells. */
static void find_guests(struct search *s)
{
	enum { LIST_SIZE = 64 << 10 };
	struct arena *a = &s->to->arena;
	struct probe *probes = arena_alloc(a, s->n * sizeof(*probes) + 1);
	for (size_t i = 0; i < s->n; i++)
		probes[i] = (struct probe){ .kind = PROBE_LIST,
					    .path = s->found[i].d.debugfs.n ? arena_z(a, s->found[i].d.debugfs) :
									      "/sys/kernel/debug/dri",
					    .size = LIST_SIZE };
	look_once(s, probes, s->n, LOOK_MS);
	for (size_t i = 0; i < s->n; i++) {
		struct str names = probe_text(&probes[i]);
		s->found[i].d.guest = lists(names, S("amdgpu_fence_info")) && !lists(names, S("amdgpu_gpu_recover"));
	}
}

void find_debugfs(struct search *s)
{
	enum { SAID, FIRMWARE, FILES };
	struct arena *a = &s->to->arena;
	struct str *names;
	size_t n = lines_of(a, s->debugfs, PCI_MOST, &names), files = s->to->tree ? FILES : FIRMWARE;
	struct probe *probes = arena_alloc(a, files * n * sizeof(*probes) + 1);
	struct directory *list = arena_alloc(a, n * sizeof(*list) + 1);
	for (size_t i = 0; i < n; i++) {
		static const char *const of[FILES] = { "name", "amdgpu_firmware_info" };
		for (size_t f = 0; f < files; f++)
			probes[files * i + f] = (struct probe){
				.path = arena_printf(a, "/sys/kernel/debug/dri/" STR_FMT "/%s", STR_ARG(names[i]), of[f]).p
			};
		list[i] = (struct directory){ .name = names[i], .said = &probes[files * i + SAID] };
		list[i].firmware = files == FILES ? &probes[files * i + FIRMWARE] : NULL;
	}
	look_once(s, probes, files * n, LOOK_MS);
	for (size_t i = 0; i < s->n; i++)
		take_best(s, &s->found[i].d, list, n);
	if (s->to->tree)
		take_only(s, list, n);
	else // a tree has what somebody saved, which is not every file
		find_guests(s);
}
