# What `make bench` runs once everything is built. NAME=ring8 for one row; see perf/run list.
.PHONY: run-bench
run-bench: all
	@perf/run --build '$(O)' $(if $(NAME),$(NAME),all)
