/* SPDX-License-Identifier: Apache-2.0 */
/* How the members of a group come to use aggregators. */
#include "aggregate/aggregators.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/params.h"
#include "base/sys.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Of the time-out: until the aggregators have answered, and until the connections with them stand. */
#define ASK_TENTHS   2
#define REACH_TENTHS 3

/* ---------------------------------------------------------------------------------------------------- the coordinator */

static uint64_t tenth_ns(const struct bootstrap *bootstrap)
{
	return params_replace_ns(bootstrap->engine->setup.params->timeout_ns) / 10;
}

/* Asks all of the cluster file. Returns whom; none if the secret cannot be read. */
static uint32_t ask_all(struct bootstrap *bootstrap, const struct group *group)
{
	const struct aggregate_setup *setup = &bootstrap->engine->setup;
	uint8_t handles[SCHEDULE_MEMBERS_MAX * TRANSPORT_HANDLE_BYTES] = { 0 };
	struct control_request request = { .data_version = AGGREGATOR_WIRE_VERSION,
					   .types = (1U << REDUCE_TYPE_COUNT) - 1,
					   .operations = (1U << REDUCE_OPERATION_COUNT) - 1,
					   .timeout_ms = (uint32_t)(bootstrap->timeout_ns / NS_PER_MS),
					   .member_count = (uint16_t)group->count,
					   .handles = handles };
	struct diag diag = { 0 };
	uint32_t asked = 0;

	if (control_secret_read(setup->params->secret, &bootstrap->secret, &diag) < 0) {
		log_warn("aggregators are not used, because the secret of TRIBUTARY_SECRET cannot be read: %s",
			 diag.text);
		return 0;
	}
	for (size_t i = 0; i < group->count; i++)
		memcpy(handles + i * TRANSPORT_HANDLE_BYTES,
		       bootstrap->peers[group->members[i].facts.index].ways[BOOTSTRAP_SMALL].handle,
		       BOOTSTRAP_HANDLE_BYTES);
	memcpy(request.id, bootstrap->aggregators->list.id, sizeof(request.id));
	snprintf(request.name, sizeof(request.name), "%.32s", group->members[0].facts.host);
	for (size_t i = 0; i < setup->cluster->aggregator_count && i < AGGREGATORS_MAX; i++) {
		const struct cluster_aggregator *aggregator = &setup->cluster->aggregators[i];
		struct control_client_setup client = { .address = aggregator->address,
						       .port = aggregator->port,
						       .secret = &bootstrap->secret,
						       .name = bootstrap->engine->host_name,
						       .timeout_ns = params_replace_ns(setup->params->timeout_ns) };
		struct control_client **ret = &bootstrap->asked->aggregators[i].client;

		if (control_client_open(&client, ret) == 0 && control_client_request(*ret, &request) == 0)
			asked |= aggregators_bit(i);
	}
	return asked;
}

/* True: this one has answered. */
static bool hear_offer(struct bootstrap *bootstrap, size_t index, uint32_t *offered)
{
	const struct cluster_aggregator *aggregator = &bootstrap->engine->setup.cluster->aggregators[index];
	struct control_answer *answer = &bootstrap->asked->answer;
	struct member_wire_aggregator *entry = &bootstrap->aggregators->list.each[index];

	switch (control_client_step(bootstrap->asked->aggregators[index].client, answer)) {
	case CONTROL_EVENT_OFFER:
		memcpy(entry->handle, answer->offer.handle, TRANSPORT_HANDLE_BYTES);
		/* What it is said to have counts, but no more than its card has now. */
		entry->rate_Bps = min_known_u64(aggregator->rate_Bps, answer->offer.rate_Bps);
		entry->leaf = aggregator->leaf;
		entry->listed = (uint32_t)index;
		*offered |= aggregators_bit(index);
		return true;
	case CONTROL_EVENT_REFUSAL:
	case CONTROL_EVENT_FAILURE:
	case CONTROL_EVENT_LOST:
		log_warn("a group goes on without an aggregator: %s", answer->sentence);
		return true;
	default:
		return false;
	}
}

