# Tributary: one Makefile, out of tree, quiet.  `make help` lists the targets.
#
#   O=dir      where everything built goes (default: build)
#   V=1        show the commands
#   CC=clang   another compiler;  CFLAGS and LDFLAGS are appended to ours, never replace them
#   SAN=address,undefined | thread    build with sanitizers (use another O=)
#   FAULTS=1   build in the fault injection of src/base/sys.h (use another O=)
#   WERROR=1   warnings are errors (the default in every check target)

VERSION := 0.1.0

# What a fresh Debian or Ubuntu lacks.  package=what to look for: a command, or a header.  `make deps` reads this list.
DEPS := gcc=gcc make=make libc6-dev=header:stdio.h linux-libc-dev=header:linux/ethtool.h binutils=nm \
	libcmocka-dev=header:cmocka.h libhwloc-dev=header:hwloc.h libexpat1-dev=header:expat.h \
	libjansson-dev=header:jansson.h libarchive-dev=header:archive.h libibverbs-dev=header:infiniband/verbs.h libhwloc-plugins=@hwloc-pci iproute2=ip iproute2=tc ethtool=ethtool util-linux=unshare python3=python3
# Only for `make check`: the page of `tributary show --html` is opened in a real browser; plans are compared with a solver's,
# sums with MPI's, the message layer's rules are looked at in every state.
DEPS_CHECK := chromium=chromium chromium-driver=chromedriver python3-selenium=python:selenium \
	libglpk-dev=header:glpk.h openmpi-bin=mpirun libopenmpi-dev=mpicc spin=spin
# Only for `make lint`, `make format` and `make fuzz`.
DEPS_LINT := clang=clang libclang-rt-dev=@libfuzzer clang-tidy=clang-tidy clang-format=clang-format cppcheck=cppcheck
# Only for `make check-vm`: virtual machines with SoftRoCE.  Debian's kernel is downloaded beside these (tests/vm/README.md).
DEPS_VM := qemu-system-x86=qemu-system-x86_64 busybox-static=busybox cpio=cpio kmod=depmod xz-utils=xz binutils=readelf \
	iproute2=rdma ibverbs-utils=ibv_rc_pingpong ibverbs-providers=@rxe
# Only for `make bench`: the floor is compared with iperf3, aggregation with PyTorch's Gloo.
DEPS_BENCH := iperf3=iperf3 python3-torch=python:torch

O ?= build
PREFIX ?= /usr/local
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
ALL_CFLAGS := $(STD) -O2 -g -fPIC -fvisibility=hidden -pthread $(WARNINGS) -DTRIBUTARY_VERSION='"$(VERSION)"'
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

# -------------------------------------------------------------------------------------------------------------- sources

csources = $(sort $(shell find $(wildcard $(1)) -name '*.c' 2>/dev/null))
objects = $(patsubst %.c,$(O)/obj/%.o,$(1))
find_c = $(if $(wildcard $(1)),$(call csources,$(1)))

# What the plugin is made of.  measure, clusterprobe, simulate, discover, the XML reader and the placing of jobs belong to the command alone, and
# the aggregator to tributaryd.
PLUGIN_DIRS := $(addprefix src/,base gpu topology reduce plan ncclxml profile transport aggregate plugin)
COMMAND_DIRS := $(addprefix src/,measure clusterprobe simulate discover)
PLUGIN_SRC := $(filter-out src/ncclxml/read/% src/plan/place% src/aggregate/aggregator/%,$(call find_c,$(PLUGIN_DIRS)))
LIB_SRC := $(sort $(PLUGIN_SRC) $(wildcard src/plan/place*.c) $(call find_c,src/ncclxml/read src/aggregate/aggregator $(COMMAND_DIRS)))
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
COMPUTING := tests/unit/plan/% tests/unit/measure/% tests/unit/simulate/%
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
PLUGIN := $(if $(PLUGIN_SRC),$(O)/libnccl-net-tributary.so)
# The name under which NCCL_ENV_PLUGIN=tributary looks for it. One file, so that both halves share their data.
ENV_PLUGIN := $(if $(PLUGIN),$(O)/libnccl-env-tributary.so)
COMMAND := $(if $(COMMAND_SRC),$(O)/tributary)
DAEMON := $(if $(DAEMON_SRC),$(O)/tributaryd)
PERF := $(patsubst perf/%.c,$(O)/perf/%,$(PERF_SRC))
PERF_PLUGIN := $(if $(wildcard perf/plugin),$(O)/perf/libnccl-net-sockets.so)
UNIT := $(patsubst %.c,$(O)/%,$(UNIT_SRC))
CONF := $(patsubst %.c,$(O)/%,$(CONF_SRC))
FUZZ_REPLAY := $(if $(FUZZ_REPLAY_SRC),$(patsubst %,$(O)/tests/fuzz/%_replay,$(FUZZ_NAMES)))
FUZZERS := $(patsubst %,$(O)/tests/fuzz/%_fuzzer,$(FUZZ_NAMES))

