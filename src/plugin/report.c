/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/report.h"

#include "plugin/versions/slots.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SETTING_BYTES = PARAMS_STRING_BYTES };

static const char cut_mark[] = "...";

/* What `tributary check` asks of the library that NCCL would load. */
PLUGIN_EXPORT extern const char tributary_version[];
const char tributary_version[] = TRIBUTARY_VERSION;

void plugin_report_add(struct plugin_report *line, const char *fmt, ...)
{
	size_t room = PLUGIN_REPORT_BYTES - line->used, at;
	va_list args;
	int bytes;

	if (room == 0)
		return;
	va_start(args, fmt);
	bytes = vsnprintf(line->text + line->used, room, fmt, args);
	va_end(args);
	if (bytes >= 0 && (size_t)bytes < room) {
		line->used += (size_t)bytes;
		return;
	}
	for (at = PLUGIN_REPORT_BYTES - sizeof(cut_mark); at && line->text[at - 1] != ' ';)
		at--;
	memcpy(line->text + at, cut_mark, sizeof(cut_mark));
	line->used = PLUGIN_REPORT_BYTES;
}

void plugin_report_add_speed(struct plugin_report *line, uint64_t speed_Bps)
{
	double bps = (double)speed_Bps * 8;

	if (speed_Bps == 0)
		return;
	if (bps >= 1e9)
		plugin_report_add(line, " %.4g Gbit/s", bps / 1e9);
	else
		plugin_report_add(line, " %.4g Mbit/s", bps / 1e6);
}

static void append_settings(struct plugin_report *line, const struct params *params)
{
	struct params defaults;
	const char *before = "; ";

	params_defaults(&defaults);
	for (size_t i = 0; i < params_count(); i++) {
		char now[SETTING_BYTES], normal[SETTING_BYTES];

		if (params_format(params, i, now, sizeof(now)) < 0 ||
		    params_format(&defaults, i, normal, sizeof(normal)) < 0 || strcmp(now, normal) == 0)
			continue;
		plugin_report_add(line, "%s%s=%s", before, params_origin(params, i), now);
		before = ", ";
	}
}

void plugin_report_line(const char *transport, const struct params *params, int device_count,
			const struct plugin_net_properties *devices, char text[static PLUGIN_REPORT_BYTES])
{
	struct plugin_report line = { .text = text };
	bool is_first = true;

	plugin_report_add(&line, "Tributary %s: net %s", TRIBUTARY_VERSION, transport);
	for (int i = 0; i < device_count; i++) {
		if (devices[i].member_count > 1)
			continue; /* its members are in the line */
		plugin_report_add(&line, "%s%s", is_first ? " over " : ", ", devices[i].name);
		plugin_report_add_speed(&line, devices[i].speed_Bps);
		is_first = false;
	}
	if (is_first)
		plugin_report_add(&line, " finds no usable interface, so the network is left to NCCL");
	append_settings(&line, params);
}

void plugin_report_reason(const struct plugin_choice *choice, char text[static PLUGIN_REPORT_BYTES])
{
	struct plugin_report line = { .text = text };

	plugin_report_add(&line, "Tributary %s: %s", TRIBUTARY_VERSION, choice->reason);
}
