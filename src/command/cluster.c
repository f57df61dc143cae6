/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary cluster show`: how a cluster file is understood, and what aggregation would put on its links. */
#include "command/command.h"

#include "aggregate/schedule.h"
#include "command/cluster_open.h"
#include "command/file.h"
#include "command/json.h"
#include "command/print/units.h"
#include "command/show/page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What of a cluster the schedule says, if all its hosts have one member each. */
struct view {
	const char *path;
	struct cluster *cluster;
	struct schedule *schedule;              /* NULL: more hosts than one group has, or none */
	uint16_t leaf_of[CLUSTER_SWITCHES_MAX]; /* the schedule's number of each switch, or SCHEDULE_NONE */
	struct schedule_loads loads;
};

/* ------------------------------------------------------------------------------------------------------ the schedule */

static uint16_t leaf_number(struct view *view, struct schedule_group *group, int of)
{
	const struct cluster_switch *at = &view->cluster->switches[of];
	uint16_t *leaf = &view->leaf_of[of];

	if (*leaf == SCHEDULE_NONE) {
		*leaf = (uint16_t)group->leaf_count++;
		group->uplink_out_Bps[*leaf] = at->up_rate_Bps;
		group->uplink_in_Bps[*leaf] = at->down_rate_Bps;
	}
	return *leaf;
}

static int make_schedule(struct view *view)
{
	const struct cluster *cluster = view->cluster;
	struct schedule_group *group;
	int r;

	for (size_t i = 0; i < CLUSTER_SWITCHES_MAX; i++)
		view->leaf_of[i] = SCHEDULE_NONE;
	if (!cluster->host_count || cluster->host_count > SCHEDULE_MEMBERS_MAX ||
	    cluster->aggregator_count > SCHEDULE_AGGREGATORS_MAX)
		return 0;
	group = calloc(1, sizeof(*group));
	if (!group)
		return -ENOMEM;
	for (size_t i = 0; i < cluster->host_count; i++)
		group->nodes[group->node_count++] =
			(struct schedule_node){ .host = (uint16_t)group->host_count++,
						.leaf = leaf_number(view, group, cluster->hosts[i].leaf),
						.rate_Bps = cluster->hosts[i].rate_Bps };
	group->member_count = group->node_count;
	for (size_t i = 0; i < cluster->aggregator_count; i++)
		group->nodes[group->node_count++] =
			(struct schedule_node){ .host = (uint16_t)group->host_count++,
						.leaf = leaf_number(view, group, cluster->aggregators[i].leaf),
						.rate_Bps = cluster->aggregators[i].rate_Bps,
						.aggregator = true };
	schedule_leave_aggregators(group);
	r = schedule_new(group, &view->schedule);
	free(group);
	if (r == 0)
		schedule_loads(view->schedule, &view->loads);
	return r;
}

static double leaf_share(const struct view *view, size_t of)
{
	return view->leaf_of[of] == SCHEDULE_NONE ? 0 : schedule_leaf_share(view->schedule, view->leaf_of[of]);
}

static double aggregator_share(const struct view *view, size_t index)
{
	return schedule_node_share(view->schedule, (unsigned)(view->cluster->host_count + index));
}

/* -------------------------------------------------------------------------------------------------------------- text */

static const char *rate_words(uint64_t rate_Bps, char text[static UNITS_BYTES])
{
	return rate_Bps ? units_bits((double)rate_Bps, text) : "?";
}

static void print_hosts(const struct cluster *cluster, size_t leaf, FILE *out)
{
	uint64_t low = UINT64_MAX, high = 0;
	size_t count = 0, known = 0;
	char rate[UNITS_BYTES];

	for (size_t i = 0; i < cluster->host_count; i++) {
		const struct cluster_host *host = &cluster->hosts[i];

		if (host->leaf != (int)leaf)
			continue;
		count++;
		known += host->rate_Bps > 0;
		low = host->rate_Bps && host->rate_Bps < low ? host->rate_Bps : low;
		high = host->rate_Bps > high ? host->rate_Bps : high;
	}
	if (!count)
		return;
	fprintf(out, "; %zu %s of ", count, count == 1 ? "host" : "hosts");
	if (known && low != high)
		fprintf(out, "%s to ", rate_words(low, rate));
	fputs(rate_words(high, rate), out);
	if (known && known < count)
		fprintf(out, " (%zu not known)", count - known);
}

static void print_aggregators(const struct view *view, size_t leaf, int depth, FILE *out)
{
	for (size_t i = 0; i < view->cluster->aggregator_count; i++) {
		const struct cluster_aggregator *at = &view->cluster->aggregators[i];
		bool v6 = strchr(at->address, ':') != NULL;
		char rate[UNITS_BYTES];

		if (at->leaf != (int)leaf)
			continue;
		fprintf(out, "%*saggregator %s%s%s:%u, %s", 2 * depth, "", v6 ? "[" : "", at->address, v6 ? "]" : "",
			at->port, rate_words(at->rate_Bps, rate));
		if (view->schedule)
			fprintf(out, "; aggregates %.1f %% here", 100 * aggregator_share(view, i));
		fputc('\n', out);
	}
}

static void print_switch(const struct view *view, size_t index, int depth, FILE *out)
{
	const struct cluster *cluster = view->cluster;
	const struct cluster_switch *at = &cluster->switches[index];
	char up[UNITS_BYTES], down[UNITS_BYTES];

	fprintf(out, "%*s%s", 2 * depth, "", at->name);
	if (at->parent != CLUSTER_NONE) {
		fprintf(out, ": uplink %s", rate_words(at->up_rate_Bps, up));
		if (at->up_rate_Bps != at->down_rate_Bps)
			fprintf(out, " up, %s down", rate_words(at->down_rate_Bps, down));
	}
	print_hosts(cluster, index, out);
	if (view->schedule && view->leaf_of[index] != SCHEDULE_NONE)
		fprintf(out, "; roots %.1f %%", 100 * leaf_share(view, index));
	fputc('\n', out);
	print_aggregators(view, index, depth + 1, out);
	for (size_t i = index + 1; i < cluster->switch_count; i++)
		if (cluster->switches[i].parent == (int)index)
			print_switch(view, i, depth + 1, out);
}

static void print_text(const struct view *view, FILE *out)
{
	char time[UNITS_BYTES];
	const struct cluster *cluster = view->cluster;
	size_t leaves = 0;

	for (size_t i = 0; i < cluster->switch_count; i++)
		for (size_t j = 0; j < cluster->host_count; j++)
			if (cluster->hosts[j].leaf == (int)i) {
				leaves++;
				break;
			}
	fprintf(out, "%s: %zu %s on %zu %s, %zu %s; fingerprint %016" PRIx64 "\n", view->path, cluster->host_count,
		cluster->host_count == 1 ? "host" : "hosts", leaves, leaves == 1 ? "leaf" : "leaves",
		cluster->aggregator_count, cluster->aggregator_count == 1 ? "aggregator" : "aggregators",
		cluster->fingerprint);
	for (size_t i = 0; i < cluster->switch_count; i++)
		if (cluster->switches[i].parent == CLUSTER_NONE)
			print_switch(view, i, 0, out);
	if (!view->schedule) {
		if (cluster->host_count)
			fprintf(out, "No shares: a group has at most %d hosts and %d aggregators.\n",
				SCHEDULE_MEMBERS_MAX, SCHEDULE_AGGREGATORS_MAX);
		return;
	}
	fprintf(out,
		"An AllReduce of all hosts puts, for each of its bytes and in each direction, at most %.3f on a NIC",
		view->loads.host);
	if (view->loads.uplink > 0)
		fprintf(out, ", %.3f on an uplink", view->loads.uplink);
	if (view->loads.aggregator > 0)
		fprintf(out, ", %.3f on an aggregator's NIC", view->loads.aggregator);
	fputs(".\n", out);
	if (view->loads.slowest_s_per_B > 0)
		fprintf(out, "Its slowest link would take %s for 64 MiB.\n",
			units_time(view->loads.slowest_s_per_B * (64 << 20), time));
}

/* -------------------------------------------------------------------------------------------------------------- JSON */

static json_t *share_or_null(const struct view *view, double share)
{
	return view->schedule ? json_real(share) : json_null();
}

static json_t *switches_json(const struct view *view)
{
	const struct cluster *cluster = view->cluster;
	json_t *list = json_array();

	for (size_t i = 0; i < cluster->switch_count; i++) {
		const struct cluster_switch *at = &cluster->switches[i];
		json_t *parent = at->parent == CLUSTER_NONE ? json_null()
							    : json_string(cluster->switches[at->parent].name);

		json_array_append_new(list, json_pack("{ss so so so so}", "name", at->name, "parent", parent,
						      "up_rate_Bps", json_known(at->up_rate_Bps), "down_rate_Bps",
						      json_known(at->down_rate_Bps), "root_share",
						      share_or_null(view, view->schedule ? leaf_share(view, i) : 0)));
	}
	return list;
}

static json_t *hosts_json(const struct view *view)
{
	const struct cluster *cluster = view->cluster;
	json_t *list = json_array();

	for (size_t i = 0; i < cluster->host_count; i++) {
		const struct cluster_host *host = &cluster->hosts[i];
		double share = view->schedule ? schedule_node_share(view->schedule, (unsigned)i) : 0;

		json_array_append_new(list, json_pack("{ss ss so so}", "name", host->name, "leaf",
						      cluster->switches[host->leaf].name, "rate_Bps",
						      json_known(host->rate_Bps), "share", share_or_null(view, share)));
	}
	return list;
}

static json_t *aggregators_json(const struct view *view)
{
	const struct cluster *cluster = view->cluster;
	json_t *list = json_array();

	for (size_t i = 0; i < cluster->aggregator_count; i++) {
		const struct cluster_aggregator *at = &cluster->aggregators[i];
		double share = view->schedule ? aggregator_share(view, i) : 0;

		json_array_append_new(list, json_pack("{ss si ss so so}", "address", at->address, "port", at->port,
						      "leaf", cluster->switches[at->leaf].name, "rate_Bps",
						      json_known(at->rate_Bps), "share", share_or_null(view, share)));
	}
	return list;
}

static json_t *cluster_json(const struct view *view)
{
	json_t *loads = json_null();
	char fingerprint[24];

	snprintf(fingerprint, sizeof(fingerprint), "%016" PRIx64, view->cluster->fingerprint);
	if (view->schedule)
		loads = json_pack("{sf sf sf}", "host", view->loads.host, "aggregator", view->loads.aggregator,
				  "uplink", view->loads.uplink);
	return json_pack("{so ss so so so so}", "name", json_text(view->path), "fingerprint", fingerprint, "switches",
			 switches_json(view), "hosts", hosts_json(view), "aggregators", aggregators_json(view), "loads",
			 loads);
}

static int draw(const void *arg, FILE *to)
{
	const struct view *view = arg;

	page_begin(view->path, to);
	return page_end("tributary-cluster 1", cluster_json(view), to);
}

static int print(const struct view *view, const struct command_call *call, FILE *out)
{
	const char *page = command_value(call, "html");
	int status = COMMAND_OK;

	if (page)
		status = file_put_made(page, "the page cannot be drawn", draw, view, out);
	if (status != COMMAND_OK)
		return status;
	if (command_given(call, "text"))
		return cluster_write(view->cluster, out) < 0 ? command_failed(NULL, EIO, "the text cannot be written")
							     : COMMAND_OK;
	if (command_given(call, "slurm"))
		return cluster_write_slurm(view->cluster, out) < 0
			       ? command_failed(NULL, EIO, "the topology.conf cannot be written")
			       : COMMAND_OK;
	if (command_given(call, "json"))
		return json_print("tributary-cluster 1", cluster_json(view), out);
	if (!page)
		print_text(view, out);
	return COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	static const char *const printed[] = { "text", "slurm", "json" };
	struct view view = { .path = call->operands[1] };
	const char *page = command_value(call, "html");
	size_t streams = page && !strcmp(page, "-") ? 1 : 0;
	int status, r;

	for (size_t i = 0; i < sizeof(printed) / sizeof(printed[0]); i++)
		streams += command_given(call, printed[i]);
	if (streams > 1)
		return command_usage_error("cluster", "only one of --html, --json, --text and --slurm can go to "
						      "standard output");
	status = command_cluster_open(view.path, command_value(call, "exclude"), &view.cluster);
	if (status != COMMAND_OK)
		return status;
	r = make_schedule(&view);
	status = r < 0 ? command_failed(NULL, r, "the shares of the leaves cannot be worked out")
		       : print(&view, call, out);
	schedule_free(view.schedule);
	cluster_free(view.cluster);
	return status;
}

const struct command command_cluster = {
	.name = "cluster",
	.group = COMMAND_CLUSTERS,
	.operands = "show FILE",
	.help = "what a cluster file says: leaves, hosts, uplinks, aggregators, and their shares",
	.about = "FILE is in the form of docs/format/cluster-file.md, Slurm's topology.conf or topology.yaml, or what "
		 "`scontrol show topology`, `lldpctl -f json` on the hosts, or `ibnetdiscover` printed; which one "
		 "is told by its content. Of what LLDP and ibnetdiscover say, networks for storage and management "
		 "are left out, as far as they can be told, and what --exclude names. Shares are those of a job "
		 "that runs on all hosts.",
	.options = { { "text", NULL, "print the file in our own canonical form, for TRIBUTARY_CLUSTER", NULL },
		     { "slurm", NULL, "print it as Slurm's topology.conf", NULL },
		     COMMAND_OPTION_EXCLUDE,
		     { "html", "FILE", "one page: a map of the fabric, oversubscription, slow hosts, tables", NULL },
		     COMMAND_OPTION_JSON },
	.example = "tributary cluster show cluster",
	.run = run,
};
