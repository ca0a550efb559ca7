// Captures from inside: what a redaction replaces and what it leaves alone; which bundles are removed for want of room.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "capture/capture.h"
#include "capture/redact/evidence.h"
#include "recorder/format.h"
#include "redact_check.h"

/** The program keeps them until it ends. */
static void allow_end(struct allowed *a)
{
	cleanup_free(&a->words.slots);
	cleanup_free(&a->telling.slots);
	vec_free(&a->patterns);
}

static struct text redacted(const char *found_in, bool command, const char *text, bool same_size)
{
	struct redactor r = { 0 };
	struct text ret = { 0 };
	redact_find(&r, str_z(found_in), command);
	redact_ready(&r);
	redact_text(&r, str_z(text), same_size, &ret);
	redactor_free(&r);
	return ret;
}

static void names_and_secrets_are_replaced(void **state)
{
	static const struct {
		const char *text, *secret;
		bool command;
	} cases[] = {
		{ "cannot open /home/alice/run.py", "alice", false },
		{ "Hostname set to <epyc-17.rack3>", "epyc-17", false },
		{ "link of 00:1b:44:11:3a:b7 is up", "00:1b:44:11:3a:b7", false },
		{ "server 192.168.17.40 not responding", "192.168.17.40", false },
		{ "from fe80::21b:44ff:fe11:3ab7 port 22", "fe80::21b:44ff:fe11:3ab7", false },
		{ "nvme0: Serial: S4EVNX0R12345", "S4EVNX0R12345", false },
		{ "unique_id 1311768467294899695", "1311768467294899695", false },
		{ "vllm serve --model acme/Hidden-70B --port 1", "Hidden-70B", true },
		{ "vllm serve --model=acme/Hidden-70B", "acme", true },
		{ "mmap of Hidden-70B-Q4.gguf failed", "Hidden-70B-Q4", false },
		{ "cache/models--acme--Hidden-70B/blobs", "Hidden-70B", false },
		{ "WANDB_API_KEY=0123456789abcdef0123", "0123456789abcdef0123", true },
		{ "login with hf_abcdefghijklmnopqrstu", "hf_abcdefghijklmnopqrstu", false },
		{ "Authorization: Bearer abc.def.ghijkl", "abc.def.ghijkl", false },
		{ "GET https://bob:hunter22@repo.inside.lan/x", "hunter22", false },
		{ "mail to carol@inside.lan failed", "carol", false },
		{ "connect to gpu7.cluster.example.com refused", "gpu7.cluster.example.com", false },
		{ "connect to GPU8.Cluster.Example.COM refused", "GPU8.Cluster.Example.COM", false },
		{ "run.py --password 'swordfish1'", "swordfish1", true },
		{ "python x.py AbCdEf0123GhIjKl4567MnOp", "AbCdEf0123GhIjKl4567MnOp", true },
		{ "session opened for user dave", "dave", false },
		{ "GET https://store.inside.lan/x?sv=2024&sig=QQQsigQQQ", "QQQsigQQQ", false },
		{ "GET /x?X-Amz-Credential=a1b2c3d4&X-Amz-Signature=%2Bfe09", "fe09", false },
		{ "GET /x?sid=AbCdEf0123GhIjKl4567MnOp", "AbCdEf0123", false },
		{ "SharedAccessSignature=sv1x;AccountKey=Zm9vYmFy==;x", "Zm9vYmFy", false },
		{ "AWSAccessKeyId=zaphodbeeble1 access_key=trillian99", "zaphodbeeble1", false },
		{ "s3 --access-key trillian99x", "trillian99x", true },
		{ "PGPASSWORD=vogon42 psql", "vogon42", true },
		{ "job.py -p swordfish99 --port 1", "swordfish99", true },
		{ "job.py -p 'sword&fish'", "sword&fish", true },
		{ "mysqldump -h x -pvogon42", "vogon42", true },
		{ "sshpass -p 1234567 ssh x", "1234567", true },
		{ "redis-cli -a marvin", "marvin", true },
		{ "job.py --pass marvin42", "marvin42", true },
		{ "nvme nvme0: model Samsung serial S4EVNX0R123456", "S4EVNX0R123456", false },
		{ "DMI: Serial Number: 7XK92D3", "7XK92D3", false },
		{ "Command line: root=UUID=1234-abcd-5678-ffff ro", "1234-abcd-5678-ffff", false },
		{ "root=PARTUUID=0f3a9b21-02 ro", "0f3a9b21-02", false },
		{ "root=LABEL=magrathea-root ro", "magrathea", false },
		{ "rd.luks.uuid=luks-5f3e0001", "5f3e0001", false },
		{ "mount of 4c4c4544-0042-3510-8052-b4c04f4e3332", "4c4c4544-0042", false },
		{ "/dev/disk/by-id/nvme-Samsung_SSD_S6Z1NJ0W77-part3; S6Z1NJ0W77", "S6Z1NJ0W77", false },
		{ "sd 0:0:0:0: wwn-0x5000c500a1b2c3d4", "5000c500a1b2c3d4", false },
		{ "EXT4-fs (sdb1): mounted filesystem \"mijn_schijf\" r/w", "mijn_schijf", false },
		{ "ip=10.0.0.9::172.29.14.1:255.255.255.0", "172.29.14.1", false },
		{ "CIFS: VFS: \\\\lintworm\\pacht has not responded", "lintworm", false },
		{ "CIFS: VFS: \\\\lintworm\\pacht99 has not responded", "pacht99", false },
		{ "mount -t cifs //lintworm/x", "lintworm", false },
		{ "nfs: server lintworm not responding", "lintworm", false },
		{ "POST https://hooks.chat.lan/services/T01AB/B02CD/x9YzW8", "x9YzW8", false },
		{ "sign -----BEGIN KEY----- MIIEvQIBADANBgkqhkiG9w0B -----END KEY-----", "MIIEvQIBADANBgkqhkiG9w0B", true },
		{ "curl -u zaphod:h2g2towel https://x", "h2g2towel", true },
		{ "upload wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzKEYKEY77", "wJalrXUtnFEMI", true },
		{ "call +31 6 1234 5678 now", "1234 5678", false },
		{ "call (020) 555-0199 now", "555-0199", false },
		{ "pay 4111 1111 1111 1111", "4111 1111", true },
		{ "python /projects/heartofgold/run.py", "heartofgold", true },
		{ "wlan0: associated with SSID Betelgeuse5", "Betelgeuse5", false },
		{ "Trying to associate (SSID='Magrathea Guest' freq=5180)", "Magrathea", false },
		{ "Device \"Trillians Buds\" connected", "Trillians", false },
		{ "input: Arthurs Headset (AVRCP) as /devices/virtual/input/input31", "Arthurs", false },
		{ "usb 1-4: Product: Fords Phone", "Fords", false },
		{ "wg: Peer xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg= created", "xTIBA5rboU", false },
		{ "target iqn.2019-07.nl.vogon:lun4", "vogon", false },
		{ "FRU asset tag PROP-44812", "PROP-44812", false },
		{ "modem IMEI 356938035643809", "356938035643809", false },
		{ "scsi: wwn 0x5000c500a1f2e3d4", "5000c500a1f2e3d4", false },
		{ "site 52.0907374,5.1214201", "52.0907374", false },
		{ "site 40.7128, -74.0060", "40.7128", false },
		{ "gpsd: $GPGGA,123519,4807.038,N,01131.000,E,1", "4807.038", false },
		{ "0::/kubepods/pod7c3c9f0e_2b1a_4d5e_8f90_a1b2c3d4e5f6", "7c3c9f0e", false },
		{ "0::/docker/4fa6e0f0c678b1d2e3f4a5968778695a4b3c2d1e0f9e8d7c6b5a493827160594", "4fa6e0f0c678", false },
		{ "0::/slurm/uid_28431/job_991", "28431", false },
		{ "0::/user.slice/user-28517.slice", "28517", false },
		{ "job -phunter22x", "hunter22x", true },
		{ "job --pass:hunter22x", "hunter22x", true },
		{ "openvpn: passphrase Hunter22", "Hunter22", false },
		{ "systemd[1]: Set hostname to <lintworm>.", "lintworm", false },
		{ "systemd[1]: Started Session 3 of User zaphod.", "zaphod", false },
		{ "audit: proctitle=2F686F6D652F7A6170686F64 x", "2F686F6D652F7A6170686F64", false },
		{ "audit: exe=2F6F70742F7A6170 x", "2F6F70742F7A6170", false },
		{ "wireguard: wg-magrathea: Handshake did not complete", "magrathea", false },
		{ "ata3.00: ATA-9: WDC WD40EFRX, WD-WCC4E5KJ9912, max UDMA/133", "WCC4E5KJ9912", false },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (int same = 0; same < 2; same++) {
			struct text now = redacted(cases[i].text, cases[i].command, cases[i].text, same);
			if (str_find(text_str(&now), str_z(cases[i].secret)) >= 0)
				fail_msg("'%s' is still in '%.*s'", cases[i].secret, (int)now.n, now.p);
			assert_true(!same || now.n == strlen(cases[i].text));
			text_free(&now);
		}
	}
}