/* Returns who has offered, a part of the time later at most. */
static uint32_t hear_offers(struct bootstrap *bootstrap, uint32_t asked)
{
	const uint64_t limit_ns = tenth_ns(bootstrap) * ASK_TENTHS;
	uint64_t since_ns = clock_now_ns(), looked_ns = since_ns;
	uint32_t offered = 0;

	while (asked && clock_waited_ns(&since_ns, &looked_ns, clock_now_ns()) < limit_ns) {
		for (size_t i = 0; i < AGGREGATORS_MAX; i++)
			if (asked & aggregators_bit(i) && hear_offer(bootstrap, i, &offered))
				asked &= ~aggregators_bit(i);
		if (asked && bootstrap_pause(bootstrap) < 0)
			break;
	}
	for (size_t i = 0; i < AGGREGATORS_MAX; i++)
		if (asked & aggregators_bit(i))
			log_warn("a group goes on without an aggregator that has not answered yet: %s",
				 control_client_peer(bootstrap->asked->aggregators[i].client));
	return offered;
}

/* The list has those alone who offered, and their clients stay for the group's life. */
static void keep(struct bootstrap *bootstrap, uint32_t offered)
{
	struct member_wire_aggregators *list = &bootstrap->aggregators->list;

	for (size_t i = 0; i < AGGREGATORS_MAX; i++) {
		struct control_client *client = bootstrap->asked->aggregators[i].client;

		bootstrap->asked->aggregators[i].client = NULL;
		if (!(offered & aggregators_bit(i))) {
			control_client_close(client);
			continue;
		}
		list->each[list->count] = list->each[i];
		bootstrap->asked->aggregators[list->count++].client = client;
	}
}

/* Tells the aggregators of each other; they begin to connect. */
static void say_go(struct group_aggregators *aggregators, const struct member_wire_aggregators *list)
{
	uint8_t handles[AGGREGATORS_MAX * TRANSPORT_HANDLE_BYTES];

	for (size_t i = 0; i < list->count; i++)
		memcpy(handles + i * TRANSPORT_HANDLE_BYTES, list->each[i].handle, TRANSPORT_HANDLE_BYTES);
	for (size_t i = 0; i < list->count; i++) {
		struct control_go go = { .position = (uint16_t)i, .aggregator_count = list->count, .handles = handles };

		/* One that is lost does not become ready. */
		(void)control_client_go(aggregators->aggregators[i].client, &go);
		if (control_client_step(aggregators->aggregators[i].client, &aggregators->answer) ==
		    CONTROL_EVENT_DRAIN)
			aggregators->leaving |= aggregators_bit(i); /* it said so while others were waited for */
	}
}

/* tributaryd has TCP alone. Every group would say it. */
static bool speaks_as_aggregators(const struct transport_ops *ops)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const bool speaks = strcmp(ops->name, transport_tcp.name) == 0;

	if (!speaks && !atomic_flag_test_and_set(&said))
		log_warn("aggregators are not used, because tributaryd serves TCP alone and this job goes over %s "
			 "(TRIBUTARY_NET)",
			 ops->name);
	return speaks;
}

void aggregators_ask(struct bootstrap *bootstrap, const struct group *group,
		     uint8_t bytes[static MEMBER_WIRE_AGGREGATORS_BYTES])
{
	const struct aggregate_setup *setup = &bootstrap->engine->setup;

	memset(bytes, 0, MEMBER_WIRE_AGGREGATORS_BYTES);
	if (bootstrap->count < 2 || !setup->cluster || !setup->cluster->aggregator_count || !setup->params->secret[0] ||
	    !speaks_as_aggregators(setup->ops))
		return;
	bootstrap->aggregators = sys_zalloc(sizeof(*bootstrap->aggregators));
	bootstrap->asked = sys_zalloc(sizeof(*bootstrap->asked)); /* aggregators_learn takes them over */
	if (!bootstrap->aggregators || !bootstrap->asked ||
	    getrandom(bootstrap->aggregators->list.id, AGGREGATOR_WIRE_ID_BYTES, 0) != AGGREGATOR_WIRE_ID_BYTES)
		return; /* without aggregators, then */
	keep(bootstrap, hear_offers(bootstrap, ask_all(bootstrap, group)));
	control_secret_forget(&bootstrap->secret);
	member_wire_aggregators(CODEC_TO(bytes), &bootstrap->aggregators->list);
	say_go(bootstrap->asked, &bootstrap->aggregators->list);
}

/* --------------------------------------------------------------------------------------------------------- everybody */

static void aggregator_give_up(struct bootstrap *bootstrap, size_t index)
{
	struct bootstrap_way *way = &bootstrap->aggregators->ways[index];

	bootstrap->aggregators->lost |= aggregators_bit(index);
	bootstrap_hang_up(bootstrap, way);
	way->hello.state = MESSAGE_NONE;
}

