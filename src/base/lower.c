// Puts rights down for good: user, groups, capabilities, network, and the system calls that neither a parser nor a compressor needs.
#include "base/lower.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

enum { NOBODY = 65534, X32 = 0x40000000 };

/** What neither a parser nor a compressor calls: other programs, other processes, networks, mounts, the kernel itself. */
static const int refused[] = {
	SYS_execve,
	SYS_execveat,
	SYS_socket,
	SYS_connect,
	SYS_bind,
	SYS_listen,
	SYS_accept4,
	SYS_ptrace,
	SYS_process_vm_writev,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_setns,
	SYS_unshare,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_bpf,
	SYS_perf_event_open,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_sethostname,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_userfaultfd,
	SYS_open_by_handle_at,
	SYS_io_uring_setup,
	SYS_mknodat,
	SYS_fchownat,
	SYS_setxattr,
	SYS_acct,
	SYS_quotactl,
	SYS_syslog,
	SYS_process_vm_readv, // the last: who reads for others calls it
};
enum { REFUSED = ARRAY_SIZE(refused) };
_Static_assert(REFUSED < 250, "a jump of the filter reaches 255 steps at most");

/** Refuses the first @count of them. */
static void filter_calls(unsigned count)
{
#if defined(NATIVE_ARCH)
	struct sock_filter f[REFUSED + 8];
	unsigned short n = 0;
	const uint32_t no = SECCOMP_RET_ERRNO | EPERM;
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, no);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32, (unsigned char)(count + 1), 0);
	for (unsigned i = 0; i < count; i++)
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)refused[i],
						      (unsigned char)(count - i), 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, no);
	const struct sock_fprog program = { n, f };
	(void)!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
#else
	(void)count;
#endif
}

/** false: the kernel does not allow it. */
static bool keep_capabilities(uint64_t keep)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3], kept[_LINUX_CAPABILITY_U32S_3] = { 0 };
	if (syscall(SYS_capget, &head, has))
		return false;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		kept[i].permitted = kept[i].effective = has[i].permitted & (uint32_t)(keep >> 32 * i);
	return !syscall(SYS_capset, &head, kept);
}

static bool become(uid_t user, gid_t group, uint64_t keep)
{
	prctl(PR_SET_KEEPCAPS, 1);
	bool left = !setgroups(0, NULL) && !setresgid(group, group, group) &&
		    (!setresuid(user, user, user) || // a container may lack it
		     (user == LOWER_NO_ONE && !setresuid(NOBODY, NOBODY, NOBODY)));
	return keep_capabilities(left ? keep : ~UINT64_C(0)) && left;
}

/** @already: whether one that is not root, and cannot become another, has left its rights. @readable: it reads its own files in /proc, and
 * writes no core; else its user cannot look into it. */
static bool lower_put_down(uid_t user, gid_t group, uint64_t keep, bool already, bool readable)
{
	bool root = geteuid() == 0;
	int signal = 0;
	prctl(PR_GET_PDEATHSIG, &signal);
	if (root)
		(void)!unshare(CLONE_NEWNET);
	bool left = root ? become(user, group, keep) : already;
	prctl(PR_SET_PDEATHSIG, signal); // which the kernel forgets when a process becomes another user's
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, readable && !root); // where it is nobody, hooks must not look into it
	filter_calls(REFUSED);
	return left;
}

bool lower_keeping(gid_t group, uint64_t keep) { return lower_put_down(LOWER_NO_ONE, group, keep, true, true); }

bool lower_privileges(gid_t group) { return lower_keeping(group, 0); }

bool lower_to_owner(uid_t user, gid_t group) { return lower_put_down(user, group, 0, geteuid() == user, false); }

void lower_use_kept(bool use)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];
	if (syscall(SYS_capget, &head, has))
		return;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		has[i].effective = use ? has[i].permitted : 0;
	(void)!syscall(SYS_capset, &head, has);
}

void lower_to_reading(void)
{
	(void)!unshare(CLONE_NEWNET);
	keep_capabilities(LOWER_READS_FILES | LOWER_READS_LOG | LOWER_READS_PROCESSES);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	filter_calls(REFUSED - 1);
}
