/* SPDX-License-Identifier: Apache-2.0 */
/* What the targets of the fuzzers share. */
#ifndef TESTS_SUPPORT_FUZZ_H
#define TESTS_SUPPORT_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Ends the process where it is not so. It says where, for an input need not fail again: clocks and threads have a part in it. */
#define fuzz_must(truth) fuzz_must_at((truth), #truth, __FILE__, __LINE__)

static inline void fuzz_must_at(bool truth, const char *what, const char *file, int line)
{
	if (truth)
		return;
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	abort();
}

/* It ends within its room and is printable ASCII. */
static inline void fuzz_must_be_text(const char *text, size_t room)
{
	fuzz_must(memchr(text, '\0', room) != NULL);
	for (; *text; text++)
		fuzz_must(*text >= ' ' && *text <= '~');
}

/* For ncclxml_scan: what was written for NCCL has no escapes. */
static inline void fuzz_no_escape(void *arg, int line)
{
	(void)arg, (void)line;
	abort();
}

#endif
