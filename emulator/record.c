// What was done to the emulated machine: a line of JSON for each operation.
#include "emulator/server.h"

/** What the scenario's own processes do is part of the machine. */
static bool wanted(const struct server *s, pid_t caller)
{
	for (size_t i = 0; s->record && i < emu_processes(s->machine); i++)
		if (emu_process_pid(emu_process(s->machine, i)) == caller)
			return false;
	return s->record;
}

static void begin(struct server *s, const struct node *n, const char *what, pid_t caller)
{
	struct text path = { 0 };
	tree_path(n, &path);
	fprintf(s->record, "{\"t\":%.6f,\"op\":\"%s\",\"pid\":%d,\"path\":\"", server_time(s), what, (int)caller);
	for (size_t i = 0; i < path.n; i++) {
		unsigned char c = (unsigned char)path.p[i];
		if (c == '"' || c == '\\' || c < ' ')
			fprintf(s->record, "\\u%04x", c);
		else
			fputc(c, s->record);
	}
	fputc('"', s->record);
	text_free(&path);
}

static void end(struct server *s) { fputs("}\n", s->record); }

static void error_or(struct server *s, int error)
{
	if (error)
		fprintf(s->record, ",\"error\":%d", error);
}

void record_open(struct server *s, const struct node *n, int flags, pid_t caller, int error)
{
	if (!wanted(s, caller))
		return;
	static const char *const ways[] = { "read", "write", "read-write", "none" };
	begin(s, n, "open", caller);
	fprintf(s->record, ",\"mode\":\"%s\"", ways[flags & 3]);
	error_or(s, error);
	end(s);
}

static void bank(struct server *s, const struct regs2_state *r)
{
	if (r->use_grbm)
		fprintf(s->record, ",\"se\":%d,\"sh\":%d,\"instance\":%d", (int)r->se, (int)r->sh, (int)r->instance);
	if (r->use_srbm)
		fprintf(s->record, ",\"me\":%u,\"pipe\":%u,\"queue\":%u,\"vmid\":%u", r->me, r->pipe, r->queue, r->vmid);
	fprintf(s->record, ",\"xcc\":%u", r->xcc);
}

static void file_state(struct server *s, const struct open_file *f)
{
	if (!strcmp(f->node->name, "amdgpu_regs2"))
		bank(s, &f->regs2);
	if (!strcmp(f->node->name, "amdgpu_gprwave")) {
		const struct gprwave_state *g = &f->gprwave;
		fprintf(s->record, ",\"gpr\":%u,\"xcc\":%u,\"se\":%u,\"sh\":%u,\"cu\":%u,\"simd\":%u,\"wave\":%u",
			g->gpr_or_wave, g->xcc, g->se, g->sh, g->cu, g->simd, g->wave);
	}
}

void record_read(struct server *s, const struct open_file *f, uint64_t at, size_t size, pid_t caller, ssize_t result)
{
	if (!wanted(s, caller))
		return;
	begin(s, f->node, "read", caller);
	fprintf(s->record, ",\"offset\":%llu,\"size\":%zu", (unsigned long long)at, size);
	file_state(s, f);
	if (result < 0)
		error_or(s, (int)-result);
	else
		fprintf(s->record, ",\"bytes\":%zd", result);
	end(s);
}

static void bytes(struct server *s, const char *data, size_t size)
{
	enum { MOST = 64 };
	fputs(",\"data\":\"", s->record);
	for (size_t i = 0; i < size && i < MOST; i++)
		fprintf(s->record, "%02x", (unsigned char)data[i]);
	fputc('"', s->record);
}

void record_write(struct server *s, const struct open_file *f, uint64_t at, const char *data, size_t size, pid_t caller)
{
	s->writes += f->node->seat || f->node->debugfs;
	if (!wanted(s, caller))
		return;
	begin(s, f->node, "write", caller);
	fprintf(s->record, ",\"offset\":%llu,\"size\":%zu", (unsigned long long)at, size);
	file_state(s, f);
	bytes(s, data, size);
	end(s);
}

void record_ioctl(struct server *s, const struct node *n, unsigned request, const char *data, size_t size, pid_t caller,
		  int error)
{
	if (!wanted(s, caller))
		return;
	begin(s, n, "ioctl", caller);
	fprintf(s->record, ",\"request\":\"0x%08x\"", request);
	bytes(s, data, size);
	error_or(s, error);
	end(s);
}

void record_event(struct server *s, const struct node *n, const char *what, pid_t caller)
{
	if (!strcmp(what, "act"))
		s->acts++;
	if (!wanted(s, caller))
		return;
	begin(s, n, what, caller);
	end(s);
}
