/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the facts of a machine. One thread. */
#ifndef TRIBUTARY_TESTS_UNIT_DISCOVER_FACT_H
#define TRIBUTARY_TESTS_UNIT_DISCOVER_FACT_H

#include "discover/archive.h"
#include "discover/discover.h"

/* The value of `key` in the first line that begins with the words `what` and has it, until the next call; NULL: none. */
const char *fact_value(const struct discover_facts *facts, const char *what, const char *key);
/* Fails the running test unless that is the value. */
void fact_assert(const struct discover_facts *facts, const char *what, const char *key, const char *expected);

/* A machine's graph and its facts as one text, which the caller frees: these, or those of a capture. */
char *fact_text(const struct topology *topology, const struct discover_facts *facts);
char *fact_capture_text(const char *path);

/* A capture's file, packed unless its name ends in ".tar". As discover_archive_write. */
int fact_archive_write(const char *path, struct discover_root *root);

#endif