/** What the name of an option or a variable says of its value counts from a certain length on, and not for what cannot be one. */
static void a_named_value_goes_if_it_can_be_one(void **state)
{
	static const struct {
		const char *text, *after; // after: NULL: it stays
	} cases[] = {
		{ "--token qzx", NULL },
		{ "--token qzxw", "--token secret-1" },
		{ "--password 1234567", NULL },
		{ "--password 12345678", "--password secret-1" },
		{ "--password 0x12345678", NULL },
		{ "--password $SECRETWORD", NULL },
		{ "--password %SECRETWORD", NULL },
		{ "--serial S4E", NULL },
		{ "--serial S4EV", "--serial serial-1" },
		{ "--serial wolf", NULL },
		{ "uuid=on", NULL },
		{ "--host 12345678", NULL },
		{ "--host zebra7:8080", "--host host-1:8080" },
		{ "--host zebra7.quux.lan and zebra7", "--host host-1 and host-2" },
		{ "--host 10.17.0.9", "--host ip-1" },
		{ "--user 7zaphod", NULL },
		{ "--user zaphod", "--user user-1" },
		{ "--username=zaphod x", "--username=user-1 x" },
		{ "--model qzx", "--model model-1" },
		{ "--model quux/Hidden-70B; quux; Hidden-70B", "--model model-1; model-2; model-3" },
		{ "--model qux/Hidden-70B; qux", "--model model-1; qux" },
		{ "--model q", NULL },
		{ "--pw qzxw", "--pw secret-1" },
		{ "\"token\": \"qzxwv\"", "\"token\": \"secret-1\"" },
		{ "token: qzxwv", "token: secret-1" },
		{ "model: qzxwv", NULL },
		{ "pass: qzxwv", NULL },
		{ "tokenize=qzxwv", NULL },
		{ "MYTOKEN=qzxwv", "MYTOKEN=secret-1" },
		{ "monkey=qzxwv", NULL },
		{ "accountKey=qzxwv", "accountKey=secret-1" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct text now = redacted(cases[i].text, true, cases[i].text, false);
		const char *after = cases[i].after ? cases[i].after : cases[i].text;
		if (!str_is(text_str(&now), after))
			fail_msg("'%s' becomes '%.*s', not '%s'", cases[i].text, (int)now.n, now.p, after);
		text_free(&now);
	}
}

/** A variable and its value as an environment has them, and an option with the next argument. */
static void a_value_is_told_by_its_name(void **state)
{
	static const struct {
		const char *name, *value, *after; // after: NULL: it stays
	} cases[] = {
		{ "SLURM_JOB_NAME", "zebratrain", "name-1" },
		{ "POD_NAME", "zebrapod-7f", "name-1" },
		{ "CI_COMMIT_BRANCH", "zebra-fix", "name-1" },
		{ "NCCL_SOCKET_IFNAME", "zebra0", "name-1" },
		{ "--name", "zebrabox", "name-1" },
		{ "HF_TOKEN", "qzxwv", "secret-1" },
		{ "MASTER_ADDR", "zebra7", "host-1" },
		{ "SLURM_JOB_ID", "zebra", NULL },
		{ "LOGNAME", "zaphod", "user-1" },
		{ "HIP_VISIBLE_DEVICES", "zebra", NULL },
		{ "MODEL", "quuxy", "model-1" },
		{ "--names", "zebrabox", NULL },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct redactor r = { 0 };
		struct text now = { 0 };
		char line[128], after[128]; // name and value stand in one text, as in an environment
		snprintf(line, sizeof(line), "%s=%s", cases[i].name, cases[i].value);
		snprintf(after, sizeof(after), "%s=%s", cases[i].name, cases[i].after ? cases[i].after : cases[i].value);
		const struct str name = { line, strlen(cases[i].name) };
		redact_value(&r, name, str_z(line + name.n + 1));
		redact_ready(&r);
		redact_text(&r, str_z(line), false, &now);
		if (!str_is(text_str(&now), after))
			fail_msg("%s becomes '%.*s'", line, (int)now.n, now.p);
		assert_null(r.from);
		text_free(&now);
		redactor_free(&r);
	}
}

static void what_tells_nothing_of_anybody_stays(void **state)
{
	static const char *const texts[] = {
		"amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:40 vmid:8 pasid:32769)",
		"in page starting at address 0x00007f3a00001000 from client 10",
		"GCVM_L2_PROTECTION_FAULT_STATUS:0x00801031",
		"terminate called after throwing an instance of 'c10::Error', at::native::add",
		"version 6.14.0-1018-oem, linux-firmware 20251125, ROCm 7.2.1, VBIOS 022.040.003.037",
		"max_tokens=4096 tokens=12 key=7 host=0x1f node=3 user=0",
		"ring gfx_0.0.0 timeout, signaled seq=10, emitted seq=12",
		"libamdhip64.so.6 main.py torch.cuda.empty_cache()",
		"getty@tty1.service: Deactivated; user@1000.service",
		"see https://github.com/ROCm/ROCm/issues/5590",
		"KeyError: 'layers.0.weight'; signature: bad; serial console ttyS0 at 0x3f8; serial 0000:03:00.0",
		"device 1002:74a1 subsystem 1002:0c34, serial 1002:74a1, root=/dev/sda1 LABEL=amdgpu",
		"audit: pid=7 sig=SIGSEGV pass=failed; https://github.com/x?page=failed&q=amdgpu",
		"load address 0x7f1234567890 of 4111111111111112, 1.5,2.25 and (12) 34-56, C:/x/y, a/b/c/d/e",
		"monkey=banana hostPtr=f1220000 0x7f22:0x7f23",
		"overlay / overlay rw,lowerdir=/l,uuid=on 0 0, uuid=auto, UUID=null, serial=on",
		"exe=\"/usr/bin/x\" exe=/usr/bin/x a list of users of user space",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct text now = redacted(texts[i], false, texts[i], false);
		if (!str_eq(text_str(&now), str_z(texts[i])))
			fail_msg("'%s' became '%.*s'", texts[i], (int)now.n, now.p);
		text_free(&now);
	}
}

/** At every byte, in as much memory as there is text. */
static void texts_may_be_cut(void **state)
{
	static const char text[] =
		"mysql -pab12 -p 'cd34' ?sig=ef56&X-Amz-Signature=a1b2 root=UUID=12-34 serial S4EV123456 "
		"AccountKey=ab12 by-id/nvme-X_S6Z1NJ0W77 4c4c4544-0042-3510-8052-b4c04f4e3332 LABEL=abcd12 -";
	(void)state;
	for (size_t n = 0; n < sizeof(text); n++) {
		struct redactor r = { 0 };
		struct text ret = { 0 };
		_cleanup_free_ char *part = malloc(n + !n);
		memcpy(part, text, n);
		redact_find(&r, (struct str){ part, n }, true);
		redact_ready(&r);
		redact_text(&r, (struct str){ part, n }, true, &ret);
		assert_int_equal(ret.n, n);
		redactor_free(&r);
		text_free(&ret);
	}
}

/** What is longest under the eyes of each rule: a text twice as long takes no more than a few times as long. */
static void time_grows_with_the_text_only(void **state)
{
	static const char *const texts[] = { "a-",   "a.pt",   "sk-/",     "://",         "key=",      "/home/",
					     "1:",   "fe80::", "models--", "eui.",        "?sig=abcd", "mysql -p abc1 ",
					     "iqn.", "10.1.",  "a@",       "-----BEGIN ", "token-" };
	enum {
		SIZE = 1 << 17,
		MS = 20000
	}; // far more than it needs, and far less than if each byte were looked at from each other one
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct text all = { 0 }, ret = { 0 };
		struct redactor r = { 0 };
		const clock_t begin = clock();
		while (all.n < SIZE)
			text_add(&all, str_z(texts[i]));
		redact_find(&r, text_str(&all), true);
		redact_ready(&r);
		redact_text(&r, text_str(&all), true, &ret);
		const long long took = (long long)(clock() - begin) * 1000 / CLOCKS_PER_SEC;
		if (took > MS)
			fail_msg("'%s' takes %lld ms", texts[i], took);
		redactor_free(&r);
		text_free(&all);
		text_free(&ret);
	}
}

