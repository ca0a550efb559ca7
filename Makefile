# unhang's two commands for a fresh machine are `make demo` and `make test`.

BUILD ?= build
SANITIZED ?= build/sanitized
FUZZ ?= build/fuzz
FUZZ_RUNS ?= 10000000
FUZZ_SECONDS ?= 600

.PHONY: static static-test build demo check test endure fleet launchers stores runtimes build-ordinary build-sanitized build-fuzzers bench fuzz kills bisect tries repros mutants browsers docs web captures install clean

build:
	@tools/install-packages build
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) >/dev/null
	@ninja -C $(BUILD) unhang unhang-emulator

# Three answers, each on a screen, and what to try next.
demo: build
	@echo; echo '$$ unhang explain docs/sample-dmesg.txt'
	@$(BUILD)/unhang explain docs/sample-dmesg.txt || test $$? = 1
	@echo; echo '$$ unhang where --code docs/sample-kernel.co gather_rows+0x64'
	@$(BUILD)/unhang where --code docs/sample-kernel.co gather_rows+0x64
	@echo; echo '$$ unhang emulate mi300-xcc-stuck -- unhang'
	@$(BUILD)/unhang emulate mi300-xcc-stuck -- $(BUILD)/unhang || test $$? = 1 || echo '(no machine can be emulated here)'
	@rm -rf $(BUILD)/demo-machine; python3 tests/machine_tree.py rx7900xtx-6.2 $(BUILD)/demo-machine
	@echo; echo 'Now try:'
	@echo '  sudo $(BUILD)/unhang                                   your own GPUs'
	@echo '  sudo dmesg | $(BUILD)/unhang explain -                 your own log'
	@echo '  $(BUILD)/unhang doctor                                 what is wrong with your set-up'
	@echo '  $(BUILD)/unhang doctor --root $(BUILD)/demo-machine        the set-up of another machine'
	@echo '  $(BUILD)/unhang explain docs/sample-server.log         the log of a server'
	@echo '  $(BUILD)/unhang explain docs/sample-gpucore            a GPU core'
	@echo '  $(BUILD)/unhang explain -v docs/sample-dmesg.txt       every event, each remedy with its steps'
	@echo '  make install, then man unhang'

# What a change most likely breaks, in less than half a minute: the suite `quick` in the ordinary build.
check:
	@tools/install-packages build test
	@$(MAKE) --no-print-directory build-ordinary
	@tests/run $(BUILD) --suite quick

# Every test runs in an ordinary build and, but for the row `ordinary` of tests/suites, once more under AddressSanitizer and
# UndefinedBehaviorSanitizer.
# The three are built at the same time: each has files that take long, at which a core would wait.
test:
	@tools/install-packages build test
	@$(MAKE) --no-print-directory -j2 -Otarget build-ordinary build-sanitized
	@tests/run $(BUILD) $(SANITIZED) -- $(SANITIZED)

# What takes too long for `make test`: unhang watch and unhang capture killed 200 times each, a thousand looks at a GPU whose files block, a
# disk that is full at each call of a capture and of the watch, and 3000 hostile values in every command.
endure:
	@tools/install-packages build test
	@$(MAKE) --no-print-directory build-ordinary
	@UNHANG_TEST_ALL=1 UNHANG_KILLS=200 tests/run $(BUILD) watch blocked capture full_disk commands

# unhang run under torchrun and Slurm, as root: some minutes, and packages that nothing else needs.
launchers:
	@tools/install-packages build test torch launchers
	@$(MAKE) --no-print-directory build-ordinary
	@python3 tests/launchers.py $(BUILD)/unhang

# The history at length, as root: writers killed for a minute, a disk full at every write, PostgreSQL with 100,000 incidents, a network that drops half
# of its packets, 200,000 incidents on a page, 20,000 logs; a quarter of an hour. STORES='kills triage' names parts.
stores:
	@tools/install-packages build test stores
	@$(MAKE) --no-print-directory build-ordinary
	@UNHANG_TEST_ALL=1 tests/run $(BUILD) history
	@python3 tests/stores.py $(BUILD)/unhang $(STORES)

