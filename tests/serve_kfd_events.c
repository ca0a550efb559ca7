// serve_kfd_events TEXT GO LOG COMMAND...: runs COMMAND on a KFD that tells of what happens (AMDKFD_IOC_SMI_EVENTS). FUSE cannot answer
// a call with a new descriptor, so each such call of COMMAND is taken here (seccomp_unotify(2)). When the file GO is there, the bytes of TEXT
// are told, eight at once, as older kernels do. LOG says what was asked. 77: this is not possible here.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIP = 77, SLICE_MS = 20, CLIENTS = 16, AT_ONCE = 8 };

struct ask_events {
	uint32_t gpu_id, fd;
};
#define ASK_EVENTS _IOWR('K', 0x1f, struct ask_events)

static int filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)ASK_EVENTS, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/** Hands @fd over; or takes one that is handed over, and returns it. */
static int pass(int socket, int fd)
{
	char byte = 0, room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { &byte, 1 };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (fd < 0) {
		if (recvmsg(socket, &m, 0) <= 0 || !(c = CMSG_FIRSTHDR(&m)))
			return -1;
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		return fd;
	}
	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return (int)sendmsg(socket, &m, 0);
}

/** Answers a call; returns our end of what the caller got. */
static int answer(int listener, FILE *log)
{
	struct seccomp_notif call = { 0 };
	struct ask_events asked;
	int ends[2] = { -1, -1 };
	char path[64];
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
		return -1;
	snprintf(path, sizeof(path), "/proc/%u/mem", call.pid);
	const int memory = open(path, O_RDWR | O_CLOEXEC);
	struct seccomp_notif_resp reply = { .id = call.id, .error = -22 };
	struct seccomp_notif_addfd add = { .id = call.id };
	if (pread(memory, &asked, sizeof(asked), (off_t)call.data.args[2]) == sizeof(asked) &&
	    !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
		fprintf(log, "asked %u\n", asked.gpu_id);
		add.srcfd = (uint32_t)ends[1];
		const int fd = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
		asked.fd = (uint32_t)fd;
		if (fd >= 0 && pwrite(memory, &asked, sizeof(asked), (off_t)call.data.args[2]) == sizeof(asked))
			reply.error = 0;
		close(ends[1]);
	}
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
	close(memory);
	return ends[0];
}

static void tell(int to, const char *path)
{
	char room[4096];
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = read(fd, room, sizeof(room));
	for (ssize_t i = 0; i < n; i += AT_ONCE)
		(void)!send(to, room + i, (size_t)(n - i < AT_ONCE ? n - i : AT_ONCE), MSG_NOSIGNAL);
	close(fd);
}

static void serve(int listener, pid_t child, char **arguments, FILE *log)
{
	struct pollfd wait[CLIENTS + 1] = { { listener, POLLIN, 0 } };
	uint64_t mask;
	nfds_t n = 1, told = 1;
	while (waitpid(child, NULL, WNOHANG) == 0) {
		poll(wait, n, SLICE_MS);
		for (nfds_t i = 1; i < n; i++) {
			if (wait[i].fd < 0 || !wait[i].revents)
				continue;
			if (read(wait[i].fd, &mask, sizeof(mask)) == sizeof(mask)) {
				fprintf(log, "mask %llx\n", (unsigned long long)mask);
			} else {
				fprintf(log, "closed\n");
				close(wait[i].fd);
				wait[i].fd = -1;
			}
		}
		if (wait[0].revents & POLLIN && n <= CLIENTS) {
			const int fd = answer(listener, log);
			wait[n] = (struct pollfd){ fd, POLLIN, 0 };
			n += fd >= 0;
		}
		fflush(log);
		for (; told < n && !access(arguments[2], F_OK); told++) {
			tell(wait[told].fd, arguments[1]);
			fprintf(log, "sent\n");
		}
	}
}

int main(int count, char **arguments)
{
	int ends[2];
	FILE *log = count > 4 ? fopen(arguments[3], "we") : NULL;
	if (!log || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return 2;
	const pid_t child = fork();
	if (!child) {
		const int listener = filter();
		if (listener < 0 || pass(ends[1], listener) <= 0)
			_exit(SKIP);
		close(listener);
		execvp(arguments[4], arguments + 4);
		_exit(2);
	}
	close(ends[1]);
	const int listener = pass(ends[0], -1);
	if (listener < 0)
		return SKIP;
	serve(listener, child, arguments, log);
	return 0;
}