/** Many names that begin alike, and one that holds others. */
static void the_longest_name_is_meant(void **state)
{
	struct text now = redacted("/home/anna /home/annabel /home/annab", false, "anna annabel annab annabe", false);
	(void)state;
	assert_true(str_is(text_str(&now), "user-1 user-2 user-3 user-3e"));
	text_free(&now);
}

/** Of a bug report: what may stay, at every byte, in as much memory as there is text. */
static void what_is_kept_may_be_cut(void **state)
{
	static const char text[] =
		"[ 1.5] amdgpu 0000:03:00.0: ring gfx_0.0.0 timeout, Process heartofgold pid 42\n--- cmdline\n"
		"/usr/bin/python3\n--tensor-parallel-size=8\n7f00-7f01 r-xp 00000000 fe:00 501 /srv/heart/of/gold.so\n"
		"options amdgpu gpu_recovery=1 x=y\nGRUB_CMDLINE_LINUX=\"quiet iommu=pt a=b\" uid=28443 6.12.0-heart";
	struct allowed a;
	(void)state;
	struct know *k = know_load_update(NULL, &(struct know_problems){ 0 });
	allow_begin(&a, k, NULL);
	for (size_t n = 0; n < sizeof(text); n++) {
		_cleanup_free_ uint8_t *part = malloc(n + !n);
		memcpy(part, text, n);
		const char *complaint = redact_complaint(&a, part, n);
		if (complaint)
			fail_msg("%zu bytes: %s", n, complaint);
	}
	allow_end(&a);
	know_free(k);
}

