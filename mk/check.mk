# SPDX-License-Identifier: Apache-2.0
# Tests, and the gates: rules that the tree itself must keep.

# TIMEOUT: seconds for one test program.  T: run only the tests whose name contains this.  EXCEPT: not those whose name this
# regular expression finds.  JOBS: programs side by side:
# more than cores, for most of them wait more than they compute.
TIMEOUT ?= 400
JOBS ?= $(shell expr $$(nproc) + 1)
T ?=
EXCEPT ?=
RUN := tests/gates/run-tests
GATES := check-abi check-imports check-layers check-circles check-size check-license check-words check-docs check-gates
# In a sanitized or fault build the plugin imports other things, and the texts are the same: no gates.
ifneq ($(SAN)$(filter 1,$(FAULTS)),)
GATES :=
endif
TESTBED_CHECK := $(wildcard tests/testbed/check)

.PHONY: check run-check check-asan check-tsan check-faults check-long check-late check-surroundings check-mutations run-late check-clang check-gpu check-vm $(GATES)

check: deps-check ## unit tests, conformance, fuzz corpora, test-bed and gates (T=name: only those)
	+$(Q)$(after_deps) WERROR='$(WERROR)' all tests
	+$(Q)$(MAKE) O='$(O)' CC='$(CC)' SAN='$(SAN)' FAULTS='$(FAULTS)' V='$(V)' TIMEOUT='$(TIMEOUT)' T='$(T)' run-check

