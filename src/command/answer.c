/* SPDX-License-Identifier: Apache-2.0 */
#include "command/answer.h"

#include "command/json.h"
#include "command/term.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

void answer_add(struct answer *answer, const char *fmt, ...)
{
	size_t at = strlen(answer->text);
	char text[ANSWER_BYTES];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	term_clean(text, answer->text + at, sizeof(answer->text) - at);
}

void answer_print(const struct answer *answer, FILE *out)
{
	fprintf(out, "%s\n\n", answer->text);
}

json_t *answer_json(const struct answer *answer)
{
	return json_text(answer->text);
}

void answer_weigh(struct answer_balance *balance, double gain)
{
	if (gain > 1)
		balance->gained += log(gain);
	else if (gain < 0.97)
		balance->lost -= log(gain);
}

const char *answer_count(size_t count, const char *what, char text[static 48])
{
	snprintf(text, 48, "%zu %s%s", count, what, count == 1 ? "" : "s");
	return text;
}
