/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin says of itself once per communicator, in one line of NCCL's log. Pure.
 */
#ifndef TRIBUTARY_PLUGIN_REPORT_H
#define TRIBUTARY_PLUGIN_REPORT_H

#include "base/params.h"
#include "plugin/choose.h"
#include "plugin/devices.h"

#include <stddef.h>

enum { PLUGIN_REPORT_BYTES = 900 }; /* a line of the log holds 1023 */

/* A line that grows. What does not fit is cut and ends in "...". */
struct plugin_report {
	char *text;  /* PLUGIN_REPORT_BYTES */
	size_t used; /* as many: full, and ended with dots */
};
void plugin_report_add(struct plugin_report *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* " 10 Gbit/s"; 0: nothing, as it is not known. */
void plugin_report_add_speed(struct plugin_report *line, uint64_t speed_Bps);

/*
 * "Tributary 0.1.0: net tcp over eth0 10 Gbit/s, eth1 10 Gbit/s; TRIBUTARY_STREAMS=2": the devices and the settings
 * that are not the default.
 */
void plugin_report_line(const char *transport, const struct params *params, int device_count,
			const struct plugin_net_properties *devices, char text[static PLUGIN_REPORT_BYTES]);
/* "Tributary 0.1.0: <reason>". */
void plugin_report_reason(const struct plugin_choice *choice, char text[static PLUGIN_REPORT_BYTES]);

#endif
