/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of declared clusters share: a text is read, and what is understood is compared in our own form. */
#ifndef TESTS_UNIT_DISCOVER_DECLARED_H
#define TESTS_UNIT_DISCOVER_DECLARED_H

/* Nothing is left out. this_host as in struct wiring_options. */
void declared_means(const char *text, const char *this_host, const char *expected);
/* With --exclude; what was left out is said, with this part. */
void declared_leaves_out(const char *text, const char *exclude, const char *expected, const char *part);
/* Refused, at that line (0: no place), for a reason that has this part. */
void declared_is_refused(const char *text, const char *this_host, int line, const char *part);
void declared_refuses_exclude(const char *text, int line, const char *part);

#endif
