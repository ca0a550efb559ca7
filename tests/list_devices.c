// Prints what devices_find() finds, for tests/devices.py.
#include <stdio.h>
#include <stdlib.h>

#include "base/child.h"
#include "base/json.h"
#include "gpu/find/device.h"

static void number(struct json *j, const char *key, int64_t v)
{
	jw_key(j, key);
	jw_int(j, v);
}

static void flag(struct json *j, const char *key, bool v)
{
	jw_key(j, key);
	jw_bool(j, v);
}

static void write_texts(struct json *j, const struct device *d)
{
	const struct {
		const char *key;
		struct str value;
	} texts[] = {
		{ "pci", d->pci },
		{ "name", d->name },
		{ "gfx", d->gfx },
		{ "driver", d->driver },
		{ "debugfs", d->debugfs },
		{ "runtime_status", d->runtime_status },
		{ "speed", d->link.speed },
		{ "serial", d->serial },
		{ "unique_id", d->unique_id },
		{ "slot", d->slot },
		{ "hive", d->hive },
		{ "compute_partition", d->compute_partition },
		{ "memory_partition", d->memory_partition },
		{ "devcoredump", d->devcoredump },
		{ "stuck_at", d->stuck.at },
		{ "refused", d->refused },
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		jw_field(j, texts[i].key, texts[i].value.p ? texts[i].value : S(""));
}

static void write_numbers(struct json *j, const struct device *d)
{
	const struct {
		const char *key;
		int64_t value;
	} numbers[] = {
		{ "device", d->device },
		{ "revision", d->revision },
		{ "card", d->card },
		{ "render", d->render },
		{ "width", d->link.width },
		{ "correctable", d->link.correctable },
		{ "fatal", d->link.fatal },
		{ "busy", d->busy },
		{ "power_mw", d->power_mw },
		{ "temperature", d->temperature },
		{ "clock", d->clock },
		{ "vram_total", d->vram_total },
		{ "vram_used", d->vram_used },
		{ "interrupts", d->interrupts },
		{ "kfd_node", d->kfd_node },
		{ "gpu_id", d->gpu_id },
		{ "xccs", d->shaders.xccs },
		{ "ses", d->shaders.ses },
		{ "shs", d->shaders.shs_per_se },
		{ "cus", d->shaders.cus_per_sh },
	};
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		number(j, numbers[i].key, numbers[i].value);
	flag(j, "apu", d->apu);
	flag(j, "guest", d->guest);
	flag(j, "off_bus", d->off_bus);
	flag(j, "config_known", d->config_known);
	flag(j, "stuck", d->stuck.is);
}

static void write_lists(struct json *j, const struct device *d)
{
	jw_key(j, "ips");
	jw_open(j, '[');
	for (size_t i = 0; i < d->nips; i++) {
		const struct ip *ip = &d->ips[i];
		char text[160];
		snprintf(text, sizeof(text), STR_FMT " %u.%u %u.%u.%u%s bases %zu %#x", STR_ARG(ip->name), ip->die,
			 ip->instance, ip->version[0], ip->version[1], ip->version[2], ip->harvested ? " harvested" : "",
			 ip->nbases, ip->nbases ? ip->bases[0] : 0);
		jw_str(j, str_z(text));
	}
	jw_close(j, ']');
	jw_key(j, "firmware");
	jw_open(j, '{');
	for (size_t i = 0; i < d->nfirmware; i++) {
		char name[64];
		str_copy(name, sizeof(name), d->firmware[i].name);
		number(j, name, d->firmware[i].version);
	}
	jw_close(j, '}');
	jw_key(j, "holders");
	jw_open(j, '[');
	for (size_t i = 0; i < d->nholders; i++) {
		jw_open(j, '{');
		number(j, "pid", d->holders[i].pid);
		jw_field(j, "name", d->holders[i].name);
		flag(j, "compute", d->holders[i].compute);
		number(j, "vram", d->holders[i].vram);
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

int main(int argc, char **argv)
{
	struct know_problems problems = { 0 };
	struct know *k = know_load(&problems);
	struct devices d;
	struct json j = { .out = stdout };
	int64_t start = now_ms();
	devices_find(k, &d);
	start = now_ms() - start;
	jw_open(&j, '{');
	number(&j, "milliseconds", start);
	number(&j, "children", (int64_t)d.count.children);
	number(&j, "operations", (int64_t)d.count.operations);
	flag(&j, "lockdown", d.lockdown);
	flag(&j, "debugfs", d.debugfs);
	jw_key(&j, "gpus");
	jw_open(&j, '[');
	for (size_t i = 0; i < d.n; i++) {
		jw_open(&j, '{');
		write_texts(&j, &d.list[i]);
		write_numbers(&j, &d.list[i]);
		write_lists(&j, &d.list[i]);
		jw_close(&j, '}');
	}
	jw_close(&j, ']');
	const struct device *named = argc > 1 ? devices_named(&d, str_z(argv[1])) : NULL;
	jw_field(&j, "named", named ? named->pci : S(""));
	jw_close(&j, '}');
	fputc('\n', stdout);
	devices_free(&d);
	know_free(k);
	return 0;
}
