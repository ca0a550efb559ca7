// What each kind of block holds and where it is kept; docs/KNOWLEDGE.md is its text for people.
#include "knowledge/kinds/kinds.h"
#include "knowledge/know_opening.h"

const char know_subsystems[] = "ring mes smu psp ras display kfd memory reset init power pcie iommu irq media "
			       "firmware kernel driver hsa hip collective framework container debugger";
const char know_levels[] = "info warning error";

#define AT(type, member) offsetof(struct type, member)

static const struct kind_key event_keys[] = {
	{ "title", KEY_TEXT, AT(know_event, title), .required = true },
	{ "say", KEY_TEXT, AT(know_event, say) },
	{ "aside", KEY_TEXT, AT(know_event, aside) },
	{ "many", KEY_TEXT, AT(know_event, many) },
	{ "tag", KEY_TEXT, AT(know_event, tag), .refers = "class" },
	{ "opens", KEY_CHOICE, AT(know_event, opens), .choices = "later yes context" },
	{ "in-reset", KEY_CHOICE, AT(know_event, in_reset), .choices = "cause effect artefact" },
	{ "needs-frame", KEY_CHOICE, AT(know_event, needs_frame), .choices = "no yes near" },
	{ "hang", KEY_FLAG, AT(know_event, hang) },
	{ "means-reset", KEY_FLAG, AT(know_event, means_reset) },
	{ "needs-gpu", KEY_FLAG, AT(know_event, needs_gpu) },
	{ "once", KEY_FLAG, AT(know_event, once) },
	{ "quiet", KEY_FLAG, AT(know_event, quiet) },
	{ "note", KEY_FLAG, AT(know_event, note) },
	{ "any-vendor", KEY_FLAG, AT(know_event, any_vendor) },
	{ "any-machine", KEY_FLAG, AT(know_event, any_machine) },
	{ "of-rank", KEY_FLAG, AT(know_event, of_rank) },
	{ "before-failure", KEY_FLAG, AT(know_event, before_failure) },
	{ "told-hang", KEY_FLAG, AT(know_event, told_hang) },
	{ "gap", KEY_NUMBER, AT(know_event, gap) },
	{ "tells", KEY_CHOICE, AT(know_event, tells),
	  .choices = "nothing notice boot command-line gpu-found gpu-ready identity rank-gpu process sleep wake reset-begins "
		     "ring-reset-begins inside-reset reset-ends reset-fails frame frame-process packet packet-kernel in-flight "
		     "context faulted elsewhere unread unknown" },
	{ "bus", KEY_CHOICE, AT(know_event, bus), .choices = "none pcie slot iommu guest" },
	{ "fails-by", KEY_CHOICE, AT(know_event, fails_by), .choices = "unsaid assert hang" },
	{ "as-hang", KEY_FLAG, AT(know_event, as_hang) },
	{ "followed", KEY_FLAG, AT(know_event, followed) },
	{ "until-ready", KEY_FLAG, AT(know_event, until_ready) },
	{ "waits", KEY_FLAG, AT(know_event, waits) },
	{ "late-job", KEY_FLAG, AT(know_event, late_job) },
	{ "of-process", KEY_FLAG, AT(know_event, of_process) },
	{ "frees-ring", KEY_FLAG, AT(know_event, frees_ring) },
	{ "undoes-reset", KEY_FLAG, AT(know_event, undoes_reset) },
	{ "trouble", KEY_FLAG, AT(know_event, trouble) },
	{ "log-decides", KEY_FLAG, AT(know_event, log_decides) },
	{ "machine-decides", KEY_FLAG, AT(know_event, machine_decides) },
	{ "keep", KEY_NUMBER, AT(know_event, keep) },
	{ 0 },
};
static const struct kind_key signature_keys[] = {
	{ "match", KEY_MATCH, 0 },
	{ "reader", KEY_TEXT, AT(know_signature, reader) },
	{ "event", KEY_TEXT, AT(know_signature, event_id) },
	{ "detail", KEY_WORDS, AT(know_signature, detail_ids) },
	{ "subsystem", KEY_TEXT, AT(know_signature, subsystem), .required = true, .choices = know_subsystems },
	{ "level", KEY_CHOICE, AT(know_signature, level), .required = true, .choices = know_levels },
	{ "set", KEY_SET, AT(know_signature, sets) },
	{ "when", KEY_WHEN, AT(know_signature, when) },
	{ "bare", KEY_FLAG, AT(know_signature, bare) },
	{ "vague", KEY_FLAG, AT(know_signature, vague) },
	{ "beside", KEY_TEXT, AT(know_signature, beside), .choices = "error" },
	{ "of-writer", KEY_CHOICE, AT(know_signature, of_other), .choices = "yes no" },
	{ 0 },
};
static const struct kind_key opening_keys[] = {
	{ "begins", KEY_LIST, AT(know_opening, begins), .required = true },
	{ "subsystem", KEY_TEXT, AT(know_opening, subsystem) },
	{ "own", KEY_FLAG, AT(know_opening, own) },
	{ "brief", KEY_FLAG, AT(know_opening, brief) },
	{ 0 },
};
static const struct kind_key class_keys[] = {
	{ "memory-fault", KEY_FLAG, AT(know_class, memory_fault) },
	{ "gives-up", KEY_FLAG, AT(know_class, gives_up) },
	{ "reset-artefact", KEY_FLAG, AT(know_class, reset_artefact) },
	{ "compute-stuck", KEY_FLAG, AT(know_class, compute_stuck) },
	{ "picture", KEY_CHOICE, AT(know_class, picture), .choices = "timeline addresses waits lanes ranks queues" },
	{ 0 },
};
static const struct kind_key stage_keys[] = {
	{ "title", KEY_TEXT, AT(know_stage, title), .required = true },
	{ "counts", KEY_CHOICE, AT(know_stage, counts), .required = true,
	  .choices = "first symptom late aftermath unexplained" },
	{ 0 },
};
static const struct kind_key lead_keys[] = {
	{ "from", KEY_WORDS, AT(know_lead, from), .required = true, .refers = "stage or class" },
	{ "to", KEY_WORDS, AT(know_lead, to), .required = true, .refers = "stage or class" },
	{ "within", KEY_NUMBER, AT(know_lead, within), .required = true },
	{ "late", KEY_NUMBER, AT(know_lead, late) },
	{ "at", KEY_WORDS, AT(know_lead, at) },
	{ "why", KEY_TEXT, AT(know_lead, why), .required = true },
	{ 0 },
};
static const struct kind_key context_keys[] = {
	{ "words", KEY_LIST, AT(know_context, words) },
	{ "process", KEY_WORDS, AT(know_context, processes) },
	{ "says", KEY_SET, AT(know_context, says), .required = true },
	{ "version", KEY_TEXT, AT(know_context, version) },
	{ 0 },
};
static const struct kind_key cause_keys[] = {
	{ "from", KEY_WORDS, AT(know_cause, from), .required = true, .refers = "event" },
	{ "when", KEY_WHEN, AT(know_cause, when) },
	{ "beside", KEY_WORDS, AT(know_cause, beside), .refers = "event" },
	{ "without", KEY_WORDS, AT(know_cause, without), .refers = "event" },
	{ "stage", KEY_TEXT, AT(know_cause, stage_id), .required = true, .refers = "stage" },
	{ "confidence", KEY_NUMBER, AT(know_cause, confidence), .required = true },
	{ "severity", KEY_NUMBER, AT(know_cause, severity), .required = true },
	{ "title", KEY_TEXT, AT(know_cause, title), .required = true },
	{ "explain", KEY_TEXT, AT(know_cause, explain), .required = true },
	{ "explain-for", KEY_SET, AT(know_cause, explains_for), .refers = "work-kind" },
	{ "fault", KEY_TEXT, AT(know_cause, fault), .required = true, .choices = "job node driver unknown" },
	{ "next", KEY_NEXT, AT(know_cause, next_steps), .refers = "work-kind" },
	{ 0 },
};
static const char severities[] = "critical warning advice ok";
#define CHANGE_FIELDS(type)                                                                                                    \
	{ "set", KEY_SET, AT(type, change.sets) }, { "clear", KEY_SET, AT(type, change.clears) },                              \
		{ "env", KEY_SET, AT(type, change.envs) }, { "session", KEY_SET, AT(type, change.sessions) },                  \
		{ "limit", KEY_SET, AT(type, change.limits) },                                                                 \
	{                                                                                                                      \
		"drop", KEY_WORDS, AT(type, change.drops)                                                                      \
	}
