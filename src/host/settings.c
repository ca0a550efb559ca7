#include "host/host.h"

void host_read_settings(struct host *h) { (void)h; }
