/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/collnet.h"

#include "base/log.h"
#include "aggregate/gain.h"
#include "plugin/net.h"
#include "plugin/state.h"

#include <limits.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define PERMILLE 1000.0

bool steer_collnet_is_possible(void)
{
	const struct params *params = plugin_state_params();

	return plugin_state_choice()->ours && params->collnet && params->tuner;
}

static unsigned gain_for(const struct steer_settings *settings, uint64_t rate_Bps, bool is_whole_cluster)
{
	const struct steer_job *job = &settings->job;
	char host[HOST_NAME_MAX + 1] = "";
	struct gain_job of = { .host_name = host, .rate_Bps = rate_Bps };
	unsigned gain;

	(void)gethostname(host, sizeof(host) - 1);
	if (job->local_size && job->world_size && !is_whole_cluster)
		of.host_count = (job->world_size + job->local_size - 1) / job->local_size;
	gain = gain_permille(plugin_state_cluster(), &of);
	return gain_is_enough(gain) ? gain : 0;
}

bool steer_collnet_is_offered(const struct params_source *source)
{
	const char *net = source->get("NCCL_NET");
	struct steer_settings settings;

	plugin_state_load();
	steer_settings_read(source, "", plugin_state_params()->local_processes, &settings);
	return steer_collnet_is_possible() && (!net || !strcasecmp(net, PLUGIN_NET_NAME)) && !settings.other_tuner &&
	       !plugin_state_choice()->wants_verbs && (gain_for(&settings, 0, false) || gain_for(&settings, 0, true));
}

bool steer_collnet_may_come(const struct params_source *source)
{
	const char *asked = source->get(STEER_COLLNET_VARIABLE);

	return steer_collnet_is_possible() && (asked ? !strcmp(asked, "1") : steer_collnet_is_offered(source));
}

unsigned steer_collnet_gain(const struct steer_setup *setup)
{
	uint64_t rate_Bps = 0;

	if (!setup->nets.ours || !plugin_state_params()->collnet)
		return 0;
	for (size_t i = 0; i < setup->nets.count; i++)
		rate_Bps += setup->nets.at[i].speed_Bps;
	return gain_for(&setup->settings, rate_Bps, false);
}

void steer_collnet_advise(const struct steer_setup *setup)
{
	unsigned gain;

	/* Without either nothing is known, and it is not looked for. */
	if (!plugin_state_params()->cluster[0] && !setup->machine.loaded)
		return;
	gain = steer_collnet_gain(setup);
	if (gain && !setup->offers_collnet && !setup->settings.wants_collnet)
		log_info(
			LOG_INIT,
			"Tributary: on this cluster aggregation would be %.2f times as fast as NCCL's ring or tree for "
			"large AllReduces; NCCL uses it with NCCL_ENV_PLUGIN=tributary and NCCL_COLLNET_ENABLE=1 or unset",
			gain / PERMILLE);
}
