/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the built program, $TRIBUTARY_BUILD/tributary. One thread. */
#ifndef TESTS_UNIT_COMMAND_PROGRAM_H
#define TESTS_UNIT_COMMAND_PROGRAM_H

#include <jansson.h>
#include <stddef.h>

/* For cmocka_run_group_tests: finds the program, and takes the test run's own variables out of the environment. */
int program_find(void **state);
/* "" when it was not built. */
const char *program_path(void);
/* The repository; "" when it is not told. */
const char *program_source(void);
/*
 * stdout of the program and what `what` redirects into it; the exit status. Skips the test when there is no program.
 */
int program_run(const char *arguments, const char *what, char *text, size_t text_bytes);
#define PROGRAM_STDOUT "2>/dev/null"
#define PROGRAM_STDERR "2>&1 >/dev/null"

/* A file of the repository, whole; the caller frees it. Skips the test when the repository is not told. */
char *program_source_text(const char *name);
/* Compares with a file of the repository. TRIBUTARY_TEST_UPDATE=1 writes it anew, to be looked at before it is committed. */
void program_compare(const char *text, const char *golden);
/* A folder that is removed at the end of the program. */
const char *program_folder(void);
/* A file of this text in it; its path, until the next call. */
const char *program_put(const char *name, const char *text);

/* The number of that key; fails the test where it is none. */
double program_number(const json_t *of, const char *key);
/* Fails the test unless a number is what is expected, but for such a part of it. */
void program_check_near(double is, double expected, double part);

#endif
