#include "host/host.h"

void host_read_processes(struct host *h) { (void)h; }
