/* SPDX-License-Identifier: Apache-2.0 */
/* Reading metrics for `tributary top`: where they are, and what Prometheus' text form says. One thread. */
#ifndef TRIBUTARY_COMMAND_TOP_TOP_H
#define TRIBUTARY_COMMAND_TOP_TOP_H

#include <stdbool.h>
#include <stddef.h>

struct diag;

enum { TOP_LABEL_BYTES = 300 };

/* Of whom a line is: "" where it has no such label. */
struct top_subject {
	char process[TOP_LABEL_BYTES], device[TOP_LABEL_BYTES];
};

/*
 * The value of the sample of that name whose labels process and device are those of *of, and channels that one (NULL: any).
 * NAN: there is none, or it is no number.
 */
double top_value(const char *text, const char *name, const struct top_subject *of, const char *channels);
/* A label of that sample; false, and "": it has none. */
bool top_label(const char *text, const char *name, const struct top_subject *of, const char *label,
	       char ret[static TOP_LABEL_BYTES]);
/* The next device of a process or of tributaryd; *at is the text at first. */
bool top_next_subject(const char **at, struct top_subject *ret);

/* Calls each(arg, text) with the text of all files of processes in a folder, or of an address, "127.0.0.1:9402". -errno and why. */
int top_read(const char *where, void (*each)(void *arg, const char *text), void *arg, struct diag *why);

#endif