/* As somebody measured or wrote it: what a card says of itself may be a guess, and this is to be a limit. */
static uint32_t own_rate_kBps(const struct aggregate_engine *engine)
{
	const struct cluster *cluster = engine->setup.cluster;
	const struct cluster_host *host = cluster ? cluster_find(cluster, engine->host_name) : NULL;
	uint64_t rate_kBps = host ? host->rate_Bps / 1000 : 0;

	return rate_kBps < UINT32_MAX ? (uint32_t)rate_kBps : 0;
}

int aggregators_learn(struct bootstrap *bootstrap, const uint8_t bytes[static MEMBER_WIRE_AGGREGATORS_BYTES])
{
	struct aggregator_wire_hello hello = { .from = (uint16_t)bootstrap->group->self,
					       .rate_kBps = own_rate_kBps(bootstrap->engine) };
	struct group *group = bootstrap->group;
	struct member_wire_aggregators *list;

	if (!bootstrap->aggregators)
		bootstrap->aggregators = sys_zalloc(sizeof(*bootstrap->aggregators));
	if (!bootstrap->aggregators)
		return bootstrap_out_of_memory(bootstrap);
	list = &bootstrap->aggregators->list;
	if (member_wire_aggregators(CODEC_FROM(bytes, MEMBER_WIRE_AGGREGATORS_BYTES), list) < 0)
		return bootstrap_broken_by(bootstrap, 0);
	if (!list->count)
		return 0;
	group->aggregators = bootstrap->asked ? bootstrap->asked : sys_zalloc(sizeof(*group->aggregators));
	bootstrap->asked = NULL;
	if (!group->aggregators)
		return bootstrap_out_of_memory(bootstrap);
	group->aggregators->count = list->count;
	bootstrap->aggregators->since_ns = bootstrap->aggregators->looked_ns = clock_now_ns();
	memcpy(hello.id, list->id, sizeof(hello.id));
	for (size_t i = 0; i < list->count; i++) {
		struct group_aggregator *aggregator = &group->aggregators->aggregators[i];
		struct bootstrap_way *way = &bootstrap->aggregators->ways[i];

		memcpy(way->handle, list->each[i].handle, TRANSPORT_HANDLE_BYTES);
		aggregator_wire_hello(CODEC_TO(way->hello_bytes), &hello);
		aggregator->rate_Bps = list->each[i].rate_Bps;
		aggregator->leaf = list->each[i].leaf;
		aggregator->listed = list->each[i].listed;
		aggregator->previous = AGGREGATOR_WIRE_NONE;
		group->aggregators->used |= aggregators_bit(i); /* until it is known better */
	}
	group->node_count = group->count + list->count;
	return 0;
}

static void say_unreached(const struct bootstrap *bootstrap, size_t index)
{
	char name[128];

	aggregators_name(bootstrap->group, index, name, sizeof(name));
	log_warn(
		"a group goes on without aggregator %s, which not all of its hosts reach: are the ports of its data open "
		"(TRIBUTARY_PORTS where it runs), not that of --listen alone?",
		name);
}

/* At the coordinator: what the aggregators themselves say. */
static void clients_step(struct bootstrap *bootstrap)
{
	struct group_aggregators *aggregators = bootstrap->group->aggregators;

	for (size_t i = 0; i < aggregators->count; i++) {
		if (!aggregators->aggregators[i].client ||
		    (bootstrap->aggregators->ready | bootstrap->aggregators->lost) & aggregators_bit(i))
			continue;
		switch (control_client_step(aggregators->aggregators[i].client, &aggregators->answer)) {
		case CONTROL_EVENT_READY:
			bootstrap->aggregators->ready |= aggregators_bit(i);
			break;
		case CONTROL_EVENT_LOST:
		case CONTROL_EVENT_FAILURE:
			log_warn("a group goes on without an aggregator: %s", aggregators->answer.sentence);
			aggregator_give_up(bootstrap, i);
			break;
		case CONTROL_EVENT_DRAIN:
			aggregator_give_up(bootstrap, i);
			break;
		default:
			break;
		}
	}
}

