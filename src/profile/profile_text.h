/* SPDX-License-Identifier: Apache-2.0 */
/* What the store needs of the format besides profile.h. Pure. */
#ifndef TRIBUTARY_PROFILE_PROFILE_TEXT_H
#define TRIBUTARY_PROFILE_PROFILE_TEXT_H

#include "profile/profile.h"

enum {
	PROFILE_MOST_BYTES = 4 * 1024 * 1024,
	PROFILE_HEAD_BYTES = 320 * 1024, /* the fingerprint and what is before it end within these */
};

/*
 * The fingerprint and the date at the beginning of a profile, whose end may be missing: nothing is checked but these
 * lines, for this only tells which of several profiles to read. -EINVAL: they are not there.
 */
int profile_read_head(const char *text, size_t bytes, struct fingerprint *ret, int64_t *ret_date_s);

#endif
