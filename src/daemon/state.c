/* SPDX-License-Identifier: Apache-2.0 */
/* How the service is, for `tributary aggregators` and for metrics.c. */
#include "base/clock.h"
#include "daemon/daemon.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#ifndef TRIBUTARY_VERSION
#define TRIBUTARY_VERSION "unknown"
#endif

size_t daemon_group_count(const struct daemon *daemon)
{
	size_t count = 0;

	for (size_t i = 0; i < daemon->connection_count; i++)
		count += daemon->connections[i]->group != NULL;
	return count;
}

/* The fastest of the devices: groups take the one that their coordinator reached. */
static uint64_t nic_Bps(const struct daemon *daemon)
{
	int count = daemon->ops->device_count(daemon->transport);
	uint64_t most = 0;

	for (int i = 0; i < count; i++) {
		struct transport_properties properties;

		if (!daemon->ops->device_properties(daemon->transport, i, &properties) && properties.speed_Bps > most)
			most = properties.speed_Bps;
	}
	return most;
}

static struct aggregator_counters totals_of(const struct daemon *daemon)
{
	struct aggregator_counters totals = daemon->past;

	for (size_t i = 0; i < daemon->connection_count; i++) {
		const struct daemon_group *group = daemon->connections[i]->group;
		struct aggregator_status status;

		if (!group)
			continue;
		aggregator_status(group->aggregator_group, &status);
		totals.bytes_in += status.counters.bytes_in;
		totals.bytes_out += status.counters.bytes_out;
		totals.segments += status.counters.segments;
	}
	return totals;
}

static void rate_sample(struct daemon_rate *rate, uint64_t now, double seconds)
{
	double fresh = now >= rate->last ? (double)(now - rate->last) / seconds : 0;

	rate->last = now;
	rate->per_s += (fresh - rate->per_s) / 2;
	if (rate->per_s < 1)
		rate->per_s = 0;
}

static uint64_t cpu_ns(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) < 0)
		return 0;
	return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * NS_PER_S +
	       ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * NS_PER_US;
}

void daemon_sample(struct daemon *daemon, uint64_t now_ns)
{
	double seconds = (double)clock_elapsed_ns(daemon->sampled_ns, now_ns) / (double)NS_PER_S;
	struct aggregator_counters totals;

	if (clock_elapsed_ns(daemon->sampled_ns, now_ns) < DAEMON_SAMPLE_NS)
		return;
	daemon->sampled_ns = now_ns;
	totals = totals_of(daemon);
	rate_sample(&daemon->in, totals.bytes_in, seconds);
	rate_sample(&daemon->out, totals.bytes_out, seconds);
	rate_sample(&daemon->cpu, cpu_ns(), seconds);
	for (size_t i = 0; i < daemon->connection_count; i++) {
		struct daemon_group *group = daemon->connections[i]->group;
		struct aggregator_status status;

		if (!group)
			continue;
		aggregator_status(group->aggregator_group, &status);
		group->counters = status.counters;
		rate_sample(&group->in, status.counters.bytes_in, seconds);
		rate_sample(&group->out, status.counters.bytes_out, seconds);
	}
}

static void group_state(const struct daemon_group *group, uint64_t now_ns, struct control_group_state *ret)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->id, group->id, sizeof(ret->id));
	memcpy(ret->name, group->name, sizeof(ret->name));
	ret->member_count = group->member_count;
	ret->ready = group->told == AGGREGATOR_READY;
	ret->age_ms = clock_elapsed_ns(group->since_ns, now_ns) / NS_PER_MS;
	ret->bytes_in = group->counters.bytes_in;
	ret->bytes_out = group->counters.bytes_out;
	ret->segments = group->counters.segments;
	ret->rate_in_Bps = (uint64_t)group->in.per_s;
	ret->rate_out_Bps = (uint64_t)group->out.per_s;
}

void daemon_state(const struct daemon *daemon, uint64_t now_ns, struct control_state *ret,
		  struct control_group_state ret_groups[static CONTROL_GROUPS_MAX])
{
	struct aggregator_counters totals = totals_of(daemon);

	*ret = (struct control_state){
		.uptime_ms = clock_elapsed_ns(daemon->started_ns, now_ns) / NS_PER_MS,
		.bytes_in = totals.bytes_in,
		.bytes_out = totals.bytes_out,
		.segments = totals.segments,
		.rate_in_Bps = (uint64_t)daemon->in.per_s,
		.rate_out_Bps = (uint64_t)daemon->out.per_s,
		.nic_Bps = nic_Bps(daemon),
		.memory_max_bytes = daemon->options->memory_max_bytes,
		.busy_milli = (uint32_t)(daemon->cpu.per_s / 1e6),
		.thread_count = daemon->options->threads,
		.groups_max = daemon->options->groups_max,
		.groups_served = daemon->groups_served,
		.strangers = daemon->strangers,
		.draining = daemon->draining,
	};
	snprintf(ret->version, sizeof(ret->version), "%s", TRIBUTARY_VERSION);
	snprintf(ret->name, sizeof(ret->name), "%s", daemon->name);
	for (size_t i = 0; i < daemon->connection_count; i++) {
		struct aggregator_status status;

		if (!daemon->connections[i]->group || ret->group_count == CONTROL_GROUPS_MAX)
			continue;
		aggregator_status(daemon->connections[i]->group->aggregator_group, &status);
		ret->memory_bytes += status.window_bytes;
		group_state(daemon->connections[i]->group, now_ns, &ret_groups[ret->group_count++]);
	}
}
