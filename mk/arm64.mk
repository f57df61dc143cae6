# SPDX-License-Identifier: Apache-2.0
# The plugin, the command and their tests for arm64, under qemu-user.
#
# What this shows: it builds without a warning, NCCL's interfaces have the same layout, and everything that the tests of x86-64
# look at.  What it does not show: the order in which another CPU sees writes.  qemu translates for an x86-64 CPU, which keeps
# stores in order (TSO), so a barrier that arm64 lacks is seldom missed here; `make check-tsan` and the stand-in find more.
# Nor pages of 64 KiB: qemu-user has the host's.

ARM64 := aarch64-linux-gnu-
ARM64_O := $(O)/arm64
ARM64_ROOT = $(or $(ROOTS),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tributary/roots)/arm64
ARM64_LIBRARIES := libc6-dev libcmocka-dev libhwloc-dev libexpat1-dev libjansson-dev libarchive-dev libibverbs-dev libglpk-dev
# The programs find loader and libraries there by themselves, whatever environment a test gives them.
ARM64_LDFLAGS = --sysroot=$(ARM64_ROOT) -Wl,--dynamic-linker=$(ARM64_ROOT)/lib/ld-linux-aarch64.so.1 \
	-Wl,--disable-new-dtags -Wl,-rpath,$(ARM64_ROOT)/usr/lib/aarch64-linux-gnu
# qemu-user says that madvise(MADV_WIPEONFORK) works, and does nothing: a forked child is known by its process id alone.
ARM64_MAKE = $(MAKE) O='$(ARM64_O)' CC=$(ARM64)gcc AR=$(ARM64)ar CFLAGS='--sysroot=$(ARM64_ROOT) -DTRIBUTARY_FORK_BY_PID' LDFLAGS='$(ARM64_LDFLAGS)' WERROR=1 V='$(V)'

.PHONY: check-arm64 run-arm64
check-arm64: deps-arm64 ## builds for arm64; units, conformance and fuzz corpora run under qemu-user (T=name: only those)
	@tests/gates/check-arm64 root '$(ARM64_ROOT)' $(ARM64_LIBRARIES)
	+$(Q)[ ! -e '$(ARM64_ROOT)/ready' ] || $(ARM64_MAKE) all tests
	+$(Q)[ ! -e '$(ARM64_ROOT)/ready' ] || tests/gates/check-arm64 run $(ARM64_MAKE) T='$(T)' run-arm64

# What cannot run so, and why ("_" for a space).
ARM64_NOT := $(addsuffix :qemu-user_makes_up_the_start_time_by_which_processes_are_known,unit/base/process \
	$(addprefix unit/transport/pace/,arbiter arbiter_file)) unit/base/sys:qemu-user_keeps_the_last_signals_for_itself \
	$(addsuffix :qemu-user_has_no_TCP_INFO_and_not_all_socket_options,$(addprefix unit/clusterprobe/,clusterprobe data scripted) unit/command/cluster_measure \
		$(addprefix unit/transport/tcp/,route socket)) \
	$(addsuffix :the_user_namespace_has_one_user,unit/daemon/privileges unit/daemon/program) \
	unit/command/install:ldconfig_of_this_system_knows_no_libraries_for_arm64
# Planning and statistics over thousands of machines: integers and doubles, of which smaller tests look at the same code.
ARM64_SLOW := $(addprefix unit/plan/,bound direct machines machines_tuner make optimum) unit/measure/accuracy
ARM64_NOT += $(if $(T),,$(ARM64_SLOW:%=%:takes_minutes_here,_T=NAME_runs_it))
arm64_reason = $(subst _, ,$(word 2,$(subst :, ,$(filter $(1):%,$(ARM64_NOT)))))
arm64_name = $(1:$(O)/tests/%_test=%)
arm64_runs = $(foreach t,$(1),$(if $(filter $(call arm64_name,$(t)):%,$(ARM64_NOT)),,$(t)))
run-arm64:
	@$(RUN) --logs '$(O)/logs' --timeout 1200 --jobs $(shell nproc) --only '$(T)' $(call unit_args,$(call arm64_runs,$(UNIT))) \
		$(call conf_args,$(call arm64_runs,$(CONF))) $(fuzz_args) \
		$(foreach t,$(filter-out $(call arm64_runs,$(UNIT) $(CONF)),$(UNIT) $(CONF)),'$(call arm64_name,$(t))=echo "skipped: $(call arm64_reason,$(call arm64_name,$(t)))"; exit 77')
