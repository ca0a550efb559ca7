// What the doctor writes and how it finds it again; records with any byte changed, or cut anywhere.
#include "apply/applied.h"
#include "knowledge/parameter.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char record[] = "unhang/applied/1\n"
			     "id some-id\n"
			     "state applied\n"
			     "date 1794760707\n"
			     "title Something\n"
			     "kargs\n"
			     "set amdgpu.cwsr_enable 0\n"
			     "made /etc/modprobe.d\n"
			     "had /boot/loader/entries/old.conf\n"
			     "file modprobe /etc/modprobe.d/zz-unhang-some-id.conf\n"
			     "words amdgpu.cwsr_enable=0\n"
			     "file grub /etc/default/grub\n"
			     "words iommu=pt\n"
			     "bare\n"
			     "last\n"
			     "file entry-words /boot/efi/loader/entries/a b.conf\n"
			     "words iommu=pt\n"
			     "end\n";

static bool parses(struct str text, struct applied *ret)
{
	struct uh_error *err = applied_parse(text, S("some-id"), "record", ret);
	bool good = !err;
	uh_error_free(err);
	return good;
}

/** Whatever a record says, it names files and words that unhang would write. */
static void check_applied(const struct applied *a)
{
	for (size_t n = 0; n < a->files.len; n++) {
		assert_true(own_file_good(a, a->files.data[n].kind, a->files.data[n].path));
		assert_int_equal(str_find(a->files.data[n].path, S("/../")), -1);
		assert_true(a->files.data[n].words.n > 0);
	}
	for (size_t n = 0; n < a->sets.len; n++)
		assert_true(applied_set_good(a->sets.data[n].name, a->sets.data[n].value));
}

static void a_record_is_written_as_it_was_read(void **state)
{
	(void)state;
	struct applied a;
	struct text t = { 0 };
	assert_true(parses(S(record), &a));
	assert_int_equal(a.files.len, 3);
	assert_true(a.files.data[1].bare && a.files.data[1].last && a.kargs);
	applied_write(&a, &t);
	assert_true(str_eq(text_str(&t), S(record)));
	text_free(&t);
	applied_free(&a);
}

static void a_record_cut_or_changed_at_any_byte_is_refused(void **state)
{
	(void)state;
	struct applied a;
	for (size_t n = 0; n < sizeof(record) - 1; n++) {
		char *cut = malloc(n + 1); // so that a sanitizer sees a step too far
		memcpy(cut, record, n);
		// The last byte is the newline behind the end.
		assert_int_equal(parses((struct str){ cut, n }, &a), n == sizeof(record) - 2);
		if (n == sizeof(record) - 2)
			applied_free(&a);
		free(cut);
	}
	for (size_t n = 0; n < sizeof(record) - 1; n++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			char changed[sizeof(record)];
			memcpy(changed, record, sizeof(record));
			changed[n] ^= (char)(1 << bit);
			if (!parses((struct str){ changed, sizeof(record) - 1 }, &a))
				continue;
			check_applied(&a);
			applied_free(&a);
		}
	}
}

/** Bases in which our text has to be found again, and nothing else. */
static const char *const bases[] = {
	"",
	"\n",
	"a=1",
	"a=1\n",
	"a=1\n\n",
	"options a=1",
	"options a=1 \n",
	"options a=1\r\nlinux /x\r\n",
	"title x\noptions a=1\noptions iommu=ptx amdgpu.cwsr_enable=01\n",
	"linux /x\noptions\n# unhang other\noptions b=1\n",
	"# comment\nroot=1 ro\n\n",
	"GRUB_CMDLINE_LINUX=\"iommu=pt\"\n# unhang\n",
};