# The arbiter beside a real slurmctld, as root: some minutes. FLEET='life kills' names parts.
fleet:
	@tools/install-packages build test fleet
	@$(MAKE) --no-print-directory build-ordinary
	@UNHANG_TEST_ALL=1 tests/run $(BUILD) check
	@python3 tests/fleet.py $(BUILD)/unhang $(FLEET)

# AMD's own decoder of error records over every bank, code and combination of bits, as root: AFIDS names a root that has it, or one is made.
.PHONY: afids
afids:
	@tools/install-packages build test runtimes
	@$(MAKE) --no-print-directory build-ordinary
	@tools/compare-afids $(BUILD)/list_records $(AFIDS)

# Each ROCm of Debian on emulated machines, as root: an hour, and 10 GB of packages in $(BUILD)/runtimes. Writes docs/RUNTIMES.md.
runtimes:
	@tools/install-packages build test runtimes
	@$(MAKE) --no-print-directory build-ordinary
	@python3 tests/runtimes.py $(BUILD) $(RUNTIMES)

# The wheels, in $(BUILD)/packages: docs/PYTHON.md.
.PHONY: wheel
wheel: static
	@packaging/wheel/build $(BUILD)

build-ordinary:
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) >/dev/null
	@grep -qs '^tests = true' $(BUILD)/meson-private/cmd_line.txt || meson configure $(BUILD) -Dtests=true
	@ninja -C $(BUILD)

build-sanitized:
	@test -f $(SANITIZED)/build.ninja || CC=clang CC_LD=$$(command -v ld.lld >/dev/null && echo lld || echo bfd) meson setup $(SANITIZED) -Dbuildtype=debugoptimized -Doptimization=1 \
		-Db_sanitize=address,undefined -Db_lundef=false -Dtests=true -Dfuzz=true >/dev/null
	@ninja -C $(SANITIZED)

build-fuzzers:
	@tools/build-fuzzers $(FUZZ)

bench:
	@tools/install-packages build bench
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) >/dev/null
	@ninja -C $(BUILD) unhang unhang-emulator libunhang-recorder.so libunhang-kfd.so
	@bench/run $(BUILD)/unhang

fuzz:
	@tools/install-packages build test
	@$(MAKE) --no-print-directory build-fuzzers
	@tests/fuzz $(FUZZ) --runs $(FUZZ_RUNS) --seconds $(FUZZ_SECONDS) --table $(FUZZ)/table.md --keep

# A thousand captures in a row: no descriptor, child, file or memory more at the end. A bundle cut at each byte of its first megabyte.
captures: build-ordinary
	@tests/captures.py $(BUILD)/unhang $(BUILD)/capture_again $(BUILD)/cut_bundle 1000

# The recorder's job is killed so often, at any instruction: each recording opens, and every record that is accepted is right.
KILLS ?= 400
kills:
	@tools/install-packages build test
	@$(MAKE) --no-print-directory build-ordinary
	@UNHANG_KILLS=$(KILLS) tests/run $(BUILD) recorder recorder_rocm

# The 80 programs of tests/hip/races.cpp, of which 50 race: who races is found, and how many runs it takes. BISECT='30..40 55', say.
BISECT ?= 0..80
bisect:
	@tools/install-packages build test
	@$(MAKE) --no-print-directory build-ordinary
	@tests/races.py $(BUILD)/unhang $(BISECT)

# Sixty jobs whose causes unhang try does not know: tests/causes.py. TRIES='0 17', say; UNHANG_ROCM_ROOT names another ROCm.
tries:
	@tools/install-packages build test
	@$(MAKE) --no-print-directory build-ordinary
	@tests/causes.py $(BUILD)/unhang $(TRIES)

# All thirty programs that crash, and whether what repro makes of them fails alike (make test has some). UNHANG_ROCM_ROOT names another ROCm.
repros:
	@tools/install-packages build test
	@$(MAKE) --no-print-directory build-ordinary
	@tests/repro.py $(BUILD)/unhang $(BUILD)/libunhang-recorder.so all

# Small breakages at random places of src/: those that no test of their room notices. MUTANTS='--room apply --count 50', say.
mutants:
	@tools/install-packages build test
	@tools/mutants $(MUTANTS)

