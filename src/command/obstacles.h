/* SPDX-License-Identifier: Apache-2.0 */
/* Checks this environment for what keeps NCCL jobs started in it from getting planned channels. */
#ifndef TRIBUTARY_COMMAND_OBSTACLES_H
#define TRIBUTARY_COMMAND_OBSTACLES_H

#include <stdbool.h>
#include <stddef.h>

struct params;

enum { OBSTACLES_MAX = 16, OBSTACLE_TEXT_BYTES = 240 };

struct obstacle {
	const char *name;               /* one word: the variable, "profile", "launcher" */
	bool is_total;                  /* no communicator gets channels; else some do not */
	bool is_set;                    /* by a variable of this environment, or of NCCL's configuration files */
	char text[OBSTACLE_TEXT_BYTES]; /* what it does, and after a semicolon the remedy */
};

/*
 * The most important first. Reads the environment, NCCL's configuration files, the profile, /proc and NVML. *ret_params (may
 * be NULL): the parameters, of which nothing is said.
 */
size_t obstacles_find(struct obstacle ret[static OBSTACLES_MAX], struct params *ret_params);

#endif
