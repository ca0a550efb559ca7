// The history: lines, files of lines, and the index that is made of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "base/save.h"
#include "store/history/index.h"
#include "store/history/line.h"
#include "store/history/query.h"
#include "store/store.h"

static const char diagnosis[] =
	"{\n  \"schema\": \"unhang/diagnosis/1\",\n  \"incidents\": [{\"id\": \"0123456789abcdef\", \"fingerprint\": \"f00d\","
	" \"gpus\": [{\"pci\": \"0000:03:00.0\", \"gfx\": \"gfx1100\", \"name\": \"A \\\"GPU\\\"  here\"}],\n"
	" \"cause\": {\"class\": \"c\", \"confidence\": 0.9},\n \"processes\": [{\"name\": \"beside\", \"role\": "
	"\"bystander\"}, "
	"{\"name\": \"python\", \"role\": \"owner\"}],\n \"timeline\": [{\"time\": 1.5, \"event\": \"page-fault\", \"role\": "
	"\"cause\", \"text\": \"it  happened\"}]}]\n}\n";

static struct stored an_incident(void)
{
	return (struct stored){ .id = S("0123456789abcdef"),
				.state = STORED_OPEN,
				.class = S("gpu-page-fault-unmapped"),
				.title = S("A shader of python used unmapped memory"),
				.fault = S("job"),
				.action = S("restart-program"),
				.host = S("node1"),
				.gpu = S("0000:03:00.0"),
				.began = 1700000000,
				.revision = 2,
				.events = 1 };
}

/** All kinds of lines. */
static void some_lines(struct text *to)
{
	const struct stored i = an_incident();
	const struct history_item items[] = { { .name = S("kernel"), .value = S("6.12.1") },
					      { S("0000:03:00.0"), S("serial"), S("S1") } };
	const struct history_work work = { S("0000:03:00.0"), S("S1"), S("gfx1100"), 1700000000, 1700000600, 599.5 };
	const struct history_sample samples[] = { { 1700000000, 99, 300, NAN, 1e9 }, { 1700000010, 98, 301, 61, 1e9 } };
	const struct history_source source = { S("aa"), S("/a/b"), S("incident"), 10, 1 };
	line_of_incident(to, &i, S("/var/lib/unhang/incidents/0123456789abcdef"), S(diagnosis));
	line_of_run(to, S("node1"), S("run-1"), 3,
		    S("{\"schema\": \"unhang/run/1\", \"began\": \"2026-08-27T03:28:27Z\", \"command\": \"a b\", \"status\": "
		      "0, \"state\": \"ended\", "
		      "\"tries\": [{\"number\": 1, \"level\": 1, \"began\": \"2026-08-27T03:28:27Z\", \"ran_ms\": 5, "
		      "\"ended\": \"exit\", "
		      "\"failure_reason\": \"why\", \"decision\": null}]}"));
	line_of_configuration(to, S("node1"), 1700000000, items, 2);
	line_of_work(to, S("node1"), &work);
	line_of_samples(to, S("node1"), S("0000:03:00.0"), samples, 2);
	line_of_source(to, &source, 1700000000);
}

static void check(struct uh_error *err)
{
	if (err)
		fail_msg("%s", uh_error_message(err));
}

static int64_t ask_number(struct db *d, const char *sql);

static void take_number(void *ctx, const struct db_value *row, size_t n)
{
	assert_true(n >= 1);
	*(int64_t *)ctx = row[0].type == DB_REAL ? (int64_t)row[0].real : row[0].number;
}

static int64_t ask_number(struct db *d, const char *sql)
{
	int64_t n = -1;
	check(db_run_once(d, str_z(sql), NULL, 0, take_number, &n));
	return n;
}

static int setup(void **state)
{
	struct db *d;
	check(index_open(NULL, DB_MAKE, &d));
	*state = d;
	return 0;
}

static int teardown(void **state)
{
	db_close(*state);
	return 0;
}

static enum index_taken take(struct db *d, struct str line)
{
	enum index_taken taken;
	check(index_take(d, line, &taken));
	return taken;
}

