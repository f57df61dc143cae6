/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a fingerprint, for the files of this folder alone. Pure; a span points into the text that it is of. */
#ifndef TRIBUTARY_PROFILE_FINGERPRINT_LINES_H
#define TRIBUTARY_PROFILE_FINGERPRINT_LINES_H

#include "profile/fingerprint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FINGERPRINT_LINE_BYTES = 400, /* with the newline; a path of 16 ports takes half of it */
	FINGERPRINT_MOST_LINES = 1024,
	FINGERPRINT_MOST_BYTES = 256 * 1024,
};

enum fingerprint_what {
	FINGERPRINT_CARD,   /* card BUS kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200 path=BUS/BUS */
	FINGERPRINT_CPU,    /* cpu vendor=GenuineIntel family=6 model=106 domains=2 */
	FINGERPRINT_DRIVER, /* driver NAME version=550.54.15 */
	FINGERPRINT_LINK,   /* link BUS lanes=16 generation=4: of the card or port BUS */
	FINGERPRINT_PORT,   /* port BUS id=8086:347a class=060400 */
	FINGERPRINT_WHAT_COUNT
};

struct fingerprint_span {
	const char *at;
	size_t bytes;
};
bool fingerprint_span_is(struct fingerprint_span a, struct fingerprint_span b);

/* The next line without its newline, from *rest on; false: there is none. The last line need not end with a newline. */
bool fingerprint_next_line(struct fingerprint_span *rest, struct fingerprint_span *ret);
/* Word `index` of a line, counted from 0; empty when there is none. */
struct fingerprint_span fingerprint_word(struct fingerprint_span line, size_t index);
/* What follows "key=" in a line; empty when it is not there. */
struct fingerprint_span fingerprint_value(struct fingerprint_span line, const char *key);
/* FINGERPRINT_WHAT_COUNT: none that this version knows. */
enum fingerprint_what fingerprint_what_of(struct fingerprint_span line);
/* What is wrong with a line after the one before it (empty for the first); NULL: nothing. */
const char *fingerprint_fault(struct fingerprint_span before, struct fingerprint_span line);
/* Lines that are in both. */
size_t fingerprint_common(const struct fingerprint *a, const struct fingerprint *b);

#endif
