/* SPDX-License-Identifier: Apache-2.0 */
#include "command/cluster_open.h"

#include "cluster/read/any.h"
#include "command/command.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static void print_notes(const char *notes)
{
	while (*notes) {
		int bytes = (int)strcspn(notes, "\n");

		command_say("%.*s", bytes, notes);
		notes += bytes + (notes[bytes] == '\n');
	}
}

int command_cluster_open(const char *path, const char *exclude, struct cluster **ret)
{
	struct diag why = { 0 };
	char *notes = NULL;
	int r = cluster_any_load(path, exclude, ret, &notes, &why);

	if (notes)
		print_notes(notes);
	free(notes);
	return r < 0 ? command_failed(NULL, 0, "%s", why.text[0] ? why.text : strerror(-r)) : COMMAND_OK;
}

int command_cluster_of(const struct command_call *call, const char *option, struct cluster **ret)
{
	*ret = NULL;
	if (command_given(call, option))
		return command_cluster_open(command_value(call, option), command_value(call, "exclude"), ret);
	if (command_given(call, "exclude"))
		return command_usage_error(call->command->name, "--exclude is for the file of --%s", option);
	return COMMAND_OK;
}
