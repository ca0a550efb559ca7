#include "base/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

ssize_t message_send(int socket, struct iovec *parts, size_t n, int fd)
{
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = n };
	if (fd >= 0) {
		m.msg_control = room;
		m.msg_controllen = sizeof(room);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	ssize_t sent;
	do
		sent = sendmsg(socket, &m, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent;
}

ssize_t message_receive(int socket, struct iovec *parts, size_t n, int *flags, int *ret_fd)
{
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = n, .msg_control = room, .msg_controllen = sizeof(room) };
	ssize_t got;
	do
		got = recvmsg(socket, &m, MSG_CMSG_CLOEXEC | *flags);
	while (got < 0 && errno == EINTR);
	*flags = got < 0 ? 0 : m.msg_flags;
	*ret_fd = -1;
	const struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
	return got;
}
