#include "source/kfd/events.h"

#include <string.h>

enum { NAME_MOST = 15 }; // of a thread

static void events_take_line(struct str line, struct kfd_event *ret)
{
	uint64_t kind;
	struct str rest = line;
	*ret = (struct kfd_event){ 0 };
	if (!str_hex(str_split(&rest, ' '), &kind))
		return;
	const bool fault = kind == KFD_PAGE_FAULT;
	if (!fault && kind != KFD_RESET_BEGINS)
		return;
	if (!str_hex(str_split(&rest, fault ? ':' : ' '), &ret->number) || ret->number > INT32_MAX)
		return;
	ret->kind = (unsigned)kind;
	ret->text = rest;
}

bool kfd_event_take(struct kfd_lines *l, struct str *bytes, struct kfd_event *ret)
{
	if (!bytes->n || !memchr(bytes->p, '\n', bytes->n))
		return false;
	struct str line = str_split(bytes, '\n');
	if (line.n < l->may_be_name) {
		l->may_be_name -= line.n + 1;
		*ret = (struct kfd_event){ 0 };
		return true;
	}
	events_take_line(line, ret);
	l->may_be_name = ret->kind == KFD_PAGE_FAULT && ret->text.n < NAME_MOST ? NAME_MOST - ret->text.n : 0;
	return true;
}

void kfd_told_text(const struct kfd_told *t, struct text *to)
{
	text_add(to, t->pci);
	text_printf(to, "\n%u\n%llu\n%lld\n", t->event.kind, (unsigned long long)t->event.number, (long long)t->pid);
	text_add(to, t->process);
	text_add(to, S("\n"));
	text_add(to, t->event.text);
}

bool kfd_told_parse(struct str text, struct kfd_told *ret)
{
	int64_t kind, number;
	*ret = (struct kfd_told){ .pci = str_split(&text, '\n') };
	if (!ret->pci.n || !str_number(str_split(&text, '\n'), &kind) || !str_number(str_split(&text, '\n'), &number) ||
	    !str_number(str_split(&text, '\n'), &ret->pid) || kind <= 0 || kind >= KFD_ALL_PROCESSES || number < 0)
		return false;
	ret->process = str_split(&text, '\n');
	ret->event = (struct kfd_event){ (unsigned)kind, (uint64_t)number, text };
	return true;
}
