// unhang serve: the pages of the history by HTTP, through libmicrohttpd. One thread answers one request after the other; slow readers have their
// answer in memory, and nobody waits for them.
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/library.h"
#include "serve/route.h"
#include "session/look.h"
#include "store/history/index.h"

// clang-format off
#define MHD_CALLS(call) \
	call(MHD_start_daemon) call(MHD_stop_daemon) call(MHD_create_response_from_buffer) call(MHD_destroy_response) \
	call(MHD_add_response_header) call(MHD_queue_response) call(MHD_get_connection_values) call(MHD_lookup_connection_value) \
	call(MHD_get_connection_info)
// clang-format on

enum { CONNECTIONS = 512, IDLE_S = 15, REQUEST_MS = 20000, MEMORY = 32 << 10, REFRESH_MS = 5000, PORT_USUAL = 8777 };
enum { PAGES_KEPT = 16, KEPT_BYTES = 4 << 20 };
enum { CONNECTIONS_KEPT = CONNECTIONS - 64 }; // with more, the oldest goes: who is slow keeps nobody out

/** Those who are connected. Who sends a byte now and then is never idle, so that each request has a time in all. */
struct page_clients {
	pthread_mutex_t lock;
	struct page_client {
		int fd;        // 0: nobody
		int64_t begun; // its request, or the time at which it may send the next one
	} list[CONNECTIONS];
	unsigned n;
};

struct page_server {
	struct mhd_api {
		LIBRARY_API(MHD_CALLS)
	} api;
	const struct uh_serve_options *options;
	struct know *know;
	struct site_pages pages;
	int64_t fresh; // when the index was last brought up to date
	unsigned port;
	bool local; // it listens where a browser on this machine reaches it, and nobody else
	struct page_clients clients;
	struct page_kept {
		uint64_t tag;
		struct page_answer answer;
	} kept[PAGES_KEPT]; // answers that still hold, by their tags
	size_t next;        // the one that makes room
};

// --- who is connected ---

/** It notices by itself that it is closed. */
static void client_end(const struct page_client *c) { shutdown(c->fd, SHUT_RDWR); }

static void clients_end_oldest(struct page_clients *all)
{
	const struct page_client *oldest = NULL;
	for (size_t n = 0; n < CONNECTIONS; n++)
		if (all->list[n].fd && (!oldest || all->list[n].begun < oldest->begun))
			oldest = &all->list[n];
	if (oldest)
		client_end(oldest);
}

static void clients_end_late(struct page_clients *all)
{
	pthread_mutex_lock(&all->lock);
	for (size_t n = 0; n < CONNECTIONS; n++)
		if (all->list[n].fd && now_ms() - all->list[n].begun > REQUEST_MS)
			client_end(&all->list[n]);
	pthread_mutex_unlock(&all->lock);
}

static struct page_client *client_begin(struct page_clients *all, int fd)
{
	struct page_client *free_one = all->list;
	if (all->n == CONNECTIONS)
		return NULL;
	while (free_one->fd)
		free_one++;
	*free_one = (struct page_client){ fd, now_ms() };
	if (++all->n > CONNECTIONS_KEPT)
		clients_end_oldest(all);
	return free_one;
}

static void on_connection(void *ctx, struct MHD_Connection *c, void **state, enum MHD_ConnectionNotificationCode what)
{
	struct page_server *s = ctx;
	struct page_client *client = *state;
	const union MHD_ConnectionInfo *info = s->api.MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	pthread_mutex_lock(&s->clients.lock);
	if (what == MHD_CONNECTION_NOTIFY_STARTED && info && info->connect_fd > 0) {
		*state = client_begin(&s->clients, info->connect_fd);
	} else if (what == MHD_CONNECTION_NOTIFY_CLOSED && client) {
		*client = (struct page_client){ 0 };
		s->clients.n--;
	}
	pthread_mutex_unlock(&s->clients.lock);
}

/** A request was answered; the next one has its own time. */
static void on_completed(void *ctx, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode how)
{
	struct page_server *s = ctx;
	const union MHD_ConnectionInfo *info = s->api.MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct page_client *client = info ? info->socket_context : NULL;
	(void)state;
	(void)how;
	pthread_mutex_lock(&s->clients.lock);
	if (client)
		client->begun = now_ms();
	pthread_mutex_unlock(&s->clients.lock);
}

