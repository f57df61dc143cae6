/* What the session has to do with collnet: what it would bring this job, and a word where it could help and is not asked for. */
#ifndef TRIBUTARY_PLUGIN_STEER_COLLNET_H
#define TRIBUTARY_PLUGIN_STEER_COLLNET_H

#include "plugin/steer/setup.h"

/* gain_permille() of this job on this process's cluster; 0 where the network is NCCL's own. */
unsigned steer_collnet_gain(const struct steer_setup *setup);

/* Once for the process, after the setup: one line of the log. */
void steer_collnet_advise(const struct steer_setup *setup);

#endif
