// What changed, from the logs of package managers: each form as its own tool wrote it (tools/make-package-logs), and cut at every byte.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/save.h"
#include "host/changes/readers.h"

static const struct know *know;

/** All of a seed, in memory that ends where it does. */
static struct str seed(const char *name)
{
	char path[512];
	struct stat st;
	snprintf(path, sizeof(path), SEEDS "/changes/%s", name);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && !fstat(fd, &st));
	char *bytes = malloc((size_t)st.st_size);
	assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
	return (struct str){ bytes, (size_t)st.st_size };
}

/** One line for each transaction and change, with the time in UTC. */
static void tell(const struct changes *c, struct text *to)
{
	for (size_t i = 0; i < c->transactions.len; i++) {
		const struct transaction *t = &c->transactions.data[i];
		const time_t when = (time_t)t->when;
		char stamp[32];
		strftime(stamp, sizeof(stamp), "%m-%d %H:%M", gmtime(&when));
		text_printf(to, STR_FMT " %s%s " STR_FMT " +%zu:", STR_ARG(t->manager), stamp, t->local ? " local" : "",
			    STR_ARG(t->id), t->others);
		for (size_t n = 0; n < t->changes.len; n++) {
			const struct change *one = &t->changes.data[n];
			text_printf(to, " " STR_FMT "(" STR_FMT "," STR_FMT ">" STR_FMT ")", STR_ARG(one->package),
				    STR_ARG(one->kind->head.id), STR_ARG(one->from), STR_ARG(one->to));
		}
		text_printf(to, "\n");
	}
}

static void says(change_parse_fn *parse, struct change_log log, const char *expected)
{
	_cleanup_changes_ struct changes c = { 0 };
	_cleanup_text_ struct text told = { 0 };
	parse(&c, know, &log);
	tell(&c, &told);
	text_add(&told, (struct str){ "", 1 });
	assert_string_equal(told.p, expected);
}

/** Each beginning, in memory that ends there: fewer transactions, never others. */
static void cut(change_parse_fn *parse, struct str whole, size_t step)
{
	size_t before = 0;
	for (size_t n = 0; n <= whole.n; n += step) {
		_cleanup_changes_ struct changes c = { 0 };
		_cleanup_free_ char *exact = malloc(n ? n : 1);
		memcpy(exact, whole.p, n);
		parse(&c, know, &(struct change_log){ .text = { exact, n }, .path = S("/log") });
		assert_true(c.transactions.len >= before);
		before = c.transactions.len;
	}
	assert_true(before);
}