static const struct kind_key remedy_keys[] = {
	{ "for", KEY_WORDS, AT(know_remedy, for_classes), .required = true, .refers = "class" },
	{ "work", KEY_WORDS, AT(know_remedy, work), .refers = "work-kind" },
	{ "when", KEY_WHEN, AT(know_remedy, when) },
	{ "unless", KEY_WHEN, AT(know_remedy, unless) },
	{ "kind", KEY_TEXT, AT(know_remedy, kind), .required = true, .choices = "cure workaround experiment" },
	{ "title", KEY_TEXT, AT(know_remedy, title), .required = true },
	{ "do", KEY_LIST, AT(know_remedy, steps), .required = true },
	{ "undo", KEY_TEXT, AT(know_remedy, undo) },
	{ "cost", KEY_TEXT, AT(know_remedy, cost) },
	{ "risk", KEY_TEXT, AT(know_remedy, risk) },
	{ "until", KEY_TEXT, AT(know_remedy, until) },
	{ "grade", KEY_TEXT, AT(know_remedy, grade), .required = true, .choices = "A B C" },
	{ "source", KEY_TEXT, AT(know_remedy, source), .required = true },
	{ "if", KEY_TEXT, AT(know_remedy, condition_text) },
	{ "obsolete", KEY_WHEN, AT(know_remedy, obsolete) },
	{ "applied", KEY_WHEN, AT(know_remedy, applied) },
	{ "verify", KEY_TEXT, AT(know_remedy, verify) },
	{ "first", KEY_FLAG, AT(know_remedy, first) },
	{ "last", KEY_FLAG, AT(know_remedy, last) },
	{ "general", KEY_FLAG, AT(know_remedy, general) },
	{ "takes", KEY_CHOICE, AT(know_remedy, takes), .choices = "nothing restart reboot install hardware" },
	CHANGE_FIELDS(know_remedy),
	{ 0 },
};
static const struct kind_key check_keys[] = {
	{ "each", KEY_TEXT, AT(know_check, each) },
	{ "severity", KEY_CHOICE, AT(know_check, severity), .required = true, .choices = severities },
	{ "when", KEY_WHEN, AT(know_check, when), .required = true },
	{ "unless", KEY_WHEN, AT(know_check, unless) },
	{ "title", KEY_TEXT, AT(know_check, title), .required = true },
	{ "seen", KEY_TEXT, AT(know_check, seen) },
	{ "why", KEY_TEXT, AT(know_check, why) },
	{ "remedy", KEY_TEXT, AT(know_check, remedy_id), .refers = "remedy" },
	{ "do", KEY_LIST, AT(know_check, steps) },
	{ "undo", KEY_TEXT, AT(know_check, undo) },
	{ "cost", KEY_TEXT, AT(know_check, cost) },
	{ "risk", KEY_TEXT, AT(know_check, risk) },
	{ "until", KEY_TEXT, AT(know_check, until) },
	{ "verify", KEY_TEXT, AT(know_check, verify) },
	{ "grade", KEY_TEXT, AT(know_check, grade), .choices = "A B C" },
	{ "source", KEY_TEXT, AT(know_check, source) },
	{ "hides", KEY_WORDS, AT(know_check, hides) },
	{ "without-gpu", KEY_FLAG, AT(know_check, without_gpu) },
	CHANGE_FIELDS(know_check),
	{ 0 },
};
static const struct kind_key bad_keys[] = {
	{ "for", KEY_WORDS, AT(know_bad, for_classes), .required = true, .refers = "class" },
	{ "when", KEY_WHEN, AT(know_bad, when), .required = true },
	{ "title", KEY_TEXT, AT(know_bad, title), .required = true },
	{ "good", KEY_TEXT, AT(know_bad, good) },
	{ "begins", KEY_TEXT, AT(know_bad, begins) },
	{ "ends", KEY_TEXT, AT(know_bad, ends) },
	{ "why", KEY_TEXT, AT(know_bad, why) },
	{ "undo", KEY_TEXT, AT(know_bad, undo) },
	{ "cost", KEY_TEXT, AT(know_bad, cost) },
	{ "verify", KEY_TEXT, AT(know_bad, verify) },
	{ "remedy", KEY_TEXT, AT(know_bad, remedy_id), .refers = "remedy" },
	{ "severity", KEY_CHOICE, AT(know_bad, severity), .choices = severities },
	{ "grade", KEY_TEXT, AT(know_bad, grade), .required = true, .choices = "A B C" },
	{ "source", KEY_TEXT, AT(know_bad, source), .required = true },
	{ 0 },
};
static const struct kind_key setting_keys[] = {
	{ "for", KEY_WORDS, AT(know_setting, for_classes), .refers = "class" },
	{ "when", KEY_WHEN, AT(know_setting, when), .required = true },
	{ "unless", KEY_WHEN, AT(know_setting, unless) },
	{ "say", KEY_TEXT, AT(know_setting, say), .required = true },
	{ "grade", KEY_TEXT, AT(know_setting, grade), .required = true, .choices = "A B C" },
	{ "source", KEY_TEXT, AT(know_setting, source), .required = true },
	{ 0 },
};
static const struct kind_key action_keys[] = {
	{ "do", KEY_TEXT, AT(know_action, action), .required = true,
	  .choices = "nothing restart-program restart-session reset reboot power-cycle replace" },
	{ "when", KEY_WHEN, AT(know_action, when) },
	{ "text", KEY_TEXT, AT(know_action, text), .required = true },
	{ "saved", KEY_TEXT, AT(know_action, saved) },
	{ "ended", KEY_TEXT, AT(know_action, ended) },
	{ "fit", KEY_CHOICE, AT(know_action, fit), .choices = "unknown yes no" },
	{ "next", KEY_NEXT, AT(know_action, next_steps), .refers = "work-kind" },
	{ "then", KEY_NEXT, AT(know_action, then_steps), .refers = "work-kind" },
	{ 0 },
};
static const struct kind_key last_words_keys[] = {
	{ "means", KEY_TEXT, AT(know_last_words, means), .required = true },
	{ "match", KEY_LIST, AT(know_last_words, match), .required = true },
	{ "unless", KEY_LIST, AT(know_last_words, unless) },
	{ "behind", KEY_FLAG, AT(know_last_words, behind) },
	{ "killed", KEY_FLAG, AT(know_last_words, killed) },
	{ 0 },
};
static const struct kind_key escalation_keys[] = {
	{ "when", KEY_WHEN, AT(know_escalation, when) },
	{ "do", KEY_CHOICE, AT(know_escalation, action), .required = true, .choices = "stop restart" },
	{ "level", KEY_NUMBER, AT(know_escalation, level) },
	{ "filter", KEY_FLAG, AT(know_escalation, filter) },
	{ "agent", KEY_FLAG, AT(know_escalation, agent) },
	{ "repeat", KEY_FLAG, AT(know_escalation, repeat) },
	{ "reason", KEY_TEXT, AT(know_escalation, reason), .required = true },
	{ "propose", KEY_TEXT, AT(know_escalation, propose) },
	{ 0 },
};
static const struct kind_key parameter_keys[] = {
	{ "type", KEY_TEXT, AT(know_parameter, type),
	  .choices = "int uint hexint long ulong ullong bool bint charp string option" },
	{ "default", KEY_TEXT, AT(know_parameter, default_value) },
	{ "since", KEY_TEXT, AT(know_parameter, since) },
	{ "until", KEY_TEXT, AT(know_parameter, until) },
	{ "seen", KEY_WORDS, AT(know_parameter, seen) },
	{ "lacks", KEY_WORDS, AT(know_parameter, lacks) },
	{ "was", KEY_SET, AT(know_parameter, was) },
	{ "reads", KEY_WORDS, AT(know_parameter, reads) },
	{ "never", KEY_TEXT, AT(know_parameter, never) },
	{ "shows", KEY_CHOICE, AT(know_parameter, shows_first), .choices = "all first" },
	{ "changed", KEY_LIST, AT(know_parameter, changed) },
	{ "bit", KEY_SET, AT(know_parameter, bits) },
	{ "value", KEY_SET, AT(know_parameter, values) },
	{ "config", KEY_TEXT, AT(know_parameter, config) },
	{ "writable", KEY_FLAG, AT(know_parameter, writable) },
	{ "exists", KEY_CHOICE, AT(know_parameter, absent), .choices = "yes no" },
	{ "meaning", KEY_TEXT, AT(know_parameter, meaning), .required = true },
	{ "instead", KEY_TEXT, AT(know_parameter, instead) },
	{ "instead-clear", KEY_SET, AT(know_parameter, instead_change.clears) },
	{ "instead-set", KEY_SET, AT(know_parameter, instead_change.sets) },
	{ "source", KEY_TEXT, AT(know_parameter, source), .required = true },
	{ 0 },
};
static const struct kind_key kernel_keys[] = {
	{ "name", KEY_LIST, AT(know_kernel, names), .required = true },
	{ "library", KEY_TEXT, AT(know_kernel, library), .required = true },
	{ "operation", KEY_TEXT, AT(know_kernel, operation), .required = true },
	{ "source", KEY_TEXT, AT(know_kernel, source) },
	{ "wrapper", KEY_TEXT, AT(know_kernel, wrapper) },
	{ "asserts", KEY_TEXT, AT(know_kernel, asserts) },
	{ "on-assert", KEY_TEXT, AT(know_kernel, on_assert) },
	{ "on-fault", KEY_TEXT, AT(know_kernel, on_fault) },
	{ "on-illegal", KEY_TEXT, AT(know_kernel, on_illegal) },
	{ "on-hang", KEY_TEXT, AT(know_kernel, on_hang) },
	{ "workspace", KEY_FLAG, AT(know_kernel, workspace) },
	{ "generic", KEY_FLAG, AT(know_kernel, generic) },
	{ "issue", KEY_TEXT, AT(know_kernel, issue) },
	{ 0 },
};
static const struct kind_key instruction_keys[] = {
	{ "name", KEY_WORDS, AT(know_instruction, names), .required = true },
	{ "title", KEY_TEXT, AT(know_instruction, title), .required = true },
	{ "space", KEY_CHOICE, AT(know_instruction, space), .choices = "none global flat scratch lds gds scalar buffer image" },
	{ "act", KEY_CHOICE, AT(know_instruction, act), .required = true,
	  .choices = "load store atomic prefetch compute compare cache wait barrier sleep message branch trap halt end other" },
	{ "form", KEY_CHOICE, AT(know_instruction, form), .choices = "unknown vector lane offset scalar descriptor" },
	{ "operands", KEY_WORDS, AT(know_instruction, operand_words) },
	{ "writes", KEY_WORDS, AT(know_instruction, writes) },
	{ "bytes", KEY_NUMBER, AT(know_instruction, bytes) },
	{ "pair", KEY_NUMBER, AT(know_instruction, pair) },
	{ "counted", KEY_WORDS, AT(know_instruction, counted) },
	{ "counter", KEY_SET, AT(know_instruction, counters) },
	{ "waits-for", KEY_TEXT, AT(know_instruction, waits_for) },
	{ "say", KEY_TEXT, AT(know_instruction, say), .required = true },
	{ 0 },
};
static const struct kind_key sequence_keys[] = {
	{ "order", KEY_LIST, AT(know_sequence, order), .required = true },
	{ 0 },
};
static const struct kind_key save_area_keys[] = {
	{ "parts", KEY_WORDS, AT(know_save_area, parts), .required = true },
	{ "like", KEY_TEXT, AT(know_save_area, like) },
	{ "registers", KEY_WORDS, AT(know_save_area, registers) },
	{ "number", KEY_SET, AT(know_save_area, numbers) },
	{ "bits", KEY_SET, AT(know_save_area, bits) },
	{ "stop", KEY_SET, AT(know_save_area, stops) },
	{ 0 },
};
static const struct kind_key wave_words_keys[] = {
	{ "parts", KEY_WORDS, AT(know_wave_words, parts), .required = true },
	{ "type", KEY_NUMBER, AT(know_wave_words, type), .required = true },
	{ "words", KEY_WORDS, AT(know_wave_words, words), .required = true },
	{ "simds", KEY_NUMBER, AT(know_wave_words, simds), .required = true },
	{ "slots", KEY_NUMBER, AT(know_wave_words, slots), .required = true },
	{ "wgp", KEY_FLAG, AT(know_wave_words, wgp) },
	{ "always-on", KEY_FLAG, AT(know_wave_words, always_on) },
	{ "number", KEY_SET, AT(know_wave_words, numbers) },
	{ "bits", KEY_SET, AT(know_wave_words, bits) },
	{ 0 },
};

