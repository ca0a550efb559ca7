// Where the GPUs are: on the PCI bus, in drm's class, in a slot of the board, and which directory of debugfs is whose.
//
// On this machine the list of PCI devices is complete. A tree that stands for another machine has what somebody saved, so each of these
// places may be missing there and what is left has to do: cards of drm's class for a lost list, an id that knowledge has for a lost class.
#include "gpu/find/found.h"

enum {
	AMD = 0x1002,
	CLASS_DISPLAY = 0x03,
	CLASS_ACCELERATOR = 0x12,
	GPUS_MOST = 256,
};

bool pci_numbers(struct str pci, unsigned *ret_domain, unsigned *ret_location)
{
	uint64_t domain, bus, device, function;
	struct str rest = pci;
	if (!str_hex(str_split(&rest, ':'), &domain) || !str_hex(str_split(&rest, ':'), &bus) ||
	    !str_hex(str_split(&rest, '.'), &device) || !str_hex(rest, &function))
		return false;
	*ret_domain = (unsigned)domain;
	*ret_location = (unsigned)(bus << 8 | device << 3 | function);
	return true;
}

static struct found *find_places_add_found(struct search *s, struct str pci, struct str sysfs, struct str path)
{
	struct found *f = &s->found[s->n++];
	*f = (struct found){ .d = { .pci = pci, .vendor = AMD, .card = -1, .render = -1, .busy = -1 } };
	struct device *d = &f->d;
	d->power_mw = d->power_cap_mw = d->memory_busy = d->temperature = d->vram_total = d->vram_used = d->gtt_total =
		d->gtt_used = -1;
	d->clock = d->interrupts = d->kfd_node = d->gpu_id = d->oam = -1;
	d->ras = ras_events_parse((struct str){ 0 });
	d->link = (struct link){ .width = -1, .max_width = -1, .correctable = -1, .nonfatal = -1, .fatal = -1 };
	f->power_input = f->junction = -1;
	f->card = f->render = -1;
	d->sysfs = sysfs;
	d->path = path;
	pci_numbers(pci, &f->domain, &f->location);
	return f;
}

enum { OF_VENDOR, OF_CLASS, OF_DEVICE, OF_LINK, OF_DRIVER, OF_ALL, OF_UEVENT = OF_ALL, OF_WAY, OF_CARD };

/** What says whether a device is a GPU of AMD's. The directory is a link to where it stands on the bus. */
static void ask_what(struct arena *a, struct str directory, struct probe *ret)
{
	const char *path = arena_z(a, directory);
	ret[OF_VENDOR] = (struct probe){ .path = arena_printf(a, "%s/vendor", path).p, .size = 64 };
	ret[OF_CLASS] = (struct probe){ .path = arena_printf(a, "%s/class", path).p, .size = 64 };
	ret[OF_DEVICE] = (struct probe){ .path = arena_printf(a, "%s/device", path).p, .size = 64 };
	ret[OF_LINK] = (struct probe){ .kind = PROBE_LINK, .path = path, .size = 1024 };
	ret[OF_DRIVER] = (struct probe){ .kind = PROBE_LINK, .path = arena_printf(a, "%s/driver", path).p, .size = 1024 };
}

/** A record may lack the class: then it is one where the id is that of a GPU. */
static bool is_gpu(const struct search *s, const struct probe *answers)
{
	int64_t vendor, class, device;
	if (!str_number(str_trim(probe_text(&answers[OF_VENDOR])), &vendor) || vendor != AMD)
		return false;
	if (str_number(str_trim(probe_text(&answers[OF_CLASS])), &class))
		return class >> 16 == CLASS_DISPLAY || class >> 16 == CLASS_ACCELERATOR;
	return s->to->tree && str_number(str_trim(probe_text(&answers[OF_DEVICE])), &device) &&
	       know_part(s->k, (unsigned)device, -1);
}

