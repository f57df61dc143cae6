/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small document tree over expat, with line numbers, for files of a few thousand elements. Everything is bounded;
 * declarations of entities are refused, nothing is loaded from elsewhere. Pure; the command alone.
 */
#ifndef TRIBUTARY_NCCLXML_READ_XML_H
#define TRIBUTARY_NCCLXML_READ_XML_H

#include <stddef.h>
#include <stdint.h>

struct diag;

enum {
	NCCLXML_XML_BYTES_MAX = 16 << 20,
	NCCLXML_XML_ELEMENT_MAX = 1 << 16,
	NCCLXML_XML_DEPTH_MAX = 128,
	NCCLXML_XML_ATTRIBUTE_MAX = 64,
	NCCLXML_XML_VALUE_MAX = 64 << 10, /* bytes of a name, a value, a comment */
};

struct ncclxml_attribute {
	char *name, *value;
};

struct ncclxml_element {
	char *name;
	int line; /* of its '<' */
	struct ncclxml_attribute *attributes;
	size_t attribute_count;
	struct ncclxml_element *parent, *first, *last, *next; /* children first to last, next of the same parent */
	size_t child_count;
	char *comment; /* the last one before it that nothing but space separates from it; NULL: none */
	uint32_t user; /* the reader's own; 0 at first */
};

struct ncclxml_document {
	struct ncclxml_element *root;
	size_t element_count;
};

/* -EINVAL: not XML, or beyond the bounds above, with line and reason in *diag. -ENOMEM. */
int ncclxml_document_read(const char *text, size_t bytes, struct ncclxml_document *ret, struct diag *diag);
void ncclxml_document_fini(struct ncclxml_document *document);
/* NULL: no such attribute. */
const char *ncclxml_attribute(const struct ncclxml_element *element, const char *name);
/* As NCCL reads numbers: strtol with base 0, and what is no number is 0. Bounded to the range of int. */
int ncclxml_number(const char *text);
/* That of an attribute; `otherwise` where there is none of that name. */
int ncclxml_number_of(const struct ncclxml_element *element, const char *name, int otherwise);
/* The next element of the whole tree below `root`, parents first; start with root. NULL: no more. */
struct ncclxml_element *ncclxml_next(const struct ncclxml_element *root, struct ncclxml_element *at);

#endif
