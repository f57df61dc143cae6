#include "plugin/steer/collnet.h"

#include "base/log.h"
#include "aggregate/gain.h"
#include "plugin/state.h"

#include <limits.h>
#include <unistd.h>

#define PERMILLE 1000.0

unsigned steer_collnet_gain(const struct steer_setup *setup)
{
	const struct steer_job *job = &setup->settings.job;
	char host[HOST_NAME_MAX + 1] = "";
	struct gain_job of = { .host_name = host };

	if (!setup->nets.ours || !plugin_state_params()->collnet)
		return 0;
	(void)gethostname(host, sizeof(host) - 1);
	if (job->local_size && job->world_size)
		of.host_count = (job->world_size + job->local_size - 1) / job->local_size;
	for (size_t i = 0; i < setup->nets.count; i++)
		of.rate_Bps += setup->nets.at[i].speed_Bps;
	return gain_permille(plugin_state_cluster(), &of);
}

void steer_collnet_advise(const struct steer_setup *setup)
{
	unsigned gain;

	/* Without either nothing is known, and it is not looked for. */
	if (!plugin_state_params()->cluster[0] && !setup->machine.loaded)
		return;
	gain = steer_collnet_gain(setup);
	if (!gain || (setup->settings.wants_collnet && setup->level == STEER_FULL))
		return;
	if (!setup->settings.wants_collnet)
		log_info(LOG_INIT,
			 "Tributary: on this cluster aggregation would be %.2f times as fast as a ring for large "
			 "AllReduces; NCCL_COLLNET_ENABLE=1 before the job asks for it (tributary env)",
			 gain / PERMILLE);
	else
		log_info(LOG_INIT,
			 "Tributary: on this cluster aggregation would be %.2f times as fast as a ring for large "
			 "AllReduces, but NCCL takes it for small ones alone where it is given no channels: %s",
			 gain / PERMILLE, setup->why.text);
}
