/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where profiles lie: TRIBUTARY_PROFILE names one file; otherwise ID.profile in the state directory, ID being the
 * fingerprint's. Written to a temporary file beside it and renamed, so that a reader sees the old one or the new one.
 */
#ifndef TRIBUTARY_PROFILE_STORE_H
#define TRIBUTARY_PROFILE_STORE_H

#include "profile/profile.h"

struct params;

/*
 * The profile that fits this machine. -ENOENT: there is none; -ESTALE: there is one of this machine, but it has changed;
 * -EXDEV: only other machines'; -EACCES and others as the system said; and the errors of profile_read. Which file and why
 * in *why, one sentence.
 */
int store_find(const struct params *params, const struct fingerprint *now, struct profile *ret, char *ret_path,
	       size_t ret_path_bytes, struct diag *why);
/* Whether store_save could write there, as far as can be told without writing; the state directory is made. */
int store_check(const struct params *params, const char *path, struct diag *why);
/* path NULL: its place in the state directory, which is made if it is not there. */
int store_save(const struct params *params, const struct profile *profile, const char *path, char *ret_path,
	       size_t ret_path_bytes, struct diag *why);

#endif
