/* SPDX-License-Identifier: Apache-2.0 */
/* A small profile with something of everything, for tests. Fails the running test when it cannot be made. */
#ifndef TRIBUTARY_TESTS_UNIT_PROFILE_SAMPLE_H
#define TRIBUTARY_TESTS_UNIT_PROFILE_SAMPLE_H

#include "profile/profile.h"

/* fingerprint: its text is copied. NULL: none. */
struct profile sample_profile(const struct fingerprint *fingerprint);
/* The same text with its checksum put right again, after a test has changed something; the caller frees it. */
char *sample_resealed(const char *text);
/* A copy in which the first `from` is `to`; the caller frees it. */
char *sample_replaced(const char *text, const char *from, const char *to);

#endif