static void every_form(void **state)
{
	static const struct {
		const char *seed;
		change_parse_fn *parse;
		const char *says;
	} forms[] = {
		{ "apt-history.log", changes_of_apt,
		  "apt 05-02 07:15 local  +1: linux-image-6.1.0-35-amd64(kernel,>6.1.137-1) "
		  "mesa-vulkan-drivers(mesa,>22.3.6-1) firmware-amd-graphics(firmware,>20230515-3)\n"
		  "apt 06-20 16:30 local  +1: mesa-vulkan-drivers(mesa,22.3.6-1>24.2.8-1~bpo12+1)\n"
		  "apt 07-08 08:00 local  +0: linux-image-6.1.0-37-amd64(kernel,>6.1.140-1) "
		  "firmware-amd-graphics(firmware,20230515-3>20250613-1)\n"
		  "apt 07-09 19:00 local  +0: linux-image-6.1.0-35-amd64(kernel,6.1.137-1>)\n" },
		{ "dpkg.log", changes_of_dpkg,
		  "dpkg 05-02 07:15 local  +1: firmware-amd-graphics(firmware,>20230515-3) "
		  "linux-image-6.1.0-35-amd64(kernel,>6.1.137-1) mesa-vulkan-drivers(mesa,>22.3.6-1)\n"
		  "dpkg 06-20 16:30 local  +1: mesa-vulkan-drivers(mesa,22.3.6-1>24.2.8-1~bpo12+1)\n"
		  "dpkg 07-08 08:00 local  +0: firmware-amd-graphics(firmware,20230515-3>20250613-1) "
		  "linux-image-6.1.0-37-amd64(kernel,>6.1.140-1)\n"
		  "dpkg 07-09 19:00 local  +0: linux-image-6.1.0-35-amd64(kernel,6.1.137-1>)\n"
		  "dpkg 07-10 06:00 local  +0: amdgpu-dkms(driver,>6.12.12.60402-2125197.24.04)\n" },
		{ "pacman.log", changes_of_pacman,
		  "pacman 05-02 07:15  +1: linux(kernel,>6.14.4.arch1-2) linux-firmware(firmware,>20250508.788aadc8-2) "
		  "mesa(mesa,>1:25.0.5-1)\n"
		  "pacman 06-20 16:30  +1: mesa(mesa,1:25.0.5-1>1:25.1.3-3)\n"
		  "pacman 07-08 08:00  +0: linux(kernel,6.14.4.arch1-2>6.15.5.arch1-1) "
		  "linux-firmware(firmware,20250508.788aadc8-2>20250708-1)\n"
		  "pacman 07-09 19:00  +0: mesa(mesa,1:25.1.3-3>1:25.0.7-2)\n" },
		{ "zypp-history", changes_of_zypper,
		  "zypper 05-02 07:15 local  +1: Mesa-dri(mesa,>25.1.1-1.1) kernel-default(kernel,>6.14.6-1.1) "
		  "kernel-firmware-amdgpu(firmware,>20250516-1.1)\n"
		  "zypper 06-20 16:30 local  +1: Mesa-dri(mesa,25.1.1-1.1>25.1.4-1.1)\n"
		  "zypper 07-08 08:00 local  +0: kernel-default(kernel,6.14.6-1.1>6.15.6-1.1) "
		  "kernel-firmware-amdgpu(firmware,20250516-1.1>20250714-1.1)\n" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		const struct str text = seed(forms[i].seed);
		_cleanup_free_ char *bytes = (char *)text.p;
		says(forms[i].parse, (struct change_log){ .text = text, .path = S("/log") }, forms[i].says);
		cut(forms[i].parse, text, 1);
	}
}

#define DNF(manager)                                                                                                           \
	manager " 05-02 07:15 1 +1: kernel-core(kernel,>6.14.5-300.fc42) linux-firmware(firmware,>20250509-1.fc42) "           \
		"mesa-vulkan-drivers(mesa,>25.0.4-2.fc42)\n" manager                                                           \
		" 06-20 16:30 2 +1: mesa-vulkan-drivers(mesa,25.0.4-2.fc42>25.1.3-1.fc42)\n" manager                           \
		" 07-08 08:00 3 +0: kernel-core(kernel,>6.15.5-200.fc42) "                                                     \
		"linux-firmware(firmware,20250509-1.fc42>20250708-1.fc42)\n" manager                                           \
		" 07-09 19:00 4 +0: linux-firmware(firmware,20250708-1.fc42>20250509-1.fc42)\n"

static void databases(void **state)
{
	enum { STEP = 97 };
	static const struct {
		const char *seed;
		change_parse_fn *parse;
		const char *says;
	} forms[] = { { "dnf4.sqlite", changes_of_dnf4, DNF("dnf") }, { "dnf5.sqlite", changes_of_dnf5, DNF("dnf5") } };
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		const struct str text = seed(forms[i].seed);
		_cleanup_free_ char *bytes = (char *)text.p;
		says(forms[i].parse, (struct change_log){ .text = text, .path = S("/db") }, forms[i].says);
		cut(forms[i].parse, text, STEP);
		// A database of another kind has no such tables, and says nothing.
		says(forms[!i].parse, (struct change_log){ .text = text, .path = S("/db") }, "");
	}
}