static void each_kind_of_line_is_one_line_and_gets_into_its_table(void **state)
{
	struct text lines = { 0 };
	unsigned n = 0;
	some_lines(&lines);
	str_each (line, text_str(&lines), '\n') {
		assert_int_equal(take(*state, line), TAKEN_NEW);
		n++;
	}
	assert_int_equal(n, HISTORY_KINDS);
	assert_int_equal(
		ask_number(
			*state,
			"SELECT count(*) FROM incidents WHERE part = 'gfx1100' AND program = 'python' AND confidence > 0.8 AND "
			"gpu_name = 'A \"GPU\"  here'"),
		1);
	assert_int_equal(ask_number(*state, "SELECT count(*) FROM events WHERE text = 'it  happened'"), 1);
	assert_int_equal(ask_number(*state, "SELECT began FROM runs"), 1787801307);
	assert_int_equal(ask_number(*state, "SELECT count(*) FROM tries WHERE failure_reason = 'why'"), 1);
	assert_int_equal(ask_number(*state, "SELECT count(*) FROM configurations"), 2);
	assert_int_equal(ask_number(*state, "SELECT busy * 10 FROM exposure"), 5995);
	assert_int_equal(ask_number(*state, "SELECT count(*) FROM samples WHERE temperature IS NULL"), 1);
	assert_int_equal(ask_number(*state, "SELECT incidents FROM sources WHERE hash = 'aa'"), 1);
	// And again: nothing changes.
	str_each (line, text_str(&lines), '\n')
		assert_true(take(*state, line) == TAKEN_KNOWN || str_find(line, S("\"kind\":\"samples\"")) >= 0);
	assert_int_equal(ask_number(*state, "SELECT count(*) FROM samples"), 2);
	text_free(&lines);
}

static void the_newest_revision_counts_in_whatever_order_they_come(void **state)
{
	static const int orders[][3] = { { 1, 2, 3 }, { 3, 2, 1 }, { 2, 3, 1 }, { 3, 3, 2 } };
	for (size_t o = 0; o < ARRAY_SIZE(orders); o++) {
		check(db_script(*state, "DELETE FROM incidents"));
		for (int k = 0; k < 3; k++) {
			struct text line = { 0 };
			struct stored i = an_incident();
			i.revision = orders[o][k];
			i.state = i.revision == 3 ? STORED_CLOSED : STORED_OPEN;
			line_of_incident(&line, &i, (struct str){ 0 }, (struct str){ 0 });
			take(*state, str_cut(text_str(&line), line.n - 1));
			text_free(&line);
		}
		assert_int_equal(ask_number(*state, "SELECT count(*) FROM incidents WHERE revision = 3 AND state = 'closed'"),
				 1);
	}
}

static void a_value_is_a_row_when_it_becomes_another(void **state)
{
	static const char *const values[] = { "1", "1", "2", "2", "1" };
	for (int n = 0; n < 5; n++) {
		struct text line = { 0 };
		const struct history_item item = { .name = S("amdgpu.cwsr_enable"), .value = str_z(values[n]) };
		line_of_configuration(&line, S("node1"), 1000 + n, &item, 1);
		take(*state, str_cut(text_str(&line), line.n - 1));
		text_free(&line);
	}
	assert_int_equal(ask_number(*state, "SELECT count(*) FROM configurations"), 3);
	struct history h = { .db = *state, .now = 2000 };
	struct history_change_list changes = { 0 };
	check(history_changes(&h, &(struct history_filter){ 0 }, 10, &changes));
	assert_int_equal(changes.len, 2);
	assert_true(str_is(changes.data[1].from, "1") && str_is(changes.data[1].to, "2") && changes.data[1].when == 1002);
	vec_free(&changes);
	arena_free(&h.arena);
}

/** A line that is cut, or damaged, is refused, or is what it was: nothing else gets into a table. */
static void a_line_cut_at_each_byte_or_damaged_is_refused(void **state)
{
	struct text lines = { 0 };
	some_lines(&lines);
	str_each (line, text_str(&lines), '\n') {
		for (size_t n = 0; n < line.n; n++) {
			char *copy = malloc(n + 1); // no room behind it
			memcpy(copy, line.p, n);
			assert_int_equal(take(*state, (struct str){ copy, n }), TAKEN_REFUSED);
			free(copy);
		}
		for (size_t n = 0; n < line.n; n += 3) {
			char *copy = malloc(line.n);
			memcpy(copy, line.p, line.n);
			copy[n] ^= 0x11;
			take(*state, (struct str){ copy, line.n });
			free(copy);
		}
	}
	text_free(&lines);
}

