// How the emulated KFD in a program tells the emulated machine around it what happens: lines of text, through /dev/kfd.
//   queue ID gpu GPU-ID ring ADDRESS size BYTES read ADDRESS write ADDRESS
//   end ID
//   vram GPU-ID BYTES
//   hang ID pc ADDRESS waves N packet N group-waves N
//   goes ID
//   fault ID address ADDRESS write 0|1
#pragma once

#include <sys/ioctl.h>

enum { KMT_TELL_BYTES = 256 };

struct kmt_told {
	char line[KMT_TELL_BYTES];
};

#define KMT_TELL _IOW('U', 1, struct kmt_told)