bool aggregators_reach(struct bootstrap *bootstrap)
{
	struct bootstrap_aggregators *aggregators = bootstrap->aggregators;
	const bool coordinator = bootstrap->self == 0;
	bool late, all = true;

	if (!aggregators || !aggregators->list.count)
		return true;
	late = clock_waited_ns(&aggregators->since_ns, &aggregators->looked_ns, clock_now_ns()) >
	       tenth_ns(bootstrap) * REACH_TENTHS;
	if (coordinator)
		clients_step(bootstrap);
	for (size_t i = 0; i < aggregators->list.count; i++) {
		struct bootstrap_way *way = &aggregators->ways[i];

		if (aggregators->lost & aggregators_bit(i))
			continue;
		if (way->hello.state == MESSAGE_DONE && way->in &&
		    (!coordinator || aggregators->ready & aggregators_bit(i)))
			continue;
		if (!late &&
		    bootstrap_dial(bootstrap, way, AGGREGATOR_WIRE_HELLO_BYTES, AGGREGATOR_WIRE_UNASKED_BYTES) >= 0) {
			all = false;
			continue;
		}
		if (coordinator)
			say_unreached(bootstrap, i);
		aggregator_give_up(bootstrap, i);
	}
	return all;
}

enum aggregators_incoming_result aggregators_incoming(struct bootstrap *bootstrap,
						      struct transport_connection *connection, const uint8_t *bytes,
						      size_t count)
{
	struct bootstrap_aggregators *aggregators = bootstrap->aggregators;
	struct aggregator_wire_hello hello;
	size_t index;

	if (aggregator_wire_hello(CODEC_FROM(bytes, count), &hello) < 0)
		return AGGREGATORS_INCOMING_NONE;
	if (!bootstrap->group)
		return AGGREGATORS_INCOMING_LATER;
	index = hello.from - bootstrap->count;
	if (!aggregators || hello.from < bootstrap->count || index >= aggregators->list.count ||
	    memcmp(hello.id, aggregators->list.id, sizeof(hello.id)) != 0)
		return AGGREGATORS_INCOMING_NONE;
	if (aggregators->ways[index].in || aggregators->lost & aggregators_bit(index))
		return AGGREGATORS_INCOMING_NONE;
	aggregators->ways[index].in = connection;
	bootstrap->progressed = true;
	return AGGREGATORS_INCOMING_TAKEN;
}

uint32_t aggregators_standing(const struct bootstrap *bootstrap)
{
	const struct bootstrap_aggregators *aggregators = bootstrap->aggregators;
	uint32_t standing = 0;

	for (size_t i = 0; aggregators && i < aggregators->list.count; i++)
		if (aggregators->ways[i].in && aggregators->ways[i].hello.state == MESSAGE_DONE)
			standing |= aggregators_bit(i) & ~aggregators->lost;
	return standing;
}

int aggregators_settle(struct bootstrap *bootstrap, uint32_t used)
{
	struct group *group = bootstrap->group;
	uint32_t standing = aggregators_standing(bootstrap), left = 0;
	int r;

	if (!group->aggregators)
		return 0;
	group->aggregators->used &= used;
	r = group_choose(group, &left);
	group->aggregators->used &= ~left;
	if (r == 0)
		r = group_plan(group, 0);
	if (r < 0)
		return bootstrap_out_of_memory(bootstrap);
	aggregators_log_slow(group, left, "");
	for (size_t i = 0; i < group->aggregators->count; i++) {
		struct bootstrap_way *way = &bootstrap->aggregators->ways[i];

		if (!(group->aggregators->used & aggregators_bit(i))) {
			aggregator_give_up(bootstrap, i);
			control_client_close(group->aggregators->aggregators[i].client);
			group->aggregators->aggregators[i].client = NULL;
			continue;
		}
		if (!(standing & aggregators_bit(i)))
			return bootstrap_broken_by(bootstrap, 0);
		group->out[2 * group->count + i].connection = way->out;
		group->in[2 * group->count + i].connection = way->in;
		way->out = way->in = NULL;
	}
	group_find_facts(group);
	if (aggregators_usable(group) && commit_init(group) < 0)
		return bootstrap_out_of_memory(bootstrap);
	return 0;
}

void aggregators_bootstrap_fini(struct bootstrap *bootstrap)
{
	for (size_t i = 0; bootstrap->aggregators && i < AGGREGATORS_MAX; i++)
		bootstrap_hang_up(bootstrap, &bootstrap->aggregators->ways[i]);
	for (size_t i = 0; bootstrap->asked && i < AGGREGATORS_MAX; i++)
		control_client_close(bootstrap->asked->aggregators[i].client);
	sys_free(bootstrap->asked);
	sys_free(bootstrap->aggregators);
	bootstrap->asked = NULL;
	bootstrap->aggregators = NULL;
}
