/* SPDX-License-Identifier: Apache-2.0 */
#include "command/term.h"

void term_clean(const char *text, char *ret, size_t ret_bytes)
{
	size_t at = 0;

	for (; *text && at + 1 < ret_bytes; text++)
		ret[at++] = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text;
	ret[at] = '\0';
}
