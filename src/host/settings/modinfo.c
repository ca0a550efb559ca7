#include "host/settings/modinfo.h"

enum { PARAMETERS_MOST = 1024 };

bool modinfo_has(const struct modinfo *m, struct str parameter)
{
	for (size_t i = 0; i < m->n; i++)
		if (str_eq(m->parameters[i], parameter))
			return true;
	return false;
}

static void take(struct modinfo *m, struct str key, struct str value)
{
	if (str_is(key, "version")) {
		m->version = value;
	} else if (str_is(key, "vermagic")) {
		m->vermagic = value;
	} else if (str_is(key, "parm") || str_is(key, "parmtype")) {
		struct str name = str_split(&value, ':');
		if (name.n && m->n < PARAMETERS_MOST && !modinfo_has(m, name))
			m->parameters[m->n++] = name;
	}
}

void modinfo_read(struct arena *a, struct str section, struct modinfo *ret)
{
	*ret = (struct modinfo){ .parameters = arena_alloc(a, PARAMETERS_MOST * sizeof(struct str)) };
	while (section.n) {
		struct str value = str_split(&section, '\0'), key = str_split(&value, '=');
		take(ret, key, value);
	}
}
