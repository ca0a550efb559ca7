#!/usr/bin/env python3
"""What the forms of unhang have in common, as far as it can be looked at without making them: packaging.py UNHANG"""
import fnmatch
import hashlib
import http.server
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import threading

import tap

TOP = tap.HERE.parent
PACKAGING = TOP / "packaging"
VERSION = re.search(r"version: '([0-9.]+)'", (TOP / "meson.build").read_text())[1]


def program(path):
    """A script as a module."""
    loader = importlib.machinery.SourceFileLoader(path.parent.name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def test_numbers(t):
    """A release has one number."""
    for path in sorted((PACKAGING / "kubernetes" / "overlays").glob("*/kustomization.yaml")):
        t.same([tag.removesuffix("-debug") for tag in re.findall(r"newTag: (\S+)", path.read_text())], [VERSION], f"{path.parent.name}: the image is of this version")
    t.same(re.findall(r"^## (\S+)", (TOP / "CHANGELOG.md").read_text(), re.M)[0], VERSION, "the newest entry of the changelog is this version")
    for name in ("README.md", "docs/INSTALL.md"):
        found = set(re.findall(r"unhang[-_:]([0-9]+\.[0-9]+\.[0-9]+)", (TOP / name).read_text()))
        t.same(found, {VERSION}, f"{name} names the files of this version")


def test_symbols(t):
    """Debian's list has each function of the library: lintian minds a missing one only where it can see the library."""
    declared = set(re.findall(r"\b(uh_\w+)\(", re.sub(r"/\*.*?\*/|//[^\n]*", "", (TOP / "include/unhang/unhang.h").read_text(), flags=re.S)))
    listed = set(re.findall(r"\b(uh_\w+)@", (PACKAGING / "debian/libunhang0.symbols").read_text()))
    t.same(sorted(name for name in declared - listed if not name.endswith("_fn")), [], "the list of symbols has each function of the header")


# Folders of packaging/ that are for users; the others make the packages.
FOR_USERS = ("hooks", "kubernetes", "prometheus", "slurm")
FOR_BUILDERS = {"arch", "debian", "github-action", "image", "nix", "rpm", "static", "wheel"}


def test_forgotten(t, unhang):
    """What the build installs is in a package, and what is for users is installed."""
    build = pathlib.Path(unhang.binary).parent
    ran = subprocess.run(["meson", "introspect", "--installed", build], capture_output=True, text=True, check=False)
    if ran.returncode:
        return t.skip("what is installed", "there is no meson here, or no directory of a build")
    installed = {os.path.relpath(source, TOP): os.path.relpath(to, "/usr/local") for source, to in json.loads(ran.stdout).items()}
    folders = {p.name for p in PACKAGING.iterdir() if p.is_dir()}
    t.same(folders - FOR_BUILDERS, set(FOR_USERS), "a new folder of packaging/ is for users, or for builders")
    wanted = {*(f"packaging/{folder}" for folder in FOR_USERS), "data/unhang.catalog", "data/unhang.sysusers"}
    t.same(wanted - installed.keys(), set(), "what is for users is installed")
    rules, spec, static = ((PACKAGING / name).read_text() for name in ("debian/rules", "rpm/unhang.spec", "static/build"))
    units = sorted(p.name for p in (TOP / "data").glob("*.service"))
    t.same([u for u in units if not any(to.endswith(f"systemd/system/{u}") for to in installed.values())], [], "each unit is installed")
    listed = [line.split()[0].removeprefix("usr/") for p in (PACKAGING / "debian").glob("*.install") for line in p.read_text().splitlines()]
    moved = re.findall(r"mv debian/tmp/usr/(\S+)", rules)

    def packed(path):
        return path.startswith("share/man/") or any(fnmatch.fnmatch(path, name) or fnmatch.fnmatch(path, f"{name}/*") for name in (*listed, *moved))
    t.same(sorted(to for to in installed.values() if not packed(to)), [], "each file that is installed is in a Debian package")
    t.same([u for u in units if f"data/{u}" not in spec or f"%{{_unitdir}}/{u}" not in spec], [], "each unit is in an RPM package")
    t.same([f for f in FOR_USERS if f"packaging/{f}" not in spec or f"%{{_datadir}}/unhang/{f}" not in spec], [], "so are the folders for users")
    t.same([f for f in FOR_USERS if not re.search(rf"^for folder in.*\b{f}\b", static, re.M)], [], "and the archive of the static file has them")


def test_rights(t, image):
    """The unit, the image and the overlay give the watch the same capabilities."""
    unit = re.search(r"^CapabilityBoundingSet=(.*)", (TOP / "data" / "unhang-watch.service").read_text(), re.M)[1].split()
    wanted = sorted(name.removeprefix("CAP_") for name in unit)
    overlay = re.search(r"add: (\[.*\])", (PACKAGING / "kubernetes/overlays/unprivileged/rights.yaml").read_text())[1]
    t.same(sorted(json.loads(overlay)), wanted, "the overlay has the capabilities of the unit")
    t.same(sorted(image.WATCH_CAPABILITIES), wanted, "the image's label has them too")


def test_image(t, unhang, image):
    """Every blob has its name's sum and its size, the layers are what the configuration says, and the same input gives the same bytes."""
    made = []
    for name in ("one", "another"):
        layers = [image.layer({"usr/bin/unhang": (b"\x7fELF", 0o755), "bin/sh": "busybox", "tmp": 0o1777}), image.layer({"etc/passwd": (b"root", 0o644)})]
        path = unhang.directory / f"{name}.oci.tar"
        image.image(path, "9.9", "amd64", layers, {"Labels": {"org.opencontainers.image.title": "unhang", "run": "x"}})
        made.append(path.read_bytes())
    t.ok(made[0] == made[1], "the same input gives the same image")
    with tarfile.open(fileobj=io.BytesIO(made[0])) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}
    t.same([name for name, body in files.items() if name.startswith("blobs/") and name.split("/")[2] != hashlib.sha256(body).hexdigest()], [], "each blob has the name of its sum")

    def blob(descriptor):
        body = files[descriptor["digest"].replace("sha256:", "blobs/sha256/")]
        t.same(len(body), descriptor["size"], f"the size of {descriptor['mediaType']}")
        return body
    manifest = json.loads(blob(json.loads(files["index.json"])["manifests"][0]))
    described = json.loads(blob(manifest["config"]))
    t.same({blob(layer)[4:8] for layer in manifest["layers"]}, {bytes(4)}, "no layer tells when it was packed")
    unpacked = [image.gzip.decompress(blob(layer)) for layer in manifest["layers"]]
    t.same([f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in unpacked], described["rootfs"]["diff_ids"], "the layers are those of the configuration")
    with tarfile.open(fileobj=io.BytesIO(unpacked[0])) as tar:
        told = [(m.name, oct(m.mode), m.type, m.uid) for m in tar]
    t.same(told, [("bin", "0o755", tarfile.DIRTYPE, 0), ("bin/sh", "0o777", tarfile.SYMTYPE, 0), ("tmp", "0o1777", tarfile.DIRTYPE, 0), ("usr", "0o755", tarfile.DIRTYPE, 0),
                  ("usr/bin", "0o755", tarfile.DIRTYPE, 0), ("usr/bin/unhang", "0o755", tarfile.REGTYPE, 0)], "a layer has the directories above its files")


