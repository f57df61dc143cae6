# SPDX-License-Identifier: Apache-2.0
# What `make bench` runs once everything is built. NAME=ring8 for one row; see perf/run list.
.PHONY: run-bench
run-bench: all
	@perf/run --build '$(O)' $(if $(NAME),$(NAME),all)

.PHONY: results
results: ## write perf/RESULTS.md anew, from the texts in perf/results
	@$(PYTHON) perf/results.py

.PHONY: gains
gains: $(COMMAND) ## write the tables of predicted gains in README.md anew, and its pictures
	@$(PYTHON) perf/gains.py --build '$(O)' --write
