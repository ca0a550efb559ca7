// Blocks that are taken out again by a later file.
#include "knowledge/know.h"

#define TAKE(name, member)                                                                                                     \
	static void take_##name(struct know *k, struct str id)                                                                 \
	{                                                                                                                      \
		size_t kept = 0;                                                                                               \
		for (size_t i = 0; i < k->member.len; i++)                                                                     \
			if (!str_eq(k->member.data[i]->head.id, id))                                                           \
				k->member.data[kept++] = k->member.data[i];                                                    \
		k->member.len = kept;                                                                                          \
	}

TAKE(event, events)
TAKE(signature, signatures)
TAKE(remedy, remedies)
TAKE(bad, bad)
TAKE(check, checks)
TAKE(setting, settings)
TAKE(action, actions)
TAKE(parameter, parameters)
TAKE(kernel, kernels)
TAKE(instruction, instructions)
TAKE(names, names)
TAKE(part, parts)
TAKE(register, registers)
TAKE(sequence, sequences)
TAKE(save_area, save_areas)
TAKE(watch, watches)
TAKE(unit, units)
TAKE(verdict, verdicts)
TAKE(wave_words, wave_words)
TAKE(packet, packets)
TAKE(mqd, mqds)
TAKE(page_table, page_tables)

/** The user's stand first, and are counted. */
static void take_cause(struct know *k, struct str id)
{
	size_t kept = 0, user = 0;
	for (size_t i = 0; i < k->causes.len; i++) {
		if (str_eq(k->causes.data[i]->head.id, id))
			continue;
		user += i < k->user_causes;
		k->causes.data[kept++] = k->causes.data[i];
	}
	k->causes.len = kept;
	k->user_causes = user;
}

bool know_retract(struct know *k, struct str kind, struct str id)
{
	static const struct {
		const char *kind;
		void (*take)(struct know *k, struct str id);
	} takers[] = {
		{ "event", take_event },
		{ "signature", take_signature },
		{ "cause", take_cause },
		{ "remedy", take_remedy },
		{ "known-bad", take_bad },
		{ "check", take_check },
		{ "setting", take_setting },
		{ "action", take_action },
		{ "parameter", take_parameter },
		{ "kernel", take_kernel },
		{ "instruction", take_instruction },
		{ "names", take_names },
		{ "part", take_part },
		{ "register", take_register },
		{ "sequence", take_sequence },
		{ "save-area", take_save_area },
		{ "watch", take_watch },
		{ "unit", take_unit },
		{ "verdict", take_verdict },
		{ "wave-words", take_wave_words },
		{ "packet", take_packet },
		{ "mqd", take_mqd },
		{ "page-table", take_page_table },
	};
	for (size_t i = 0; i < sizeof(takers) / sizeof(takers[0]); i++)
		if (str_is(kind, takers[i].kind)) {
			takers[i].take(k, id);
			return true;
		}
	return false;
}
