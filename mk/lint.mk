# SPDX-License-Identifier: Apache-2.0
# Other compilers, static checkers, formatting.

.PHONY: lint lint-clang lint-tidy lint-cppcheck format check-format
ALL_C := $(sort $(wildcard $(LIB_SRC) $(COMMAND_SRC) $(DAEMON_SRC) $(PERF_COMMON_SRC) $(PERF_SRC) $(wildcard perf/plugin/*.c perf/preload/*.c) $(UNIT_ALL) $(CONF_ALL) \
	$(STANDIN_ALL) $(STANDIN_LIB_SRC) \
	$(FUZZ_SRC) $(FUZZ_REPLAY_SRC)))
ALL_CH := $(sort $(shell find src include perf tests -name '*.[ch]' 2>/dev/null))
LINT_FLAGS := -DTRIBUTARY_VERSION='""' -Isrc -Iinclude -Itests -Iperf

lint: lint-clang lint-tidy lint-cppcheck ## clang's warnings, clang-tidy, cppcheck

# Some warnings are clang's alone; those of gcc fail every check.
lint-clang: deps-lint
	$(say) CLANG '$(words $(ALL_C)) files'
	@printf '%s\n' $(ALL_C) | xargs -P '$(JOBS)' -n 20 clang $(STD) $(WARNINGS) -Werror $(LINT_FLAGS) -fsyntax-only

# SINCE=HEAD~50: only the files that changed since that commit (all where it is not there).
SINCE ?=
TIDY_C = $(filter $(if $(SINCE),$(or $(shell git diff --name-only '$(SINCE)' -- 2>/dev/null),%),%),$(filter src/% perf/%,$(ALL_C)))
lint-tidy: deps-lint
	$(say) TIDY '$(words $(TIDY_C)) files'
	@printf '%s\n' $(TIDY_C) | \
		xargs -P '$(JOBS)' -I '{}' clang-tidy --quiet '{}' -- $(STD) $(LINT_FLAGS)

# It does not look for system headers by itself; of these the macros make a difference.
QUEUE_H = $(shell printf '\043include <sys/queue.h>' | $(CC) -M -xc - 2>/dev/null | tr ' ' '\n' | grep -m 1 'sys/queue\.h')
lint-cppcheck: deps-lint
	$(say) CPPCHECK
	@cppcheck --quiet -j '$(JOBS)' --std=c11 --language=c --error-exitcode=1 --inline-suppr --enable=warning,performance,portability \
		--suppress=missingIncludeSystem --suppress=unknownMacro $(QUEUE_H:%=--include=%) -D_GNU_SOURCE $(LINT_FLAGS) $(filter src/% perf/%,$(ALL_C))

format: deps-lint ## clang-format every C file in place
	$(Q)clang-format -i $(ALL_CH)

check-format: ## clang-format would change nothing
	@clang-format --dry-run --Werror $(ALL_CH)
