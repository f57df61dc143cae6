/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where tuning tables lie: tuning/HASH.tuning in the folders where profiles are looked for. A file whose name is not the
 * hash of its text is an error, so that whoever knows the hash knows the table.
 */
#ifndef TRIBUTARY_PROFILE_STORE_TUNING_H
#define TRIBUTARY_PROFILE_STORE_TUNING_H

#include "profile/store_places.h"
#include "profile/tuning.h"

struct params;

/* -ENOENT: no folder has it; -EBADMSG: the name is not its hash; -EINVAL: its text is wrong; others as the system said. */
int store_tuning_load(const struct params *params, uint64_t hash, struct tuning_table *ret, struct diag *why);
/*
 * Each table that can be read, in any order; one that two folders have comes twice. What cannot be read is passed over: the
 * first such reason in *why. Returns how many were passed over; at most STORE_FILES_MAX files of a folder are looked at.
 */
size_t store_tuning_each(const struct params *params,
			 void (*each)(void *arg, uint64_t hash, const struct tuning_table *table), void *arg,
			 struct diag *why);
/* In the state directory, which is made. */
int store_tuning_save(const struct params *params, const struct tuning_table *table, uint64_t *ret_hash,
		      char ret_path[static STORE_PATH_BYTES], struct diag *why);

#endif