def test_bill(t, image):
    """Every part is related to unhang, and every name stands for one part."""
    linked = image.packages_of("libc6-dev 2.36-9 of glibc 2.36-9\nlibstdc++-12-dev 12.2.0-14 of gcc-12 12.2.0-14\n")
    bill = image.bill("9.9", "0123", "amd64", linked, image.packages_of("busybox-static 1.35 of busybox 1.35"))
    refs = [p["SPDXID"] for p in bill["packages"]]
    related = {r[end] for r in bill["relationships"] for end in ("spdxElementId", "relatedSpdxElement")}
    t.same((len(refs), sorted(related)), (4, sorted([*refs, "SPDXRef-DOCUMENT"])), "each part is related to unhang")
    t.same([r for r in refs if not re.fullmatch(r"SPDXRef-[a-zA-Z0-9.-]+", r)], [], "names have the characters that SPDX allows")


def test_kubernetes(t):
    name = "the overlays ask for no right that is not needed"
    if not shutil.which("kustomize") and not shutil.which("kubectl"):
        return t.skip(name, "there is neither kustomize nor kubectl")
    if not importlib.util.find_spec("yaml"):
        return t.skip(name, "there is no PyYAML")
    ran = subprocess.run([PACKAGING / "kubernetes" / "check"], capture_output=True, text=True, timeout=300, check=False)
    t.same((ran.returncode, ran.stderr), (0, ""), name)


def test_host(t, unhang):
    """A container gives its node's name; what no machine is called is not taken."""
    def host(name):
        unhang.environment["UNHANG_HOST"] = name
        ran = unhang.run("run", "--json", "--state-dir", unhang.directory / "runs", "--", "true")
        return json.loads(ran.stderr[ran.stderr.index(b"{"):])["host"]
    t.same(host("mi300-07.rack_1"), "mi300-07.rack_1", "UNHANG_HOST is the name of the machine")
    t.same({host(name) for name in ("", "two words", "a\nb", "x" * 65)}, {os.uname().nodename}, "without a name in it, it is the kernel's")


