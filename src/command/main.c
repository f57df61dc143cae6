#include "command/command.h"

int main(int argc, char **argv)
{
	int status = command_main(argc, argv, stdout);

	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "tributary: the output cannot be written\n");
		return COMMAND_FAILED;
	}
	return status;
}
