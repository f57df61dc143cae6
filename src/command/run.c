/* `tributary run -- COMMAND`: the command, in the environment that `tributary env` prints. */
#include "command/conf.h"
#include "command/env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_NOT_RUN = 126, STATUS_NOT_FOUND = 127 }; /* a shell's own */

static int run(const struct command_call *call, FILE *out)
{
	struct env env;
	int status = env_make(call, &env);

	if (status != COMMAND_OK)
		return status;
	env_explain(&env, "tributary: ", stderr);
	conf_unload(); /* NCCL reads the files itself */
	for (size_t i = 0; i < env.count; i++)
		if (setenv(env.variables[i].name, env.variables[i].value, 1) < 0)
			return command_failed(NULL, errno, "%s cannot be set", env.variables[i].name);
	fflush(out);
	execvp(call->rest[0], call->rest);
	status = errno == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN;
	(void)command_failed(NULL, errno, "%s cannot be run", call->rest[0]);
	return status;
}

const struct command command_run = {
	.name = "run",
	.operands = "COMMAND...",
	.help = "run a command with what NCCL needs to use the plugin",
	.about = "Sets what `tributary env` prints and becomes the command: tributary run -- torchrun --nproc-per-node "
		 "8 "
		 "train.py. Options of the command's own come after --. Launchers that start processes on other hosts "
		 "do not "
		 "all pass the environment on: run it there, or mpirun -x.",
	.options = { ENV_OPTION_COLLNET },
	.run = run,
};
