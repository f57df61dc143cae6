/* SPDX-License-Identifier: Apache-2.0 */
#include "command/status/expect.h"

#include "base/params.h"
#include "command/command.h"
#include "command/plan/channels.h"
#include "command/source.h"
#include "profile/store_tuning.h"
#include "tributary/predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

/* A link that negotiated less than what was measured of it carries less now; what is within the measurement's noise does not count. */
#define LACKING_PART 0.9

/* The options by which channels are asked for. */
enum { FROM, PROFILE, GPUS, NETS, HOSTS };
static const struct command questions = {
	.name = "status",
	.options = { [FROM] = COMMAND_OPTION_FROM,
		     [PROFILE] = COMMAND_OPTION_PROFILE,
		     [GPUS] = COMMAND_OPTION_GPUS,
		     [NETS] = COMMAND_OPTION_NETS,
		     [HOSTS] = COMMAND_OPTION_HOSTS },
};

struct table {
	struct tuning_table table;
	SLIST_ENTRY(table) link;
};

struct expect {
	struct source source;
	SLIST_HEAD(, table) tables; /* of this host */
	char why_not[512];
	/* Of the last communicator that was asked for. */
	char gpus[256];
	struct expect_comm comm;
	bool is_known;
	struct channels channels;
	struct predict_tuner tuner;                 /* planned */
	struct predict_communicator believed, real; /* not */
};

/* Without memory for one, what it says is taken for another choice than the model's, as without the table. */
static void take_table(void *arg, uint64_t hash, const struct tuning_table *table)
{
	struct expect *expect = arg;
	struct table *kept = malloc(sizeof(*kept));

	(void)hash;
	if (!kept)
		return;
	kept->table = *table;
	SLIST_INSERT_HEAD(&expect->tables, kept, link);
}

/* Whichever of them the job followed, if any: the records do not say. */
static bool is_tuned(const struct expect *expect, const struct expect_comm *comm, int collective, uint64_t bytes,
		     struct compare_way taken)
{
	const struct table *at;

	SLIST_FOREACH(at, &expect->tables, link)
	{
		const struct tuning_choice *choice = tuning_find(&at->table, collective, bytes);

		if (choice && at->table.rank_count == comm->rank_count && at->table.host_count == comm->node_count &&
		    choice->algorithm == taken.algorithm && choice->protocol == taken.protocol)
			return true;
	}
	return false;
}

struct expect *expect_open(const char *from, const char *profile)
{
	struct command_call call = { .command = &questions, .values = { [FROM] = from, [PROFILE] = profile } };
	struct expect *expect = calloc(1, sizeof(*expect));
	struct params_source environment;
	struct params params;

	if (!expect || source_load(&call, SOURCE_PROFILE_HERE, &expect->source) != COMMAND_OK) {
		free(expect);
		return NULL;
	}
	environment = params_from_environment();        /* NCCL's configuration files are read: it may have moved */
	params_load(&environment, NULL, NULL, &params); /* source_load() said what is wrong with them */
	(void)store_tuning_each(&params, take_table, expect, NULL);
	if (!source_is_measured(&expect->source.topology))
		snprintf(expect->why_not, sizeof(expect->why_not), "%s",
			 expect->source.no_profile.text[0] ? expect->source.no_profile.text
							   : "no rate of this machine was measured");
	return expect;
}

void expect_close(struct expect *expect)
{
	if (!expect)
		return;
	while (!SLIST_EMPTY(&expect->tables)) {
		struct table *first = SLIST_FIRST(&expect->tables);

		SLIST_REMOVE_HEAD(&expect->tables, link);
		free(first);
	}
	channels_fini(&expect->channels);
	source_fini(&expect->source);
	free(expect);
}

const char *expect_why_not(const struct expect *expect)
{
	return expect->why_not[0] ? expect->why_not : NULL;
}

/* The channels that the communicator has. */
static bool make(struct expect *expect)
{
	const struct expect_comm *comm = &expect->comm;
	static const struct channels_collnet no_collnet;
	char hosts[32];
	struct command_call call = { .command = &questions,
				     .values = { [GPUS] = *expect->gpus ? expect->gpus : NULL, [HOSTS] = hosts } };
	struct plan_request request;
	enum plan_where where;

	snprintf(hosts, sizeof(hosts), "%zu", comm->node_count);
	if (channels_request(&call, &expect->source.topology, &request, &where) != COMMAND_OK ||
	    request.gpu_count * comm->node_count != comm->rank_count)
		return false;
	if (!comm->planned) {
		if (channels_estimate(&expect->source.topology, &request, &expect->channels) != COMMAND_OK)
			return false;
		channels_predict(&expect->channels, true, &expect->believed);
		channels_predict(&expect->channels, false, &expect->real);
		return true;
	}
	if (channels_plan(&expect->source.topology, &request, where, &expect->channels) != COMMAND_OK)
		return false;
	channels_tuner(&expect->channels, comm->node_count, &no_collnet, &expect->tuner);
	return true;
}

