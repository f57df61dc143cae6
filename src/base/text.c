/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void text_put(struct text *text, const char *fmt, ...)
{
	va_list args;
	int bytes;

	va_start(args, fmt);
	bytes = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (!text->error && (bytes < 0 || sys_grow(&text->at, text->bytes, (size_t)bytes + 1, 1) < 0))
		text->error = -ENOMEM;
	if (text->error)
		return;
	va_start(args, fmt);
	vsnprintf(text->at + text->bytes, (size_t)bytes + 1, fmt, args);
	va_end(args);
	text->bytes += (size_t)bytes;
}

int text_take(struct text *text, char **ret, size_t *ret_bytes)
{
	if (text->error) {
		sys_free(text->at);
		return text->error;
	}
	*ret = text->at;
	*ret_bytes = text->bytes;
	return 0;
}
