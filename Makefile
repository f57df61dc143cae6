# SPDX-License-Identifier: Apache-2.0
# Tributary: one Makefile, out of tree, quiet.  `make help` lists the targets.
#
#   O=dir      where everything built goes (default: build)
#   V=1        show the commands
#   CC=clang   another compiler;  CFLAGS and LDFLAGS are appended to ours, never replace them
#   SAN=address,undefined | thread    build with sanitizers (use another O=)
#   FAULTS=1   build in the fault injection of src/base/sys.h (use another O=)
#   WERROR=1   warnings are errors (the default in every check target)
#   PREFIX=dir, LIBDIR=dir   where install puts things, and the plugin (PREFIX/lib)

VERSION := 0.1.0

O ?= build
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=
ifeq ($(origin CC),default)
CC := gcc
endif
AR ?= ar
PYTHON ?= python3
V ?= 0
SAN ?=
FAULTS ?= 0
ifneq ($(filter check% lint,$(MAKECMDGOALS)),)
WERROR ?= 1
else
WERROR ?= 0
endif

# make divides names at blanks, and the recipes quote them so.
ifneq ($(words $(subst ', ,x$(CURDIR)x$(O)x)),1)
$(error The path '$(CURDIR)', or O='$(O)', has a blank or a quotation mark, which make cannot handle: use another folder)
endif

# What says what it makes makes the folder for it, too.
ifeq ($(V),1)
Q :=
say = @mkdir -p $(@D); :
else
Q := @
say = @mkdir -p $(@D); printf '  %-7s %s\n'
MAKEFLAGS += --no-print-directory
endif

# ---------------------------------------------------------------------------------------------------------------- flags

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wconversion \
	-Wpointer-arith -Wundef -Wwrite-strings
STD := -std=c11 -D_GNU_SOURCE
INCLUDES := -Isrc -Iinclude
# No trace of where it was built: the same source makes the same bytes anywhere.  The same figures on every CPU: members on different
# machines must work out the same schedule, so there is no multiply-add in one rounding where the CPU has it.
ALL_CFLAGS := $(STD) -O2 -g -ffp-contract=off -ffile-prefix-map='$(CURDIR)'=. -fPIC -fvisibility=hidden -pthread $(WARNINGS) -DTRIBUTARY_VERSION='"$(VERSION)"'
ALL_LDFLAGS := -pthread -Wl,--as-needed
LIBS := -lm -ldl
# Of the command and the tests; the plugin takes libc alone.  Last after our own archives, so that --as-needed drops what is
# not used.
COMMAND_LIBS := -lhwloc -lexpat -ljansson -larchive

comma := ,
ifneq ($(SAN),)
# Frame pointers and no optimised-away calls: the report must name the function at fault.
ALL_CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-optimize-sibling-calls
ifneq ($(findstring undefined,$(SAN)),)
# Without this UBSan prints and goes on, and a test that trips over it passes.
ALL_CFLAGS += -fno-sanitize-recover=undefined
endif
# libFuzzer's own main comes in only where a fuzzer is linked, see below.
ALL_LDFLAGS += -fsanitize=$(filter-out fuzzer-no-link%,$(SAN:fuzzer-no-link$(comma)%=%))
endif
ifeq ($(FAULTS),1)
ALL_CFLAGS += -DTRIBUTARY_FAULTS
endif
ALL_CFLAGS += $(CFLAGS)
ALL_LDFLAGS += $(LDFLAGS)

# The service thread still runs our code when NCCL closes the plugin, and a thread cannot be made to leave a library that
# is being unmapped.  nodelete keeps the code mapped: dlclose then costs a few hundred kilobytes instead of a crash.
# No soname: ldconfig would list the library by that alone, and NCCL would not find it by the names of its links.
PLUGIN_LDFLAGS := -shared -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now
ifeq ($(SAN),)
# Every symbol must be found in what we link with.  (A sanitizer's run-time is found only when the program starts.)
PLUGIN_LDFLAGS += -Wl,-z,defs
endif
PLUGIN_MAP := $(wildcard src/plugin/plugin.map)
ifneq ($(PLUGIN_MAP),)
PLUGIN_LDFLAGS += -Wl,--version-script=$(PLUGIN_MAP)
endif
# glibc 2.34 put libpthread and libdl into libc, at new versions. Linked with empty libraries that have the old ones, the
# plugin loads from glibc 2.28 on (RHEL 8, Ubuntu 20.04). A sanitizer has functions of its own for these.
ifeq ($(SAN),)
GLIBC_MAPS := mk/glibc/libpthread.so.0.map mk/glibc/libdl.so.2.map
endif

# -------------------------------------------------------------------------------------------------------------- sources

csources = $(sort $(shell find $(wildcard $(1)) -name '*.c' 2>/dev/null))
objects = $(patsubst %.c,$(O)/obj/%.o,$(1))
find_c = $(if $(wildcard $(1)),$(call csources,$(1)))

# What the plugin is made of.  measure, clusterprobe, simulate, discover, the readers of XML and of switches, NCCL's search and
# the placing of jobs belong to the command alone, the aggregator to tributaryd, and the table of options to both.
PLUGIN_DIRS := $(addprefix src/,base gpu topology cluster reduce plan ncclmodel ncclxml profile transport aggregate plugin)
COMMAND_DIRS := $(addprefix src/,measure clusterprobe simulate discover)
NCCL_SEARCH := src/ncclmodel/search.c src/ncclmodel/paths.c
PLUGIN_SRC := $(filter-out src/plugin/glibc.c src/ncclxml/read/% src/cluster/read/% src/plan/place% $(NCCL_SEARCH) src/aggregate/aggregator/% src/base/options.c,$(call find_c,$(PLUGIN_DIRS)))
LIB_SRC := $(sort $(PLUGIN_SRC) $(wildcard src/plan/place*.c) $(NCCL_SEARCH) src/base/options.c $(call find_c,src/ncclxml/read src/cluster/read src/aggregate/aggregator $(COMMAND_DIRS)))
COMMAND_SRC := $(call find_c,src/command)
DAEMON_SRC := $(call find_c,src/daemon)
PERF_COMMON_SRC := $(call find_c,perf/common)
PERF_SRC := $(wildcard perf/*.c)
UNIT_ALL := $(call find_c,tests/unit tests/support)
UNIT_SRC := $(filter %_test.c,$(UNIT_ALL))
UNIT_HELPER_SRC := $(filter-out %_test.c,$(UNIT_ALL))
# Libraries that the stand-in for NCCL's init loads: a driver, the plugin in another version, and with one thing wrong.
STANDIN_LIB_SRC := $(call find_c,tests/standin/libs)
STANDIN_ALL := $(filter-out $(STANDIN_LIB_SRC),$(call find_c,tests/standin))
STANDIN_SRC := $(filter %_test.c,$(STANDIN_ALL))
STANDIN_HELPER_SRC := $(filter-out %_test.c,$(STANDIN_ALL))
CONF_ALL := $(call find_c,tests/conformance tests/faults tests/support)
CONF_SRC := $(filter %_test.c,$(CONF_ALL))
CONF_HELPER_SRC := $(filter-out %_test.c,$(CONF_ALL))
ifeq ($(FAULTS)$(T),1)
# Only what injects faults: all else would be the same once more as in check-asan.
UNIT_SRC := $(shell grep -l TRIBUTARY_FAULTS $(UNIT_SRC))
CONF_SRC := $(shell grep -l TRIBUTARY_FAULTS $(CONF_SRC))
STANDIN_SRC :=
endif
ifneq ($(SAN),)
# Long computations that touch little memory come last: a run that is cut has done what finds most.
COMPUTING := tests/unit/plan/% tests/unit/ncclmodel/% tests/unit/clusterprobe/fabric% tests/unit/measure/% tests/unit/simulate/%
UNIT_SRC := $(filter-out $(COMPUTING),$(UNIT_SRC)) $(filter $(COMPUTING),$(UNIT_SRC))
endif
ifeq ($(SAN),thread)
# ThreadSanitizer's own thread keeps a process out of another mount namespace; and one actor runs at a time, in a known order.
STANDIN_SRC :=
endif
ifeq ($(SAN)$(T),thread)
# Only what has a second thread: in all else there is nothing for ThreadSanitizer to find, and it takes ten times as long.
THREADED := $(addprefix tests/unit/,aggregate/ base/ command/cluster_measure clusterprobe/ command/measure daemon/ gpu/ measure/ \
	plugin/ transport/)
UNIT_SRC := $(filter $(addsuffix %,$(THREADED)),$(UNIT_SRC))
endif
STANDIN := $(patsubst %.c,$(O)/%,$(STANDIN_SRC))
STANDIN_LIBS := $(addprefix $(O)/tests/standin/,libcuda.so.1 libother.so libmutant.so)
FUZZ_SRC := $(wildcard tests/fuzz/*_fuzz.c)
FUZZ_NAMES := $(patsubst tests/fuzz/%_fuzz.c,%,$(FUZZ_SRC))
FUZZ_REPLAY_SRC := $(if $(filter 1,$(FAULTS)$(T))$(filter thread,$(SAN)$(T)),,$(wildcard tests/fuzz/replay.c))

LIB := $(O)/libtributary.a
COMMAND_LIB := $(O)/libcommand.a
DAEMON_LIB := $(O)/libdaemon.a
PLUGIN := $(if $(PLUGIN_SRC),$(O)/lib/libnccl-net-tributary.so)
# The name under which NCCL_ENV_PLUGIN=tributary looks for it. One file, so that both halves share their data.
ENV_PLUGIN := $(if $(PLUGIN),$(O)/lib/libnccl-env-tributary.so)
COMMAND := $(if $(COMMAND_SRC),$(O)/tributary)
DAEMON := $(if $(DAEMON_SRC),$(O)/tributaryd)
PERF := $(patsubst perf/%.c,$(O)/perf/%,$(PERF_SRC))
PERF_PRELOAD := $(patsubst perf/preload/%.c,$(O)/perf/%.so,$(wildcard perf/preload/*.c))
PERF_PLUGIN := $(if $(wildcard perf/plugin),$(O)/perf/libnccl-net-sockets.so)
# Of these, what `tributary bench` runs where there is no NCCL, and what its test-bed runs.
BENCH_PROGRAMS := $(filter %/collectives %/relay,$(PERF)) $(PERF_PLUGIN)
UNIT := $(patsubst %.c,$(O)/%,$(UNIT_SRC))
CONF := $(patsubst %.c,$(O)/%,$(CONF_SRC))
FUZZ_REPLAY := $(if $(FUZZ_REPLAY_SRC),$(patsubst %,$(O)/tests/fuzz/%_replay,$(FUZZ_NAMES)))
FUZZERS := $(patsubst %,$(O)/tests/fuzz/%_fuzzer,$(FUZZ_NAMES))

PLUGIN_PATH := $(abspath $(O))/lib/libnccl-net-tributary.so

.DEFAULT_GOAL := all
.PHONY: all plugin perf tests help clean FORCE
.DELETE_ON_ERROR:
.SUFFIXES:

all: $(PLUGIN) $(ENV_PLUGIN) $(COMMAND) $(DAEMON) $(PERF) $(PERF_PLUGIN) $(PERF_PRELOAD) ## the plugin, the command and the benchmarks

plugin: $(PLUGIN) $(ENV_PLUGIN) ## the plugin alone, which needs no library

tests: $(UNIT) $(CONF) $(STANDIN) $(STANDIN_LIBS) $(FUZZ_REPLAY)

# ---------------------------------------------------------------------------------------------------------------- rules

# Objects are rebuilt when the compiler or its flags change.  -Werror and the folder are not part of this: they change no object.
FLAGS_NOW := $(shell $(CC) --version 2>/dev/null | head -n 1) $(shell $(CC) -dumpmachine 2>/dev/null) $(CC) $(filter-out -ffile-prefix-map=%,$(ALL_CFLAGS)) $(ALL_LDFLAGS)
$(O)/flags: FORCE
	@mkdir -p $(@D); printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' | cmp -s - $@ || \
		printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' > $@

$(O)/obj/tests/%.o: INCLUDES += -Itests -Iperf
$(O)/obj/perf/%.o: INCLUDES += -Iperf
$(O)/obj/%.o: %.c $(O)/flags
	$(say) CC $<
	$(Q)$(CC) $(ALL_CFLAGS) $(if $(filter 1,$(WERROR)),-Werror) $(INCLUDES) -MMD -MP -c -o $@ $< || \
		{ CC='$(CC)' LOOK_ONLY=1 .ci/deps $(DEPS_BUILD); exit 1; }

# The archives are made anew: an object whose source is gone must not stay in them.
$(LIB): $(call objects,$(LIB_SRC))
$(COMMAND_LIB): $(call objects,$(filter-out src/command/main.c,$(COMMAND_SRC)))
$(DAEMON_LIB): $(call objects,$(filter-out src/daemon/main.c,$(DAEMON_SRC)))
$(O)/libtesthelp.a: $(call objects,$(UNIT_HELPER_SRC))
$(O)/libperf.a: $(call objects,$(PERF_COMMON_SRC) src/base/parse.c)
$(LIB) $(COMMAND_LIB) $(DAEMON_LIB) $(O)/libtesthelp.a $(O)/libperf.a: $(O)/flags
	$(say) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

OLD_GLIBC := $(if $(GLIBC_MAPS),$(patsubst mk/glibc/%.map,$(O)/glibc/%,$(GLIBC_MAPS)) $(call objects,src/plugin/glibc.c))
$(O)/lib/libnccl-net-tributary.so: $(call objects,$(PLUGIN_SRC)) $(OLD_GLIBC) $(PLUGIN_MAP) $(O)/flags
	$(say) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) $(PLUGIN_LDFLAGS) -o $@ $(filter-out $(PLUGIN_MAP) $(O)/flags,$^) $(LIBS)

# The first version of glibc for arm64 is 2.17, and has all.
$(O)/glibc/%: mk/glibc/%.map $(O)/flags
	$(say) LD $@
	$(Q)sed '$(if $(filter aarch64-%,$(MACHINE)),1$(comma)/^GLIBC_/{s/^GLIBC_[0-9.]*/GLIBC_2.17/;b};/^GLIBC_/d;/^};/{$$!d})' $< > $@.map
	$(Q)sed -n 's/^\t\([a-z0-9_]*\);$$/.globl \1\n.type \1,%function\n\1:/p' $< > $@.s
	$(Q)$(CC) -shared -nostdlib -Wl,-soname,$* -Wl,--version-script=$@.map -o $@ $@.s

$(O)/lib/libnccl-env-tributary.so: $(O)/lib/libnccl-net-tributary.so
	$(Q)ln -sf $(<F) $@

link = $(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(1) $(LIBS)

$(O)/tributary: $(call objects,$(filter src/command/main.c,$(COMMAND_SRC))) $(COMMAND_LIB) $(LIB)
	$(say) LD $@
	$(Q)$(call link,$(COMMAND_LIBS))

$(O)/tributaryd: $(call objects,$(filter src/daemon/main.c,$(DAEMON_SRC))) $(DAEMON_LIB) $(LIB)
	$(say) LD $@
	$(Q)$(call link)

# The benchmarks drive any NCCL net plugin, so they hold nothing of ours but what reads sizes and rates.
$(PERF): $(O)/perf/%: $(O)/obj/perf/%.o $(O)/libperf.a
	$(say) LD $@
	$(Q)$(call link)

# What they compare plugins with, and under what.
$(O)/perf/libnccl-net-sockets.so: $(O)/obj/perf/plugin/sockets.o
$(PERF_PRELOAD): $(O)/perf/%.so: $(O)/obj/perf/preload/%.o
$(PERF_PLUGIN) $(PERF_PRELOAD):
	$(say) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -o $@ $<

# But for these, which measure our own kernels, plans, orders and placements, and ask our tuner.
$(O)/perf/reduce $(O)/perf/railpairs $(O)/perf/orders $(O)/perf/places $(O)/perf/collectives: $(LIB)

$(UNIT): $(O)/%: $(O)/obj/%.o $(O)/libtesthelp.a $(COMMAND_LIB) $(DAEMON_LIB) $(LIB)
	$(say) LD $@
	$(Q)$(call link,-lcmocka $(COMMAND_LIBS))

# A solver of linear and integer programs, which nothing but these tests needs: it says what no plan and no share can beat.
$(O)/tests/unit/plan/optimum_test $(O)/tests/unit/plan/bound_test $(O)/tests/unit/aggregate/schedule_shares_test: LIBS += -lglpk

$(CONF): $(O)/%: $(O)/obj/%.o $(call objects,$(CONF_HELPER_SRC)) $(O)/libtesthelp.a $(O)/libperf.a $(LIB)
	$(say) LD $@
	$(Q)$(call link,-lcmocka $(COMMAND_LIBS))

# The plugin that the stand-in loads takes from it what other processes can see, what waits and what tells the time.
STANDIN_HOOKS := openat pread pwrite symlinkat unlinkat mkdirat rmdir syscall sched_yield nanosleep clock_gettime pthread_mutex_lock
$(STANDIN): $(O)/%: $(O)/obj/%.o $(call objects,$(STANDIN_HELPER_SRC) $(wildcard $(addprefix tests/support/,machines.c runtime.c tree.c))) $(LIB)
	$(say) LD $@
	$(Q)$(call link,$(STANDIN_HOOKS:%=-Wl$(comma)--export-dynamic-symbol=%) -lcmocka $(COMMAND_LIBS))

STANDIN_WRAPS := $(if $(wildcard tests/standin/libs/mutant.c),$(shell sed -n 's/^WRAP.[^,]*, \([a-z_]*\),.*/\1/p' tests/standin/libs/mutant.c))
$(O)/tests/standin/libcuda.so.1: $(call objects,$(wildcard tests/standin/libs/driver*.c))
$(O)/tests/standin/libother.so: $(call objects,$(filter-out src/plugin/steer/machine.c,$(PLUGIN_SRC)) tests/standin/libs/other.c)
$(O)/tests/standin/libmutant.so: $(call objects,$(PLUGIN_SRC) tests/standin/libs/mutant.c)
$(O)/tests/standin/libother.so $(O)/tests/standin/libmutant.so: $(PLUGIN_MAP)
$(O)/tests/standin/libother.so $(O)/tests/standin/libmutant.so: SHARED_FLAGS = $(PLUGIN_LDFLAGS)
$(O)/tests/standin/libmutant.so: SHARED_FLAGS += $(STANDIN_WRAPS:%=-Wl,--wrap=%)
$(STANDIN_LIBS):
	$(say) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -shared $(SHARED_FLAGS) -Wl,-soname,$(@F) -o $@ $(filter %.o,$^) $(LIBS) -ldl

$(FUZZ_REPLAY): $(O)/tests/fuzz/%_replay: $(O)/obj/tests/fuzz/%_fuzz.o $(O)/obj/tests/fuzz/replay.o $(COMMAND_LIB) $(DAEMON_LIB) $(LIB)
	$(say) LD $@
	$(Q)$(call link,$(COMMAND_LIBS))

$(FUZZERS): $(O)/tests/fuzz/%_fuzzer: $(O)/obj/tests/fuzz/%_fuzz.o $(COMMAND_LIB) $(DAEMON_LIB) $(LIB)
	$(say) LD $@
	$(Q)$(call link,-fsanitize=fuzzer $(COMMAND_LIBS))

# The fake device, over which a peer is played.
VERBS_FAKE := $(call objects,$(wildcard tests/unit/transport/verbs/fake_verbs*.c))
$(O)/tests/fuzz/verbs_peer_replay $(O)/tests/fuzz/verbs_peer_fuzzer: $(VERBS_FAKE)

# One object for each instruction set beyond what the architecture has at least; no other object is built with these.
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
ifneq ($(filter x86_64-%,$(MACHINE)),)
ISA_avx2 := -mavx2 -mf16c
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl
endif
$(O)/obj/src/reduce/avx2.o: ALL_CFLAGS += $(ISA_avx2)
$(O)/obj/src/reduce/avx512.o: ALL_CFLAGS += $(ISA_avx512)

# The page of `tributary show --html` is taken in whole by the assembler.
$(O)/obj/src/command/show/page.o: $(wildcard src/command/show/page*.css src/command/show/page*.js)

-include $(patsubst %.c,$(O)/obj/%.d,$(LIB_SRC) $(COMMAND_SRC) $(DAEMON_SRC) $(PERF_COMMON_SRC) $(PERF_SRC) \
	$(UNIT_ALL) $(CONF_ALL) $(STANDIN_ALL) $(STANDIN_LIB_SRC) $(FUZZ_SRC) $(FUZZ_REPLAY_SRC))

.PHONY: print-flags
print-flags: # for tests/gates/check-gates
	@echo '$(ALL_CFLAGS) $(ALL_LDFLAGS)'

clean: ## remove everything built under O=
	$(Q)rm -rf $(O)

# ------------------------------------------------------------------------------------------ demo, checks, benchmarks

include mk/deps.mk

.PHONY: demo
demo: deps ## without GPUs: AllReduce over eight emulated hosts and a pulled cable, beside NCCL's kind of sockets
	+$(Q)$(after_deps) all
	@$(PYTHON) -B tests/gates/demo.py '$(O)'

include mk/check.mk
include mk/arm64.mk
include mk/lint.mk
include mk/fuzz.mk
include mk/packages.mk

# ------------------------------------------------------------------------------------------------------------- install

.PHONY: programs install install-documents install-default uninstall
MAN := $(wildcard docs/man/*/*)
UNITS := $(wildcard systemd/*.service)
# Where each shell looks for them.
COMPLETIONS := $(patsubst docs/completion/%.bash,share/bash-completion/completions/%,$(wildcard docs/completion/*.bash)) \
	share/zsh/site-functions/_tributary share/fish/vendor_completions.d/tributary.fish
completion_of = docs/completion/$(notdir $(1))$(if $(findstring /bash-,$(1)),.bash)
# Help texts, man pages and messages name these; --help says where they are. README.md shows the picture and names the results; pages
# name the examples of packaging/.
DOCUMENTS := $(wildcard README.md CHANGELOG.md LICENSE docs/*/*.md docs/*/*.json docs/*.svg packaging/containers/* packaging/slurm/* \
	packaging/kubernetes/*.yaml packaging/kubernetes/*/*.yaml packaging/grafana/*.json perf/RESULTS.md perf/README.md perf/gains.py \
	perf/targets.tsv perf/results/* topo/README.md topo/*/* CONTRIBUTING.md tests/README.md $(foreach f,standin testbed vm,tests/$(f)/README.md))
DOCS := share/doc/tributary
# What `tributary bench` runs: from PREFIX/share and, of programs, from PREFIX/libexec. The test-bed emulates hosts.
BENCH := $(wildcard perf/bench/*.py)
BENCH_PLACE := share/tributary/bench
BENCH_PROGRAM_PLACE := libexec/tributary
TESTBED := $(patsubst tests/testbed/%,%,$(wildcard tests/testbed/testbed tests/testbed/*.bed tests/testbed/tb/*.py))
TESTBED_PLACE := share/tributary/testbed
# What NCCL looks for where no variable names a plugin. Those of another package stay.
DEFAULT_PLUGINS := libnccl-env.so libnccl-net.so
foreign_plugin = [ -e '$(DESTDIR)$(LIBDIR)/'$(1) -o -L '$(DESTDIR)$(LIBDIR)/'$(1) ] && \
	[ "$$(readlink '$(DESTDIR)$(LIBDIR)/'$(1))" != libnccl-net-tributary.so ]
programs: $(PLUGIN) $(ENV_PLUGIN) $(COMMAND) $(DAEMON) $(BENCH_PROGRAMS) ## what install installs, without tests and benchmarks

install: programs install-documents ## into PREFIX (default /usr/local) and LIBDIR (PREFIX/lib), under DESTDIR
	$(Q)install -d '$(DESTDIR)$(LIBDIR)' '$(DESTDIR)$(PREFIX)/bin'
	$(Q)install -m 755 $(PLUGIN) '$(DESTDIR)$(LIBDIR)/'
	$(Q)ln -sf $(notdir $(PLUGIN)) '$(DESTDIR)$(LIBDIR)/$(notdir $(ENV_PLUGIN))'
	$(Q)$(if $(COMMAND)$(DAEMON),install -m 755 $(COMMAND) $(DAEMON) '$(DESTDIR)$(PREFIX)/bin/')
	$(Q)install -D -m 755 -t '$(DESTDIR)$(PREFIX)/$(BENCH_PROGRAM_PLACE)' $(BENCH_PROGRAMS)
	$(Q)for page in $(MAN:docs/man/%=%); do install -D -m 644 docs/man/$$page '$(DESTDIR)$(PREFIX)/share/man/'$$page || exit 1; done
	$(Q)install -d '$(DESTDIR)$(PREFIX)/lib/systemd/system' '$(DESTDIR)$(PREFIX)/lib/sysusers.d'
	$(Q)for unit in $(notdir $(UNITS)); do sed 's|@PREFIX@|$(PREFIX)|g' systemd/$$unit > '$(DESTDIR)$(PREFIX)/lib/systemd/system/'$$unit || exit 1; \
		chmod 644 '$(DESTDIR)$(PREFIX)/lib/systemd/system/'$$unit; done
	$(Q)install -m 644 systemd/tributaryd.sysusers '$(DESTDIR)$(PREFIX)/lib/sysusers.d/tributaryd.conf'
	$(Q)$(foreach file,$(COMPLETIONS),install -D -m 644 $(call completion_of,$(file)) '$(DESTDIR)$(PREFIX)/$(file)' &&) :

install-documents:
	$(Q)for document in $(DOCUMENTS); do install -D -m 644 $$document '$(DESTDIR)$(PREFIX)/$(DOCS)/'$$document || exit 1; done
	$(Q)install -d '$(DESTDIR)$(PREFIX)/$(BENCH_PLACE)' && install -m 644 $(BENCH) '$(DESTDIR)$(PREFIX)/$(BENCH_PLACE)/'
	$(Q)for file in $(TESTBED); do \
		install -D -m $$([ $$file = testbed ] && echo 755 || echo 644) tests/testbed/$$file '$(DESTDIR)$(PREFIX)/$(TESTBED_PLACE)/'$$file || exit 1; done

install-default: install ## the same, and every NCCL job of this machine uses it without a variable
	$(Q)for name in $(DEFAULT_PLUGINS); do if $(call foreign_plugin,$$name); then \
		echo "$(DESTDIR)$(LIBDIR)/$$name belongs to something else, and stays: NCCL loads that one" >&2; exit 1; fi; done
	$(Q)for name in $(DEFAULT_PLUGINS); do ln -sf $(notdir $(PLUGIN)) '$(DESTDIR)$(LIBDIR)/'$$name || exit 1; done

uninstall: ## take out what install put in
	$(Q)for name in $(DEFAULT_PLUGINS); do $(call foreign_plugin,$$name) || rm -f '$(DESTDIR)$(LIBDIR)/'$$name || exit 1; done
	$(Q)rm -f '$(DESTDIR)$(LIBDIR)/libnccl-net-tributary.so' '$(DESTDIR)$(LIBDIR)/libnccl-env-tributary.so' \
		'$(DESTDIR)$(PREFIX)/bin/tributary' \
		'$(DESTDIR)$(PREFIX)/bin/tributaryd' $(patsubst docs/man/%,'$(DESTDIR)$(PREFIX)/share/man/%',$(MAN)) \
		$(patsubst systemd/%,'$(DESTDIR)$(PREFIX)/lib/systemd/system/%',$(UNITS)) \
		'$(DESTDIR)$(PREFIX)/lib/sysusers.d/tributaryd.conf' \
		$(patsubst %,'$(DESTDIR)$(PREFIX)/%',$(COMPLETIONS)) $(patsubst %,'$(DESTDIR)$(PREFIX)/$(DOCS)/%',$(DOCUMENTS)) \
		$(patsubst perf/bench/%,'$(DESTDIR)$(PREFIX)/$(BENCH_PLACE)/%',$(BENCH)) \
		$(TESTBED:%='$(DESTDIR)$(PREFIX)/$(TESTBED_PLACE)/%') \
		$(patsubst %,'$(DESTDIR)$(PREFIX)/$(BENCH_PROGRAM_PLACE)/%',$(notdir $(BENCH_PROGRAMS)))
	$(Q)find '$(DESTDIR)$(PREFIX)/$(DOCS)' '$(DESTDIR)$(PREFIX)/share/tributary' '$(DESTDIR)$(PREFIX)/$(BENCH_PROGRAM_PLACE)' -type d -empty -delete 2>/dev/null || :

# A test compares them with what the programs print.
.PHONY: generated
generated: $(COMMAND) $(DAEMON) ## write the man pages and the completions anew, from the programs' tables
	$(Q)$(COMMAND) help --man docs/man
	$(Q)mkdir -p docs/man/man5 docs/man/man8 docs/completion
	$(Q)$(PYTHON) mk/man5.py tributary-cluster 'the file of hosts, leaf switches and uplinks' docs/format/cluster-file.md \
		> docs/man/man5/tributary-cluster.5
	$(Q)$(PYTHON) mk/man5.py tributary-profile 'what was measured, and on which machine' docs/format/profile.md \
		> docs/man/man5/tributary-profile.5
	$(Q)$(DAEMON) --man > docs/man/man8/tributaryd.8
	$(Q)$(DAEMON) --completion bash > docs/completion/tributaryd.bash
	$(Q)$(COMMAND) completion bash > docs/completion/tributary.bash
	$(Q)$(COMMAND) completion zsh > docs/completion/_tributary
	$(Q)$(COMMAND) completion fish > docs/completion/tributary.fish

help: ## this list
	@echo 'Targets:'
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## \(.*\)/  \1|\2/p' Makefile mk/*.mk | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'
	@echo 'Variables:'
	@sed -n '2,/^$$/s/^#   /  /p' Makefile
