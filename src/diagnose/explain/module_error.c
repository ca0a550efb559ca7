#include "diagnose/explain/module_error.h"

const struct error_field error_fields[ERROR_FIELDS] = {
	{ "oam", { "bank_oam" } },
	{ "socket", { "bank_socket" }, true },
	{ "die", { "bank_die" }, true },
	{ "bank", { "bank" } },
	{ "block", { "ras_block", "link_block" } },
	{ "instance", { "bank_instance" } },
	{ "unit", { "bank_unit" } },
	{ "umc", { "bank_umc" }, true },
	{ "channel", { "bank_channel" }, true },
	{ "hbm", { "bank_hbm" }, true },
	{ "error", { "bank_error" } },
	{ "page", { "ras_page" } },
	{ "severity", { "error_severity", "bank_severity", "ras_severity", "link_severity" } },
	{ "afid", { "bank_afid" }, true },
	{ "meaning", { "bank_afid_title" } },
	{ "record", { "cper_id" } },
	{ "record_time", { "cper_time" } },
	{ "count", { "ras_count" }, true },
	{ "week", { "ras_week" }, true },
	{ "week_before", { "ras_week_before" }, true },
	{ "limit", { "ras_threshold", "ras_limit" }, true },
};

static struct str error_value(const struct fact_view *facts, const char *const *names)
{
	struct str value = { 0 };
	for (size_t n = 0; n < ERROR_FACTS && names[n]; n++)
		if (facts->get(facts->ctx, str_z(names[n]), 0, &value) && value.n)
			return value;
	return (struct str){ 0 };
}

static void error_take(struct str *to, struct str value, struct arena *a)
{
	if (!to->n)
		*to = a && value.n ? arena_str(a, value) : value;
}

void module_error_add(struct module_error *e, const struct fact_view *facts, struct arena *a)
{
	static const char *const index[ERROR_FACTS] = { "gpu_index" }, *const serial[ERROR_FACTS] = { "bank_serial" };
	error_take(&e->gpu, error_value(facts, index), a);
	error_take(&e->serial, error_value(facts, serial), a);
	for (size_t n = 0; n < ERROR_FIELDS; n++)
		error_take(&e->values[n], error_value(facts, error_fields[n].facts), a);
}

struct module_error *module_error_copy(const struct module_error *e, struct arena *a)
{
	struct module_error *copy = arena_copy(a, e, sizeof(*e));
	copy->gpu = arena_str(a, e->gpu);
	copy->serial = arena_str(a, e->serial);
	for (size_t n = 0; n < ERROR_FIELDS; n++)
		copy->values[n] = arena_str(a, e->values[n]);
	return copy;
}

struct str module_error_value(const struct module_error *e, const char *name)
{
	for (size_t n = 0; n < ERROR_FIELDS; n++)
		if (!strcmp(error_fields[n].facts[0], name))
			return e->values[n];
	return (struct str){ 0 };
}

void module_error_set(struct module_error *e, const char *name, struct str value)
{
	for (size_t n = 0; n < ERROR_FIELDS; n++)
		if (!strcmp(error_fields[n].facts[0], name))
			e->values[n] = value;
}

bool module_error_known(const struct module_error *e)
{
	return module_error_value(e, "ras_block").n || module_error_value(e, "bank").n ||
	       module_error_value(e, "bank_afid").n || module_error_value(e, "error_severity").n;
}

struct str module_error_says(const struct module_error *e, const struct diag_gpu *gpu, struct str text, struct arena *a)
{
	if (gpu->device.n)
		return arena_printf(a, STR_FMT ": " STR_FMT, STR_ARG(gpu->device), STR_ARG(text));
	return e->gpu.n ? arena_printf(a, "GPU " STR_FMT ": " STR_FMT, STR_ARG(e->gpu), STR_ARG(text)) : text;
}

static bool incident_error_get(const void *incident, struct str name, size_t index, struct str *ret)
{
	char room[32];
	str_copy(room, sizeof(room), name);
	*ret = index ? (struct str){ 0 } : incident_error(incident, room);
	return ret->n;
}

struct module_error incident_module_error(const struct incident *i)
{
	struct module_error e = { 0 };
	module_error_add(&e, &(struct fact_view){ incident_error_get, i }, NULL);
	return e;
}