PLUGIN_PATH := $(abspath $(O))/libnccl-net-tributary.so

.DEFAULT_GOAL := all
.PHONY: all plugin perf tests help clean FORCE
.DELETE_ON_ERROR:
.SUFFIXES:

all: $(PLUGIN) $(ENV_PLUGIN) $(COMMAND) $(DAEMON) $(PERF) $(PERF_PLUGIN) ## the plugin, the command and the benchmarks

plugin: $(PLUGIN) $(ENV_PLUGIN) ## the plugin alone, which needs no library

tests: $(UNIT) $(CONF) $(STANDIN) $(STANDIN_LIBS) $(FUZZ_REPLAY)

# ---------------------------------------------------------------------------------------------------------------- rules

# Objects are rebuilt when the compiler or its flags change.  -Werror is not part of this: it changes no object.
FLAGS_NOW := $(shell $(CC) --version 2>/dev/null | head -n 1) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS)
$(O)/flags: FORCE
	@mkdir -p $(@D); printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' | cmp -s - $@ || \
		printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' > $@

$(O)/obj/tests/%.o: INCLUDES += -Itests -Iperf
$(O)/obj/perf/%.o: INCLUDES += -Iperf
# Members on different machines must work out the same schedule: no multiply-add in one rounding where the CPU has it.
$(O)/obj/src/aggregate/schedule%.o $(O)/obj/src/aggregate/gain%.o: ALL_CFLAGS += -ffp-contract=off
$(O)/obj/%.o: %.c $(O)/flags
	$(say) CC $<
	$(Q)$(CC) $(ALL_CFLAGS) $(if $(filter 1,$(WERROR)),-Werror) $(INCLUDES) -MMD -MP -c -o $@ $<

# The archives are made anew: an object whose source is gone must not stay in them.
$(LIB): $(call objects,$(LIB_SRC))
$(COMMAND_LIB): $(call objects,$(filter-out src/command/main.c,$(COMMAND_SRC)))
$(DAEMON_LIB): $(call objects,$(filter-out src/daemon/main.c,$(DAEMON_SRC)))
$(O)/libtesthelp.a: $(call objects,$(UNIT_HELPER_SRC))
$(O)/libperf.a: $(call objects,$(PERF_COMMON_SRC))
$(LIB) $(COMMAND_LIB) $(DAEMON_LIB) $(O)/libtesthelp.a $(O)/libperf.a: $(O)/flags
	$(say) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

$(O)/libnccl-net-tributary.so: $(call objects,$(PLUGIN_SRC)) $(PLUGIN_MAP) $(O)/flags
	$(say) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) $(PLUGIN_LDFLAGS) -o $@ $(filter %.o,$^) $(LIBS)

$(O)/libnccl-env-tributary.so: $(O)/libnccl-net-tributary.so
	$(Q)ln -sf $(<F) $@