// --- a request ---

static enum MHD_Result add_argument(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct page_request *r = ctx;
	(void)kind;
	if (r->narguments == ROUTE_ARGUMENTS)
		return MHD_NO;
	r->arguments[r->narguments].name = str_z(name);
	r->arguments[r->narguments++].value = str_z(value ? value : "");
	return MHD_YES;
}

/** Who has a page of his own open in a browser here must not read this one by a name that he makes point to it. No browser reaches a Unix socket: what
 * stands before it has its own names. */
static bool host_fits(const struct page_server *s, const char *host)
{
	struct str name = str_z(host ? host : "");
	if (!s->local)
		return true;
	if (name.n && name.p[0] == '[')
		return str_starts(name, S("[::1]"));
	char number[32];
	struct in_addr address;
	str_copy(number, sizeof(number), str_split(&name, ':'));
	return !host || !number[0] || !strcmp(number, "localhost") ||
	       (inet_pton(AF_INET, number, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

/** Whether a list of tags has this one, which may be marked as a weak one. */
static bool tags_have(const char *list, const char *tag)
{
	str_each (one, str_z(list ? list : ""), ',') {
		struct str each = str_trim(one);
		if (str_starts(each, S("W/")))
			each = str_from(each, 2);
		if (str_is(each, tag))
			return true;
	}
	return false;
}

/** Directories grow while pages are read. */
static void refresh(struct page_server *s)
{
	_cleanup_counts_ struct index_counts counts = { 0 };
	s->pages.history.now = s->pages.site.now = time(NULL);
	if (!s->pages.directory || now_ms() - s->fresh < REFRESH_MS)
		return;
	uh_error_free(index_sync(s->pages.history.db, s->pages.directory, &counts)); // what cannot be read now is read later
	s->fresh = now_ms();
}

static uint64_t tag_of(struct page_server *s, struct str path, const struct page_request *r)
{
	uint64_t tag = 0;
	uh_error_free(history_stamp(&s->pages.history, &tag));
	tag = str_hash(str_hash(tag, path), S(UNHANG_VERSION));
	tag = hash_mix(tag, (uint64_t)s->pages.history.now / 3600); // weeks move on
	for (size_t n = 0; n < r->narguments; n++)
		tag = str_hash(str_hash(tag, r->arguments[n].name), r->arguments[n].value);
	return tag;
}

static enum MHD_Result queue_answer(struct page_server *s, struct MHD_Connection *c, struct page_answer *a, const char *tag)
{
	static const char *const headers[][2] = { { "X-Content-Type-Options", "nosniff" },
						  { "X-Frame-Options", "DENY" },
						  { "Referrer-Policy", "no-referrer" },
						  { "Cache-Control", "no-cache" } };
	struct MHD_Response *response = s->api.MHD_create_response_from_buffer(a->n, a->body, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		page_answer_free(a);
		return MHD_NO;
	}
	*a = (struct page_answer){ .status = a->status, .type = a->type };
	for (size_t n = 0; n < ARRAY_SIZE(headers); n++)
		s->api.MHD_add_response_header(response, headers[n][0], headers[n][1]);
	s->api.MHD_add_response_header(response, "Content-Type", a->type);
	if (tag)
		s->api.MHD_add_response_header(response, "ETag", tag);
	if (a->status == 405)
		s->api.MHD_add_response_header(response, "Allow", "GET, HEAD");
	const enum MHD_Result r = s->api.MHD_queue_response(c, a->status, response);
	s->api.MHD_destroy_response(response);
	return r;
}

static enum MHD_Result refuse_request(struct page_server *s, struct MHD_Connection *c, struct str path, unsigned status)
{
	_cleanup_text_ struct text says = { 0 };
	struct page_answer a;
	if (status == 405)
		text_add(&says, S("Only GET and HEAD are answered."));
	else
		text_printf(&says,
			    "This server answers to localhost only. Use http://localhost:%u" STR_FMT
			    " on the machine itself; for a proxy with another name, start unhang serve with --behind-proxy, "
			    "or on a Unix socket.",
			    s->port, STR_ARG(path));
	route_refuse(&s->pages, path, status, text_str(&says), &a);
	return queue_answer(s, c, &a, NULL);
}

// --- answers that were given before ---

/** false: there is none, or no memory for a copy of it. */
static bool kept_find(const struct page_server *s, uint64_t tag, struct page_answer *ret)
{
	const struct page_kept *k = list_find(s->kept, (size_t)PAGES_KEPT, it, it->answer.body && it->tag == tag);
	char *body = k ? malloc(k->answer.n ? k->answer.n : 1) : NULL;
	if (!body)
		return false;
	*ret = k->answer;
	ret->body = memcpy(body, k->answer.body, k->answer.n);
	return true;
}

static void kept_add(struct page_server *s, uint64_t tag, const struct page_answer *a)
{
	struct page_kept *k = &s->kept[s->next];
	char *body = a->status == 200 && a->n <= KEPT_BYTES ? malloc(a->n ? a->n : 1) : NULL;
	if (!body)
		return;
	page_answer_free(&k->answer);
	*k = (struct page_kept){ tag, *a };
	k->answer.body = memcpy(body, a->body, a->n);
	s->next = (s->next + 1) % PAGES_KEPT;
}

static void kept_free(struct page_server *s)
{
	for (size_t n = 0; n < PAGES_KEPT; n++)
		page_answer_free(&s->kept[n].answer);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url, const char *method, const char *version,
				  const char *data, size_t *size, void **state)
{
	struct page_server *s = ctx;
	struct page_request r = { .path = str_z(url) };
	char tag[32];
	(void)version;
	(void)data;
	if (!*state) { // its head; what follows is its body, which is thrown away
		*state = s;
		return MHD_YES;
	}
	if (*size) {
		*size = 0;
		return MHD_YES;
	}
	if (strcmp(method, "GET") && strcmp(method, "HEAD"))
		return refuse_request(s, c, r.path, 405);
	if (!host_fits(s, s->api.MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host")))
		return refuse_request(s, c, r.path, 421);
	s->api.MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, add_argument, &r);
	refresh(s);
	const uint64_t number = tag_of(s, r.path, &r);
	snprintf(tag, sizeof(tag), "\"%016llx\"", (unsigned long long)number);
	const char *known = s->api.MHD_lookup_connection_value(c, MHD_HEADER_KIND, "If-None-Match");
	struct page_answer a = { .status = 304, .type = "text/html; charset=utf-8" };
	if (!tags_have(known, tag) && !kept_find(s, number, &a)) {
		route(&s->pages, s->know, &r, &a);
		kept_add(s, number, &a);
	}
	arena_free(&s->pages.history.arena);
	return queue_answer(s, c, &a, a.status == 200 || a.status == 304 ? tag : NULL);
}

// --- where it listens ---

static struct uh_error *listen_socket(const char *path, int *ret)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;
	if (strlen(path) >= sizeof(address.sun_path))
		return uh_error_os(ENAMETOOLONG, "%s", path);
	strcpy(address.sun_path, path);
	if (!lstat(path, &st) && S_ISSOCK(st.st_mode)) // of one that has ended
		unlink(path);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || chmod(path, 0660) || listen(fd, CONNECTIONS))
		return uh_error_os(errno, "%s", path);
	*ret = take_fd(&fd);
	return NULL;
}

/** ADDRESS:PORT, [ADDRESS]:PORT or PORT. */
static bool parse_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_size, bool *ret_local)
{
	struct str s = str_z(text ? text : "");
	char host[64];
	int64_t port = PORT_USUAL;
	struct str digits = s, name = S("127.0.0.1");
	for (size_t n = s.n; n-- > 0;)
		if (s.p[n] == ':') {
			digits = str_from(s, n + 1);
			name = str_cut(s, n);
			break;
		}
	if (s.n && (!str_number(digits, &port) || port < 1 || port > 65535))
		return false;
	if (name.n > 1 && name.p[0] == '[' && name.p[name.n - 1] == ']')
		name = str_cut(str_from(name, 1), name.n - 2);
	str_copy(host, sizeof(host), str_is(name, "localhost") ? S("127.0.0.1") : name);
	struct sockaddr_in *four = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons((uint16_t)port);
		*ret_size = sizeof(*four);
		*ret_local = ntohl(four->sin_addr.s_addr) >> 24 == 127;
		return true;
	}
	if (inet_pton(AF_INET6, host, &six->sin6_addr) != 1)
		return false;
	six->sin6_family = AF_INET6;
	six->sin6_port = htons((uint16_t)port);
	*ret_size = sizeof(*six);
	*ret_local = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
	return true;
}

