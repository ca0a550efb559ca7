#include "host/host.h"

void host_read_software(struct host *h) { (void)h; }