static const struct kind_key watch_keys[] = {
	{ "render", KEY_WORDS, AT(know_watch, render) },
	{ "deep", KEY_WORDS, AT(know_watch, deep) },
	{ 0 },
};
static const struct kind_key unit_keys[] = {
	{ "title", KEY_TEXT, AT(know_unit, title), .required = true },
	{ "busy", KEY_WORDS, AT(know_unit, busy) },
	{ "idle", KEY_WORDS, AT(know_unit, idle) },
	{ "still", KEY_TEXT, AT(know_unit, still) },
	{ "waits", KEY_SET, AT(know_unit, waits), .refers = "unit" },
	{ "rings", KEY_WORDS, AT(know_unit, rings) },
	{ "engine", KEY_FLAG, AT(know_unit, engine) },
	{ 0 },
};
static const struct kind_key verdict_keys[] = {
	{ "when", KEY_WHEN, AT(know_verdict, when) },
	{ "event", KEY_TEXT, AT(know_verdict, event), .refers = "signature" },
	{ "health", KEY_TEXT, AT(know_verdict, health), .required = true,
	  .choices = "idle busy asleep hung stuck resetting off-bus unknown" },
	{ "unit", KEY_TEXT, AT(know_verdict, unit) },
	{ "hint", KEY_TEXT, AT(know_verdict, hint) },
	{ "each-xcc", KEY_FLAG, AT(know_verdict, each_xcc) },
	{ "go-on", KEY_FLAG, AT(know_verdict, go_on) },
	{ "well", KEY_FLAG, AT(know_verdict, well) },
	{ 0 },
};
static const struct kind_key vote_keys[] = {
	{ "title", KEY_TEXT, AT(know_vote, title), .required = true },
	{ "proves", KEY_FLAG, AT(know_vote, proves) },
	{ "told", KEY_FLAG, AT(know_vote, told) },
	{ "own", KEY_FLAG, AT(know_vote, own) },
	{ "deep", KEY_FLAG, AT(know_vote, deep) },
	{ "low", KEY_NUMBER, AT(know_vote, low) },
	{ "within", KEY_SECONDS, AT(know_vote, within) },
	{ 0 },
};
static const struct kind_key work_keys[] = {
	{ "title", KEY_TEXT, AT(know_work, title), .required = true },
	{ "say", KEY_TEXT, AT(know_work, say) },
	{ "when", KEY_WHEN, AT(know_work, when) },
	{ "is", KEY_CHOICE, AT(know_work, is), .choices = "votes idle working waiting stopped unused" },
	{ "votes", KEY_WORDS, AT(know_work, votes), .refers = "vote" },
	{ "needs", KEY_WORDS, AT(know_work, needs), .refers = "vote" },
	{ "look-after", KEY_SECONDS, AT(know_work, look_after) },
	{ "suspect-votes", KEY_NUMBER, AT(know_work, suspect_votes) },
	{ "suspect-after", KEY_SECONDS, AT(know_work, suspect_after) },
	{ "hung-votes", KEY_NUMBER, AT(know_work, hung_votes) },
	{ "hung-after", KEY_SECONDS, AT(know_work, hung_after) },
	{ 0 },
};
static const struct kind_key mqd_keys[] = {
	{ "parts", KEY_WORDS, AT(know_mqd, parts), .required = true },
	{ "registers", KEY_WORDS, AT(know_mqd, registers), .required = true },
	{ "first", KEY_NUMBER, AT(know_mqd, first), .required = true },
	{ "sdma", KEY_WORDS, AT(know_mqd, sdma), .required = true },
	{ "bits", KEY_SET, AT(know_mqd, bits), .required = true },
	{ "sdma-bits", KEY_SET, AT(know_mqd, sdma_bits), .required = true },
	{ 0 },
};

