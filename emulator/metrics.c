// The table gpu_metrics: a head of four bytes, and values at the places that the part or the scenario says. All other bits are set, as
// those of values that a part does not have.
#include "emulator/machine.h"

enum { HEAD = 4, TABLE_MOST = 4096, BYTE = 255 };

bool emu_metrics_read(struct cursor *c, void *gpu)
{
	struct emu_metrics *m = &((struct emu_gpu *)gpu)->metrics;
	m->values.len = 0; // those of another table mean something else
	return cursor_unsigned(c, "the format", BYTE, &m->format) && cursor_unsigned(c, "its revision", BYTE, &m->content) &&
	       cursor_unsigned(c, "the size of the table", TABLE_MOST, &m->size) &&
	       (m->size >= HEAD || emu_wrong(c, "a table of %u bytes has no head", m->size));
}

bool emu_metric_read(struct cursor *c, void *gpu)
{
	static const char *const names[] = { "busy", "memory-busy", "power", "temperature", "clock" };
	struct emu_metrics *m = &((struct emu_gpu *)gpu)->metrics;
	struct emu_metric v = { .number = -1 };
	unsigned bits;
	if (!cursor_unsigned(c, "the place of the value", TABLE_MOST, &v.at) || !cursor_unsigned(c, "its width", 64, &bits))
		return false;
	v.width = bits / 8;
	if (bits % 8 || (v.width & (v.width - 1)) || !v.width || v.at < HEAD || v.at + v.width > m->size)
		return emu_wrong(c, "a value of %u bits at %u is not inside of the table's %u bytes", bits, v.at, m->size);
	for (size_t i = 0; i < ARRAY_SIZE(names) && v.number < 0; i++)
		v.number = cursor_is(c, names[i]) ? (int)i : -1;
	if (v.number < 0 && !cursor_value(c, NULL, &v.value))
		return false;
	if (m->values.len == EMU_FEW)
		return emu_wrong(c, "more than %d values of gpu_metrics", EMU_FEW);
	vec_push(&m->values, v);
	return true;
}

void emu_metrics(const struct emu_gpu *g, double t, struct text *ret)
{
	static const enum emu_number numbers[] = { EMU_BUSY, EMU_MEMORY_BUSY, EMU_POWER, EMU_TEMPERATURE, EMU_CLOCK };
	const struct emu_metrics *m = &g->metrics;
	char table[TABLE_MOST];
	if (!m->size)
		return;
	memset(table, BYTE, sizeof(table));
	table[0] = (char)m->size;
	table[1] = (char)(m->size >> 8);
	table[2] = (char)m->format;
	table[3] = (char)m->content;
	for (size_t i = 0; i < m->values.len; i++) {
		const struct emu_metric *v = &m->values.data[i];
		const uint64_t value = v->number >= 0 ? emu_number(g, numbers[v->number], t) : value_at(v->value, t);
		memcpy(table + v->at, &value, v->width);
	}
	text_add(ret, (struct str){ table, m->size });
}
