/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several commands print as JSON. Keys are documented in docs/format/command.schema.json, do not change their meaning, and have a
 * schema, docs/format/command.schema.json.
 */
#ifndef TRIBUTARY_COMMAND_JSON_H
#define TRIBUTARY_COMMAND_JSON_H

#include "tributary/topology.h"

#include <jansson.h>
#include <stdio.h>

/* An object with the name of its schema, "tributary-show 1", before its keys. Takes value; NULL: no memory. */
json_t *json_whole(const char *format, json_t *value);
/* Prints an object, and before its keys the name of its schema, "tributary-show 1". Frees it; NULL: no memory. An exit status. */
int json_print(const char *format, json_t *value, FILE *out);
/* Text from outside, which need not be UTF-8: what is not becomes '?'. */
json_t *json_text(const char *text);
/* null for "", of what is not known. */
json_t *json_known_text(const char *text);
/* The text of that key; "": there is none. */
const char *json_text_of(const json_t *object, const char *key);
/* A count, or null where 0 means "not known". */
json_t *json_known(uint64_t value);
json_t *json_topology(const struct topology *topology);

#endif
