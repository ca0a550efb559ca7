// Archives and compressed files, unpacked by a child; anything else passes as it is.
#include "source/archive/archive.h"

#include <errno.h>

#include "source/source.h"
#include "source/tape/bundle.h"

/** A source that comes from the child. */
struct member {
	struct feed *feed;
	struct str left; // of the newest piece
	bool ended, broken;
};

static ssize_t read_member(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	struct member *m = s->ctx;
	while (!m->left.n && !m->ended) {
		int kind = feed_next(m->feed, &m->left, ret_err);
		if (kind == ARCHIVE_DATA)
			continue;
		m->ended = true;
		m->broken = kind <= 0;
		if (kind == ARCHIVE_ENDS && m->left.n)
			*ret_err = uh_error_new(STR_FMT, STR_ARG(m->left));
		m->left.n = 0;
		if (*ret_err)
			return -1;
	}
	struct str part = str_cut(m->left, size);
	if (part.n)
		memcpy(buffer, part.p, part.n);
	m->left = str_from(m->left, part.n);
	return (ssize_t)part.n;
}

static void archive_unpack(struct archive_work work, const struct source_visitor *v);

/** Something else may have a member of that name, too. */
static void visit_bundle(struct source *s, const struct source_visitor *v)
{
	enum { PIECE = 64 << 10 };
	struct uh_error *err = NULL;
	struct bundle *b = NULL;
	_cleanup_text_ struct text tar = { 0 }; // without the holes of its members
	ssize_t n;
	while ((n = read_member(s, text_room(&tar, PIECE), PIECE, &err)) > 0)
		tar.n += (size_t)n;
	if (!err)
		err = bundle_of_bytes(text_str(&tar), s->name, &b);
	if (err) {
		v->problem(v->ctx, err);
	} else if (b) {
		source_bundle(s->name, b, v);
	} else {
		archive_unpack((struct archive_work){ .fd = -1, .bytes = text_str(&tar), .name = s->name }, v);
	}
}

/** false: the child has ended with this source. */
static bool visit_member(struct feed *feed, struct source s, unsigned number, _Atomic unsigned *unwanted, bool bundle,
			 const struct source_visitor *v)
{
	struct member m = { .feed = feed };
	char rest[512];
	s.ctx = &m;
	if (bundle)
		visit_bundle(&s, v);
	else
		v->visit(v->ctx, &s);
	*unwanted = number;
	struct uh_error *err = NULL;
	while (!m.ended && read_member(&s, rest, sizeof(rest), &err) > 0)
		m.left.n = 0;
	if (m.broken && err)
		v->problem(v->ctx, err);
	else
		uh_error_free(err); // of a source that nobody wanted to its end
	return !m.broken;
}

static void archive_take_all(struct feed *feed, _Atomic unsigned *unwanted, const struct source_visitor *v)
{
	struct str piece;
	struct uh_error *err = NULL;
	unsigned number = 0;
	bool goes_on = true;
	for (int kind; goes_on && (kind = feed_next(feed, &piece, &err)) > 0;) {
		_cleanup_text_ struct text text = { 0 };
		text_printf(&text, STR_FMT, STR_ARG(piece));
		const struct source s = { .name = text.p, .read = read_member };
		if (kind == ARCHIVE_SOURCE || kind == ARCHIVE_BUNDLE)
			goes_on = visit_member(feed, s, ++number, unwanted, kind == ARCHIVE_BUNDLE, v);
		else if (kind == ARCHIVE_PROBLEM)
			v->problem(v->ctx, uh_error_new("%s", text.p));
	}
	if (err)
		v->problem(v->ctx, err);
}

static void archive_unpack(struct archive_work work, const struct source_visitor *v)
{
	struct feed feed;
	_cleanup_map_ struct map shared;
	struct uh_error *err = map_shared(&shared, sizeof(*work.unwanted)) ? NULL : uh_error_os(errno, "%s", work.name);
	work.unwanted = shared.p;
	if (!err)
		err = feed_begin(&feed, CHILD_ARCHIVE, work.name, archive_child, &work);
	if (err) {
		v->problem(v->ctx, err);
		return;
	}
	archive_take_all(&feed, work.unwanted, v);
	feed_end(&feed);
}

void source_archive(const struct named *n, int fd, const char *name, const struct source_visitor *v)
{
	archive_unpack((struct archive_work){ .named = n, .fd = fd, .name = name, .bundles = true }, v);
}

void source_archive_bytes(struct str bytes, const char *name, const struct source_visitor *v)
{
	archive_unpack((struct archive_work){ .fd = -1, .bytes = bytes, .name = name, .bundles = true }, v);
}
