/* SPDX-License-Identifier: Apache-2.0 */
/* What steering says and keeps of what NCCL was given: a line of the log, and files in TRIBUTARY_DUMP_DIR. */
#ifndef TRIBUTARY_PLUGIN_STEER_REPORT_H
#define TRIBUTARY_PLUGIN_STEER_REPORT_H

#include "plugin/report.h"
#include "plugin/steer/registry.h"
#include "plugin/steer/setup.h"

#include <stddef.h>
#include <stdint.h>

enum { STEER_REPORT_ALLREDUCE_BYTES = 256 << 20 };

/*
 * "GPUs 0,1,4,5: 2 channels; ring 22.6 GB/s, tree 11.3 GB/s in all, at least 98 % of what its links allow; AllReduce of
 * 256 MiB should reach 22.5 GB/s (busbw)"; or "NCCL searches its channels itself: " and why. What NCCL's own channels
 * would have brought is not said: `tributary explain` estimates it, and the plugin holds no copy of NCCL's search. Pure.
 */
void steer_report_line(const struct topology *topology, const struct steer_decision *decision,
		       char text[static PLUGIN_REPORT_BYTES]);
/* AllReduce of that size by NCCL's own cost model on these channels, busbw; 0: not for such a communicator. Pure. */
void steer_report_rates(const struct topology *topology, const struct steer_decision *decision, double *ret_alone_GBps,
			double *ret_several_GBps);
void steer_report_say(const struct steer_setup *setup, uint64_t comm_id, const struct steer_decision *decision,
		      uint64_t took_ns);
/* folder "": nothing. name: "steer-COMM-GPU.xml". What cannot be written is said once. */
void steer_report_dump(const char *folder, const char *name, const char *text, size_t bytes);

#endif
