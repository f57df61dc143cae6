/* SPDX-License-Identifier: Apache-2.0 */
/* Text that is made piece by piece, in memory. One thread. */
#ifndef TRIBUTARY_BASE_TEXT_H
#define TRIBUTARY_BASE_TEXT_H

#include <stddef.h>

struct text {
	char *at; /* ends with a NUL; NULL: nothing was put. Freed by sys_free */
	size_t bytes;
	int error; /* the first, -ENOMEM: what is put after it is left out */
};

void text_put(struct text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text becomes the caller's; after an error, which is returned, it is freed. */
int text_take(struct text *text, char **ret, size_t *ret_bytes);

#endif
