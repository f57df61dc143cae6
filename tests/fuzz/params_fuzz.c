/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment: lines of NAME=value, ended by newlines. Whatever is in it, parameters are in their ranges, each
 * complaint is one whole sentence, and every value can be shown.
 */
#include "base/params.h"
#include "support/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 64, MOST_BYTES = 8192 };

static char *lines[MOST_LINES + 1]; /* the source has no place for an argument */

static const char *get(const char *name)
{
	size_t length = strlen(name);

	for (unsigned i = 0; lines[i]; i++)
		if (!strncmp(lines[i], name, length) && lines[i][length] == '=')
			return lines[i] + length + 1;
	return NULL;
}

static void complain(void *arg, const char *sentence)
{
	unsigned *complaints = arg;

	fuzz_must(sentence && strlen(sentence) > 10 && !strchr(sentence, '\n'));
	(*complaints)++;
}

static void check(const struct params *params)
{
	char text[2 * PARAMS_STRING_BYTES];

	fuzz_must(params->net < NET_CHOICE_COUNT && params->family < FAMILY_COUNT);
	fuzz_must(memchr(params->interfaces, '\0', sizeof(params->interfaces)) != NULL);
	fuzz_must(memchr(params->dump_dir, '\0', sizeof(params->dump_dir)) != NULL);
	fuzz_must(memchr(params->profile, '\0', sizeof(params->profile)) != NULL);
	fuzz_must(memchr(params->state_dir, '\0', sizeof(params->state_dir)) != NULL);
	fuzz_must(memchr(params->state_home, '\0', sizeof(params->state_home)) != NULL);
	fuzz_must(!params->state_home[0] || params->state_home[0] == '/');
	fuzz_must(params->port_low <= params->port_high && (!params->port_high || params->port_low));
	fuzz_must(params->timeout_ns > 0 && params->segment_bytes > 0);
	fuzz_must(params->streams <= 16);
	for (size_t i = 0; i < params_count(); i++) {
		fuzz_must(params_format(params, i, text, sizeof(text)) == 0);
		fuzz_must(params_format(params, i, text, 1) <= 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct params_source source = { .get = get, .environ_list = lines };
	static char text[MOST_BYTES + 1];
	unsigned count = 0, complaints = 0;
	struct params params;
	char *save = NULL;

	if (bytes > MOST_BYTES)
		return 0;
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	for (char *line = strtok_r(text, "\n", &save); line && count < MOST_LINES; line = strtok_r(NULL, "\n", &save))
		lines[count++] = line;
	lines[count] = NULL;
	memset(&params, 0xa5, sizeof(params));
	params_load(&source, complain, &complaints, &params);
	check(&params);
	return 0;
}
