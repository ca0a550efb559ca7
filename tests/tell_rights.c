// Loaded before the C library: when a process of unhang reads a message, or writes, it notes in the file RIGHTS_LOG who it is and what it may do.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/** Each of them once, as long as nothing changes. */
static void note(void)
{
	static char last[128];
	char name[17] = "", line[128];
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3] = { 0 };
	const char *path = getenv("RIGHTS_LOG");
	prctl(PR_GET_NAME, name);
	if (!path || strncmp(name, "unhang-", 7) != 0)
		return;
	syscall(SYS_capget, &head, has);
	snprintf(line, sizeof(line), "%s %d %08x%08x %d %d\n", name, (int)geteuid(), has[1].effective, has[0].effective,
		 (int)prctl(PR_GET_SECCOMP), (int)prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	if (!strcmp(line, last))
		return;
	strcpy(last, line);
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd >= 0)
		syscall(SYS_write, fd, line, strlen(line));
	close(fd);
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

ssize_t write(int fd, const void *bytes, size_t size)
{
	void *symbol = next("write");
	ssize_t (*real)(int, const void *, size_t);
	memcpy(&real, &symbol, sizeof(real));
	note();
	return real(fd, bytes, size);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	void *symbol = next("recvmsg");
	ssize_t (*real)(int, struct msghdr *, int);
	memcpy(&real, &symbol, sizeof(real));
	note();
	return real(fd, m, flags);
}
