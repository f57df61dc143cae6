/* How the service is: for `tributary aggregators`, and as Prometheus' text. */
#include "base/clock.h"
#include "daemon/daemon.h"

#include <inttypes.h>
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

/* ----------------------------------------------------------------------------------------------------------- metrics */

static void add_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP tributaryd_%s %s\n# TYPE tributaryd_%s %s\n", name, help, name, type);
}

/* The name comes from a peer: it is printable, but Prometheus gives a meaning to two characters of it. */
static void label(const struct control_group_state *group, char *ret)
{
	for (const char *c = group->name; *c; c++)
		*ret++ = *c == '"' || *c == '\\' ? '_' : *c;
	*ret = '\0';
}

struct group_metric {
	const char *name, *type, *help;
	size_t offset;
};
static const struct group_metric group_metrics[] = {
	{ "group_received_bytes_total", "counter", "Payload received from members of this group.",
	  offsetof(struct control_group_state, bytes_in) },
	{ "group_sent_bytes_total", "counter", "Payload sent to members of this group.",
	  offsetof(struct control_group_state, bytes_out) },
	{ "group_segments_total", "counter", "Segments aggregated for this group.",
	  offsetof(struct control_group_state, segments) },
};

static void add_groups(FILE *out, const struct control_state *state, const struct control_group_state *groups)
{
	add_head(out, "group_members", "gauge", "Members of each group.");
	for (size_t i = 0; i < state->group_count; i++) {
		char name[CONTROL_NAME_BYTES];

		label(&groups[i], name);
		fprintf(out, "tributaryd_group_members{group=\"%s\",id=\"%02x%02x%02x%02x\"} %u\n", name,
			groups[i].id[0], groups[i].id[1], groups[i].id[2], groups[i].id[3], groups[i].member_count);
	}
	for (size_t m = 0; m < sizeof(group_metrics) / sizeof(group_metrics[0]); m++) {
		const struct group_metric *metric = &group_metrics[m];

		add_head(out, metric->name, metric->type, metric->help);
		for (size_t i = 0; i < state->group_count; i++) {
			char name[CONTROL_NAME_BYTES];
			uint64_t value;

			label(&groups[i], name);
			memcpy(&value, (const char *)&groups[i] + metric->offset, sizeof(value));
			fprintf(out, "tributaryd_%s{group=\"%s\",id=\"%02x%02x%02x%02x\"} %" PRIu64 "\n", metric->name,
				name, groups[i].id[0], groups[i].id[1], groups[i].id[2], groups[i].id[3], value);
		}
	}
}

void daemon_metrics_print(const struct control_state *state, const struct control_group_state *groups, FILE *out)
{
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} plain[] = {
		{ "groups", "gauge", "Groups that are served now.", state->group_count },
		{ "groups_limit", "gauge", "Groups that may be served at a time.", state->groups_max },
		{ "groups_total", "counter", "Groups let in since the start.", state->groups_served },
		{ "received_bytes_total", "counter", "Payload received from members.", state->bytes_in },
		{ "sent_bytes_total", "counter", "Payload sent to members.", state->bytes_out },
		{ "segments_total", "counter", "Segments aggregated.", state->segments },
		{ "memory_bytes", "gauge", "Memory given to groups for data under way.", state->memory_bytes },
		{ "memory_limit_bytes", "gauge", "Memory that there is for it.", state->memory_max_bytes },
		{ "nic_bytes_per_second", "gauge", "Speed of the network card in one direction.", state->nic_Bps },
		{ "threads", "gauge", "Threads that move and reduce.", state->thread_count },
		{ "turned_away_total", "counter", "Connections closed because they proved nothing.", state->strangers },
		{ "draining", "gauge", "1: it ends soon and takes no groups.", state->draining },
	};

	add_head(out, "info", "gauge", "The version.");
	fprintf(out, "tributaryd_info{version=\"%s\"} 1\n", state->version);
	add_head(out, "uptime_seconds", "gauge", "Since the start.");
	fprintf(out, "tributaryd_uptime_seconds %" PRIu64 ".%03" PRIu64 "\n", state->uptime_ms / 1000,
		state->uptime_ms % 1000);
	add_head(out, "busy_cores", "gauge", "Cores in use over the last seconds.");
	fprintf(out, "tributaryd_busy_cores %u.%03u\n", state->busy_milli / 1000, state->busy_milli % 1000);
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		add_head(out, plain[i].name, plain[i].type, plain[i].help);
		fprintf(out, "tributaryd_%s %" PRIu64 "\n", plain[i].name, plain[i].value);
	}
	add_groups(out, state, groups);
}
