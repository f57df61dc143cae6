/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process does once, in its first communicator: reads the settings, finds the profile, registers, and makes the
 * topology file.
 *
 * Files for NCCL have no name: they are in memory, and NCCL opens them as /proc/self/fd/N. Nothing is left behind however
 * the process ends.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_SETUP_H
#define TRIBUTARY_PLUGIN_STEER_SETUP_H

#include "base/params.h"
#include "plugin/steer/elsewhere.h"
#include "plugin/steer/machine.h"
#include "plugin/steer/registry.h"
#include "plugin/steer/settings.h"
#include "plugin/steer/tuning.h"

enum { STEER_PATH_BYTES = 48, STEER_GRAPH_BYTES = 1 << 17 };

struct steer_text {
	int fd; /* -1: there is none */
	char path[STEER_PATH_BYTES];
};

struct steer_setup {
	enum steer_choice level;  /* STEER_TOPOLOGY: only the topology file */
	enum steer_reason reason; /* why this process's communicators get no plan, though it is STEER_FULL */
	struct steer_settings settings;
	struct steer_nets nets;
	struct steer_machine machine;
	struct steer_registry registry;
	bool offers_collnet; /* the environment half does, where it gains: the user has said nothing of it */
	bool registers; /* communicators; also where only the heads' agreement on collnet, or tuning tables, need it */
	struct steer_tuning tuning;
	struct steer_elsewhere elsewhere;
	struct steer_text topology, shaped; /* of the machine */
	struct diag why;                    /* it is not STEER_FULL, or there is a reason; a clause */
};

/*
 * source: of NCCL's and the launcher's variables. root: "" for this machine. nccl_version: 22809; 0: there is no environment
 * half. Never fails: what fails lowers the level, and is said in a line of the log.
 */
void steer_setup(const struct params_source *source, const char *root, unsigned nccl_version, struct steer_setup *ret);
/* Whether communicators may get channels; else only tuning tables are decided on. */
bool steer_plans(const struct steer_setup *setup);
/* Nothing is left of it but the level, which is STEER_OFF. One of zeroes with registry.directory etc. at -1 is fine. */
void steer_setup_end(struct steer_setup *setup);
/* Before any other call. */
void steer_setup_init(struct steer_setup *setup);

/* An empty file in memory, with so many bytes reserved; its path for this process and, while that lives, its children. */
int steer_memory_file(size_t reserved_bytes, char path[static STEER_PATH_BYTES]);

#endif
