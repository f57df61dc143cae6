/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that are Python, which users of NCCL have anyway: perf/bench in the source, and share/tributary/bench where this is
 * installed.
 */
#ifndef TRIBUTARY_COMMAND_PYTHON_H
#define TRIBUTARY_COMMAND_PYTHON_H

#include <stdio.h>

struct command_call;

/*
 * Becomes that file, with the call's options and the words after them. page: a file with the page of --html in which the JSON is
 * still missing; NULL: none. Returns an exit status if that fails.
 */
int python_become(const struct command_call *call, const char *name, const char *page, FILE *out);

#endif