static void what_cannot_be_so_is_refused(void **state)
{
	static const char *const odd[] = { "[1700000000,1e308,1,1,1]",
					   "[1700000000,1,-1e300,1,1]",
					   "[1700000000,1,1,1e9,1]",
					   "[1700000000,1,1,1,1e19]",
					   "[-5,1,1,1,1]",
					   "[99999999999999,1,1,1,1]" };
	for (size_t n = 0; n < ARRAY_SIZE(odd); n++) {
		char line[400];
		snprintf(line, sizeof(line),
			 "{\"schema\":\"" HISTORY_SCHEMA "\",\"kind\":\"samples\",\"id\":\"g\",\"revision\":1,\"host\":\"h\","
			 "\"rows\":[[1700000001,1,1,null,1e12],%s]}",
			 odd[n]);
		assert_int_equal(take(*state, str_z(line)), TAKEN_REFUSED);
	}
	assert_int_equal(ask_number(*state, "SELECT count(*) FROM samples"), 0);
	struct text line = { 0 };
	struct stored i = an_incident();
	i.began = INT64_MAX;
	line_of_incident(&line, &i, (struct str){ 0 }, (struct str){ 0 });
	assert_int_equal(take(*state, str_cut(text_str(&line), line.n - 1)), TAKEN_REFUSED);
	text_free(&line);
}

/** A server refuses half of a character, and long rows of an index. */
static void texts_are_cut_between_characters(void **state)
{
	struct text line = { 0 }, class = { 0 }, title = { 0 };
	struct stored i = an_incident();
	text_add(&class, S("x"));
	for (int n = 0; n < 3000; n++) {
		text_add(&class, S("\xe2\x82\xac"));
		text_add(&title, S("\xe2\x82\xac"));
	}
	i.class = text_str(&class);
	i.title = text_str(&title);
	line_of_incident(&line, &i, (struct str){ 0 }, (struct str){ 0 });
	assert_int_equal(take(*state, str_cut(text_str(&line), line.n - 1)), TAKEN_NEW);
	assert_int_equal(ask_number(*state, "SELECT length(CAST(class AS BLOB)) FROM incidents"), 256);
	assert_int_equal(ask_number(*state, "SELECT length(CAST(title AS BLOB)) FROM incidents"), 4095);
	text_free(&line);
	text_free(&class);
	text_free(&title);
}

static void what_a_host_told_of_stays_its_own(void **state)
{
	static const struct {
		const char *host, *from;
		int64_t revision;
		enum index_taken wanted;
	} cases[] = {
		{ "node1", "node2", 1, TAKEN_REFUSED }, { "node1", "node1", 1, TAKEN_NEW },
		{ "node2", "node2", 2, TAKEN_NEW },     { "node2", "", 3, TAKEN_REFUSED },
		{ "node1", "node1", 4, TAKEN_CHANGED }, { "node1", "", 4, TAKEN_KNOWN },
	};
	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		struct text line = { 0 };
		struct stored i = an_incident();
		enum index_taken taken;
		i.host = str_z(cases[n].host);
		i.revision = cases[n].revision;
		line_of_incident(&line, &i, (struct str){ 0 }, (struct str){ 0 });
		check(index_take_from(*state, str_cut(text_str(&line), line.n - 1), str_z(cases[n].from), &taken));
		assert_int_equal(taken, cases[n].wanted);
		text_free(&line);
	}
	assert_int_equal(ask_number(*state, "SELECT count(*) FROM incidents WHERE host = 'node1' AND id = '0123456789abcdef'"),
			 1);
	assert_int_equal(ask_number(*state, "SELECT count(*) FROM incidents WHERE host = 'node2'"), 1); // by another id
}

// --- files ---

static char place[] = "/tmp/unhang-history-XXXXXX";

static const char *below(const char *name)
{
	static char path[200];
	snprintf(path, sizeof(path), "%s/%s", place, name);
	return path;
}

static int files_setup(void **state)
{
	strcpy(place, "/tmp/unhang-history-XXXXXX");
	assert_non_null(mkdtemp(place));
	return setup(state);
}

static int files_teardown(void **state)
{
	const int fd = open(place, O_RDONLY | O_DIRECTORY);
	remove_below(fd);
	close(fd);
	rmdir(place);
	return teardown(state);
}