def test_everyday(t, unhang):
    """The script that tries each form tries this build: what it needs of the tree is there."""
    ran = subprocess.run([PACKAGING / "everyday", "--emulator", "none", "--skip", "watch", unhang.binary], capture_output=True, text=True, timeout=300, check=False)
    t.ok(ran.returncode == 0 and ran.stdout.startswith("log, core, ") and ran.stdout.count(" | ") == 1, "the everyday commands work in this build", ran.stdout + ran.stderr)


class Receiver(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted; refuses what is no CloudEvent, and what comes after @good."""
    got, good = [], 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        event = json.loads(body)
        # What CloudEvents 1.0 requires: four attributes that are not empty, in the structured mode with its own media type.
        sound = all(isinstance(event.get(key), str) and event[key] for key in ("specversion", "id", "source", "type"))
        sound &= event["specversion"] == "1.0" and self.headers.get_content_type() == "application/cloudevents+json"
        sound &= all(re.fullmatch("[a-z0-9]+", key) for key in event) and not {"data", "data_base64"} <= event.keys()
        taken = sound and len(self.got) < Receiver.good
        if taken:
            self.got.append((self.headers["Content-Type"], event))
        self.send_response(202 if taken else 503 if sound else 400)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_cloudevents(t, unhang):
    """The example hook: nothing on the network unless it is told where, a whole file for each event, a repetition that is none."""
    spool = unhang.directory / "spool"
    told = {"PATH": os.environ["PATH"], "UNHANG_CLOUDEVENTS_SPOOL": str(spool), "UNHANG_INCIDENT": "0123456789abcdef", "UNHANG_REVISION": "3", "UNHANG_STATE": "open", "UNHANG_CLASS": "mes-unresponsive",
            "UNHANG_TITLE": 'python "x" \u00e9\n', "UNHANG_FAULT": "driver", "UNHANG_DO": "reboot", "UNHANG_FIT": "no", "UNHANG_GPU": "0000:85:00.0", "UNHANG_GPU_SERIAL": "", "UNHANG_BUNDLE": "taken"}

    def hook(*arguments, **more):
        return subprocess.run([sys.executable, "-I", PACKAGING / "hooks" / "cloudevents", *arguments], env={**told, **more}, input="{}", capture_output=True, text=True, timeout=60, check=False)
    t.same((hook().returncode, spool.exists()), (0, False), "without a spool it does nothing")
    spool.mkdir()
    for more in ({}, {}, {"UNHANG_REVISION": "4", "UNHANG_STATE": "closed"}):
        hook(**more)
    t.same(sorted(p.name for p in spool.iterdir()), ["0123456789abcdef-3.json", "0123456789abcdef-4.json"], "a change is a file; a repetition is none")
    found = json.loads((spool / "0123456789abcdef-3.json").read_text())
    t.same((found["specversion"], found["id"], found["type"], found["subject"], found["data"]["title"], found["data"]["gpu_serial"]),
           ("1.0", "0123456789abcdef-3", "unhang.incident.explained", "0000:85:00.0", told["UNHANG_TITLE"], None), "it is a CloudEvent")
    t.ok(all(isinstance(found[k], str) and found[k] for k in ("source", "time", "datacontenttype")), "with all that one must have")
    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = {"UNHANG_CLOUDEVENTS_URL": f"http://127.0.0.1:{server.server_port}/"}
    Receiver.good = 1
    ran = hook("--send", **url)
    t.same((ran.returncode, len(list(spool.iterdir())), len(Receiver.got)), (1, 1, 1), "what a server refuses stays")
    Receiver.good = 9
    ran = hook("--send", **url)
    t.same((ran.returncode, list(spool.iterdir()), [e["id"][-1] for _, e in Receiver.got], {kind.split(";")[0] for kind, _ in Receiver.got}), (0, [], ["3", "4"], {"application/cloudevents+json"}), "and is sent later, in order")
    server.shutdown()
    server.server_close()
    t.same((hook(**url).returncode, len(list(spool.iterdir()))), (0, 1), "a server that is gone: the event goes into the spool")
    t.same(hook(UNHANG_INCIDENT="").returncode, 1, "without an incident it complains")


def main():
    t = tap.Tap()
    unhang = tap.Unhang(sys.argv[1])
    os.environ["SOURCE_DATE_EPOCH"] = "1700000000"  # without it, the commit's: not every tree has one
    image = program(PACKAGING / "image" / "build")
    test_numbers(t)
    test_symbols(t)
    test_forgotten(t, unhang)
    test_rights(t, image)
    test_image(t, unhang, image)
    test_bill(t, image)
    test_kubernetes(t)
    test_host(t, unhang)
    test_cloudevents(t, unhang)
    test_everyday(t, unhang)
    t.end()


if __name__ == "__main__":
    main()
