/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/env.h"

#include "base/log.h"
#include "plugin/fork.h"
#include "plugin/installed.h"
#include "plugin/state.h"
#include "plugin/steer.h"
#include "plugin/steer/collnet.h"
#include "plugin/steer/settings.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NCCL_NAME_BYTES = 254 }; /* longest name in NCCL_NET_PLUGIN, which is a list with commas */

static const char *const default_plugin = "libnccl-net.so";

static atomic_bool nccl_asks; /* this library for its variables */

/* What is answered once for the process. */
static struct {
	pthread_mutex_t lock;
	bool path_is_known, collnet_is_known;
	char path[NCCL_NAME_BYTES + 1]; /* of this library; "": NCCL goes on looking for libnccl-net.so */
	bool offers_collnet;
} answers = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void find_path(void)
{
	char path[PATH_MAX];
	Dl_info own;

	if (plugin_another_is_installed(default_plugin, "ncclNetPlugin_v11")) {
		log_info(LOG_INIT,
			 "Tributary leaves the network to the %s that is installed, and plans no channels; "
			 "NCCL_NET_PLUGIN=tributary takes it",
			 default_plugin);
		return;
	}
	if (!dladdr((const void *)&answers, &own) || !realpath(own.dli_fname, path))
		return;
	snprintf(answers.path, sizeof(answers.path), "%.254s",
		 strlen(path) <= NCCL_NAME_BYTES && !strchr(path, ',') ? path : "tributary");
}

/* Under the lock. */
static const char *path_locked(void)
{
	if (!answers.path_is_known)
		find_path();
	answers.path_is_known = true;
	return answers.path[0] ? answers.path : NULL;
}

/* Under the lock. Another net plugin may have a collnet, too, of which nothing is known. */
static bool loads_this_plugin(void)
{
	const char *named = steer_get("NCCL_NET_PLUGIN");

	return named ? steer_settings_names_us(named) : path_locked() != NULL;
}

/* Under the lock. */
static const char *collnet_locked(void)
{
	const struct params_source environment = params_from_environment();

	if (!answers.collnet_is_known)
		answers.offers_collnet = loads_this_plugin() && steer_collnet_is_offered(&environment);
	answers.collnet_is_known = true;
	return answers.offers_collnet ? "1" : NULL;
}

void plugin_env_log(log_sink *logger)
{
	if (logger)
		plugin_state_log_hold(logger, true);
}

void plugin_env_init(unsigned version)
{
	atomic_store(&nccl_asks, true);
	steer_environment_half(version);
}

const char *plugin_env_get(const char *name)
{
	int saved_errno = errno;
	const char *value = steer_get(name);

	if (value || plugin_is_forked())
		return value;
	if (!strcmp(name, "NCCL_NET_PLUGIN")) {
		pthread_mutex_lock(&answers.lock);
		value = path_locked();
		pthread_mutex_unlock(&answers.lock);
	} else if (!strcmp(name, "NCCL_NET_PLUGIN_REF_COUNT")) {
		value = "1000000";
	} else if (!strcmp(name, STEER_COLLNET_VARIABLE)) {
		pthread_mutex_lock(&answers.lock);
		value = collnet_locked();
		pthread_mutex_unlock(&answers.lock);
	} else if (!strcmp(name, STEER_COLLNET_UNLIKE_VARIABLE)) {
		pthread_mutex_lock(&answers.lock);
		value = loads_this_plugin() ? "1" : NULL;
		pthread_mutex_unlock(&answers.lock);
	}
	errno = saved_errno;
	return value;
}

bool plugin_env_wants_collnet(void)
{
	/* NCCL has put nccl.conf into the environment by now. */
	const char *text = atomic_load(&nccl_asks) ? plugin_env_get(STEER_COLLNET_VARIABLE)
						   : steer_get(STEER_COLLNET_VARIABLE);

	return text && strtol(text, NULL, 0) != 0;
}