static const struct kind_key page_table_keys[] = {
	{ "parts", KEY_WORDS, AT(know_page_table, parts), .required = true },
	{ "bits", KEY_SET, AT(know_page_table, bits), .required = true },
	{ "mmhub", KEY_WORDS, AT(know_page_table, mmhub), .required = true },
	{ "second-mmhub", KEY_WORDS, AT(know_page_table, second_mmhub) },
	{ "guests-from-zero", KEY_FLAG, AT(know_page_table, guests_from_zero) },
	{ 0 },
};

#define OF(type, member) .size = sizeof(struct type), .place = AT(know, member)
#define LABEL(type, member) .label_type = type, .label = member
// Rows of tables of a line each: a name, and mostly a value. An update may replace the whole file that they stand in.
#define ROWS(member)                                                                                                           \
	OF(know_row, member), LABEL(KEY_TEXT, AT(know_row, value)), .same = SAME_BESIDE, .fixed = true, .bulk = true

static const struct know_event event_defaults = { .in_reset = ROLE_EFFECT };
static const struct know_bad bad_defaults = { .severity = SEVERITY_UNSAID };

// In the order in which they are listed.
const struct know_kind know_kinds[] = {
	{ "signature", OF(know_signature, signatures), .keys = signature_keys, LABEL(KEY_MATCH, 0), .check = check_signature },
	{ "message", OF(know_signature, signatures), LABEL(KEY_MATCH, 0), .same = SAME_BESIDE, .fixed = true, .bulk = true,
	  .load = load_message },
	{ "opening", OF(know_opening, openings), .keys = opening_keys, LABEL(KEY_LIST, AT(know_opening, begins)),
	  .check = check_opening },
	{ "event", OF(know_event, events), .keys = event_keys, .defaults = &event_defaults,
	  LABEL(KEY_TEXT, AT(know_event, title)) },
	{ "cause", OF(know_cause, causes), .keys = cause_keys, LABEL(KEY_TEXT, AT(know_cause, title)),
	  .same = SAME_USERS_FIRST },
	{ "remedy", OF(know_remedy, remedies), .keys = remedy_keys, LABEL(KEY_TEXT, AT(know_remedy, title)),
	  .check = check_remedy },
	{ "known-bad", OF(know_bad, bad), .keys = bad_keys, .defaults = &bad_defaults, LABEL(KEY_TEXT, AT(know_bad, title)),
	  .check = check_bad },
	{ "setting", OF(know_setting, settings), .keys = setting_keys, LABEL(KEY_TEXT, AT(know_setting, say)) },
	{ "check", OF(know_check, checks), .keys = check_keys, LABEL(KEY_TEXT, AT(know_check, title)) },
	{ "action", OF(know_action, actions), .keys = action_keys, LABEL(KEY_TEXT, AT(know_action, text)) },
	{ "work-kind", OF(know_work_kind, work_kinds), .keys = work_kind_keys, LABEL(KEY_TEXT, AT(know_work_kind, title)),
	  .same = SAME_BESIDE },
	{ "blame", OF(know_blame, blames), .keys = blame_keys, LABEL(KEY_TEXT, AT(know_blame, fault)),
	  .same = SAME_USERS_FIRST },
	{ "question", OF(know_question, questions), .keys = question_keys, LABEL(KEY_TEXT, AT(know_question, ask)),
	  .check = check_question },
	{ "explanation", OF(know_explanation, explanations), .keys = explanation_keys,
	  LABEL(KEY_TEXT, AT(know_explanation, title)) },
	{ "escalation", OF(know_escalation, escalations), .keys = escalation_keys, LABEL(KEY_TEXT, AT(know_escalation, reason)),
	  .same = SAME_USERS_FIRST },
	{ "last-words", OF(know_last_words, last_words), .keys = last_words_keys, LABEL(KEY_TEXT, AT(know_last_words, means)),
	  .same = SAME_USERS_FIRST },
	{ "way", OF(know_way, ways), .keys = way_keys, LABEL(KEY_TEXT, AT(know_way, source)), .same = SAME_USERS_FIRST,
	  .check = check_way },
	{ "sign", OF(know_sign, signs), .keys = sign_keys, LABEL(KEY_SET, AT(know_sign, says)), .check = check_sign },
	{ "package", OF(know_package, packages), .keys = package_keys, LABEL(KEY_TEXT, AT(know_package, title)),
	  .same = SAME_USERS_FIRST },
	{ "parameter", OF(know_parameter, parameters), .keys = parameter_keys, LABEL(KEY_TEXT, AT(know_parameter, meaning)),
	  .check = check_parameter },
	{ "kernel", OF(know_kernel, kernels), .keys = kernel_keys, LABEL(KEY_TEXT, AT(know_kernel, operation)) },
	{ "instruction", OF(know_instruction, instructions), .keys = instruction_keys,
	  LABEL(KEY_TEXT, AT(know_instruction, title)), .check = check_instruction },
	{ "save-area", OF(know_save_area, save_areas), .keys = save_area_keys, LABEL(KEY_WORDS, AT(know_save_area, parts)) },
	{ "wave-words", OF(know_wave_words, wave_words), .keys = wave_words_keys,
	  LABEL(KEY_WORDS, AT(know_wave_words, parts)) },
	{ "packet", OF(know_packet, packets), LABEL(KEY_TEXT, AT(know_packet, name)), .load = load_packet },
	{ "mqd", OF(know_mqd, mqds), .keys = mqd_keys, LABEL(KEY_WORDS, AT(know_mqd, parts)) },
	{ "page-table", OF(know_page_table, page_tables), .keys = page_table_keys,
	  LABEL(KEY_WORDS, AT(know_page_table, parts)) },
	{ "watch", OF(know_watch, watches), .keys = watch_keys, LABEL(KEY_WORDS, AT(know_watch, render)) },
	{ "unit", OF(know_unit, units), .keys = unit_keys, LABEL(KEY_TEXT, AT(know_unit, title)) },
	{ "verdict", OF(know_verdict, verdicts), .keys = verdict_keys, LABEL(KEY_TEXT, AT(know_verdict, health)) },
	{ "vote", OF(know_vote, votes), .keys = vote_keys, LABEL(KEY_TEXT, AT(know_vote, title)) },
	{ "work", OF(know_work, works), .keys = work_keys, LABEL(KEY_TEXT, AT(know_work, title)) },
	{ "part", OF(know_part, parts), LABEL(KEY_TEXT, AT(know_part, name)), .same = SAME_BESIDE, .bulk = true,
	  .load = load_part },
	{ "class", OF(know_class, classes), .keys = class_keys, LABEL(KEY_TEXT, AT(know_class, meaning)), .fixed = true,
	  .load = load_class },
	{ "source", OF(know_source, sources), .keys = source_keys, LABEL(KEY_TEXT, AT(know_source, says)), .bulk = true },
	{ "defect", OF(know_defect, base.defects), .keys = defect_keys, LABEL(KEY_TEXT, AT(know_defect, title)),
	  .same = SAME_BESIDE, .bulk = true, .check = check_defect },
	{ "case", OF(know_case, base.cases), .keys = case_keys, LABEL(KEY_TEXT, AT(know_case, defect_id)), .same = SAME_BESIDE,
	  .bulk = true, .load = load_case },
	{ "stage", OF(know_stage, stages), .keys = stage_keys, LABEL(KEY_TEXT, AT(know_stage, title)) },
	{ "lead", OF(know_lead, leads), .keys = lead_keys, LABEL(KEY_TEXT, AT(know_lead, why)) },
	{ "context", OF(know_context, contexts), .keys = context_keys, LABEL(KEY_LIST, AT(know_context, words)),
	  .check = check_context },
	{ "sequence", OF(know_sequence, sequences), .keys = sequence_keys, LABEL(KEY_LIST, AT(know_sequence, order)) },
	{ "names", OF(know_names, names), LABEL(KEY_SET, AT(know_names, names)), .load = load_names },
	{ "register", OF(know_register, registers), .load = load_register },
	{ "anchor", ROWS(anchors), .load = load_anchor },
	{ "bridge", ROWS(bridges), .load = load_pair },
	{ "desktop", ROWS(desktop), .load = load_words },
	{ "fact", ROWS(facts), .load = load_rows, .check = check_fact },
	{ "common", ROWS(base.commons), .load = load_words },
	{ "renamed", ROWS(base.renamed), .load = load_rows },
	{ "calibration", ROWS(calibration), .load = load_pair, .check = check_calibration },
	{ "reason", ROWS(reasons), .load = load_rows },
	{ "foreign", ROWS(foreign), .load = load_rows },
	{ "frame", ROWS(frames), .load = load_pair, .check = check_frame },
	{ "month", ROWS(months), .load = load_month },
	{ "override", ROWS(overrides), .load = load_rows },
	{ "ring", ROWS(rings), .load = load_pair, .check = check_ring },
	{ "switch", ROWS(switches), .load = load_rows },
	{ "usual", ROWS(usuals), .load = load_rows },
	{ "tool", ROWS(tools), .load = load_rows },
	{ "variable", ROWS(variables), .optional = true, .load = load_rows },
	{ "vendor", ROWS(vendors), .load = load_pair, .check = check_vendor },
	{ 0 },
};

const struct know_kind *kind_named(struct str name)
{
	const struct know_kind *kind = know_kinds;
	while (kind->name && !str_is(name, kind->name))
		kind++;
	return kind->name ? kind : NULL;
}
