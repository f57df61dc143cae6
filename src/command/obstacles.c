/* SPDX-License-Identifier: Apache-2.0 */
#include "command/obstacles.h"

#include "base/params.h"
#include "base/sys.h"
#include "command/conf.h"
#include "plugin/net.h"
#include "plugin/steer/evidence.h"
#include "plugin/steer/settings.h"
#include "profile/fingerprint.h"
#include "profile/store.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct list {
	struct obstacle *at;
	size_t count;
};

__attribute__((format(printf, 5, 6))) static void add(struct list *list, const char *name, bool is_total, bool is_set,
						      const char *fmt, ...)
{
	struct obstacle *at = &list->at[list->count];
	va_list args;

	if (list->count == OBSTACLES_MAX)
		return;
	list->count++;
	*at = (struct obstacle){ .name = name, .is_total = is_total, .is_set = is_set };
	va_start(args, fmt);
	log_sentence_v(at->text, sizeof(at->text), fmt, args);
	va_end(args);
}

/* Whether NCCL would load our environment half without a variable. */
static bool is_default(void)
{
	void *library = dlopen("libnccl-env.so", RTLD_LAZY | RTLD_LOCAL);
	const char *const *name = library ? dlsym(library, "ncclEnvPlugin_v1") : NULL; /* the table's first field */

	return name && !strcmp(*name, PLUGIN_NET_NAME); /* left open: the plugin cannot be unloaded */
}

static void find_plugins(struct list *list)
{
	const char *env = getenv("NCCL_ENV_PLUGIN"), *net = getenv("NCCL_NET_PLUGIN"), *name = getenv("NCCL_NET");

	if (env && !steer_settings_names_us(env))
		add(list, "NCCL_ENV_PLUGIN", true, true,
		    "NCCL_ENV_PLUGIN=%.60s keeps NCCL from loading the environment half; set it to tributary", env);
	else if (!env && !is_default())
		add(list, "NCCL_ENV_PLUGIN", true, false,
		    "nothing tells NCCL to load the environment half; NCCL_ENV_PLUGIN=tributary does, and "
		    "`tributary run` sets it");
	if (net && !steer_settings_names_us(net))
		add(list, "NCCL_NET_PLUGIN", true, true,
		    "NCCL_NET_PLUGIN=%.60s keeps NCCL from telling Tributary of communicators; set it to tributary",
		    net);
	if (name && strcasecmp(name, PLUGIN_NET_NAME) != 0)
		add(list, "NCCL_NET", true, true,
		    "NCCL_NET=%.60s keeps NCCL from telling Tributary of communicators; unset it (TRIBUTARY_NET=off "
		    "leaves the network to NCCL, too)",
		    name);
}

static void find_settings(const struct params *params, const struct steer_settings *nccl, struct list *list)
{
	static const struct {
		const char *name, *text;
		bool zero_is_off;
	} settings[] = {
		{ STEER_TOPOLOGY_VARIABLE, "it replaces the measured topology, and nothing is planned; unset it",
		  false },
		{ STEER_GRAPH_VARIABLE, "its channels are used in place of planned ones; unset it", false },
		{ "NCCL_SHM_DISABLE", "no plan is made without shared memory; unset it", true },
		{ "NCCL_MULTI_RANK_GPU_ENABLE", "the ranks on a GPU cannot be counted then; unset it", true },
	};

	if (params->disable)
		add(list, "TRIBUTARY_DISABLE", true, true, "Tributary is switched off; unset it");
	if (params->steer != STEER_FULL)
		add(list, "TRIBUTARY_STEER", true, true, "plans are switched off; unset it");
	if (nccl->default_topology)
		add(list, "topology-file", true, false,
		    STEER_DEFAULT_TOPOLOGY " is the provider's topology, which NCCL reads: nothing is planned; its "
					   "machine is shown by `tributary show --from` that file");
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		const char *value = getenv(settings[i].name);

		if (value && !(settings[i].zero_is_off && (!*value || !strcmp(value, "0"))))
			add(list, settings[i].name, i < 3, true, "%s=%.60s is set: %s", settings[i].name, value,
			    settings[i].text);
	}
	if (params->shared_dir[0] != '/' || access(params->shared_dir, W_OK | X_OK) < 0)
		add(list, "TRIBUTARY_SHARED_DIR", true, params->shared_dir[0] != '/',
		    "%.100s is no folder that this user can write to; name another in TRIBUTARY_SHARED_DIR",
		    params->shared_dir);
}

static void find_profile(const struct params *params, struct list *list)
{
	struct diag why = { .text = "" };
	struct profile profile;
	struct fingerprint now;
	char path[PATH_MAX];

	if (fingerprint_take("", &now) < 0)
		return;
	profile_init(&profile);
	if (store_find(params, &now, &profile, path, sizeof(path), &why) < 0)
		add(list, "profile", true, false, "%s; `tributary measure` makes one", why.text);
	profile_fini(&profile);
	fingerprint_fini(&now);
}

/* What tells that the ranks that are known are all, where they have not all GPUs of the machine. */
static void find_evidence(const struct steer_settings *settings, struct list *list)
{
	struct steer_compute compute;

	if (settings->job.local_size)
		return;
	steer_compute_ask(&compute);
	if (!compute.known)
		add(list, "launcher", false, false,
		    "jobs on a part of the GPUs must tell how many processes they have here (%s); start them with "
		    "torchrun, mpirun or srun, or set TRIBUTARY_LOCAL_PROCESSES",
		    compute.why);
}

static void say_nothing(void *arg, const char *sentence)
{
	(void)arg;
	(void)sentence;
}

size_t obstacles_find(struct obstacle ret[static OBSTACLES_MAX], struct params *ret_params)
{
	struct list list = { .at = ret };
	struct params_source environment;
	struct steer_settings settings;
	struct params params;

	conf_load();
	environment = params_from_environment();
	params_load(&environment, say_nothing, NULL, &params);
	steer_settings_read(&environment, "", params.local_processes, &settings);
	find_plugins(&list);
	find_settings(&params, &settings, &list);
	find_profile(&params, &list);
	find_evidence(&settings, &list);
	if (ret_params)
		*ret_params = params;
	return list.count;
}
