#include "code/problems.h"

enum { PROBLEMS_MAX = 16 };

void code_problem(struct code_problems *p, const char *format, ...)
{
	p->count++;
	if (!p->to || p->count > PROBLEMS_MAX)
		return;
	size_t begin = p->to->n;
	va_list ap;
	va_start(ap, format);
	text_vprintf(p->to, format, ap);
	va_end(ap);
	// Names out of the file must not begin a line of their own.
	for (size_t i = begin; i < p->to->n; i++)
		if ((unsigned char)p->to->p[i] < ' ')
			p->to->p[i] = '?';
	text_add(p->to, p->count < PROBLEMS_MAX ? S("\n") : S("; more is damaged\n"));
}
