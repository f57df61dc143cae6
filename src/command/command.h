/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of `tributary`. Each is one constant in one file: its name, its operands, its options, what it does.
 * From these, and from nothing else, come the parser, --help, the man pages and the completion for shells. One thread.
 */
#ifndef TRIBUTARY_COMMAND_COMMAND_H
#define TRIBUTARY_COMMAND_COMMAND_H

#include "base/options.h"

#include <stdint.h>

struct params;
struct diag;

/* Exit statuses. */
enum {
	COMMAND_OK = 0,
	COMMAND_FAILED = 1, /* or interrupted */
	COMMAND_USAGE = 2,
	COMMAND_WARNINGS = 3, /* doctor, lint: the worst finding is a warning */
	COMMAND_ERRORS = 4,   /* doctor, lint: the worst finding is an error */
};

enum { COMMAND_OPTIONS_MAX = 24, COMMAND_OPERANDS_MAX = 3 };

/* In the order in which help lists them. */
enum command_group {
	COMMAND_SEE,
	COMMAND_PLANNING,
	COMMAND_JOBS,
	COMMAND_CLUSTERS,
	COMMAND_FILES,
	COMMAND_OTHER,
	COMMAND_GROUP_COUNT
};
const char *command_group_title(enum command_group group);

struct command_call;

struct command {
	const char *name; /* one word, or two: that of another command and one of its own, "cluster order" */
	enum command_group group;
	/*
	 * "", "FILE", "[COMMAND]", "show FILE": words in lower case, as "bash|zsh", are the only ones allowed. "COMMAND...", "[COMMAND...]":
	 * it and all that follows are nobody's business here. "FILE...", "[HOST...]": any number of them, among the options.
	 */
	const char *operands;
	const char *help;  /* one line, a clause */
	const char *about; /* sentences for --help and the man page; paragraphs end with a newline; NULL: none */
	struct options_row options[COMMAND_OPTIONS_MAX + 1];
	const struct metrics_table *metrics; /* that it writes; NULL: none */
	const char *example;                 /* a line for the shell, which a test runs */
	/* Results go to out, complaints to stderr. Returns the exit status. */
	int (*run)(const struct command_call *call, FILE *out);
};

/* A command line that fits its command's tables. The texts are those of argv. */
struct command_call {
	const struct command *const *table; /* of all subcommands */
	const struct command *command;
	const char *values[COMMAND_OPTIONS_MAX]; /* "" for an option without argument; NULL: not given */
	const char *operands[COMMAND_OPERANDS_MAX];
	size_t operand_count;
	char **rest; /* of "COMMAND...": it and what follows; of "FILE..." and "[HOST...]": all of them; up to a NULL */
};

extern const struct command command_aggregators, command_bench, command_capture, command_check, command_cluster,
	command_cluster_measure, command_cluster_order, command_completion, command_devices, command_discover,
	command_doctor, command_env, command_estimate, command_explain, command_export, command_help, command_lint,
	command_measure, command_params, command_place, command_plan, command_report, command_run, command_show,
	command_simulate, command_status, command_top, command_tune, command_version;

/* All of them, in the order in which help lists them; ends with NULL. */
extern const struct command *const command_table[];
const struct command *command_find(const struct command *const *table, const char *name);
/* That of the first words of a command line, and of how many: 0: NULL. */
const struct command *command_find_words(const struct command *const *table, int count, char **words, int *ret_taken);

/* argv[0] is the program. What goes wrong is said on stderr. Returns the exit status. */
int command_main(int argc, char **argv, FILE *out);

/* Says that there is no such command, and which is meant where it may be a slip of the fingers. COMMAND_USAGE. */
int command_unknown(const struct command *const *table, const char *typed);
/* call.c. argv[0] is the subcommand. COMMAND_OK, or COMMAND_USAGE after saying why. */
int command_parse(const struct command *const *table, const struct command *command, int argc, char **argv,
		  struct command_call *ret);
/*
 * Before anything is done: whether the files that the call names for results can be written, and no two results go to
 * standard output. Says on stderr what is wrong. COMMAND_OK, COMMAND_USAGE or COMMAND_FAILED.
 */
