/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's environment interface: version 2 has a logger for init, which is kept for good, as the net plugin may never be
 * called. With version 1 nothing can be said before the net plugin's or the tuner's init.
 */

#include "nccl/env.h"

#include "plugin/env.h"
#include "plugin/net.h"
#include "plugin/versions/slots.h"

enum { MAJOR = 10000, MINOR = 100 };

static enum nccl_result init_v1(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix)
{
	(void)suffix;
	plugin_env_init((unsigned)major * MAJOR + (unsigned)minor * MINOR + patch);
	return NCCL_SUCCESS;
}

static enum nccl_result init_v2(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix,
				nccl_debug_logger *logger)
{
	plugin_env_log(logger);
	return init_v1(major, minor, patch, suffix);
}

/* From atexit, in forked children, too: nothing ends here. Files go with the library's own end. */
static enum nccl_result finalize(void)
{
	return NCCL_SUCCESS;
}

extern PLUGIN_EXPORT const struct nccl_env_v1 ncclEnvPlugin_v1;
const struct nccl_env_v1 ncclEnvPlugin_v1 = {
	.name = PLUGIN_NET_NAME,
	.init = init_v1,
	.finalize = finalize,
	.getEnv = plugin_env_get,
};

extern PLUGIN_EXPORT const struct nccl_env_v2 ncclEnvPlugin_v2;
const struct nccl_env_v2 ncclEnvPlugin_v2 = {
	.name = PLUGIN_NET_NAME,
	.init = init_v2,
	.finalize = finalize,
	.getEnv = plugin_env_get,
};
