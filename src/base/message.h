// Messages between processes over a socket, with a descriptor where one is handed over.
#pragma once

#include <sys/uio.h>

#include "base/str.h"

/** Sends; @fd may be -1. Returns as sendmsg() does; a signal does not end it. */
ssize_t message_send(int socket, struct iovec *parts, size_t n, int fd);
/** Receives; *@ret_fd is the descriptor that came along, which the caller closes, or -1. *@flags: those of recvmsg() beside
 * MSG_CMSG_CLOEXEC, and then those that it returned. */
ssize_t message_receive(int socket, struct iovec *parts, size_t n, int *flags, int *ret_fd);
