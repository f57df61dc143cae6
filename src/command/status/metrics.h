/* SPDX-License-Identifier: Apache-2.0 */
/* What running jobs' collectives took and what was predicted for them, as a file of metrics. One thread. */
#ifndef TRIBUTARY_COMMAND_STATUS_METRICS_H
#define TRIBUTARY_COMMAND_STATUS_METRICS_H

#include "base/metrics.h"
#include "command/status/measured.h"

struct text;

/* For the man page. */
extern const struct metrics_table status_metrics_tables[];

/* Jobs in any order, and of each what measured_make() says: of those that run, what was sampled and predicted. out->error: -ENOMEM. */
void status_metrics_print(const struct job *const *jobs, const struct measured *measured, size_t count,
			  struct text *out);
/* Replaces tributary-status-HOST-USER.prom in the folder, which must be there. An exit status; says what is wrong. */
int status_metrics_write(const struct job *const *jobs, const struct measured *measured, size_t count,
			 const char *folder);

#endif