static void a_bug_report_keeps_what_is_known(void **state)
{
	static const struct {
		enum allow_form form;
		const char *text, *kept;
	} cases[] = {
		{ ALLOW_LOG, "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=10, emitted seq=12",
		  "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=10, emitted seq=12" },
		{ ALLOW_LOG, "amdgpu 0000:03:00.0: amdgpu:  Process heartofgold pid 42 thread heartofgold pid 43",
		  "amdgpu 0000:03:00.0: amdgpu:  Process name-1 pid 42 thread name-1 pid 43" },
		{ ALLOW_LOG, "[  12.500000] thunderclap: nobody knows it", "[  12.500000]" },
		{ ALLOW_LOG, " amdgpu_job_timedout+0x23/0x100 [amdgpu]", " amdgpu_job_timedout+0x23/0x100 [amdgpu]" },
		{ ALLOW_LOG, "Command line: root=UUID=ab amdgpu.gpu_recovery=1 zarniwoop=gold",
		  "Command line:  amdgpu.gpu_recovery=1 " },
		{ ALLOW_VALUES, "Uid:\t28443\t0", "Uid:\tname-1\t0" },
		{ ALLOW_VALUES, "6.12.0-zarniwoop", "6.12.0-name-1" },
		{ ALLOW_COMMAND, "/opt/zarniwoop/python3\nrun.zarniwoop\n-p\nswordfish\nwhat does it say\n12345678",
		  "python3\nrun.name-1\n-p\nname-2\nname-3\nname-4" },
		{ ALLOW_COMMAND, "python3\n-m\nvllm\n-p\ntimeout\n-P\n1234\n-n",
		  "python3\n-m\nvllm\n-p\nname-1\n-P\nname-2\n-n" },
		{ ALLOW_VARIABLES, "HSA_XNACK=1\nHEART=gold\nRANK=3\n", "HSA_XNACK=1\nRANK=3\n" },
		{ ALLOW_MODULES, "# for zarniwoop\noptions amdgpu gpu_recovery=1 zarniwoop=1",
		  "\noptions amdgpu gpu_recovery=1 " },
		{ ALLOW_PATHS, "/opt/rocm/heartofgold.conf", "/opt/rocm/name-1xxxxx.conf" },
		{ ALLOW_PATHS, "/dev/dri/renderD128", "/dev/dri/renderD128" },
		{ ALLOW_ALL, "zarniwoop of gold", "zarniwoop of gold" },
		{ ALLOW_DUMP, "regZARNI_STATUS  0x0", "regZARNI_STATUS  0x0" }, // registers are named in capitals
		{ ALLOW_DUMP, "GHeart_of_zarniwoop  0x0", "name-1  0x0" },
		{ ALLOW_FIELDS, "Zarniwoop:\t0", "Zarniwoop:\t0" },
		{ ALLOW_VALUES, "Zarniwoop:\t0", "name-1:\t0" },
	};
	struct allowed a;
	(void)state;
	struct know *k = know_load_update(NULL, &(struct know_problems){ 0 });
	allow_begin(&a, k, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct redactor r = { 0 };
		struct text kept = { 0 };
		a.redactor = &r;
		allow_text(&a, cases[i].form, str_z(cases[i].text), '\n', &kept);
		if (!str_is(text_str(&kept), cases[i].kept))
			fail_msg("'%s' became '%.*s'", cases[i].text, (int)kept.n, kept.p);
		text_free(&kept);
		redactor_free(&r);
	}
	allow_end(&a);
	know_free(k);
}

