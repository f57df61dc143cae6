/* SPDX-License-Identifier: Apache-2.0 */
/* What GET /metrics gives: the service's own figures, and those of the devices. */
#include "base/clock.h"
#include "base/sys.h"
#include "base/text.h"
#include "daemon/daemon.h"
#include "transport/devices.h"
#include "transport/metrics.h"

#include <errno.h>

struct figures {
	uint64_t one, uptime_ns, busy_milli, groups, groups_max, groups_served, bytes_in, bytes_out, segments;
	uint64_t memory_bytes, memory_max_bytes, nic_Bps, threads, strangers, draining;
};
struct group_figures {
	uint64_t members, bytes_in, bytes_out, segments;
	char labels[METRICS_LABELS_BYTES];
};
struct device_figures {
	struct transport_counters counters;
	char labels[METRICS_LABELS_BYTES];
};

#define ROW(name, kind, field, help)                              \
	{                                                         \
		name, kind, offsetof(struct figures, field), help \
	}
#define GROUP(name, kind, field, help)                                  \
	{                                                               \
		name, kind, offsetof(struct group_figures, field), help \
	}

static const struct metrics_row info_rows[] = {
	ROW("tributaryd_info", METRICS_GAUGE, one, "Always 1; the version."),
	{ .name = NULL },
};
static const struct metrics_row rows[] = {
	ROW("tributaryd_uptime_seconds", METRICS_GAUGE_NS, uptime_ns, "Since the start."),
	ROW("tributaryd_busy_cores", METRICS_GAUGE_MILLI, busy_milli, "Cores in use over the last seconds."),
	ROW("tributaryd_groups", METRICS_GAUGE, groups, "Groups that are served now."),
	ROW("tributaryd_groups_limit", METRICS_GAUGE, groups_max, "Groups that may be served at a time."),
	ROW("tributaryd_groups_total", METRICS_COUNTER, groups_served, "Groups let in since the start."),
	ROW("tributaryd_received_bytes_total", METRICS_COUNTER, bytes_in, "Payload received from members."),
	ROW("tributaryd_sent_bytes_total", METRICS_COUNTER, bytes_out, "Payload sent to members."),
	ROW("tributaryd_segments_total", METRICS_COUNTER, segments, "Segments aggregated."),
	ROW("tributaryd_memory_bytes", METRICS_GAUGE, memory_bytes, "Memory given to groups for data under way."),
	ROW("tributaryd_memory_limit_bytes", METRICS_GAUGE, memory_max_bytes, "Memory that there is for it."),
	ROW("tributaryd_nic_bytes_per_second", METRICS_GAUGE, nic_Bps, "Speed of the network card in one direction."),
	ROW("tributaryd_threads", METRICS_GAUGE, threads, "Threads that move and reduce."),
	ROW("tributaryd_turned_away_total", METRICS_COUNTER, strangers,
	    "Connections closed because their address may not connect or they proved nothing."),
	ROW("tributaryd_draining", METRICS_GAUGE, draining, "1: it ends soon and takes no groups."),
	{ .name = NULL },
};
static const struct metrics_row group_rows[] = {
	GROUP("tributaryd_group_members", METRICS_GAUGE, members, "Members of each group."),
	GROUP("tributaryd_group_received_bytes_total", METRICS_COUNTER, bytes_in,
	      "Payload received from members of this group."),
	GROUP("tributaryd_group_sent_bytes_total", METRICS_COUNTER, bytes_out,
	      "Payload sent to members of this group."),
	GROUP("tributaryd_group_segments_total", METRICS_COUNTER, segments, "Segments aggregated for this group."),
	{ .name = NULL },
};

const struct metrics_table daemon_metrics_tables[] = {
	{ "version, host", info_rows },  { "", rows },     { "group, id", group_rows },
	{ "device", transport_metrics }, { .rows = NULL },
};

static void print_service(const struct control_state *state, struct text *out)
{
	const struct figures figures = { .one = 1,
					 .uptime_ns = state->uptime_ms * NS_PER_MS,
					 .busy_milli = state->busy_milli,
					 .groups = state->group_count,
					 .groups_max = state->groups_max,
					 .groups_served = state->groups_served,
					 .bytes_in = state->bytes_in,
					 .bytes_out = state->bytes_out,
					 .segments = state->segments,
					 .memory_bytes = state->memory_bytes,
					 .memory_max_bytes = state->memory_max_bytes,
					 .nic_Bps = state->nic_Bps,
					 .threads = state->thread_count,
					 .strangers = state->strangers,
					 .draining = state->draining };
	char labels[METRICS_LABELS_BYTES] = "";

	metrics_label(labels, "version", state->version);
	metrics_label(labels, "host", state->name);
	metrics_print(info_rows, &(struct metrics_sample){ &figures, labels }, 1, out);
	metrics_print(rows, &(struct metrics_sample){ &figures, "" }, 1, out);
}

/* At most CONTROL_GROUPS_MAX, of which --groups-max are there: two jobs may have one name, hence the id. */
static int print_groups(const struct control_state *state, const struct control_group_state *groups, struct text *out)
{
	struct group_figures *each = sys_zalloc((state->group_count + 1U) * sizeof(*each));
	struct metrics_sample *samples = sys_zalloc((state->group_count + 1U) * sizeof(*samples));
	int r = each && samples ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < state->group_count; i++) {
		const struct control_group_state *group = &groups[i];
		char id[9];

		each[i] = (struct group_figures){ group->member_count, group->bytes_in, group->bytes_out,
						  group->segments, "" };
		snprintf(id, sizeof(id), "%02x%02x%02x%02x", group->id[0], group->id[1], group->id[2], group->id[3]);
		metrics_label(each[i].labels, "group", group->name);
		metrics_label(each[i].labels, "id", id);
		samples[i] = (struct metrics_sample){ &each[i], each[i].labels };
	}
	if (r == 0)
		metrics_print(group_rows, samples, state->group_count, out);
	sys_free(each);
	sys_free(samples);
	return r;
}

static int print_devices(const struct daemon *daemon, struct text *out)
{
	int count = daemon->ops->device_counters ? daemon->ops->device_count(daemon->transport) : 0;
	struct device_figures *each = sys_zalloc(TRANSPORT_DEVICES_MAX * sizeof(*each));
	struct metrics_sample samples[TRANSPORT_DEVICES_MAX];
	size_t used = 0;

	for (int i = 0; each && i < count; i++) {
		struct transport_properties properties;

		if (daemon->ops->device_properties(daemon->transport, i, &properties) < 0)
			continue;
		daemon->ops->device_counters(daemon->transport, i, &each[used].counters);
		metrics_label(each[used].labels, "device", properties.name);
		samples[used] = (struct metrics_sample){ &each[used].counters, each[used].labels };
		used++;
	}
	if (each)
		metrics_print(transport_metrics, samples, used, out);
	sys_free(each);
	return each ? 0 : -ENOMEM;
}

int daemon_metrics_print(const struct daemon *daemon, uint64_t now_ns, struct text *out)
{
	struct control_group_state *groups = sys_zalloc(CONTROL_GROUPS_MAX * sizeof(*groups));
	struct control_state state;
	int r = -ENOMEM;

	if (groups) {
		daemon_state(daemon, now_ns, &state, groups);
		print_service(&state, out);
		r = print_groups(&state, groups, out);
	}
	if (r == 0)
		r = print_devices(daemon, out);
	sys_free(groups);
	return r;
}