# Reports in Chromium and Firefox: what is on the first screen, print, keyboard, axe, no request. PICTURES=FOLDER keeps screenshots.
browsers: build $(BUILD)/browsers/node_modules
	@node tests/browsers/run.mjs $(BUILD)/unhang $(BUILD)/browsers $(PICTURES)
	@node tests/browsers/site.mjs $(BUILD)/unhang $(BUILD)/browsers $(PICTURES)
	@if test -f $(BUILD)/web/web/unhang.html; then node tests/browsers/page.mjs $(BUILD)/unhang $(BUILD)/web/web/unhang.html $(BUILD)/browsers $(PICTURES); \
		else echo '# the page was not looked at: make web makes it'; fi

$(BUILD)/browsers/node_modules: tests/browsers/package.json
	@tools/install-packages browsers
	@mkdir -p $(BUILD)/browsers; cp tests/browsers/package.json $(BUILD)/browsers/
	@cd $(BUILD)/browsers && npm install --silent --no-audit --no-fund && touch node_modules

# The pictures of the documentation.
docs: build $(BUILD)/browsers/node_modules
	@node tests/browsers/pictures.mjs $(BUILD)/unhang $(BUILD)/browsers docs/pictures

.PHONY: deb rpm
# Debian packages of HEAD, for this distribution and later ones: $(BUILD)/packages/*.deb
deb:
	@tools/install-packages build deb
	@packaging/debian/build $(BUILD)/packages

# RPM packages of HEAD for Fedora, RHEL 8 and 9 and SLES 15, with the program of `make static`: $(BUILD)/packages/*.rpm
rpm: static
	@tools/install-packages build rpm
	@packaging/rpm/build $(BUILD)

# The page of docs/WEB.md, which explains evidence in a browser: $(BUILD)/web/web/unhang.html
web:
	@tools/install-packages build web
	@web/libraries $(BUILD)/web-libraries
	@test -f $(BUILD)/web/build.ninja || meson setup $(BUILD)/web --cross-file web/wasm.ini -Dlibraries=$(abspath $(BUILD))/web-libraries >/dev/null
	@ninja -C $(BUILD)/web
	@echo 'The page is $(BUILD)/web/web/unhang.html'

# One file that needs nothing of its machine, in $(BUILD)/packages; with ARCH=aarch64 for another architecture, built only.
static:
	@tools/install-packages build static $(if $(ARCH),cross)
	@packaging/static/build $(BUILD) $(ARCH)

# It answers as the ordinary build does, and runs in roots where there is nothing else; as root. The rows are for docs/INSTALL.md.
static-test: static build
	@packaging/static/test $(BUILD)/packages/unhang-*-$$(uname -m)-linux $(BUILD)/unhang --objects $(BUILD)/packages/unhang-*-$$(uname -m)-linux-objects.tar.xz

install: build
	@meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf $(BUILD)

.PHONY: image packages-test reproducible release
# Two OCI images and the list of their parts, in $(BUILD)/packages: docs/INSTALL.md.
image: static
	@tools/install-packages build image
	@packaging/image/build $(BUILD)/packages

# Installs and tries each form, or FORMS='image wheel', as root, and writes the table of docs/INSTALL.md. KUBERNETES=api/openapi-spec/v3 of Kubernetes'
# sources: the manifests are checked against them.
packages-test:
	@tools/install-packages build test packages
	@$(MAKE) --no-print-directory build-ordinary $(or $(FORMS),static deb rpm wheel image)
	@packaging/kubernetes/check $(KUBERNETES)
	@packaging/try-all $(BUILD)/packages $(FORMS)

# Each form, or FORMS='static image', twice in different directories: the same bytes.
reproducible:
	@tools/install-packages packages
	@packaging/reproducible $(BUILD)/reproducible $(or $(FORMS),static deb wheel image)

# Everything that is published, with SHA256SUMS; KEY=FILE signs them: docs/RELEASE.md.
release:
	@rm -rf $(BUILD)/packages
	@$(MAKE) --no-print-directory static deb rpm wheel image
	@packaging/sign $(BUILD)/packages $(KEY)