int command_check_outputs(const struct command_call *call);
/* The value of an option of the command's own table: given, standard, or NULL. */
const char *command_value(const struct command_call *call, const char *name);
bool command_given(const struct command_call *call, const char *name);
/* Says "--NAME is "VALUE", expected FMT"; returns COMMAND_USAGE. */
int command_wrong_value(const struct command_call *call, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A number from min to max, or else says so. Without a value *ret stays. */
int command_number(const struct command_call *call, const char *name, uint64_t min, uint64_t max, uint64_t *ret);

/* The next command after `at` (NULL: the first) whose name is that of `command` and one word more; NULL: there is none. */
const struct command *const *command_next_second(const struct command *const *table, const struct command *command,
						 const struct command *const *at);

/* help.c, man.c, completion.c */
void command_print_help(const struct command *const *table, const struct command *command, FILE *out);
/* All man pages, each into its section's folder below; says what goes wrong. An exit status. */
int command_write_man(const struct command *const *table, const char *folder);
void command_print_completion(const struct command *const *table, FILE *out);
/* zsh.c, fish.c */
void command_print_zsh(const struct command *const *table, FILE *out);
void command_print_fish(const struct command *const *table, FILE *out);
/* params.c: what tributary-env(7) says of each. */
void command_print_params_man(FILE *out);

/* Says on stderr "tributary: ...", a sentence; as in all of these, control characters become '?'. */
void command_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Says on stderr what is wrong with the command line, in one sentence; returns COMMAND_USAGE. */
int command_usage_error(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Says on stderr "tributary: ...", with diag's place and reason where there is one; returns COMMAND_FAILED. */
int command_failed(const struct diag *diag, int error, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same after "tributary: warning: "; the command goes on. */
void command_warn(const struct diag *diag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * A host by its name, bytes of it, among name_of(arg, 0 … count - 1): as it is, else by the part before the first dot, on
 * either side; a short name that fits several fits none. count: there is none.
 */
size_t command_find_host(const char *name, size_t bytes, const char *(*name_of)(const void *arg, size_t index),
			 const void *arg, size_t count);

/* The environment's parameters; what is wrong with them is said on stderr. */
void command_load_params(struct params *ret);
/* The row of that name; params_count() if there is none. */
size_t command_param_index(const char *name);
/* Where the value of a row came from, after command_load_params; false: nobody set it. */
struct command_param_source {
	const char *variable, *text; /* TRIBUTARY_IF, or NCCL_SOCKET_IFNAME in its place, and its value */
	const char *from;            /* "the environment", or a configuration file of NCCL's */
};
bool command_param_source(const struct params *params, size_t index, struct command_param_source *ret);

/*
 * Of a process that a launcher started: parameters; where it is in the job, by --master or the environment; the secret of
 * --secret or else TRIBUTARY_SECRET, which setup names. otherwise: what else can be done, or "". An exit status.
 */
struct clusterprobe_setup;
struct control_secret;
int command_find_launch(const struct command_call *call, const char *otherwise, struct params *ret_params,
			struct control_secret *ret_secret, struct clusterprobe_setup *setup);
/* As many as the system allows: for one that has a connection with every host, or several. */
void command_raise_descriptors(void);

/* The option that every command with a machine-readable form has, and that of colours. */
#define COMMAND_OPTION_JSON                                                                          \
	{                                                                                            \
		"json", NULL, "print JSON; docs/format/command.schema.json describes the keys", NULL \
	}
#define COMMAND_OPTION_COLOR                                                                                 \
	{                                                                                                    \
		"color", "auto|always|never", "colours; auto: on a terminal, unless NO_COLOR is set", "auto" \
	}
#define COMMAND_OPTION_FROM                                                                                         \
	{                                                                                                           \
		"from", "FILE",                                                                                     \
			"a capture, a hwloc XML file, an NCCL topology file or a machine's text form; a capture's " \
			"folder, or one with a machine.topology; - for standard input; without it this machine",    \
			NULL                                                                                        \
	}
#define COMMAND_OPTION_PROFILE                                                                                    \
	{                                                                                                         \
		"profile", "FILE",                                                                                \
			"measured rates; without it the profile of this machine, if there is one that fits", NULL \
	}
#define COMMAND_OPTION_GPUS                                                                         \
	{                                                                                           \
		"gpus", "LIST", "by number, name or PCI place, 0-3,6; all of them without it", NULL \
	}
#define COMMAND_OPTION_NETS                                                                                \
	{                                                                                                  \
		"nets", "LIST", "NICs in the order of NCCL's net devices; without it by their names", NULL \
	}
#define COMMAND_OPTION_HOSTS                                                                               \
	{                                                                                                  \
		"hosts", "N", "hosts like this one; either: one or several, as where nobody can tell", "1" \
	}
#define COMMAND_OPTION_COLLNET                                                                              \
	{                                                                                                   \
		"collnet", NULL, "NCCL has our collnet, as with NCCL_COLLNET_ENABLE=1; several hosts", NULL \
	}
#define COMMAND_OPTION_COLLNET_CLUSTER                                                                 \
	{                                                                                              \
		"cluster", "FILE", "the same if this cluster file promises a gain, and how much", NULL \
	}
#define COMMAND_OPTION_EXCLUDE                                                                          \
	{                                                                                               \
		"exclude", "GLOB[,GLOB]",                                                               \
			"leave out these hosts and switches, where the cluster's file is what LLDP or " \
			"ibnetdiscover says of cables",                                                 \
			NULL                                                                            \
	}
#define COMMAND_OPTION_COMPARE                                                                             \
	{                                                                                                  \
		"compare", "FILE", "the graph that NCCL dumped for these GPUs, NCCL_GRAPH_DUMP_FILE", NULL \
	}

#endif
