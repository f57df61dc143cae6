/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a command is about: discovered or read from a file, with what was measured of it. */
#ifndef TRIBUTARY_COMMAND_SOURCE_H
#define TRIBUTARY_COMMAND_SOURCE_H

#include "base/log.h"
#include "discover/discover.h"
#include "tributary/topology.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct command_call;

struct source {
	struct topology topology;
	struct discover_facts facts;
	enum discover_source from;
	bool profiled;  /* rates of a profile are in the graph */
	int64_t date_s; /* of that profile */
	char profile_path[PATH_MAX];
	struct diag no_profile; /* why there is none; "" nobody looked for one */
};

/* What --profile without --from means: the machine that the profile describes, or this one with the profile's rates. */
enum source_alone { SOURCE_PROFILE_ALONE, SOURCE_PROFILE_HERE };

/*
 * By --from and --profile of the call. Neither: this machine, and its profile if one fits. Both: the file's machine,
 * with the profile's rates where links have the same ends. Says on stderr what went wrong. Returns an exit status.
 */
int source_load(const struct command_call *call, enum source_alone alone, struct source *ret);
/* What discover() said of --from, or of this machine (NULL). Says it on stderr; returns COMMAND_FAILED. */
int source_failed(const char *from, int error, const struct diag *diag);
/* The machine that a profile describes, and nothing else. */
int source_profile(const char *path, struct source *ret);
void source_fini(struct source *source);
/*
 * A whole command about one machine: loads it (SOURCE_PROFILE_ALONE), names it, calls `run`, and says at the end if its
 * rates are nominal for want of a profile.
 */
int source_run(const struct command_call *call, FILE *out,
	       int (*run)(const struct command_call *call, struct source *source, FILE *out));

/* Whether a link has a rate that was measured. */
bool source_is_measured(const struct topology *topology);
/* Says on stderr, for want of a profile, what rates there are; nothing where one was found or given. */
void source_note_rates(const struct source *source);

/* Rates, limits and pairs of one graph for the same places of another. Returns how many directed links got a rate. */
size_t source_merge(const struct topology *measured, struct topology *topology);

#endif
