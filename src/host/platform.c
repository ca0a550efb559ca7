#include "host/host.h"

void host_read_platform(struct host *h) { (void)h; }
