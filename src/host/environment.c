#include "host/host.h"

void host_read_environment(struct host *h) { (void)h; }
