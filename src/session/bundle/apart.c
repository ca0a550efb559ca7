#include "session/bundle/apart.h"

#include <sys/prctl.h>
#include <unistd.h>

#include "base/child.h"
#include "base/door/door.h"
#include "base/lower.h"
#include "base/print.h"
#include "session/machine.h"
#include "session/session.h"

struct uh_session *apart_begin(int out, int bundle)
{
	prctl(PR_SET_NAME, "unhang-explain");
	child_keep_two(out, bundle);
	hold_descriptors();
	door_leave();
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	door_end(); // what read the knowledge has rights
	return s;
}

struct uh_machine *apart_open(int bundle, const char *name)
{
	struct uh_machine *m = NULL;
	if (!lower_privileges(LOWER_NOGROUP) || machine_of_bundle(bundle, name, &m) || !m)
		_exit(1);
	return m;
}