# Each variable is for those alone that take it away again: the plugin warns of a TRIBUTARY_ name that it does not know.
LONG_UNITS := /unit/clusterprobe/fabric /unit/measure/ /unit/ncclmodel/ /unit/ncclxml/ /unit/plan/
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
conf_args = $(foreach t,$(1),'$(t:$(O)/tests/%_test=%)=TRIBUTARY_PLUGIN=$(PLUGIN_PATH) $(t)')
fuzz_args = $(foreach f,$(if $(FUZZ_REPLAY),$(FUZZ_NAMES)),'fuzz/$(f)=$(O)/tests/fuzz/$(f)_replay $(wildcard tests/fuzz/corpus/$(f))')
test_args = $(if $(SAN),$(call unit_args,$(UNIT))) \
	$(call conf_args,$(CONF)) \
	$(foreach t,$(STANDIN),'$(t:$(O)/tests/%_test=%)=TRIBUTARY_SOURCE='\''$(CURDIR)'\'' TRIBUTARY_PLUGIN=$(PLUGIN_PATH) $(t)') \
	$(foreach t,$(RAILS_TESTS),'$(t:$(O)/tests/%_test=%, two rails)=TRIBUTARY_PLUGIN=$(PLUGIN_PATH) $(RAILS_RUN) -- $(t)') \
	$(peer_args) $(bench_args) $(clusters_args) $(hosts_args) $(networks_args) $(report_args) $(browser_args) $(mpi_args) $(metrics_args) $(model_args) $(abi_args) $(gate_args) \
	$(if $(SAN),,$(call unit_args,$(LONGEST_UNITS) $(filter-out $(LONGEST_UNITS),$(UNIT)))) \
	$(fuzz_args)
gate_args = $(foreach g,$(GATES),'$(g)=$(MAKE) --no-print-directory O=$(O) CC='\''$(CC)'\'' $(g)') \
	$(if $(TESTBED_CHECK)$(filter-out 0,$(words $(GATES))),$(if $(GATES),$(if $(TESTBED_CHECK),'!testbed=TB_RELAY='\''$(abspath $(O))/perf/relay'\'' $(TESTBED_CHECK)')))

# What plugins are compared with, with threads of its own and without: every message right.
peer_run = $(O)/perf/p2p --spawn --verify --pairs 1 --seconds 0.05 --sizes 1,128,129,64K,1M --plugin $(O)/perf/libnccl-net-sockets.so
peer_args = 'perf/sockets=$(peer_run)' 'perf/sockets, threads=NCCL_SOCKET_NTHREADS=2 NCCL_NSOCKS_PERTHREAD=2 $(peer_run)' \
	'perf/allreduce=$(O)/perf/allreduce --spawn 3 --algo ring,tree --bytes 4,1M --iters 2 --batch 1 --floor --plugin $(PLUGIN_PATH) --vs $(O)/perf/libnccl-net-sockets.so' \
	'perf/collectives=$(O)/perf/collectives --spawn 3 --bytes 4,999,300K,3M --pairs 6 --seconds 100 --collnet-gain 1500 --plugin $(PLUGIN_PATH) --vs $(O)/perf/libnccl-net-sockets.so'

# The page in a real browser. Not in a sanitized build: it is the browser that is tested.
browser_args = $(if $(GATES),'browser/page=tests/browser/check $(O)')

# Sums beside MPI's. It builds its own program, as nothing else needs MPI. And a cluster that mpirun measures.
mpi_args = $(if $(GATES),'mpi/compare=CC='\''$(CC)'\'' tests/mpi/check $(O)' 'mpi/clusterprobe=PYTHON=$(PYTHON) tests/mpi/clusterprobe $(O)')

# What `tributary bench` and `tune --measure` are made of.
bench_args = $(if $(GATES),'bench/bench=TRIBUTARY_BUILD='\''$(abspath $(O))'\'' $(PYTHON) -B tests/bench/test_bench.py' 'bench/tune=TRIBUTARY_BUILD='\''$(abspath $(O))'\'' $(PYTHON) -B tests/bench/test_tune.py' 'bench/ranks=$(PYTHON) -B tests/gpu/test_gpu_tools.py')

# What packaging/ has for Slurm and Kubernetes: it is run, and compared with schemas.
clusters_args = $(if $(GATES),'clusters/slurm=TRIBUTARY_BUILD='\''$(abspath $(O))'\'' $(PYTHON) -B tests/clusters/test_slurm.py' \
	'clusters/kubernetes=TRIBUTARY_BUILD='\''$(abspath $(O))'\'' $$(packaging/python-with jsonschema yaml || echo $(PYTHON)) -B tests/clusters/test_kubernetes.py')

# `tributary check` over hosts with faults.
hosts_args = $(if $(GATES),'check/check=TRIBUTARY_BUILD='\''$(abspath $(O))'\'' $(PYTHON) -B tests/check/test_check.py')

# Networks that a seed draws, and the paths of connections over them.
networks_args = $(if $(GATES),'networks/reference=TRIBUTARY_BUILD='\''$(abspath $(O))'\'' $(PYTHON) -B tests/networks/test_reference.py' \
	'networks/routes=TRIBUTARY_BUILD='\''$(abspath $(O))'\'' $(PYTHON) -B tests/networks/test_routes.py' \
	'networks/jobs=TRIBUTARY_BUILD='\''$(abspath $(O))'\'' $(PYTHON) -B tests/networks/test_jobs.py')

# `tributary report` beside a model of its own.
report_args = $(if $(GATES),'report/report=TRIBUTARY_BUILD='\''$(abspath $(O))'\'' $(PYTHON) -B tests/report/test_report.py')

# Prometheus over tributaryd and ranks' files, and each query of the Grafana dashboard.
metrics_args = $(if $(GATES),'metrics/dashboard=PYTHON=$(PYTHON) tests/metrics/check $(O)')

# include/nccl/ beside what NCCL is compiled with, where NCCL_SRC= names its unpacked source.
abi_args = $(if $(GATES),'abi/profiler=NCCL_SRC='\''$(NCCL_SRC)'\'' CC='\''$(CC)'\'' tests/abi/check')

# The rules of docs/design/transport.md and streams.md, in every state.
model_args = $(if $(GATES),'model/rules=CC='\''$(CC)'\'' tests/model/check' 'model/broken=CC='\''$(CC)'\'' tests/model/check --broken')

# Not for the command line: it expects everything to be built.
run-check:
	@$(RUN) --logs '$(O)/logs' --timeout '$(TIMEOUT)' --jobs '$(JOBS)' --only '$(T)' --except '$(EXCEPT)' $(test_args)

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

check-surroundings: ## the quick tests, in locales, folders, networks, as users ... that are unlike (root, ten minutes; T=name: only that one)
	+$(Q)$(after_deps) WERROR='$(WERROR)' all tests
	@tests/gates/check-surroundings '$(O)' $(T)

run-late:
	@$(RUN) --logs '$(O)/logs-late' --timeout 1800 --jobs '$(JOBS)' --only '$(T)' $(late_args)

# For the record (perf/results/mutations.txt): it takes hours, and goes on where it was cut.
SEED ?= 1
COUNT ?= 300
check-mutations: deps-check ## how many of COUNT faults, put into src by SEED, the tests find (root, hours; HEAD, not the tree)
	@$(PYTHON) tests/mutation/mutate.py --work '$(O)/mutation' --seed '$(SEED)' --count '$(COUNT)'

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
GATE_PLUGIN ?= $(O)/lib/libnccl-net-tributary.so
GATE_ROOT ?= .
WORDS ?= tests/gates/words.txt
CIRCLES ?= tests/gates/circles.txt
CIRCLE_OBJECTS ?= $(call objects,$(LIB_SRC) $(COMMAND_SRC) $(DAEMON_SRC))

check-abi: $(if $(filter $(O)/lib/libnccl-net-tributary.so,$(GATE_PLUGIN)),$(PLUGIN)) ## the plugin exports what src/plugin/exports.txt lists, and needs libc alone
	@tests/gates/abi '$(GATE_PLUGIN)' '$(ABI_LIST)'

check-imports: $(if $(filter $(O)/lib/libnccl-net-tributary.so,$(GATE_PLUGIN)),$(PLUGIN)) ## the plugin imports nothing that would change the process it is in
	@tests/gates/imports '$(GATE_PLUGIN)' '$(GATE_ROOT)'

check-layers: ## includes point only downwards (layers.txt)
	@cd '$(GATE_ROOT)' && awk -f '$(CURDIR)/tests/gates/layers.awk' '$(CURDIR)/layers.txt' $$(find src -name '*.[ch]' | sort)

check-circles: $(CIRCLE_OBJECTS) ## no two files use each other, but for tests/gates/circles.txt
	@$(PYTHON) tests/gates/circles.py '$(CIRCLES)' $(CIRCLE_OBJECTS)

check-size: ## in src no function over 60 lines, no file over 600
	@cd '$(GATE_ROOT)' && awk -f '$(CURDIR)/tests/gates/size.awk' $$(find src include perf tests -name '*.[ch]' 2>/dev/null | sort)

check-license: ## every source file has its SPDX line
	@tests/gates/license '$(GATE_ROOT)'

check-words: ## names as tests/gates/words.txt has them, functions with the name of their folder or file
	@$(PYTHON) tests/gates/words.py '$(GATE_ROOT)' '$(WORDS)'

check-docs: ## every warning is in docs/guide/troubleshooting.md, every relative link leads somewhere, the pages are short
	@$(PYTHON) tests/gates/docs.py '$(GATE_ROOT)'

check-gates: ## every gate above fails when it should
	@O='$(O)' CC='$(CC)' tests/gates/check-gates
