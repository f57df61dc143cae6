/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of a benchmark: a table of options. `--name VALUE` and `--name=VALUE`; a flag takes no value.
 * args_parse() prints help or one line about what is wrong and says so. Main thread only.
 */
#ifndef TRIBUTARY_PERF_ARGS_H
#define TRIBUTARY_PERF_ARGS_H

#include <stddef.h>

enum { ARGS_LIST_MAX = 32 };

struct args_list {
	int count;
	size_t values[ARGS_LIST_MAX];
};

enum args_kind {
	ARGS_FLAG,   /* bool */
	ARGS_INT,    /* int, 0 or more */
	ARGS_NUMBER, /* double, 0 or more */
	ARGS_TEXT,   /* const char *, into argv */
	ARGS_SIZE,   /* size_t, as parse_size() takes it */
	ARGS_RATE,   /* double, bits/s, as parse_rate() takes it */
	ARGS_SIZES,  /* struct args_list, comma between; "none" for an empty one */
};

struct args_option {
	const char *name; /* without dashes; the table ends with NULL */
	enum args_kind kind;
	void *target;
	const char *help;
};

/* 0: go on; 1: help was printed; -EINVAL: said what is wrong. */
int args_parse(int argc, char **argv, const char *summary, const struct args_option *options);

/* 0, -EINVAL or -ERANGE; the whole text must be used up. */
int args_size(const char *text, size_t *ret_size);
int args_rate(const char *text, double *ret_bps);
int args_int(const char *text, int *ret_value);
/*
 * Which of the names a list with commas has, in its order, collectives as parse_collective() takes them: how many, at most all;
 * -EINVAL: another one, or one twice.
 */
int args_names(const char *text, const char *const *names, int name_count, int *ret_indices);

size_t args_largest(const struct args_list *list, size_t least);

#endif