static bool is_ready(struct expect *expect, const struct expect_comm *comm)
{
	if (!expect || expect->why_not[0] || comm->rank_count < 2 || !comm->node_count ||
	    strlen(comm->gpus) >= sizeof(expect->gpus))
		return false;
	if (expect->comm.node_count == comm->node_count && expect->comm.rank_count == comm->rank_count &&
	    expect->comm.planned == comm->planned && !strcmp(expect->gpus, comm->gpus))
		return expect->is_known;
	channels_fini(&expect->channels);
	expect->comm = *comm;
	snprintf(expect->gpus, sizeof(expect->gpus), "%s", comm->gpus);
	expect->is_known = make(expect);
	return expect->is_known;
}

static double positive(double time_us)
{
	return time_us > 0 ? time_us : 0;
}

static bool is_modelled(struct compare_way way)
{
	return way.algorithm >= 0 && way.algorithm < PREDICT_ALGORITHM_COUNT && way.protocol >= 0 &&
	       way.protocol < PREDICT_PROTOCOL_COUNT;
}

static void of_plan(const struct expect *expect, enum predict_collective collective, uint64_t bytes,
		    struct compare_case *at)
{
	struct channels_tuned tuned;

	channels_tune(&expect->tuner, collective, bytes, &tuned);
	at->predicted = (struct compare_way){ tuned.tuned.algorithm, tuned.tuned.protocol };
	at->predicted_us = positive(tuned.tuned_us);
	if (is_modelled(at->taken))
		at->taken_us = positive((double)tuned.truth.us[at->taken.algorithm][at->taken.protocol]);
}

static void of_search(const struct expect *expect, enum predict_collective collective, uint64_t bytes,
		      struct compare_case *at)
{
	struct predict_choice choice;

	if (predict_best(&expect->believed, collective, bytes, &choice) < 0)
		return;
	at->predicted = (struct compare_way){ (int)choice.algorithm, (int)choice.protocol };
	at->predicted_us =
		positive(predict_time_us(&expect->real, collective, choice.algorithm, choice.protocol, bytes));
	if (is_modelled(at->taken))
		at->taken_us = positive(predict_time_us(&expect->real, collective,
							(enum predict_algorithm)at->taken.algorithm,
							(enum predict_protocol)at->taken.protocol, bytes));
}

void expect_case(struct expect *expect, const struct expect_comm *comm, int collective, uint64_t bytes,
		 struct compare_case *at)
{
	at->predicted = (struct compare_way){ -1, -1 };
	at->predicted_us = at->taken_us = 0;
	at->is_tuned = expect && is_tuned(expect, comm, collective, bytes, at->taken);
	/* What collnet makes of a network is the cluster file's business. */
	if (collective < 0 || collective >= PREDICT_COLLECTIVE_COUNT || !bytes || !is_ready(expect, comm) ||
	    at->taken.algorithm == PREDICT_COLLNET_CHAIN || at->taken.algorithm == PREDICT_COLLNET_DIRECT)
		return;
	if (comm->planned)
		of_plan(expect, (enum predict_collective)collective, bytes, at);
	else
		of_search(expect, (enum predict_collective)collective, bytes, at);
}

bool expect_link(struct expect *expect, const struct expect_comm *comm, struct compare_link *ret)
{
	const struct channels_graph *ring;
	bool found = false;

	if (!is_ready(expect, comm))
		return false;
	ring = &expect->channels.graphs[PLAN_RING];
	for (size_t i = 0; expect->channels.has[PLAN_RING] && i < ring->load_count; i++) {
		const struct plan_load *load = &ring->loads[i];
		const struct topology_link *link = &expect->source.topology.links[load->index / 2];
		const struct topology_capacity *capacity = &link->capacity[load->index % 2];
		double now_Bps = (double)link->nominal_Bps, expected_Bps = (double)capacity->rate_Bps;

		if (load->kind != PLAN_LOAD_LINK || capacity->provenance < TOPOLOGY_AT_LEAST || now_Bps <= 0 ||
		    now_Bps >= LACKING_PART * expected_Bps ||
		    (found && now_Bps / expected_Bps >= ret->now_Bps / ret->expected_Bps))
			continue;
		found = true;
		ret->now_Bps = now_Bps;
		ret->expected_Bps = expected_Bps;
		(void)topology_directed_name(&expect->source.topology, load->index, ret->name, sizeof(ret->name));
	}
	return found;
}
