// gpu_memory HUB[INSTANCE].VMID@ADDRESS+BYTES...: memory of the first GPU of this machine, all of it asked for at once, as JSON.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "gpu/silicon/silicon.h"

enum { MOST = 64 };

static bool request_of(const char *text, struct request *ret)
{
	char hub[8] = "";
	unsigned instance = 0, vmid;
	unsigned long long address, bytes;
	if (sscanf(text, "%3[a-z]%u.%u@%llx+%llu", hub, &instance, &vmid, &address, &bytes) != 5)
		return false;
	*ret = (struct request){ .kind = REQUEST_MEMORY,
				 .hub = strcmp(hub, "mm") ? HUB_GFX : HUB_MM,
				 .hub_instance = instance,
				 .vmid = vmid,
				 .address = address,
				 .size = bytes,
				 .to = calloc(1, bytes + 1) };
	return true;
}

static void tell(struct json *j, const struct request *r)
{
	static const char *const names[] = { "given", "absent", "refused", "timed out" };
	jw_open(j, '{');
	jw_field(j, "answer", str_z(names[r->answer]));
	jw_field(j, "why_not", r->why_not ? str_z(r->why_not) : (struct str){ 0 });
	jw_key(j, "bytes");
	struct text hex = { 0 };
	for (size_t i = 0; r->answer == ANSWER_GIVEN && i < r->size; i++)
		text_printf(&hex, "%02x", ((unsigned char *)r->to)[i]);
	jw_str(j, text_str(&hex));
	text_free(&hex);
	jw_close(j, '}');
}

int main(int argc, char **argv)
{
	struct know_problems problems = { 0 };
	struct know *k = know_load(&problems);
	struct devices d;
	struct request r[MOST];
	size_t n = 0;
	devices_find(k, &d);
	for (; n < MOST && n + 1 < (size_t)argc; n++)
		if (!request_of(argv[n + 1], &r[n]))
			return 2;
	if (!d.n)
		return 1;
	struct target *t = target_device(k, &d.list[0]);
	struct json j = { .out = stdout };
	t->ask(t, r, n);
	jw_open(&j, '{');
	jw_key(&j, "children");
	jw_unsigned(&j, target_count(t).children);
	jw_key(&j, "operations");
	jw_unsigned(&j, target_count(t).operations);
	jw_key(&j, "memory");
	jw_open(&j, '[');
	for (size_t i = 0; i < n; i++)
		tell(&j, &r[i]);
	jw_close(&j, ']');
	jw_close(&j, '}');
	for (size_t i = 0; i < n; i++)
		free(r[i].to);
	target_close(t);
	devices_free(&d);
	know_free(k);
	return 0;
}
