// What files tell by their names, their times and a few of their bytes: settings of the kernel, snaps, Python packages, drivers that DKMS
// built, generations of Nix, deployments of ostree, Steam's Proton. Mostly only the last change is known (transaction.last).
#include "host/changes/readers.h"

/** A transaction with one change. */
static void add_one(struct changes *c, const struct know *k, const struct change_log *log, struct transaction t,
		    struct change change)
{
	t.begin = t.when = t.when > 0 ? t.when : log->changed;
	t.own = log->own;
	t.where = change_place(c, log, 0);
	transaction_add(c, k, &t, change);
	transaction_end(c, &t);
	vec_free(&t.changes);
}

/** The directory @up above the last component of a path. */
static struct str component(struct str path, unsigned up)
{
	for (; up; up--)
		path = str_cut(path, path.n - str_base(path).n - (path.n > str_base(path).n));
	return str_base(path);
}

void changes_of_file(struct changes *c, const struct know *k, const struct change_log *log)
{
	add_one(c, k, log, (struct transaction){ .manager = S("file"), .last = true }, (struct change){ log->path });
}

/** mesa-2404_495.snap: its revision. Those that were replaced stay for a while. */
void changes_of_snap(struct changes *c, const struct know *k, const struct change_log *log)
{
	struct str name = str_base(log->path), revision = { 0 };
	if (!str_ends(name, S(".snap")))
		return;
	revision = str_cut(name, name.n - 5);
	name = str_split(&revision, '_');
	const struct str manager = S("snap");
	add_one(c, k, log, (struct transaction){ .manager = manager },
		(struct change){ name, change_before(c, manager, name), revision });
}

/** torch-2.6.0+rocm6.2.4.dist-info/RECORD, which pip and uv write when they install. */
void changes_of_record(struct changes *c, const struct know *k, const struct change_log *log)
{
	struct str version = component(log->path, 1);
	if (!str_ends(version, S(".dist-info")))
		return;
	version = str_cut(version, version.n - 10);
	const struct str name = str_split(&version, '-');
	add_one(c, k, log, (struct transaction){ .manager = S("pip"), .last = true }, (struct change){ name, .to = version });
}

/** /var/lib/dkms/amdgpu/6.12.12-2147987.24.04/6.8.0-90-generic/x86_64/module: built for a kernel when that was installed, or the driver. */
void changes_of_dkms(struct changes *c, const struct know *k, const struct change_log *log)
{
	add_one(c, k, log, (struct transaction){ .manager = S("dkms"), .last = true, .id = component(log->path, 2) },
		(struct change){ component(log->path, 4), .to = component(log->path, 3) });
}

/** The value of `NAME=value`, at the beginning of a line and without its quotes. */
static struct str assigned(struct str text, struct str name)
{
	str_each (line, text, '\n') {
		struct str value;
		if (!str_behind(line, name, &value))
			continue;
		return value.n > 1 && value.p[0] == '"' ? str_cut(str_from(value, 1), value.n - 2) : value;
	}
	return (struct str){ 0 };
}

/** /ostree/deploy/fedora/deploy/CHECKSUM.0/usr/lib/os-release: a deployment that is still there. The time is that of its origin file. */
void changes_of_ostree(struct changes *c, const struct know *k, const struct change_log *log)
{
	struct str to = assigned(log->text, S("OSTREE_VERSION="));
	to = to.n ? to : assigned(log->text, S("VERSION_ID="));
	if (to.n)
		add_one(c, k, log, (struct transaction){ .manager = S("rpm-ostree") },
			(struct change){ S("ostree/deployment"), .to = to });
}

/** What stands behind the last `-` of a name in the store: the version. The machine's own name may stand before it. */
static struct str store_version(struct str path)
{
	struct str name = str_base(path), version = name;
	while (name.n)
		version = str_split(&name, '-');
	return version;
}

/** /nix/var/nix/profiles/system-42-link -> /nix/store/HASH-nixos-system-HOST-25.05.20250613.abc, and its kernel
 * -> /nix/store/HASH-linux-6.12.31/bzImage. */
void changes_of_nix(struct changes *c, const struct know *k, const struct change_log *log)
{
	const struct str manager = S("nix"), system = S("nixos-system"), kernel = S("linux");
	struct str rest = log->text, to = store_version(str_split(&rest, '\n')), number = str_base(log->path);
	struct str of = str_split(&rest, '\n');
	of = store_version(component(of, 1));
	struct transaction t = { log->changed, log->changed, .manager = manager, .where = change_place(c, log, 0) };
	str_split(&number, '-');
	t.id = str_split(&number, '-');
	transaction_add(c, k, &t, (struct change){ system, change_before(c, manager, system), to });
	const struct str before = change_before(c, manager, kernel);
	if (of.n && !str_eq(of, before))
		transaction_add(c, k, &t, (struct change){ kernel, before, of });
	transaction_end(c, &t);
	vec_free(&t.changes);
}

/** `"name" "Proton 9.0"`: the value of a key of Steam's manifests. */
static struct str quoted(struct str text, struct str key)
{
	struct str rest;
	if (!str_after(text, key, &rest))
		return (struct str){ 0 };
	str_split(&rest, '"');
	return str_split(&rest, '"');
}

/** steamapps/appmanifest_2805730.acf. Only what knowledge knows is kept: of Proton, and of no game. */
void changes_of_steam(struct changes *c, const struct know *k, const struct change_log *log)
{
	int64_t updated;
	const struct str name = quoted(log->text, S("\"name\"")), build = quoted(log->text, S("\"buildid\""));
	if (str_number(quoted(log->text, S("\"LastUpdated\"")), &updated) && updated > 0)
		add_one(c, k, log, (struct transaction){ .when = (double)updated, .manager = S("steam"), .last = true },
			(struct change){ name, .to = build });
}
