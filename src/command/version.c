/* SPDX-License-Identifier: Apache-2.0 */
#include "command/command.h"

#include <jansson.h>

#include "command/json.h"

#ifndef TRIBUTARY_VERSION
#define TRIBUTARY_VERSION "unknown"
#endif

static int run(const struct command_call *call, FILE *out)
{
	if (command_given(call, "json"))
		return json_print("tributary-version 1", json_pack("{ss}", "version", TRIBUTARY_VERSION), out);
	fprintf(out, "tributary %s\n", TRIBUTARY_VERSION);
	return COMMAND_OK;
}

const struct command command_version = {
	.name = "version",
	.group = COMMAND_OTHER,
	.operands = "",
	.help = "the version of this program",
	.options = { COMMAND_OPTION_JSON },
	.example = "tributary version",
	.run = run,
};