void find_pci(struct search *s, struct str names)
{
	struct arena *a = &s->to->arena;
	struct str *pci;
	s->found = arena_alloc(a, GPUS_MOST * sizeof(*s->found));
	size_t n = lines_of(a, names, PCI_MOST, &pci), good = 0;
	unsigned domain, location;
	// These names get into commands that people copy, so what is not a PCI address is ignored.
	for (size_t i = 0; i < n; i++)
		if (pci_numbers(pci[i], &domain, &location))
			pci[good++] = pci[i];
	n = good;
	struct probe *probes = arena_alloc(a, OF_ALL * n * sizeof(*probes) + 1);
	struct str *directories = arena_alloc(a, n * sizeof(*directories) + 1);
	for (size_t i = 0; i < n; i++) {
		directories[i] = arena_printf(a, "/sys/bus/pci/devices/" STR_FMT, STR_ARG(pci[i]));
		ask_what(a, directories[i], probes + OF_ALL * i);
	}
	look_once(s, probes, OF_ALL * n, LOOK_MS);
	for (size_t i = 0; i < n; i++) {
		s->drivers_recorded |= probe_text(&probes[OF_ALL * i + OF_DRIVER]).n > 0;
		if (s->n < GPUS_MOST && is_gpu(s, &probes[OF_ALL * i]))
			find_places_add_found(s, pci[i], directories[i], probe_text(&probes[OF_ALL * i + OF_LINK]));
	}
}

/** `0000:03:00.0` of `.../0000:03:00.0/drm/card0`. */
static struct str above_drm(struct str way)
{
	struct str above = { 0 };
	while (way.n) {
		struct str component = str_split(&way, '/');
		if (str_is(component, "drm") && way.n)
			return above;
		above = component;
	}
	return (struct str){ 0 };
}

void find_cards(struct search *s, struct str names)
{
	struct arena *a = &s->to->arena;
	struct str *cards;
	bool listed = s->n;
	size_t n = lines_of(a, names, PCI_MOST, &cards);
	struct probe *probes = arena_alloc(a, OF_CARD * n * sizeof(*probes) + 1);
	struct str *directories = arena_alloc(a, n * sizeof(*directories) + 1);
	for (size_t i = 0; i < n; i++) {
		struct probe *more = probes + OF_CARD * i;
		const char *card = arena_printf(a, "/sys/class/drm/" STR_FMT, STR_ARG(cards[i])).p;
		directories[i] = arena_printf(a, "%s/device", card);
		ask_what(a, directories[i], more);
		more[OF_UEVENT] = (struct probe){ .path = arena_printf(a, "%s/device/uevent", card).p, .size = 1024 };
		more[OF_WAY] = (struct probe){ .kind = PROBE_LINK, .path = card, .size = 1024 };
	}
	look_once(s, probes, OF_CARD * n, LOOK_MS);
	for (size_t i = 0; i < n && s->n < GPUS_MOST; i++) {
		const struct probe *answers = &probes[OF_CARD * i];
		struct str pci = line_behind(probe_text(&answers[OF_UEVENT]), S("PCI_SLOT_NAME="));
		unsigned domain, location;
		int card = node_number(cards[i], S("card"));
		// Its PCI address is in its uevent, else in the link of its device, else in the link that the card itself is.
		if (!pci.n)
			pci = str_base(probe_text(&answers[OF_LINK]));
		if (!pci.n)
			pci = above_drm(probe_text(&answers[OF_WAY]));
		if (!pci_numbers(pci, &domain, &location))
			pci = cards[i]; // its address was not recorded
		if (!listed && card >= 0 && is_gpu(s, answers))
			find_places_add_found(s, pci, directories[i], probe_text(&answers[OF_WAY]))->card = card;
		for (size_t j = 0; listed && j < s->n; j++) {
			struct found *f = &s->found[j];
			if (!str_eq(f->d.pci, pci))
				continue;
			f->card = f->card < 0 ? card : f->card;
			f->render = f->render < 0 ? node_number(cards[i], S("renderD")) : f->render;
		}
	}
}