static const char *only_file(struct spool_files *f, const char *directory)
{
	check(spool_list(directory, f));
	assert_int_equal(f->list.len, 1);
	return f->list.data[0];
}

static bool count_line(void *ctx, struct str line)
{
	unsigned *n = ctx;
	*n += line.n != 0;
	return true;
}

static void what_a_crash_has_cut_does_not_spoil_what_follows(void **state)
{
	struct spool_files files = { 0 };
	unsigned n = 0;
	struct spool_place at = { 0 };
	(void)state;
	check(spool_append(place, S("{\"one\":1}\n")));
	const char *path = only_file(&files, place);
	const int fd = open(path, O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, "{\"half\":", 8), 8);
	close(fd);
	check(spool_read(path, &at, count_line, &n));
	assert_int_equal(n, 1); // it may still be written to
	check(spool_append(place, S("{\"two\":2}\n{\"three\":3}\n")));
	check(spool_read(path, &at, count_line, &n));
	assert_int_equal(n, 4); // the half, which nobody understands, and the two
	spool_files_free(&files);
}

static void a_file_that_grows_is_read_on_and_one_that_was_made_anew_from_its_begin(void **state)
{
	struct text lines = { 0 };
	struct index_counts counts = { 0 };
	struct spool_files files = { 0 };
	some_lines(&lines);
	check(spool_append(place, text_str(&lines)));
	check(index_collect(*state, place, NULL, NULL, &counts));
	assert_int_equal(counts.lines[TAKEN_NEW], HISTORY_KINDS);
	check(spool_append(place, S("nonsense\n")));
	index_counts_free(&counts);
	counts = (struct index_counts){ 0 };
	check(index_collect(*state, place, NULL, NULL, &counts));
	assert_true(str_ends(text_str(&counts.refused), S(":7"))); // behind one of each kind
	assert_true(!counts.lines[TAKEN_NEW] && !counts.lines[TAKEN_KNOWN] && counts.lines[TAKEN_REFUSED] == 1);
	const char *path = only_file(&files, place);
	assert_int_equal(truncate(path, 0), 0);
	struct text other = { 0 };
	struct stored i = an_incident();
	i.id = S("fedcba9876543210");
	line_of_incident(&other, &i, (struct str){ 0 }, (struct str){ 0 });
	check(spool_append(place, text_str(&other)));
	index_counts_free(&counts);
	counts = (struct index_counts){ 0 };
	check(index_collect(*state, place, NULL, NULL, &counts));
	assert_int_equal(counts.lines[TAKEN_NEW], 1);
	spool_files_free(&files);
	text_free(&lines);
	text_free(&other);
	index_counts_free(&counts);
}

static void a_copy_gets_what_it_lacks_and_is_made_anew_where_it_is_damaged(void **state)
{
	char from[200], to[200];
	struct spool_files files = { 0 };
	struct stat a, b;
	(void)state;
	snprintf(from, sizeof(from), "%s", below("from"));
	snprintf(to, sizeof(to), "%s", below("to/host"));
	for (int n = 0; n < 50; n++) {
		check(spool_append(from, S("{\"some\":\"line that is long enough to be told from others\"}\n")));
		if (n % 7 == 3)
			check(spool_ship(from, to));
		if (n == 20) { // a crash of the server: its last bytes are zeros
			struct spool_files copies = { 0 };
			const int fd = open(only_file(&copies, to), O_RDWR);
			assert_int_equal(fstat(fd, &b), 0);
			assert_int_equal(pwrite(fd, "\0\0\0\0\0\0\0\0", 8, b.st_size - 8), 8);
			close(fd);
			spool_files_free(&copies);
		}
		if (n == 30) { // or it was cut
			struct spool_files copies = { 0 };
			const char *path = only_file(&copies, to);
			assert_int_equal(stat(path, &b), 0);
			assert_int_equal(truncate(path, b.st_size - 11), 0);
			spool_files_free(&copies);
		}
	}
	check(spool_ship(from, to));
	check(spool_ship(from, to));
	assert_int_equal(stat(only_file(&files, from), &a), 0);
	files.list.len = 0;
	assert_int_equal(stat(only_file(&files, to), &b), 0);
	assert_int_equal(a.st_size, b.st_size);
	char command[500];
	snprintf(command, sizeof(command), "cmp %s/*.jsonl %s/*.jsonl", from, to);
	assert_int_equal(system(command), 0);
	spool_files_free(&files);
}

