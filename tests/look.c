// look PATTERN...: what each GPU of this machine answers as a target, as JSON: registers, waves, rings, and what that took.
#include <stdio.h>

#include "base/child.h"
#include "base/json.h"
#include "gpu/silicon/silicon.h"

enum { REGISTERS = 256 };

static void number(struct json *j, const char *key, uint64_t v)
{
	jw_key(j, key);
	jw_unsigned(j, v);
}

static void flag(struct json *j, const char *key, bool v)
{
	jw_key(j, key);
	jw_bool(j, v);
}

static void hex(struct json *j, const char *key, uint64_t v)
{
	jw_key(j, key);
	jw_hex(j, v);
}

static void answer(struct json *j, const struct request *r)
{
	static const char *const names[] = { "given", "absent", "refused", "timed out" };
	jw_field(j, "answer", str_z(names[r->answer]));
}

static void took(struct json *j, struct target *t, int64_t began)
{
	struct probe_count c = target_count(t);
	number(j, "children", c.children);
	number(j, "operations", c.operations);
	number(j, "ms", (uint64_t)(now_ms() - began));
}

static void gate(struct json *j, struct target *t)
{
	struct gate g = target_gate(t);
	const struct probe_stuck *s = target_stuck(t);
	flag(j, "open", g.open);
	jw_field(j, "why_not", g.why_not);
	flag(j, "reset", g.reset);
	flag(j, "gfxoff", g.gfxoff);
	flag(j, "asleep", g.asleep);
	flag(j, "off_bus", g.off_bus);
	flag(j, "refused", g.refused);
	flag(j, "stuck", g.stuck);
	jw_field(j, "stuck_at", s ? s->at : S(""));
}

static void wave(struct json *j, struct target *t, const struct wave *w)
{
	uint32_t s[128] = { 0 }, v[64 * 512] = { 0 };
	jw_open(j, '{');
	number(j, "xcc", w->slot.xcc);
	number(j, "se", w->slot.se);
	number(j, "sh", w->slot.sh);
	number(j, "cu", w->slot.cu);
	number(j, "simd", w->slot.simd);
	number(j, "slot", w->slot.slot);
	number(j, "vmid", w->slot.vmid);
	hex(j, "pc", w->pc);
	hex(j, "exec", w->exec);
	number(j, "lanes", w->lanes);
	flag(j, "halted", w->halted);
	flag(j, "in_barrier", w->in_barrier);
	flag(j, "trapped", w->in_trap || w->trap_pending);
	flag(j, "idle", w->idle);
	if (w->id == 1) {
		struct wave_block b = w->vgprs;
		b.count = b.count < 8 ? b.count : 8;
		hex(j, "s0", wave_registers(t, &w->sgprs, 1, s) ? s[0] : UINT32_MAX);
		hex(j, "v1_lane5", wave_registers(t, &b, w->lanes, v) ? v[w->lanes + 5] : UINT32_MAX);
	}
	jw_close(j, '}');
}

static void registers_and_waves(struct json *j, struct target *t, const struct device *d, char **patterns)
{
	static struct device_register found[REGISTERS];
	static struct request r[REGISTERS + 1];
	size_t n = 0;
	for (; *patterns && n < REGISTERS; patterns++)
		n += device_registers(d, str_z(*patterns), found + n, REGISTERS - n);
	n = n < REGISTERS ? n : REGISTERS;
	for (size_t i = 0; i < n; i++)
		r[i] = (struct request){ .kind = REQUEST_REGISTER,
					 .ip = found[i].ip->name,
					 .ip_instance = found[i].ip->instance,
					 .reg = &found[i].reg,
					 .bank = BANK_NONE };
	r[n] = (struct request){ .kind = REQUEST_WAVES };
	int64_t began = now_ms();
	t->ask(t, r, n + 1);
	took(j, t, began);
	jw_key(j, "registers");
	jw_open(j, '[');
	for (size_t i = 0; i < n; i++) {
		jw_open(j, '{');
		jw_field(j, "ip", found[i].ip->name);
		number(j, "instance", found[i].ip->instance);
		jw_field(j, "name", found[i].reg.name);
		hex(j, "address", found[i].address);
		answer(j, &r[i]);
		hex(j, "value", r[i].value);
		jw_close(j, '}');
	}
	jw_close(j, ']');
	jw_key(j, "waves");
	jw_open(j, '{');
	answer(j, &r[n]);
	jw_key(j, "list");
	jw_open(j, '[');
	for (size_t i = 0; i < r[n].n; i++)
		wave(j, t, &r[n].waves[i]);
	jw_close(j, ']');
	jw_close(j, '}');
}

static void rings(struct json *j, struct target *t)
{
	struct request r = { .kind = REQUEST_RINGS };
	target_ask(t, &r);
	jw_key(j, "rings");
	jw_open(j, '{');
	answer(j, &r);
	jw_key(j, "list");
	jw_open(j, '{');
	for (size_t i = 0; i < r.n; i++) {
		char name[64];
		str_copy(name, sizeof(name), r.rings[i].name);
		jw_key(j, name);
		jw_open(j, '[');
		jw_unsigned(j, r.rings[i].rptr);
		jw_unsigned(j, r.rings[i].wptr);
		jw_unsigned(j, r.rings[i].n);
		jw_close(j, ']');
	}
	jw_close(j, '}');
	jw_close(j, '}');
}

int main(int argc, char **argv)
{
	(void)argc;
	struct know_problems problems = { 0 };
	struct know *k = know_load(&problems);
	struct devices d;
	struct json j = { .out = stdout };
	devices_find(k, &d);
	jw_open(&j, '[');
	for (size_t i = 0; i < d.n; i++) {
		struct target *t = target_device(k, &d.list[i]);
		int64_t began = now_ms();
		jw_open(&j, '{');
		jw_field(&j, "pci", d.list[i].pci);
		jw_field(&j, "gfx", d.list[i].gfx);
		registers_and_waves(&j, t, &d.list[i], argv + 1);
		rings(&j, t);
		gate(&j, t);
		number(&j, "total_ms", (uint64_t)(now_ms() - began));
		jw_close(&j, '}');
		target_close(t);
	}
	jw_close(&j, ']');
	devices_free(&d);
	know_free(k);
	return 0;
}
