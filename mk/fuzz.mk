# SPDX-License-Identifier: Apache-2.0
# Fuzzers and benchmarks.

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
