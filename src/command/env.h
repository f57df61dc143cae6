/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job's environment needs for NCCL to load the plugin and to use all of it: `tributary env` prints it, `tributary
 * run` sets it. What the user has set already stays.
 */
#ifndef TRIBUTARY_COMMAND_ENV_H
#define TRIBUTARY_COMMAND_ENV_H

#include "command/command.h"

#include <limits.h>

enum { ENV_VARIABLES_MAX = 7, ENV_NOTES_MAX = 3, ENV_VALUE_BYTES = 2 * PATH_MAX, ENV_REASON_BYTES = 512 };

struct env_variable {
	const char *name;
	char value[ENV_VALUE_BYTES];
};
struct env {
	char library[PATH_MAX]; /* the plugin */
	struct env_variable variables[ENV_VARIABLES_MAX];
	size_t count;                                /* that are to be set; 0: all is as it should be */
	char notes[ENV_NOTES_MAX][ENV_REASON_BYTES]; /* what the user has set and keeps Tributary out */
	size_t note_count;
	bool has_collnet;               /* NCCL_COLLNET_ENABLE is among them */
	char collnet[ENV_REASON_BYTES]; /* why, or why not: a clause */
	unsigned gain_permille;         /* of the rate of NCCL's ring or tree, by aggregation; 0: not known */
	bool loses_gdr;                 /* the network is RDMA, of which collnet would lose GPUDirect */
};

#define ENV_OPTION_COLLNET                                                                                             \
	{                                                                                                              \
		"collnet", "auto|on|off",                                                                              \
			"aggregated AllReduce; auto: where the cluster file promises a gain, and our tuner is in use", \
			"auto"                                                                                         \
	}

#define ENV_OPTION_TUNING                                                                                          \
	{                                                                                                          \
		"tuning", "TABLE", "the tuning table that NCCL follows, which every rank must have; auto; or off", \
			NULL,                                                                                      \
	}

/* The plugin in lib beside this program, as in a build folder, or in that of its prefix. */
bool env_find_beside(char path[static PATH_MAX]);
/* COMMAND_OK; COMMAND_USAGE, or COMMAND_FAILED, after saying why: the plugin is nowhere. */
int env_make(const struct command_call *call, struct env *ret);
/* The notes, and one line about NCCL_COLLNET_ENABLE, and why. */
void env_explain(const struct env *env, const char *before, FILE *out);

#endif
