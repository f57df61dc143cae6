/* SPDX-License-Identifier: Apache-2.0 */
#include "command/command.h"

#include <errno.h>
#include <string.h>

int main(int argc, char **argv)
{
	int status = command_main(argc, argv, stdout);

	errno = 0;
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "tributary: the output cannot be written%s%s\n", errno ? ": " : "",
			errno ? strerror(errno) : "");
		return COMMAND_FAILED;
	}
	return status;
}