/** In a spool that all may write, somebody else may have made the directory of this host. */
static void a_directory_or_a_file_that_leads_elsewhere_gets_nothing(void **state)
{
	char from[200], to[200], elsewhere[200];
	struct spool_files files = { 0 };
	(void)state;
	snprintf(from, sizeof(from), "%s", below("from"));
	snprintf(to, sizeof(to), "%s", below("to"));
	snprintf(elsewhere, sizeof(elsewhere), "%s", below("elsewhere"));
	check(spool_append(from, S("{\"some\":1}\n")));
	assert_true(!mkdir(elsewhere, 0700) && !symlink(elsewhere, to));
	struct uh_error *err = spool_ship(from, to);
	assert_non_null(err);
	uh_error_free(err);
	err = spool_ship_bundles(place, to);
	assert_non_null(err);
	uh_error_free(err);
	assert_true(!unlink(to) && !mkdir(to, 0700));
	char link[400], copy[400];
	snprintf(copy, sizeof(copy), "%s/bundles", to);
	assert_int_equal(symlink(elsewhere, copy), 0);
	err = spool_ship_bundles(place, to);
	assert_non_null(err);
	uh_error_free(err);
	snprintf(copy, sizeof(copy), "%s/made", elsewhere);
	snprintf(link, sizeof(link), "%s%s", to, strrchr(only_file(&files, from), '/'));
	assert_int_equal(symlink(copy, link), 0);
	uh_error_free(spool_ship(from, to)); // the link may go, but it is not followed
	assert_int_equal(rmdir(elsewhere), 0);
	spool_files_free(&files);
}

static void old_days_go_and_today_stays(void **state)
{
	struct spool_files files = { 0 };
	(void)state;
	for (int day = 1; day < 29; day++) {
		char name[64];
		snprintf(name, sizeof(name), "2020-02-%02d-00000001.jsonl", day);
		const int fd = open(below(name), O_WRONLY | O_CREAT, 0600);
		assert_int_equal(write(fd, "x\n", 2), 2);
		close(fd);
	}
	check(spool_append(place, S("{}\n")));
	spool_vacuum(place, 36500, 13);
	check(spool_list(place, &files));
	assert_int_equal(files.list.len, 6); // 3 bytes of today, and five days of two
	spool_vacuum(place, 30, 1 << 20);
	files.list.len = 0;
	check(spool_list(place, &files));
	assert_int_equal(files.list.len, 1);
	spool_files_free(&files);
}

// --- the form of the tables ---

static void an_older_form_is_brought_to_the_newest_and_keeps_what_it_has(void **state)
{
	const char *path = below("index.sqlite");
	struct db *d;
	int64_t from, to;
	(void)state;
	check(index_open(path, DB_MAKE, &d));
	check(db_script(d, "DROP TABLE samples; DROP TABLE sources; ALTER TABLE spools DROP COLUMN mark; DROP INDEX "
			   "incidents_still; DELETE FROM "
			   "unhang_schema WHERE version > 1"));
	struct text lines = { 0 };
	some_lines(&lines);
	struct str rest = text_str(&lines);
	take(d, str_split(&rest, '\n'));
	db_close(d);
	struct uh_error *err = index_open(path, DB_READ, &d);
	assert_non_null(strstr(uh_error_message(err), "unhang store migrate"));
	uh_error_free(err);
	check(index_open(path, DB_WRITE, &d));
	assert_int_equal(ask_number(d, "SELECT count(*) FROM incidents"), 1);
	assert_int_equal(ask_number(d, "SELECT count(*) FROM samples"), 0);
	check(index_migrate(d, &from, &to));
	assert_true(from == 4 && to == 4);
	// The next version's tables are used, those of one after it are not.
	check(db_script(d, "INSERT INTO unhang_schema (version) VALUES (5)"));
	db_close(d);
	check(index_open(path, DB_READ, &d));
	check(db_script(d, "SELECT 1"));
	db_close(d);
	check(db_open(path, DB_WRITE, &d));
	check(db_script(d, "INSERT INTO unhang_schema (version) VALUES (6)"));
	db_close(d);
	err = index_open(path, DB_READ, &d);
	assert_non_null(strstr(uh_error_message(err), "update unhang"));
	uh_error_free(err);
	text_free(&lines);
}

