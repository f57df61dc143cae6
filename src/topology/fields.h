/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key=value parts of the text form, as tables that the writer and the reader share. A value that is not known, or
 * not in its range, is left out; two objects are the same if what is written of them is.
 */
#ifndef TRIBUTARY_TOPOLOGY_FIELDS_H
#define TRIBUTARY_TOPOLOGY_FIELDS_H

#include "tributary/topology.h"

enum field_type {
	FIELD_TEXT,     /* char[] */
	FIELD_INT,      /* int, from 1 */
	FIELD_INDEX,    /* int, from 0 */
	FIELD_UNSIGNED, /* unsigned, from 1 */
	FIELD_COUNT,    /* unsigned, from 1, which is left out */
	FIELD_U64,      /* from 1 */
	FIELD_I64,      /* from 1 */
	FIELD_HEX16,    /* in hexadecimal, from 1 */
	FIELD_HEX32,
	FIELD_HEX64,
	FIELD_FLAG,        /* bool; false is left out */
	FIELD_FLAG_ALWAYS, /* bool; both are written */
	FIELD_SPREAD,      /* double, in millionths */
	FIELD_PROVENANCE,  /* its word */
};

struct field {
	const char *key;
	enum field_type type;
	unsigned kinds; /* of vertices that have it: bits by enum topology_kind; 0: all */
	size_t offset;
	uint64_t most; /* the greatest value; of a text its array's size */
};

/* Each ends with a key NULL. topology_pair_fields is for pairs whose capacities are canonical. */
extern const struct field topology_vertex_fields[];
extern const struct field topology_link_fields[];
extern const struct field topology_capacity_fields[]; /* without rate and provenance, which have their own places */
extern const struct field topology_pair_fields[];

bool fields_of_kind(const struct field *field, enum topology_kind kind);
bool fields_known(const struct field *field, const void *object);
const char *fields_text(const struct field *field, const void *object); /* FIELD_TEXT */
int fields_compare(const struct field *field, const void *a, const void *b);
/* The value as text, without a name for it: at most FIELD_VALUE_BYTES with the NUL. Not FIELD_TEXT. */
enum { FIELD_VALUE_BYTES = 32 };
void fields_format(const struct field *field, const void *object, char *ret);
/* -EINVAL: not such a value, or not in its range. fields_expected says what would be: "a whole number from 1 to 9". */
int fields_set(const struct field *field, void *object, const char *value);
void fields_expected(const struct field *field, char *text, size_t text_bytes);

#define FIELD_RATE_MOST ((uint64_t)INT64_MAX)

/* As it is written: no rate without a provenance, no provenance without a rate. */
struct topology_capacity fields_canonical(const struct topology_capacity *capacity);

#endif
