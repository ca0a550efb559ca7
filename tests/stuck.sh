#!/bin/sh
# How many processes wait in the kernel for the emulated GPU and stay there; none is status 1. One glance would also count a read that is answered
# a moment later, and a write that waits for the disk.
waiting() { ps -eo pid=,stat=,wchan= | awk '$2 ~ /^D/ && $3 ~ /^request_wait_ans/ { print $1 }'; }
stuck=$(waiting)
for glance in 1 2 3; do
	[ -n "$stuck" ] || break
	sleep 0.3
	now=$(waiting)
	stuck=$(for pid in $stuck; do for other in $now; do [ "$pid" != "$other" ] || echo "$pid"; done; done)
done
set -- $stuck
echo $#
[ $# -gt 0 ]
