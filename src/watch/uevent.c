#include "watch/uevent.h"

bool uevent_parse(struct str bytes, struct uevent *ret)
{
	*ret = (struct uevent){ 0 };
	const struct {
		const char *key;
		struct str *value;
	} keys[] = { { "ACTION", &ret->action }, { "DEVPATH", &ret->path },       { "SUBSYSTEM", &ret->subsystem },
		     { "DRIVER", &ret->driver }, { "PCI_SLOT_NAME", &ret->slot }, { "WEDGED", &ret->wedged } };
	struct str head = str_split(&bytes, '\0');
	if (!head.n || !memchr(head.p, '@', head.n))
		return false;
	while (bytes.n) {
		struct str value = str_split(&bytes, '\0'), key = str_split(&value, '=');
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			if (str_is(key, keys[i].key))
				*keys[i].value = value;
	}
	return ret->action.n && ret->path.n;
}

bool uevent_matters(const struct uevent *u)
{
	return (str_is(u->subsystem, "devcoredump") && str_is(u->action, "add")) || u->wedged.n;
}