static struct uh_error *listen_address(const struct uh_serve_options *o, bool *ret_local, int *ret)
{
	struct sockaddr_storage address;
	socklen_t size;
	if (!parse_address(o->listen, &address, &size, ret_local))
		return uh_error_new("'%s' is no address; write PORT, 127.0.0.1:8777, [::1]:8777, or a path for a Unix socket",
				    o->listen);
	if (!*ret_local && !o->behind_proxy)
		return uh_error_new("%s can be reached by others, and unhang serve asks nobody for a password. Let a proxy do "
				    "that, and say so: "
				    "--behind-proxy",
				    o->listen);
	_cleanup_close_ int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, CONNECTIONS))
		return uh_error_os(errno, "%s", o->listen ? o->listen : "127.0.0.1:8777");
	*ret = take_fd(&fd);
	return NULL;
}

/** 0: of a Unix socket. */
static unsigned port_of(int fd)
{
	struct sockaddr_storage a = { 0 };
	socklen_t size = sizeof(a);
	if (fd < 0 || getsockname(fd, (struct sockaddr *)&a, &size))
		return 0;
	return a.ss_family == AF_INET  ? ntohs(((struct sockaddr_in *)&a)->sin_port) :
	       a.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&a)->sin6_port) :
					 0;
}

// --- until it is told to end ---

