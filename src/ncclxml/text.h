/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XML text, written so that NCCL's own small parser (graph/xml.cc) reads it: spaces and newlines alone between
 * elements, one space between attributes, double quotes, no declaration, no entities; comments stand on their own
 * lines. NCCL's limits are kept here: the first call that would break one sets `out.error`, and everything after it does
 * nothing. Pure.
 */
#ifndef TRIBUTARY_NCCLXML_TEXT_H
#define TRIBUTARY_NCCLXML_TEXT_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum { NCCLXML_TEXT_DEPTH = 64 };

struct ncclxml_text {
	struct text out;
	size_t element_count, element_max; /* 0: NCCLMODEL_NODE_MAX */
	struct {
		const char *name; /* static text */
		unsigned children, attributes;
	} stack[NCCLXML_TEXT_DEPTH];
	unsigned depth;
	bool in_tag;
	const char *reason; /* of out.error; static text, NULL: no memory */
};

/* Whether a value stays what it is: nothing in it that NCCL cannot read or that XML would have to escape. */
bool ncclxml_text_plain(const char *value);
void ncclxml_text_open(struct ncclxml_text *text, const char *name);
/* What is not plain is left out of the value; a value of which nothing is left then, with the attribute. */
void ncclxml_text_attribute(struct ncclxml_text *text, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void ncclxml_text_close(struct ncclxml_text *text);
/* Only between elements. Without "--", '<', '>' and '=': NCCL reads a comment's first word as if it were a tag. */
void ncclxml_text_comment(struct ncclxml_text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
