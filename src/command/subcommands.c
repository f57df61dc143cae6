/* SPDX-License-Identifier: Apache-2.0 */
/* The table of subcommands, and the one place that calls them. */
#include "command/command.h"

#include <string.h>

/* Group by group. */
const struct command *const command_table[] = {
	&command_discover,
	&command_measure,
	&command_show,
	&command_doctor,
	&command_devices,
	&command_plan,
	&command_explain,
	&command_tune,
	&command_env,
	&command_check,
	&command_run,
	&command_bench,
	&command_status,
	&command_top,
	&command_report,
	&command_cluster,
	&command_cluster_measure,
	&command_cluster_order,
	&command_simulate,
	&command_estimate,
	&command_place,
	&command_aggregators,
	&command_export,
	&command_lint,
	&command_capture,
	&command_params,
	&command_completion,
	&command_version,
	&command_help,
	NULL,
};

int command_main(int argc, char **argv, FILE *out)
{
	const struct command *command;
	struct command_call call;
	int status, taken = 1;

	if (argc < 2) {
		command_print_help(command_table, &command_help, out);
		return COMMAND_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		command = &command_help;
	else if (!strcmp(argv[1], "--version"))
		command = &command_version;
	else
		command = command_find_words(command_table, argc - 1, argv + 1, &taken);
	if (!command)
		return command_unknown(command_table, argv[1]);
	if (options_ask_help(argc - 1, argv + 1)) {
		command_print_help(command_table, command, out);
		return COMMAND_OK;
	}
	status = command_parse(command_table, command, argc - taken, argv + taken, &call);
	if (status == COMMAND_OK)
		status = command_check_outputs(&call);
	return status == COMMAND_OK ? command->run(&call, out) : status;
}