/** What is allowed in a file is decided by where it stands; what no row names is not taken for the kernel's own. */
static void each_file_has_a_form(void **state)
{
	static const struct {
		const char *path;
		bool list;
		enum allow_form form;
	} cases[] = {
		{ "/proc/77/cmdline", false, ALLOW_COMMAND },
		{ "/proc/77/environ", false, ALLOW_VARIABLES },
		{ "/proc/77/status", false, ALLOW_FIELDS },
		{ "/proc/cmdline", false, ALLOW_BOOT },
		{ "/sys/class/drm/card0/device/uevent", false, ALLOW_ALL },
		{ "/etc/modprobe.d/zarniwoop.conf", false, ALLOW_MODULES },
		{ "/home/zarniwoop", false, ALLOW_WORDS },
		{ "what a tool said", false, ALLOW_VALUES },
		{ "/sys/class/drm", true, ALLOW_ALL },
		{ "/home/zarniwoop", true, ALLOW_PATHS },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (allow_form_of(str_z(cases[i].path), cases[i].list) != cases[i].form)
			fail_msg("%s has the form %d", cases[i].path, (int)allow_form_of(str_z(cases[i].path), cases[i].list));
	assert_int_equal(allow_form_of_member(S("processes.txt")), ALLOW_PROCESSES);
	assert_int_equal(allow_form_of_member(S("devcoredump/1.bin")), ALLOW_DUMP);
	assert_int_equal(allow_form_of_member(S("kernel-log.txt")), ALLOW_LOG);
	assert_int_equal(allow_form_of_member(S("zarniwoop.txt")), ALLOW_LOG);
}

/** An entry of a recording's log; returns its size. */
static size_t put_entry(char *log, uint64_t at, enum rec_entry_kind kind, const char *text)
{
	const size_t size = (sizeof(struct rec_entry) + strlen(text) + 8) / 8 * 8;
	struct rec_entry *e = (void *)(log + at);
	*e = (struct rec_entry){ .size = (uint32_t)size, .kind = (uint16_t)kind, .text = (uint16_t)strlen(text) };
	memcpy(e + 1, text, strlen(text));
	e->check = rec_check((const uint64_t *)e, (unsigned)(size / 8), at);
	return size;
}

/** A path in a recording is replaced, and what stands behind it is still read. */
static void a_recording_stays_whole(void **state)
{
	enum { AT = RECORDING_HEAD, ROOM = 4096, SIZE = AT + ROOM };
	_cleanup_free_ char *bytes = calloc(1, SIZE);
	struct rec_extent log = { .kind = EXTENT_LOG, .offset = AT, .size = ROOM, .head = sizeof(struct rec_log) };
	char *entries = bytes + AT + sizeof(struct rec_log);
	struct redactor r = { 0 };
	struct text now = { 0 };
	(void)state;
	memcpy(bytes, RECORDING_MAGIC, sizeof(RECORDING_MAGIC) - 1);
	memcpy(bytes + RECORDING_EXTENTS_AT, &log, sizeof(log));
	uint64_t used = put_entry(entries, 0, ENTRY_CODE, "file:///home/zaphod/a.out");
	used += put_entry(entries, used, ENTRY_KERNEL, "matmul");
	memcpy(bytes + AT, &used, sizeof(used));
	redact_add(&r, REDACT_USER, S("zaphod"));
	redact_ready(&r);
	redact_text(&r, (struct str){ bytes, SIZE }, true, &now);
	assert_int_equal(now.n, SIZE);
	redact_seal_recording(bytes, now.p, SIZE);
	assert_null(memmem(now.p, SIZE, "zaphod", 6));
	const char *kept = now.p + AT + sizeof(struct rec_log);
	for (uint64_t at = 0; at < used;) {
		struct rec_entry e;
		uint64_t words[64];
		memcpy(&e, kept + at, sizeof(e));
		memcpy(words, kept + at, e.size);
		assert_int_equal(rec_check(words, e.size / 8, at), e.check);
		at += e.size;
	}
	redactor_free(&r);
	text_free(&now);
}

/** What a report does not know of a recording's names is gone, wherever they stand; what a table says of its size is not believed. */
static void names_in_a_recording_go(void **state)
{
	enum { AT = RECORDING_HEAD, SLOTS = 3, ROOM = SLOTS * sizeof(struct rec_thread), SIZE = AT + ROOM };
	struct know *k = know_load_update(NULL, &(struct know_problems){ 0 });
	struct redactor r = { 0 };
	struct allowed a;
	(void)state;
	allow_begin(&a, k, &r);
	const struct rec_extent tables[] = {
		{ .kind = EXTENT_THREADS, .offset = AT, .size = ROOM, .slots = SLOTS, .stride = sizeof(struct rec_thread) },
		{ .kind = EXTENT_THREADS, .offset = AT, .size = UINT64_MAX, .stride = sizeof(struct rec_thread) },
		{ .kind = EXTENT_THREADS, .offset = AT, .size = ROOM, .stride = UINT32_MAX, .head = ROOM - 8 },
		{ .kind = EXTENT_THREADS, .offset = SIZE + 1, .size = 1 },
	};
	for (size_t first = 0; first < ARRAY_SIZE(tables); first++) {
		_cleanup_free_ char *bytes = calloc(1, SIZE);
		struct rec_thread *threads = (void *)(bytes + AT);
		memcpy(bytes, RECORDING_MAGIC, sizeof(RECORDING_MAGIC) - 1);
		memcpy(bytes + offsetof(struct rec_header, program), "zebratrain", 10);
		memcpy(bytes + RECORDING_EXTENTS_AT, tables + first, sizeof(tables) - first * sizeof(tables[0]));
		for (size_t i = 0; i < SLOTS; i++)
			memcpy(threads[i].name, i == 1 ? "python3" : "zebratrain", i == 1 ? 7 : 10);
		allow_recording(&a, bytes, SIZE);
		if (first)
			continue; // it was not read beyond its end
		assert_null(memmem(bytes, SIZE, "zebra", 5));
		assert_string_equal(threads[1].name, "python3");
	}
	allow_end(&a);
	redactor_free(&r);
	know_free(k);
}

/** A word of messages that a weak sign left alone is replaced when it turns out to be a name. */
static void a_strong_sign_counts(void **state)
{
	struct text now = redacted("pass=failed for user failed", false, "failed", false);
	(void)state;
	assert_true(str_is(text_str(&now), "user-1"));
	text_free(&now);
}

/** Options that look like those of passwords: numbers, paths and words of messages stay. */
static void options_of_one_letter_stay(void **state)
{
	static const char *const texts[] = { "mkdir -p /tmp/x",
					     "ssh -p 2222 -pfoo",
					     "docker -p 8080:80",
					     "srun -p amdgpu -w 4",
					     "tail -n 5 -P",
					     "x-p marvin42",
					     "-p" };
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct text now = redacted(texts[i], true, texts[i], false);
		if (!str_eq(text_str(&now), str_z(texts[i])))
			fail_msg("'%s' became '%.*s'", texts[i], (int)now.n, now.p);
		text_free(&now);
	}
}