static void own_lines_are_found_and_taken_out(void **state)
{
	(void)state;
	struct applied a = { .id = S("some-id"), .title = S("Something") };
	unsigned made = 0;
	for (size_t n = 0; n < ARRAY_SIZE(bases); n++) {
		for (int kind = OWN_GRUB; kind <= OWN_CMDLINE; kind++) {
			struct arena room = { 0 };
			struct str base = str_z(bases[n]), with, back, again;
			struct own_file f = { .kind = (enum own_kind)kind, .words = S("iommu=pt amdgpu.cwsr_enable=0") };
			f.bare = kind <= OWN_ENTRY_LINE && base.n && !str_ends(base, S("\n"));
			assert_int_equal(own_strip(&room, &a, &f, base, &back), OWN_ABSENT);
			assert_true(str_eq(back, base));
			if (own_insert(&room, &a, &f, base, &with)) {
				assert_int_equal(own_strip(&room, &a, &f, with, &back), OWN_THERE);
				assert_true(str_eq(back, base));
				assert_true(own_insert(&room, &a, &f, back, &again) && str_eq(again, with));
				made++;
			}
			arena_free(&room);
		}
	}
	assert_in_range(made, 30, 48);
}

/** Words end up in the line that is read, and a line's end stays its end. */
static void own_words_go_to_the_end_of_the_right_line(void **state)
{
	(void)state;
	struct applied a = { .id = S("some-id"), .title = S("Something") };
	struct arena room = { 0 };
	struct own_file f = { .kind = OWN_ENTRY_WORDS, .words = S("iommu=pt") };
	struct str with;
	assert_true(own_insert(&room, &a, &f, S("linux /x\r\noptions a=1\r\noptions b=1\r\n"), &with));
	assert_true(str_is(with, "linux /x\r\noptions a=1 iommu=pt\r\noptions b=1\r\n"));
	assert_false(own_insert(&room, &a, &f, S("linux /x\n"), &with));
	f.kind = OWN_CMDLINE;
	assert_true(own_insert(&room, &a, &f, S("root=1\nro\n# end\n"), &with));
	assert_true(str_is(with, "root=1\nro iommu=pt\n# end\n"));
	arena_free(&room);
}

static void values_that_mean_the_same_are_the_same(void **state)
{
	(void)state;
	struct str value;
	assert_true(value_same(S("0x10"), S("16")) && value_same(S("-1"), S("0xffffffff")) && value_same(S("Y"), S("1")));
	assert_false(value_same(S("0"), S("1")) || value_same(S("N"), S("1")) || value_same(S("-1"), S("1")));
	assert_true(command_line_value(S("ro iommu=off iommu=pt"), S("iommu"), &value) && str_is(value, "pt"));
	assert_false(command_line_value(S("ro amd_iommu=off"), S("iommu"), &value));
	assert_false(applied_set_good(S("iommu"), S("$(x)")) || applied_set_good(S("io mmu"), S("1")) ||
		     applied_set_good(S("x"), S("")));
	assert_true(applied_set_good(S("amdgpu.lockup_timeout"), S("10000,60000,10000,10000")));
	assert_false(applied_id_good(S("../x")) || applied_id_good(S(".x")) || applied_id_good(S("")));
}

/** Exit status of a child: 0 where a file is refused because nobody can tell where it really is. */
static int open_without_proc(const char *directory)
{
	struct arena room = { 0 };
	struct spot spot;
	if (chroot(directory) || chdir("/"))
		return 77;
	struct uh_error *below = spot_open("/tree", S("/file"), &room, &spot);
	struct uh_error *here = spot_open(NULL, S("/tree/file"), &room, &spot);
	return !(below && strstr(below->message, "cannot be told where") && here &&
		 strstr(here->message, "cannot be told where"));
}

/** Without /proc nothing says where an open file is: it is not written to, below a root or not. */
static void a_file_that_cannot_be_located_is_refused(void **state)
{
	(void)state;
	char directory[] = "/tmp/unhang-apply-XXXXXX", path[64];
	int status;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/tree", directory);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/tree/file", directory);
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	close(fd);
	pid_t child = fork();
	if (!child)
		_exit(open_without_proc(directory));
	assert_int_equal(waitpid(child, &status, 0), child);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	rmdir(directory);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_is_written_as_it_was_read),
		cmocka_unit_test(a_record_cut_or_changed_at_any_byte_is_refused),
		cmocka_unit_test(own_lines_are_found_and_taken_out),
		cmocka_unit_test(own_words_go_to_the_end_of_the_right_line),
		cmocka_unit_test(values_that_mean_the_same_are_the_same),
		cmocka_unit_test(a_file_that_cannot_be_located_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