static void serve_until_signal(struct page_server *s)
{
	sigset_t wanted;
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGTERM);
	sigaddset(&wanted, SIGINT);
	while (sigtimedwait(&wanted, NULL, &(struct timespec){ .tv_sec = 1 }) < 0)
		clients_end_late(&s->clients);
}

static struct uh_error *serve_on(struct page_server *s, int fd, FILE *out)
{
	sigset_t blocked;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	signal(SIGPIPE, SIG_IGN);
	struct MHD_Daemon *d = s->api.MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_END);
	if (!d) {
		cleanup_close(&fd);
		return uh_error_new("the server could not be started");
	}
	if (s->options->listen && strchr(s->options->listen, '/'))
		fprintf(out, "unhang serves %s. Ctrl-C ends it.\n", s->options->listen);
	else
		fprintf(out, "unhang serves http://%s%s/ . Ctrl-C ends it.\n",
			s->options->listen && !strchr(s->options->listen, ':') ? "127.0.0.1:" : "",
			s->options->listen ? s->options->listen : "127.0.0.1:8777");
	fflush(out);
	serve_until_signal(s);
	s->api.MHD_stop_daemon(d); // it closes the socket
	return NULL;
}

struct uh_error *uh_serve(const struct uh_serve_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct stat st;
	struct page_server s = { .options = o, .clients.lock = PTHREAD_MUTEX_INITIALIZER };
	_cleanup_close_ int fd = -1;
	struct teller teller = { problem, ctx };
	if (LIBRARY_LOAD(&s.api, MHD_CALLS, "libmicrohttpd.so.12"))
		return uh_error_new("unhang serve needs libmicrohttpd.so.12 (package libmicrohttpd12); unhang history --html "
				    "writes the same pages as "
				    "files");
	struct uh_error *err =
		o->listen && strchr(o->listen, '/') ? listen_socket(o->listen, &fd) : listen_address(o, &s.local, &fd);
	s.local &= !o->behind_proxy;
	s.port = port_of(fd);
	if (!err)
		err = history_store_open(o->store, teller, &s.pages.history.db);
	s.pages.directory =
		o->store ? (!stat(o->store, &st) && S_ISDIR(st.st_mode) ? o->store : NULL) : history_state_directory();
	s.fresh = now_ms();
	if (!err) {
		s.know = look_knowledge(teller);
		s.pages.history.know = s.know;
		err = serve_on(&s, take_fd(&fd), out);
		know_free(s.know);
	}
	if (o->listen && o->listen[0] == '/')
		unlink(o->listen);
	db_close(s.pages.history.db);
	kept_free(&s);
	arena_free(&s.pages.history.arena);
	return err;
}
