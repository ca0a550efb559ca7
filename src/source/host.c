// Whether unhang runs in a container, and how to find out without trusting one sign alone. In a container half of the evidence is out of
// reach, and the answer has to say so.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "source/process.h"
#include "source/source.h"

static bool file_says(const char *path, const char *const *words)
{
	char text[4096];
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	for (; n > 0 && *words; words++)
		if (str_find((struct str){ text, (size_t)n }, str_z(*words)) >= 0)
			return true;
	return false;
}

const char *source_host(char room[SOURCE_HOST_MAX])
{
	const char *said = getenv("UNHANG_HOST");
	size_t n = 0;
	while (said && n < SOURCE_HOST_MAX && (char_word(said[n]) || said[n] == '-' || said[n] == '.'))
		n++;
	memset(room, 0, SOURCE_HOST_MAX);
	if (n && n < SOURCE_HOST_MAX && !said[n])
		memcpy(room, said, n);
	else if (gethostname(room, SOURCE_HOST_MAX - 1))
		room[0] = 0;
	return room;
}

double source_uptime(void)
{
	char text[64] = "";
	_cleanup_close_ int fd = open("/proc/uptime", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	return n > 0 ? strtod(text, NULL) : -1;
}

struct str source_boot_id(char room[static SOURCE_BOOT_MAX])
{
	return str_trim(small_file("/proc/sys/kernel/random/boot_id", room, SOURCE_BOOT_MAX));
}

bool source_this_boot(struct str boot_id)
{
	char id[64] = "";
	const char *const ids[] = { id, NULL };
	if (!boot_id.n || boot_id.n >= sizeof(id))
		return false;
	memcpy(id, boot_id.p, boot_id.n);
	return file_says("/proc/sys/kernel/random/boot_id", ids);
}

bool source_in_container(void)
{
	static const char *const cgroups[] = { "docker", "kubepods", "libpod", "containerd", "/lxc", NULL };
	const char *said = getenv("UNHANG_CONTAINER"), *container = getenv("container");
	if (said && *said)
		return !strcmp(said, "yes");
	return (container && *container) || !access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK) ||
	       file_says("/proc/1/cgroup", cgroups);
}
