#include "command/command.h"

#ifndef TRIBUTARY_VERSION
#define TRIBUTARY_VERSION "unknown"
#endif

int command_version(int argc, char **argv, FILE *out)
{
	int status = command_no_arguments(argc, argv);

	if (status == COMMAND_OK)
		fprintf(out, "tributary %s\n", TRIBUTARY_VERSION);
	return status;
}