link = $(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(1) $(LIBS)

$(O)/tributary: $(call objects,$(filter src/command/main.c,$(COMMAND_SRC))) $(COMMAND_LIB) $(LIB)
	$(say) LD $@
	$(Q)$(call link,$(COMMAND_LIBS))

$(O)/tributaryd: $(call objects,$(filter src/daemon/main.c,$(DAEMON_SRC))) $(DAEMON_LIB) $(LIB)
	$(say) LD $@
	$(Q)$(call link)

# The benchmarks drive any NCCL net plugin, so they hold nothing of ours.
$(PERF): $(O)/perf/%: $(O)/obj/perf/%.o $(O)/libperf.a
	$(say) LD $@
	$(Q)$(call link)

# What they compare plugins with.
$(O)/perf/libnccl-net-sockets.so: $(O)/obj/perf/plugin/sockets.o
	$(say) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -o $@ $<

# But for two, which measure our own kernels and plans.
$(O)/perf/reduce $(O)/perf/railpairs: $(LIB)

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
$(STANDIN): $(O)/%: $(O)/obj/%.o $(call objects,$(STANDIN_HELPER_SRC) $(wildcard tests/support/runtime.c)) $(LIB)
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

$(FUZZ_REPLAY): $(O)/tests/fuzz/%_replay: $(O)/obj/tests/fuzz/%_fuzz.o $(O)/obj/tests/fuzz/replay.o $(COMMAND_LIB) $(LIB)
	$(say) LD $@
	$(Q)$(call link,$(COMMAND_LIBS))

$(FUZZERS): $(O)/tests/fuzz/%_fuzzer: $(O)/obj/tests/fuzz/%_fuzz.o $(COMMAND_LIB) $(LIB)
	$(say) LD $@
	$(Q)$(call link,-fsanitize=fuzzer $(COMMAND_LIBS))

# The fake device, over which a peer is played.
VERBS_FAKE := $(call objects,$(wildcard tests/unit/transport/verbs/fake_verbs*.c))
$(O)/tests/fuzz/verbs_peer_replay $(O)/tests/fuzz/verbs_peer_fuzzer: $(VERBS_FAKE)

# One object for each instruction set beyond what the architecture has at least; no other object is built with these.
# Contracted to a fused multiply-add, or with -ffast-math, the sets would give different bits.
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
ifneq ($(filter x86_64-%,$(MACHINE)),)
ISA_avx2 := -mavx2 -mf16c
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl
endif
$(O)/obj/src/reduce/%.o: ALL_CFLAGS += -ffp-contract=off
$(O)/obj/src/reduce/avx2.o: ALL_CFLAGS += $(ISA_avx2)
$(O)/obj/src/reduce/avx512.o: ALL_CFLAGS += $(ISA_avx512)

# The page of `tributary show --html` is taken in whole by the assembler.
$(O)/obj/src/command/show/html.o: src/command/show/page.css src/command/show/page.js

-include $(patsubst %.c,$(O)/obj/%.d,$(LIB_SRC) $(COMMAND_SRC) $(DAEMON_SRC) $(PERF_COMMON_SRC) $(PERF_SRC) \
	$(UNIT_ALL) $(CONF_ALL) $(STANDIN_ALL) $(STANDIN_LIB_SRC) $(FUZZ_SRC) $(FUZZ_REPLAY_SRC))

.PHONY: print-flags
print-flags: # for tests/gates/check-gates
	@echo '$(ALL_CFLAGS) $(ALL_LDFLAGS)'

clean: ## remove everything built under O=
	$(Q)rm -rf $(O)

# -------------------------------------------------------------------------------------------------------------- demo

.PHONY: deps demo
deps: ## find missing packages, show them, install them with apt
	@CC='$(CC)' MAKE_GOAL='$(or $(firstword $(MAKECMDGOALS)),deps)' .ci/deps $(DEPS)

deps-check: deps
	@CC='$(CC)' MAKE_GOAL='$(or $(firstword $(MAKECMDGOALS)),deps)' .ci/deps $(DEPS_CHECK)

deps-lint: deps
	@CC='$(CC)' MAKE_GOAL='$(or $(firstword $(MAKECMDGOALS)),deps)' .ci/deps $(DEPS_LINT)

deps-vm:
	@CC='$(CC)' MAKE_GOAL='$(or $(firstword $(MAKECMDGOALS)),deps)' .ci/deps $(DEPS_VM)

deps-bench: deps
	@CC='$(CC)' MAKE_GOAL='$(or $(firstword $(MAKECMDGOALS)),deps)' .ci/deps $(DEPS_BENCH)

# What is built only after `deps` has had its say, whatever the order of the goals.
after_deps = $(MAKE) O='$(O)' CC='$(CC)' SAN='$(SAN)' FAULTS='$(FAULTS)' WERROR='$(WERROR)' V='$(V)'

demo: deps ## an AllReduce over eight emulated hosts, through the built plugin
	+$(Q)$(after_deps) all
	@O='$(O)' PYTHON='$(PYTHON)' tests/gates/demo

# ------------------------------------------------------------------------------------------------------------- checks

# TIMEOUT: seconds for one test program.  T: run only the tests whose name contains this.  JOBS: programs side by side:
# more than cores, for most of them wait more than they compute.
TIMEOUT ?= 240
JOBS ?= $(shell expr $$(nproc) + 1)
T ?=
RUN := tests/gates/run-tests
GATES := check-abi check-imports check-layers check-size check-words check-docs check-gates
# In a sanitized or fault build the plugin imports other things, and the texts are the same: no gates.
ifneq ($(SAN)$(filter 1,$(FAULTS)),)
GATES :=
endif
TESTBED_CHECK := $(wildcard tests/testbed/check)

.PHONY: check run-check check-asan check-tsan check-faults check-long check-late run-late check-clang check-gpu check-vm deps-vm $(GATES)

check: deps-check ## unit tests, conformance, fuzz corpora, test-bed and gates (T=name: only those)
	+$(Q)$(after_deps) WERROR='$(WERROR)' all tests
	+$(Q)$(MAKE) O='$(O)' CC='$(CC)' SAN='$(SAN)' FAULTS='$(FAULTS)' V='$(V)' TIMEOUT='$(TIMEOUT)' T='$(T)' run-check

# Each variable is for those alone that take it away again: the plugin warns of a TRIBUTARY_ name that it does not know.
LONG_UNITS := /unit/measure/ /unit/ncclxml/ /unit/plan/
unit_env = $(if $(call among,$(LONG_UNITS),$(1)),,env -u TRIBUTARY_TEST_LONG -u TRIBUTARY_TEST_SEEDS )$(call unit_places,$(1))
among = $(strip $(foreach l,$(1),$(findstring $(l),$(2))))
unit_places = $(if $(findstring /unit/command/,$(1))$(findstring /unit/daemon/,$(1))$(findstring /unit/measure/,$(1))$(findstring /unit/plan/machines,$(1)),TRIBUTARY_SOURCE='\''$(CURDIR)'\'' TRIBUTARY_BUILD='\''$(abspath $(O))'\'')
# Strikes in every state, the longest operations, every call that fails: minutes each, mostly spent waiting.
LATE_UNIT_SRC = $(foreach f,$(shell grep -l runtime_long $(UNIT_SRC)),$(if $(call among,$(LONG_UNITS),/$(f:tests/%=%)),,$(f)))
LATE_UNITS = $(LATE_UNIT_SRC:%.c=$(O)/%)
late_args = $(foreach t,$(LATE_UNITS),'$(t:$(O)/tests/%_test=%), long=TRIBUTARY_TEST_LONG=1 $(call unit_places,$(t)) $(t)')
# Once more in a host of its own with two interfaces, which can be joined.
RAILS_TESTS := $(filter %/contract_test %/copies_test,$(CONF))
RAILS_RUN = tests/testbed/testbed run tests/testbed/two-rails.bed --only h0 --quiet --no-prefix --env TRIBUTARY_IF=^lo --env TRIBUTARY_JOIN=always
# The longest first, so that no long program is left alone at the end. In a sanitized build, which may be cut, what finds most.
LONGEST_UNITS := $(foreach d,daemon measure plan aggregate plugin transport clusterprobe,$(filter $(O)/tests/unit/$(d)/%,$(UNIT)))
unit_args = $(foreach t,$(1),'$(t:$(O)/tests/%_test=%)=$(call unit_env,$(t)) $(t)')
test_args = $(if $(SAN),$(call unit_args,$(UNIT))) \
	$(foreach t,$(CONF),'$(t:$(O)/tests/%_test=%)=TRIBUTARY_PLUGIN=$(PLUGIN_PATH) $(t)') \
	$(foreach t,$(STANDIN),'$(t:$(O)/tests/%_test=%)=TRIBUTARY_SOURCE='\''$(CURDIR)'\'' TRIBUTARY_PLUGIN=$(PLUGIN_PATH) $(t)') \
	$(foreach t,$(RAILS_TESTS),'$(t:$(O)/tests/%_test=%, two rails)=TRIBUTARY_PLUGIN=$(PLUGIN_PATH) $(RAILS_RUN) -- $(t)') \
	$(peer_args) $(browser_args) $(mpi_args) $(model_args) $(gate_args) \
	$(if $(SAN),,$(call unit_args,$(LONGEST_UNITS) $(filter-out $(LONGEST_UNITS),$(UNIT)))) \
	$(foreach f,$(if $(FUZZ_REPLAY),$(FUZZ_NAMES)),'fuzz/$(f)=$(O)/tests/fuzz/$(f)_replay $(wildcard tests/fuzz/corpus/$(f))')
gate_args = $(foreach g,$(GATES),'$(g)=$(MAKE) --no-print-directory O=$(O) CC=$(CC) $(g)') \
	$(if $(TESTBED_CHECK)$(filter-out 0,$(words $(GATES))),$(if $(GATES),$(if $(TESTBED_CHECK),'!testbed=$(TESTBED_CHECK)')))

# What plugins are compared with, with threads of its own and without: every message right.
peer_run = $(O)/perf/p2p --spawn --verify --pairs 1 --seconds 0.05 --sizes 1,128,129,64K,1M --plugin $(O)/perf/libnccl-net-sockets.so
peer_args = 'perf/sockets=$(peer_run)' 'perf/sockets, threads=NCCL_SOCKET_NTHREADS=2 NCCL_NSOCKS_PERTHREAD=2 $(peer_run)' \
	'perf/allreduce=$(O)/perf/allreduce --spawn 3 --algo ring,tree --bytes 4,1M --iters 2 --batch 1 --floor --plugin $(PLUGIN_PATH) --vs $(O)/perf/libnccl-net-sockets.so'

# The page in a real browser. Not in a sanitized build: it is the browser that is tested.
browser_args = $(if $(GATES),'browser/page=tests/browser/check $(O)')

# Sums beside MPI's. It builds its own program, as nothing else needs MPI. And a cluster that mpirun measures.
mpi_args = $(if $(GATES),'mpi/compare=CC=$(CC) tests/mpi/check $(O)' 'mpi/clusterprobe=PYTHON=$(PYTHON) tests/mpi/clusterprobe $(O)')

# The rules of docs/messages.md, in every state.
model_args = $(if $(GATES),'model/messages=CC=$(CC) tests/model/check')

# Not for the command line: it expects everything to be built.
run-check:
	@$(RUN) --logs '$(O)/logs' --timeout '$(TIMEOUT)' --jobs '$(JOBS)' --only '$(T)' $(test_args)

# halt_on_error: a report must fail the test that caused it.
SAN_ENV := ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:halt_on_error=1:abort_on_error=0 \
	UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

check-asan: ## the same tests under AddressSanitizer and UndefinedBehaviorSanitizer
	+$(Q)$(SAN_ENV) $(MAKE) O='$(O)/asan' SAN=address,undefined TIMEOUT=$$(($(TIMEOUT) * 3)) check

check-tsan: ## under ThreadSanitizer, the tests of all that has threads
	+$(Q)$(SAN_ENV) $(MAKE) O='$(O)/tsan' SAN=thread TIMEOUT=$$(($(TIMEOUT) * 3)) check

check-clang: ## the same tests, built with clang
	+$(Q)$(MAKE) O='$(O)/clang' CC=clang check

check-faults: ## the tests that inject faults (the Nth malloc, read, write, connect fails), under AddressSanitizer
	+$(Q)$(SAN_ENV) $(MAKE) O='$(O)/faults' SAN=address,undefined FAULTS=1 TIMEOUT=$$(($(TIMEOUT) * 5)) check

# TRIBUTARY_TEST_LONG=1: the tests take the variants that need minutes or gigabytes, and more random kills and schedules.
PART ?=
check-long: ## what takes too long for .ci/run, hours in all (PART="tsan faults": only those; tests/README.md)
	@O='$(O)' tests/gates/check-long $(PART)

check-late: ## the long variants of unit tests that strike in every state (a quarter of an hour)
	+$(Q)$(after_deps) WERROR='$(WERROR)' all tests
	+$(Q)$(MAKE) O='$(O)' T='$(T)' run-late

run-late:
	@$(RUN) --logs '$(O)/logs-late' --timeout 1800 --jobs '$(JOBS)' --only '$(T)' $(late_args)

# What cannot be installed is a reason to skip, which tests/vm/check gives.
check-vm: deps-check ## in virtual machines: SoftRoCE, two hosts, PCIe switches (QEMU; downloads Debian's kernel once)
	+$(Q)$(after_deps) WERROR='$(WERROR)' all tests
	@CC='$(CC)' .ci/deps $(DEPS_VM) || :
	@ONLY='$(T)' tests/vm/check '$(O)'

check-gpu: ## needs a GPU and PyTorch: several ranks share it and talk through the plugin
	+$(Q)$(after_deps) all
	@if [ -x tests/gpu/check ]; then tests/gpu/check; else echo 'skipped: tests/gpu/check is not there'; fi

# -------------------------------------------------------------------------------------------------------------- gates

# Each takes what it examines from a variable, so that check-gates can hand it a violation.
ABI_LIST ?= src/plugin/exports.txt
GATE_PLUGIN ?= $(O)/libnccl-net-tributary.so
GATE_ROOT ?= .

check-abi: $(if $(filter $(O)/libnccl-net-tributary.so,$(GATE_PLUGIN)),$(PLUGIN)) ## the plugin exports what src/plugin/exports.txt lists, and needs libc alone
	@tests/gates/abi '$(GATE_PLUGIN)' '$(ABI_LIST)'

check-imports: $(if $(filter $(O)/libnccl-net-tributary.so,$(GATE_PLUGIN)),$(PLUGIN)) ## the plugin imports nothing that would change the process it is in
	@tests/gates/imports '$(GATE_PLUGIN)' '$(GATE_ROOT)'

check-layers: ## includes point only downwards (layers.txt)
	@cd '$(GATE_ROOT)' && awk -f '$(CURDIR)/tests/gates/layers.awk' '$(CURDIR)/layers.txt' $$(find src -name '*.[ch]' | sort)

check-size: ## no function over 120 lines, no file over 700
	@cd '$(GATE_ROOT)' && awk -f '$(CURDIR)/tests/gates/size.awk' $$(find src include perf tests -name '*.[ch]' 2>/dev/null | sort)

check-words: ## names as tests/gates/words.txt has them, functions with the name of their folder or file
	@$(PYTHON) tests/gates/words.py '$(GATE_ROOT)' tests/gates/words.txt

check-docs: ## every warning is in docs/troubleshooting.md, every relative link of the docs leads somewhere
	@$(PYTHON) tests/gates/docs.py '$(GATE_ROOT)'

check-gates: ## every gate above fails when it should
	@O='$(O)' CC='$(CC)' tests/gates/check-gates

# ---------------------------------------------------------------------------------------------------- lint and format

.PHONY: lint lint-compilers lint-tidy lint-cppcheck format check-format
ALL_C := $(sort $(wildcard $(LIB_SRC) $(COMMAND_SRC) $(DAEMON_SRC) $(PERF_COMMON_SRC) $(PERF_SRC) $(UNIT_ALL) $(CONF_ALL) \
	$(STANDIN_ALL) $(STANDIN_LIB_SRC) \
	$(FUZZ_SRC) $(FUZZ_REPLAY_SRC)))
ALL_CH := $(sort $(shell find src include perf tests -name '*.[ch]' 2>/dev/null))
LINT_FLAGS := -DTRIBUTARY_VERSION='""' -Isrc -Iinclude -Itests -Iperf

lint: lint-compilers lint-tidy lint-cppcheck ## gcc and clang with -Werror, clang-tidy, cppcheck

# `make check check-clang` finds the same, while it builds.
lint-compilers: deps-lint
	@set -e; for cc in gcc clang; do \
		printf '  %-7s %s\n' $$cc '-Werror'; \
		printf '%s\n' $(ALL_C) | xargs -P '$(JOBS)' -n 1 $$cc $(STD) -O2 $(WARNINGS) -Werror $(LINT_FLAGS) -c -o /dev/null; \
	done

# SINCE=HEAD~50: only the files that changed since that commit (all where it is not there).
SINCE ?=
TIDY_C = $(filter $(if $(SINCE),$(or $(shell git diff --name-only '$(SINCE)' -- 2>/dev/null),%),%),$(filter src/% perf/%,$(ALL_C)))
lint-tidy: deps-lint
	$(say) TIDY '$(words $(TIDY_C)) files'
	@printf '%s\n' $(TIDY_C) | \
		xargs -P '$(JOBS)' -I '{}' clang-tidy --quiet '{}' -- $(STD) $(LINT_FLAGS)

lint-cppcheck: deps-lint
	$(say) CPPCHECK
	@cppcheck --quiet -j '$(JOBS)' --std=c11 --language=c --error-exitcode=1 --inline-suppr --enable=warning,performance,portability \
		--suppress=missingIncludeSystem --suppress=unknownMacro -D_GNU_SOURCE $(LINT_FLAGS) $(filter src/% perf/%,$(ALL_C))

format: deps-lint ## clang-format every C file in place
	$(Q)clang-format -i $(ALL_CH)

check-format: ## clang-format would change nothing
	@clang-format --dry-run --Werror $(ALL_CH)

# ---------------------------------------------------------------------------------------------------------- fuzz, bench

.PHONY: fuzz run-fuzz bench
S ?= 60
FUZZ_RUN = $(if $(T),$(filter $(T),$(FUZZ_NAMES)),$(FUZZ_NAMES))

fuzz: deps-lint ## libFuzzer, S seconds each (T=name: only that one)
	+$(Q)$(MAKE) O='$(O)/fuzz' CC=clang SAN=fuzzer-no-link,address,undefined T='$(T)' S='$(S)' run-fuzz

run-fuzz: $(FUZZERS)
	@tests/gates/run-fuzz --out '$(O)' --seconds '$(S)' $(FUZZ_RUN)

bench: deps-bench ## the benchmarks of perf/, never part of check
	+$(Q)$(after_deps) all
	+$(Q)$(MAKE) O='$(O)' run-bench

-include perf/perf.mk

# ------------------------------------------------------------------------------------------------------------- install

.PHONY: install install-default uninstall
MAN1 := $(wildcard docs/*.1)
MAN8 := $(wildcard docs/*.8)
UNITS := $(wildcard systemd/*.service)
COMPLETION := share/bash-completion/completions/tributary
# Help texts, man pages and messages name these; --help says where they are. README.md shows the picture and names the results.
DOCUMENTS := $(wildcard README.md CHANGELOG.md LICENSE docs/*.md docs/*.json docs/plan.svg perf/RESULTS.md)
DOCS := share/doc/tributary
# What NCCL looks for where no variable names a plugin. Those of another package stay.
DEFAULT_PLUGINS := libnccl-env.so libnccl-net.so
foreign_plugin = [ -e '$(DESTDIR)$(PREFIX)/lib/'$(1) -o -L '$(DESTDIR)$(PREFIX)/lib/'$(1) ] && \
	[ "$$(readlink '$(DESTDIR)$(PREFIX)/lib/'$(1))" != libnccl-net-tributary.so ]
install: all ## into PREFIX (default /usr/local), under DESTDIR
	$(Q)install -d '$(DESTDIR)$(PREFIX)/lib' '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/share/man/man1'
	$(Q)install -m 755 $(PLUGIN) '$(DESTDIR)$(PREFIX)/lib/'
	$(Q)ln -sf $(notdir $(PLUGIN)) '$(DESTDIR)$(PREFIX)/lib/$(notdir $(ENV_PLUGIN))'
	$(Q)$(if $(COMMAND)$(DAEMON),install -m 755 $(COMMAND) $(DAEMON) '$(DESTDIR)$(PREFIX)/bin/')
	$(Q)$(if $(MAN1),install -m 644 $(MAN1) '$(DESTDIR)$(PREFIX)/share/man/man1/')
	$(Q)install -d '$(DESTDIR)$(PREFIX)/share/man/man8' '$(DESTDIR)$(PREFIX)/lib/systemd/system' '$(DESTDIR)$(PREFIX)/lib/sysusers.d'
	$(Q)install -m 644 $(MAN8) '$(DESTDIR)$(PREFIX)/share/man/man8/'
	$(Q)for unit in $(notdir $(UNITS)); do sed 's|@PREFIX@|$(PREFIX)|g' systemd/$$unit > '$(DESTDIR)$(PREFIX)/lib/systemd/system/'$$unit || exit 1; \
		chmod 644 '$(DESTDIR)$(PREFIX)/lib/systemd/system/'$$unit; done
	$(Q)install -m 644 systemd/tributaryd.sysusers '$(DESTDIR)$(PREFIX)/lib/sysusers.d/tributaryd.conf'
	$(Q)install -D -m 644 docs/tributary.bash '$(DESTDIR)$(PREFIX)/$(COMPLETION)'
	$(Q)install -d '$(DESTDIR)$(PREFIX)/$(DOCS)/docs' '$(DESTDIR)$(PREFIX)/$(DOCS)/perf'
	$(Q)for document in $(DOCUMENTS); do install -m 644 $$document '$(DESTDIR)$(PREFIX)/$(DOCS)/'$$document || exit 1; done

install-default: install ## the same, and every NCCL job of this machine uses it without a variable
	$(Q)for name in $(DEFAULT_PLUGINS); do if $(call foreign_plugin,$$name); then \
		echo "$(DESTDIR)$(PREFIX)/lib/$$name belongs to something else, and stays: NCCL loads that one" >&2; exit 1; fi; done
	$(Q)for name in $(DEFAULT_PLUGINS); do ln -sf $(notdir $(PLUGIN)) '$(DESTDIR)$(PREFIX)/lib/'$$name || exit 1; done

uninstall: ## take out what install put in
	$(Q)for name in $(DEFAULT_PLUGINS); do $(call foreign_plugin,$$name) || rm -f '$(DESTDIR)$(PREFIX)/lib/'$$name || exit 1; done
	$(Q)rm -f '$(DESTDIR)$(PREFIX)/lib/libnccl-net-tributary.so' '$(DESTDIR)$(PREFIX)/lib/libnccl-env-tributary.so' \
		'$(DESTDIR)$(PREFIX)/bin/tributary' \
		'$(DESTDIR)$(PREFIX)/bin/tributaryd' $(patsubst docs/%,'$(DESTDIR)$(PREFIX)/share/man/man1/%',$(MAN1)) \
		$(patsubst docs/%,'$(DESTDIR)$(PREFIX)/share/man/man8/%',$(MAN8)) \
		$(patsubst systemd/%,'$(DESTDIR)$(PREFIX)/lib/systemd/system/%',$(UNITS)) \
		'$(DESTDIR)$(PREFIX)/lib/sysusers.d/tributaryd.conf' \
		'$(DESTDIR)$(PREFIX)/$(COMPLETION)' $(patsubst %,'$(DESTDIR)$(PREFIX)/$(DOCS)/%',$(DOCUMENTS))
	$(Q)rmdir '$(DESTDIR)$(PREFIX)/$(DOCS)/docs' '$(DESTDIR)$(PREFIX)/$(DOCS)/perf' '$(DESTDIR)$(PREFIX)/$(DOCS)' 2>/dev/null || :

# A test compares both with what the program prints.
.PHONY: generated
generated: $(COMMAND) $(DAEMON) ## write the man pages and the completion anew, from the programs' tables
	$(Q)$(DAEMON) --man > $(O)/tributaryd.8 && cp $(O)/tributaryd.8 docs/tributaryd.8
	$(Q)$(COMMAND) help --man > $(O)/tributary.1 && cp $(O)/tributary.1 docs/tributary.1
	$(Q)$(COMMAND) completion bash > $(O)/tributary.bash && cp $(O)/tributary.bash docs/tributary.bash

help: ## this list
	@echo 'Targets:'
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'
	@echo 'Variables:'
	@sed -n '2,/^$$/s/^#   /  /p' Makefile