static void what_is_wrong_with_a_store_is_told(void **state)
{
	struct text problems = { 0 };
	check(index_check(*state, &problems));
	assert_int_equal(problems.n, 0);
	check(db_script(*state, "INSERT INTO events (incident, n) VALUES ('nobody', 1)"));
	check(index_check(*state, &problems));
	assert_true(str_find(text_str(&problems), S("nobody")) >= 0);
	text_free(&problems);
}

static void questions_are_put_as_they_are_meant(void **state)
{
	struct history h = { .db = *state, .now = 1700000000 + 8 * 86400 };
	for (int n = 0; n < 40; n++) {
		char id[17], host[16];
		struct text line = { 0 };
		struct stored i = an_incident();
		snprintf(id, sizeof(id), "%016x", n);
		snprintf(host, sizeof(host), "rack%d-%d", n % 2, n);
		i.id = str_z(id);
		i.host = str_z(host);
		i.fingerprint = S("the same");
		i.began = 1700000000 + n * 86400 / 4;
		i.state = n ? STORED_CLOSED : STORED_OPEN;
		i.job = n % 10 ? S("a_b") : S("axb");
		line_of_incident(&line, &i, (struct str){ 0 }, (struct str){ 0 });
		take(*state, str_cut(text_str(&line), line.n - 1));
		text_free(&line);
	}
	struct history_summary all = { 0 };
	int64_t n = 0;
	check(history_summary(&h, &(struct history_filter){ 0 }, 100, &all));
	assert_int_equal(all.faults.len, 1); // on forty nodes, and one row
	assert_true(all.faults.data[0].hosts == 40 && all.faults.data[0].count == 40 && all.faults.data[0].open == 1);
	assert_true(str_is(all.faults.data[0].title, "A shader of python used unmapped memory"));
	assert_true(all.machines.len == 40 && all.totals.hosts == 40 && all.machines.data[0].open == 1 &&
		    all.totals.incidents == 40);
	assert_true(all.days.len == 11 && all.days.data[1].count == 4 && all.days.data[0].day + 10 == all.days.data[10].day);
	check(history_count(&h, &(struct history_filter){ .host = S("rack1-*") }, &n));
	assert_int_equal(n, 20);
	check(history_count(&h, &(struct history_filter){ .job = S("a_*") }, &n)); // _ is no pattern
	assert_int_equal(n, 36);
	check(history_count(&h, &(struct history_filter){ .host = S("' OR 1 = 1 --") }, &n));
	assert_int_equal(n, 0);
	check(history_count(&h, &(struct history_filter){ .open = true }, &n));
	assert_int_equal(n, 1);
	history_summary_free(&all);
	arena_free(&h.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_kind_of_line_is_one_line_and_gets_into_its_table, setup, teardown),
		cmocka_unit_test_setup_teardown(the_newest_revision_counts_in_whatever_order_they_come, setup, teardown),
		cmocka_unit_test_setup_teardown(a_value_is_a_row_when_it_becomes_another, setup, teardown),
		cmocka_unit_test_setup_teardown(a_line_cut_at_each_byte_or_damaged_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(what_cannot_be_so_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(texts_are_cut_between_characters, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_host_told_of_stays_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_crash_has_cut_does_not_spoil_what_follows, files_setup, files_teardown),
		cmocka_unit_test_setup_teardown(a_file_that_grows_is_read_on_and_one_that_was_made_anew_from_its_begin,
						files_setup, files_teardown),
		cmocka_unit_test_setup_teardown(a_copy_gets_what_it_lacks_and_is_made_anew_where_it_is_damaged, files_setup,
						files_teardown),
		cmocka_unit_test_setup_teardown(a_directory_or_a_file_that_leads_elsewhere_gets_nothing, files_setup,
						files_teardown),
		cmocka_unit_test_setup_teardown(old_days_go_and_today_stays, files_setup, files_teardown),
		cmocka_unit_test_setup_teardown(an_older_form_is_brought_to_the_newest_and_keeps_what_it_has, files_setup,
						files_teardown),
		cmocka_unit_test_setup_teardown(what_is_wrong_with_a_store_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(questions_are_put_as_they_are_meant, setup, teardown),
	};
	return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
