/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first line of what a command prints, and `answer` in its JSON: what follows for the user, with numbers and what to do.
 * It is made of the values that the rest shows, so it cannot contradict them. One thread.
 */
#ifndef TRIBUTARY_COMMAND_ANSWER_H
#define TRIBUTARY_COMMAND_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { ANSWER_BYTES = 768 };

struct answer {
	char text[ANSWER_BYTES];
};

/* Adds to the line; what does not fit is cut off. */
void answer_add(struct answer *answer, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The line, without control characters, and an empty one. */
void answer_print(const struct answer *answer, FILE *out);
json_t *answer_json(const struct answer *answer);

/* Whether two rates or times, given as the ratio of them, are not "the same": they differ by more than is shown. */
static inline bool answer_differs(double ratio)
{
	return ratio < 0.995 || ratio >= 1.005;
}
/*
 * Many gains weighed together, each the old time over the new one: what is lost counts from 3 % on, so that neither a few
 * sizes that are somewhat slower nor rounding give away what others gain.
 */
struct answer_balance {
	double gained, lost; /* sums of logarithms */
};
void answer_weigh(struct answer_balance *balance, double gain);
static inline bool answer_loses(const struct answer_balance *balance)
{
	return balance->lost > balance->gained;
}
/* "1 host", "2 hosts": the plural has an s. */
const char *answer_count(size_t count, const char *what, char text[static 48]);

#endif
