/* SPDX-License-Identifier: Apache-2.0 */
/* A tuning table from anybody. What is read is written, and that is read back as the same. */
#include "base/sys.h"
#include "profile/tuning.h"
#include "support/fuzz.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct tuning_table table, again;
	struct diag diag = { .text = "" };
	char *exact = malloc(bytes ? bytes : 1), *text = NULL; /* so that a byte read beyond it is seen */
	size_t text_bytes = 0;
	int r;

	fuzz_must(exact != NULL);
	if (bytes)
		memcpy(exact, data, bytes);
	r = tuning_parse(exact, bytes, &table, &diag);
	free(exact);
	fuzz_must(r == 0 || r == -EINVAL);
	fuzz_must((r < 0) == (diag.text[0] != '\0'));
	if (r < 0)
		return 0;
	fuzz_must_be_text(table.gpus, sizeof(table.gpus));
	fuzz_must_be_text(table.network, sizeof(table.network));
	fuzz_must(tuning_print(&table, &text, &text_bytes) == 0);
	fuzz_must(tuning_parse(text, text_bytes, &again, NULL) == 0 && !memcmp(&table, &again, sizeof(table)));
	sys_free(text);
	return 0;
}