static void a_name_has_one_counter(void **state)
{
	struct text now = redacted("/home/alice/a /home/bobby/b", false, "alice, bobby and alice's file; /srv/alice2", false);
	(void)state;
	assert_true(str_is(text_str(&now), "user-1, user-2 and user-1's file; /srv/user-12"));
	text_free(&now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_secrets_are_replaced),
		cmocka_unit_test(a_named_value_goes_if_it_can_be_one),
		cmocka_unit_test(a_value_is_told_by_its_name),
		cmocka_unit_test(what_tells_nothing_of_anybody_stays),
		cmocka_unit_test(texts_may_be_cut),
		cmocka_unit_test(time_grows_with_the_text_only),
		cmocka_unit_test(the_longest_name_is_meant),
		cmocka_unit_test(what_is_kept_may_be_cut),
		cmocka_unit_test(a_bug_report_keeps_what_is_known),
		cmocka_unit_test(each_file_has_a_form),
		cmocka_unit_test(a_recording_stays_whole),
		cmocka_unit_test(names_in_a_recording_go),
		cmocka_unit_test(a_strong_sign_counts),
		cmocka_unit_test(options_of_one_letter_stay),
		cmocka_unit_test(a_name_has_one_counter),
	};
	return cmocka_run_group_tests_name("redact", tests, NULL, NULL);
}