static void odd_lines(void **state)
{
	static const struct {
		change_parse_fn *parse;
		const char *text, *says;
	} odd[] = {
		{ changes_of_pacman,
		  "[2019-07-08 10:00] [ALPM] upgraded mesa (19.1.1-1 -> 19.1.2-1)\n"
		  "[2012-07-08 10:00] upgraded linux (3.4.3-1 -> 3.4.4-2)\n[2012-07-08 10:00] upgraded linux 3.4.3-1\n[x] "
		  "upgraded",
		  "pacman 07-08 08:00 local  +0: mesa(mesa,19.1.1-1>19.1.2-1)\n"
		  "pacman 07-08 08:00 local  +0: linux(kernel,3.4.3-1>3.4.4-2)\n" },
		// Killed before its end, and nonsense as dates.
		{ changes_of_apt,
		  "Start-Date: 2025-07-08  10:00:00\nUpgrade: mesa-vulkan-drivers:amd64 (1, 2), libx (3, 4)\n\n"
		  "Start-Date: nonsense\nUpgrade: mesa-vulkan-drivers:amd64 (2, 3)\nEnd-Date: 2025-07-08  10:00:00\n"
		  "Start-Date: 2025-13-08  10:00:00\nUpgrade: mesa-vulkan-drivers:amd64 (2, 3)\n",
		  "apt 07-08 08:00 local  +1: mesa-vulkan-drivers(mesa,1>2)\n" },
		{ changes_of_dpkg,
		  "2025-07-08 10:00:01 upgrade linux-firmware:all 2 2\n2025-07-08 25:00:01 upgrade mesa:all 1 2\n", "" },
		// What would look like more than a name and a version.
		{ changes_of_dpkg, "2025-07-08 10:00:01 upgrade mesa-\x1b[2J:all 1 2\xff\n", "" },
		{ changes_of_dpkg, "2025-07-08 10:00:01 upgrade mesa-x:all 1 2\xff\n",
		  "dpkg 07-08 08:00 local  +0: mesa-x(mesa,1>2?)\n" },
		// Names that a way back would take for a file or an address.
		{ changes_of_apt,
		  "Start-Date: 2025-07-08  10:00:00\nUpgrade: mesa:amd64 (1, 2), ./evil/loader/entries/x:amd64 (25.deb, 2)\n"
		  "End-Date: 2025-07-08  10:00:00\n",
		  "apt 07-08 08:00 local  +1: mesa(mesa,1>2)\n" },
		{ changes_of_zypper, "2025-07-08 10:00:00|install|https://evil.example/loader/entries/x|1.rpm|x86_64||repo|\n",
		  "" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		says(odd[i].parse, (struct change_log){ .text = str_z(odd[i].text), .path = S("/log") }, odd[i].says);
	// A NUL, which ends the set of characters that a name may have, is not in it.
	static const char nul[] = "2025-07-08 10:00:01 upgrade mesa-\0x:all 1 2\n";
	says(changes_of_dpkg, (struct change_log){ .text = { nul, sizeof(nul) - 1 }, .path = S("/log") }, "");
}

static void files(void **state)
{
	enum { WHEN = 1751961600 };
	static const struct {
		change_parse_fn *parse;
		const char *path, *text, *says;
	} all[] = {
		{ changes_of_file, "/etc/modprobe.d/amdgpu.conf", "",
		  "file 07-08 08:00  +0: /etc/modprobe.d/amdgpu.conf(setting,>)\n" },
		{ changes_of_snap, "/var/lib/snapd/snaps/mesa-2404_495.snap", "",
		  "snap 07-08 08:00  +0: mesa-2404(mesa,>495)\n" },
		{ changes_of_snap, "/var/lib/snapd/snaps/core22_495.snap", "", "" },
		{ changes_of_record, "/opt/venv/lib/python3.12/site-packages/torch-2.6.0+rocm6.2.4.dist-info/RECORD", "",
		  "pip 07-08 08:00  +0: torch(framework,>2.6.0+rocm6.2.4)\n" },
		{ changes_of_record, "/RECORD", "", "" },
		{ changes_of_dkms, "/var/lib/dkms/amdgpu/6.12.12-2147987/6.8.0-90-generic/x86_64/module", "",
		  "dkms 07-08 08:00 6.8.0-90-generic +0: amdgpu(driver,>6.12.12-2147987)\n" },
		{ changes_of_dkms, "module", "", "" },
		{ changes_of_ostree, "/ostree/deploy/fedora/deploy/abc.0.origin",
		  "ID=fedora\nOSTREE_VERSION='x\nOSTREE_VERSION=\"42.20250708.0\"\n",
		  "rpm-ostree 07-08 08:00  +0: ostree/deployment(system,>'x)\n" },
		{ changes_of_nix, "/nix/var/nix/profiles/system-42-link",
		  "/nix/store/abc-nixos-system-tower-25.05.805.abc\n/nix/store/def-linux-6.12.34/bzImage",
		  "nix 07-08 08:00 42 +0: nixos-system(system,>25.05.805.abc) linux(kernel,>6.12.34)\n" },
		{ changes_of_steam, "/home/a/.local/share/Steam/steamapps/appmanifest_1.acf",
		  "\"AppState\"\n{\n\t\"name\"\t\t\"Proton "
		  "9.0\"\n\t\"LastUpdated\"\t\t\"1751961600\"\n\t\"buildid\"\t\t\"17\"\n}\n",
		  "steam 07-08 08:00  +0: Proton?9.0(translation,>17)\n" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct str path = str_z(all[i].path), text = str_z(all[i].text);
		says(all[i].parse, (struct change_log){ .text = text, .path = path, .changed = WHEN }, all[i].says);
		for (size_t n = 0; n < path.n + text.n; n++) {
			_cleanup_changes_ struct changes c = { 0 };
			all[i].parse(&c, know,
				     &(struct change_log){ str_cut(text, n > path.n ? n - path.n : 0), .path = str_cut(path, n),
							   .changed = WHEN });
		}
	}
}

/** What is written is taken for the same; cut anywhere it is taken for less, or for nothing. */
static void as_text(void **state)
{
	_cleanup_changes_ struct changes c = { .boots_cut = true }, again = { 0 };
	_cleanup_text_ struct text first = { 0 }, second = { 0 };
	const struct str log = seed("pacman.log");
	_cleanup_free_ char *bytes = (char *)log.p;
	(void)state;
	changes_of_pacman(&c, know, &(struct change_log){ .text = log, .path = S("/var/log/pacman.log") });
	vec_push(&c.boots, ((struct boot){ S("0123456789abcdef0123456789abcdef"), 1751961700, 1751971700, true, true, false,
					   S("6.15.5-arch1-1"), S("amdgpu.runpm=0"), S("1.E0 01/10/2024"),
					   S("113-D7020100-102"), S("SMU 78.126.0") }));
	vec_push(&c.unread, S("the journal: a\tb"));
	changes_order(&c);
	changes_write(&c, &first);
	assert_true(changes_parse(&again, know, text_str(&first)));
	changes_order(&again);
	changes_write(&again, &second);
	assert_int_equal(first.n, second.n);
	assert_memory_equal(first.p, second.p, first.n);
	assert_int_equal(again.boots.len, 1);
	assert_true(again.boots_cut && again.boots.data[0].clean && again.transactions.len == 4);
	for (size_t n = 0; n < first.n; n++) {
		_cleanup_changes_ struct changes less = { 0 };
		_cleanup_free_ char *exact = malloc(n ? n : 1);
		memcpy(exact, first.p, n);
		changes_parse(&less, know, (struct str){ exact, n });
		assert_true(less.transactions.len <= c.transactions.len && less.boots.len <= 1);
	}
}

/** One call of pip is one change of the machine; two runs of a package manager are two. */
static void joined(void **state)
{
	static const struct {
		change_parse_fn *parse;
		const char *path;
		double when;
	} all[] = {
		{ changes_of_record, "/opt/torch-2.6.0.dist-info/RECORD", 1751961600 },
		{ changes_of_file, "/etc/default/grub", 1751961610 },
		{ changes_of_record, "/opt/triton-3.2.0.dist-info/RECORD", 1751961620 },
		{ changes_of_record, "/opt/vllm-0.8.5.dist-info/RECORD", 1751969000 },
	};
	const char *const log =
		"[2025-07-08 10:00] [ALPM] transaction started\n[2025-07-08 10:00] [ALPM] upgraded mesa (1 -> 2)\n"
		"[2025-07-08 10:01] [ALPM] transaction started\n[2025-07-08 10:01] [ALPM] upgraded mesa (2 -> 3)\n";
	_cleanup_changes_ struct changes c = { 0 };
	_cleanup_text_ struct text told = { 0 };
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		all[i].parse(&c, know, &(struct change_log){ .path = str_z(all[i].path), .changed = all[i].when });
	changes_of_pacman(&c, know, &(struct change_log){ .text = str_z(log), .path = S("/log") });
	changes_order(&c);
	changes_join(&c);
	tell(&c, &told);
	text_add(&told, (struct str){ "", 1 });
	assert_string_equal(told.p, "pacman 07-08 08:00 local  +0: mesa(mesa,1>2)\n"
				    "file 07-08 08:00  +0: /etc/default/grub(setting,>)\n"
				    "pip 07-08 08:00  +0: torch(framework,>2.6.0) triton(framework,>3.2.0)\n"
				    "pacman 07-08 08:01 local  +0: mesa(mesa,2>3)\n"
				    "pip 07-08 10:03  +0: vllm(framework,>0.8.5)\n");
}

static void boots_of_lines(void **state)
{
	static const char *const lines[] = {
		"amdgpu 0000:03:00.0: nothing before the first boot",
		"Linux version 6.14.4-arch1-2 (linux@archlinux) (gcc) #1 SMP",
		"Command line: BOOT_IMAGE=/vmlinuz-linux root=UUID=1234 rw amdgpu.runpm=0 quiet",
		"DMI: Micro-Star International Co., Ltd. MS-7D75/MAG B650 TOMAHAWK WIFI (MS-7D75), BIOS 1.E0 01/10/2024",
		"amdgpu 0000:03:00.0: amdgpu: ATOM BIOS: 113-D7020100-102",
		"amdgpu 0000:03:00.0: amdgpu: smu driver if version = 0x3d, smu fw version = 0x004e7e00 (78.126.0)",
		"[drm] Loading DMUB firmware via PSP: version=0x07002A00",
		"[drm] Loading DMUB firmware via PSP: version=0x07002A00",
		"reboot: Restarting system",
		"Linux version 6.15.5-arch1-1 (linux@archlinux) (gcc) #1 SMP",
	};
	_cleanup_changes_ struct changes c = { 0 };
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		changes_take_line(&c, know, str_z(lines[i]), 1000 + (double)i);
	assert_int_equal(c.boots.len, 2);
	const struct boot *b = c.boots.data;
	assert_true(str_is(b->kernel, "6.14.4-arch1-2") && str_is(b->command_line, "amdgpu.runpm=0"));
	assert_true(str_is(b->bios, "1.E0 01/10/2024") && str_is(b->vbios, "113-D7020100-102"));
	assert_true(str_is(b->firmware, "SMU 0x004e7e00 (78.126.0), DMUB 0x07002A00"));
	assert_true(b->clean && !b[1].clean && b->begin == 1001 && b->end == 1008 && b[1].log);
}

int main(void)
{
	struct know_problems problems = { 0 };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form),     cmocka_unit_test(databases), cmocka_unit_test(odd_lines),
		cmocka_unit_test(files),          cmocka_unit_test(as_text),   cmocka_unit_test(joined),
		cmocka_unit_test(boots_of_lines),
	};
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	struct know *k = know_load(&problems);
	know = k;
	const int failed = cmocka_run_group_tests(tests, NULL, NULL);
	know_free(k);
	return failed;
}
