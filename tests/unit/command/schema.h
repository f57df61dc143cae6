/* SPDX-License-Identifier: Apache-2.0 */
/* JSON by the schemas of docs/format. One thread. */
#ifndef TESTS_UNIT_COMMAND_SCHEMA_H
#define TESTS_UNIT_COMMAND_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>

enum { SCHEMA_WHERE_BYTES = 256 };

/*
 * Whether a value is what a file's definition says ("": the whole file), and has no key that is not there. where: the
 * first place at which it is not, "links/3/up".
 */
bool schema_fits(const json_t *file, const char *definition, const json_t *value,
		 char where[static SCHEMA_WHERE_BYTES]);
/* A schema of the repository; the caller decrefs it. Skips the test when the repository is not told. */
json_t *schema_load(const char *name);
/* What a command printed, by its `format`; fails the test unless it fits. Returns the value, to be decrefed. */
json_t *schema_check_output(const char *text);

#endif