void find_slots(struct search *s, struct str names)
{
	struct arena *a = &s->to->arena;
	struct str *slots;
	size_t n = lines_of(a, names, PCI_MOST, &slots);
	struct probe *probes = arena_alloc(a, n * sizeof(*probes) + 1);
	for (size_t i = 0; i < n; i++)
		probes[i] =
			(struct probe){ .path = arena_printf(a, "/sys/bus/pci/slots/" STR_FMT "/address", STR_ARG(slots[i])).p,
					.size = 64 };
	look_once(s, probes, n, LOOK_MS);
	for (size_t i = 0; i < n; i++) {
		struct str address = probe_text(&probes[i]); // without the function
		for (size_t j = 0; address.n && j < s->n; j++)
			if (str_starts(s->found[j].d.pci, address) && s->found[j].d.pci.n == address.n + 2)
				s->found[j].d.slot = slots[i];
	}
}

// Finds a device's directory in debugfs. Its name is the PCI address or a number; the file `name` in it says which device it is.

/** A directory of debugfs that may be a GPU's. */
struct directory {
	struct str name, path;
	const struct probe *said, *firmware;
};

/** Its name is the PCI address or a number; the file `name` in it says which device it is, but a tree may lack that file. */
static bool directory_belongs(const struct directory *o, const struct device *d, bool tree)
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

/** The driver offers no reset to a virtual function (amdgpu_debugfs_fence_init()). What the file does is never tried: its name tells. */
static void find_guests(struct search *s)
{
	enum { LIST_SIZE = 64 << 10 };
	struct arena *a = &s->to->arena;
	struct probe *probes = arena_alloc(a, s->n * sizeof(*probes) + 1);
	for (size_t i = 0; i < s->n; i++) {
		struct str directory = s->found[i].d.debugfs;
		probes[i] = (struct probe){ .kind = PROBE_LIST,
					    .path = directory.n ? arena_z(a, directory) : "/sys/kernel/debug/dri",
					    .size = LIST_SIZE };
	}
	look_once(s, probes, s->n, LOOK_MS);
	for (size_t i = 0; i < s->n; i++) {
		struct str names = probe_text(&probes[i]);
		s->found[i].d.guest = has_line(names, S("amdgpu_fence_info")) && !has_line(names, S("amdgpu_gpu_recover"));
	}
}

void find_debugfs(struct search *s)
{
	struct arena *a = &s->to->arena;
	struct str *names;
	size_t n = lines_of(a, s->debugfs, PCI_MOST, &names), unnamed = 0;
	const struct directory *only = NULL;
	struct probe *probes =
		arena_alloc(a, 2 * n * sizeof(*probes) + 1); // all `name`, and behind them what only a tree is asked for
	struct directory *list = arena_alloc(a, n * sizeof(*list) + 1);
	for (size_t i = 0; i < n; i++) {
		struct str path = arena_printf(a, "/sys/kernel/debug/dri/" STR_FMT, STR_ARG(names[i]));
		list[i] = (struct directory){ names[i], path, &probes[i], &probes[n + i] };
		probes[i].path = arena_printf(a, STR_FMT "/name", STR_ARG(path)).p;
		probes[n + i].path = arena_printf(a, STR_FMT "/amdgpu_firmware_info", STR_ARG(path)).p;
	}
	look_once(s, probes, s->to->tree ? 2 * n : n, LOOK_MS);
	for (size_t i = 0; i < s->n; i++) {
		struct device *d = &s->found[i].d;
		int64_t best = INT64_MAX;
		for (size_t j = 0; j < n; j++) {
			int64_t number = -1;
			if (!directory_belongs(&list[j], d, s->to->tree))
				continue;
			if (!str_eq(list[j].name, d->pci))
				str_number(list[j].name, &number);
			if (number >= best) // render nodes have higher numbers, and less in their directories
				continue;
			best = number;
			d->debugfs = list[j].path;
		}
	}
	if (!s->to->tree) { // a tree has what somebody saved, which is not every file
		find_guests(s);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (list[i].firmware->end == PROBE_GOOD && !probe_text(list[i].said).n) {
			only = &list[i];
			unnamed++;
		}
	// A tree with one GPU, and one directory that only amdgpu makes.
	if (s->n == 1 && unnamed == 1 && !s->found[0].d.debugfs.n)
		s->found[0].d.debugfs = only->path;
}
