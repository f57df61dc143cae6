/*
 * The subcommands of `tributary`. Each is one function in one file; main.c holds the table of them. One thread.
 */
#ifndef TRIBUTARY_COMMAND_COMMAND_H
#define TRIBUTARY_COMMAND_COMMAND_H

#include <stdio.h>

struct params;

/* Exit statuses. */
enum { COMMAND_OK = 0, COMMAND_FAILED = 1, COMMAND_USAGE = 2 };

struct command {
	const char *name, *arguments, *help; /* help: one line */
	/* argv[0] is the subcommand's name. Results go to out, complaints to stderr. Returns the exit status. */
	int (*run)(int argc, char **argv, FILE *out);
};

int command_devices(int argc, char **argv, FILE *out);
int command_params(int argc, char **argv, FILE *out);
int command_version(int argc, char **argv, FILE *out);

/* Says on stderr what is wrong with the command line, in one sentence; returns COMMAND_USAGE. */
int command_usage_error(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* COMMAND_OK, or says that argv[1] is too much. For commands that take no arguments. */
int command_no_arguments(int argc, char **argv);

/* The environment's parameters; what is wrong with them is said on stderr. */
void command_load_params(struct params *ret);

#endif
