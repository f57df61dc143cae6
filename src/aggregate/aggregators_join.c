/* How the members of a group come to use aggregators. */
#include "aggregate/aggregators.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
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

/* What the coordinator holds while it asks: one client and one answer for each aggregator of the cluster file. */
struct asking {
	struct control_secret secret;
	struct control_answer answer;
	const struct cluster_aggregator *aggregators; /* of the cluster file */
	size_t count;
	struct {
		struct control_client *client;
		const struct cluster_aggregator *aggregator;
		struct control_offer offer;
		bool asked, offered, out;
	} each[AGGREGATORS_MAX];
};

static struct asking *asking_new(struct bootstrap *bootstrap)
{
	const struct aggregate_setup *setup = &bootstrap->engine->setup;
	struct asking *asking = sys_zalloc(sizeof(*asking));
	struct diag diag = { 0 };

	if (!asking)
		return NULL;
	if (control_secret_read(setup->params->secret, &asking->secret, &diag) < 0) {
		log_warn("aggregators are not used, because the secret of TRIBUTARY_SECRET cannot be had: %s",
			 diag.text);
		sys_free(asking);
		return NULL;
	}
	asking->aggregators = setup->cluster->aggregators;
	for (size_t i = 0; i < setup->cluster->aggregator_count && asking->count < AGGREGATORS_MAX; i++) {
		const struct cluster_aggregator *aggregator = &setup->cluster->aggregators[i];
		struct control_client_setup client = { .address = aggregator->address,
						       .port = aggregator->port,
						       .secret = &asking->secret,
						       .name = bootstrap->engine->host_name,
						       .timeout_ns =
							       params_replace_ns(bootstrap->engine->setup.params) };

		asking->each[asking->count].aggregator = aggregator;
		if (control_client_open(&client, &asking->each[asking->count].client) == 0)
			asking->count++;
	}
	return asking;
}

static int asking_send(const struct bootstrap *bootstrap, const struct group *group, struct asking *asking)
{
	uint8_t *handles = sys_zalloc(group->count * TRANSPORT_HANDLE_BYTES);
	struct control_request request = { .data_version = AGGREGATOR_WIRE_VERSION,
					   .types = (1U << REDUCE_TYPE_COUNT) - 1,
					   .operations = (1U << REDUCE_OPERATION_COUNT) - 1,
					   .timeout_ms = (uint32_t)(bootstrap->timeout_ns / NS_PER_MS),
					   .member_count = (uint16_t)group->count };
	int r = 0;

	if (!handles)
		return -ENOMEM;
	for (size_t i = 0; i < group->count; i++)
		memcpy(handles + i * TRANSPORT_HANDLE_BYTES,
		       bootstrap->peers[group->members[i].facts.index].ways[BOOTSTRAP_SMALL].handle,
		       BOOTSTRAP_HANDLE_BYTES);
	request.handles = handles;
	memcpy(request.id, bootstrap->aggregators->id, sizeof(request.id));
	snprintf(request.name, sizeof(request.name), "%.32s", group->members[0].facts.host);
	for (size_t i = 0; i < asking->count && r == 0; i++)
		r = control_client_request(asking->each[i].client, &request);
	sys_free(handles);
	return r;
}

/* True: this one has answered. */
static bool asking_step(struct asking *asking, size_t index)
{
	if (asking->each[index].offered || asking->each[index].out)
		return true;
	switch (control_client_step(asking->each[index].client, &asking->answer)) {
	case CONTROL_EVENT_OFFER:
		asking->each[index].offer = asking->answer.offer;
		asking->each[index].offered = true;
		return true;
	case CONTROL_EVENT_REFUSAL:
	case CONTROL_EVENT_FAILURE:
	case CONTROL_EVENT_LOST:
		log_warn("a group goes on without an aggregator: %s", asking->answer.sentence);
		asking->each[index].out = true;
		return true;
	default:
		return false;
	}
}

static uint64_t tenth_ns(const struct bootstrap *bootstrap)
{
	return params_replace_ns(bootstrap->engine->setup.params) / 10;
}

static void asking_wait(struct bootstrap *bootstrap, struct asking *asking)
{
	uint64_t end_ns = clock_now_ns() + tenth_ns(bootstrap) * ASK_TENTHS;
	size_t answered = 0;

	while (answered < asking->count && clock_now_ns() < end_ns) {
		answered = 0;
		for (size_t i = 0; i < asking->count; i++)
			answered += asking_step(asking, i);
		if (answered < asking->count && bootstrap_pause(bootstrap) < 0)
			break;
	}
	for (size_t i = 0; i < asking->count; i++)
		if (!asking->each[i].offered && !asking->each[i].out)
			log_warn("a group goes on without an aggregator that has not answered yet: %s",
				 control_client_peer(asking->each[i].client));
}

/* Those that offered, into the words for the members; their clients stay for the group's life. */
static void asking_keep(struct asking *asking, struct group_aggregators *aggregators, uint8_t *bytes)
{
	uint8_t *at = bytes + AGGREGATOR_WIRE_ID_BYTES + 8;

	for (size_t i = 0; i < asking->count; i++) {
		const struct cluster_aggregator *aggregator = asking->each[i].aggregator;
		const struct control_offer *offer = &asking->each[i].offer;
		uint64_t rate_Bps = aggregator->rate_Bps ? aggregator->rate_Bps : offer->rate_Bps;

		if (!asking->each[i].offered)
			continue;
		/* What it is said to have counts, but no more than its card has now. */
		if (offer->rate_Bps && offer->rate_Bps < rate_Bps)
			rate_Bps = offer->rate_Bps;
		memcpy(at, offer->handle, TRANSPORT_HANDLE_BYTES);
		bytes_put(at + TRANSPORT_HANDLE_BYTES, rate_Bps, 8);
		bytes_put(at + TRANSPORT_HANDLE_BYTES + 8, (uint32_t)aggregator->leaf, 4);
		bytes_put(at + TRANSPORT_HANDLE_BYTES + 12, (uint64_t)(aggregator - asking->aggregators), 4);
		at += AGGREGATORS_ENTRY_BYTES;
		aggregators->aggregators[aggregators->count++].client = asking->each[i].client;
		asking->each[i].client = NULL;
	}
	bytes_put(bytes + AGGREGATOR_WIRE_ID_BYTES, aggregators->count, 2);
}

static void asking_free(struct asking *asking)
{
	for (size_t i = 0; asking && i < asking->count; i++)
		control_client_close(asking->each[i].client);
	if (asking)
		control_secret_forget(&asking->secret);
	sys_free(asking);
}

/* Tells the aggregators of each other; they begin to connect. */
static void say_go(struct group_aggregators *aggregators, const uint8_t *bytes)
{
	uint8_t handles[AGGREGATORS_MAX * TRANSPORT_HANDLE_BYTES];
	const uint8_t *at = bytes + AGGREGATOR_WIRE_ID_BYTES + 8;

	for (size_t i = 0; i < aggregators->count; i++)
		memcpy(handles + i * TRANSPORT_HANDLE_BYTES, at + i * AGGREGATORS_ENTRY_BYTES, TRANSPORT_HANDLE_BYTES);
	for (size_t i = 0; i < aggregators->count; i++) {
		struct control_go go = { .position = (uint16_t)i,
					 .aggregator_count = (uint16_t)aggregators->count,
					 .handles = handles };

		(void)control_client_go(aggregators->aggregators[i].client,
					&go); /* one that is lost does not become ready */
		(void)control_client_step(aggregators->aggregators[i].client, &aggregators->answer);
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

int aggregators_ask(struct bootstrap *bootstrap, struct group *group, uint8_t bytes[static AGGREGATORS_BYTES])
{
	const struct aggregate_setup *setup = &bootstrap->engine->setup;
	struct group_aggregators *aggregators;
	struct asking *asking;
	int r;

	memset(bytes, 0, AGGREGATORS_BYTES);
	if (bootstrap->count < 2 || !setup->cluster || !setup->cluster->aggregator_count || !setup->params->secret[0] ||
	    !speaks_as_aggregators(setup->ops))
		return 0;
	bootstrap->aggregators = sys_zalloc(sizeof(*bootstrap->aggregators));
	aggregators = sys_zalloc(sizeof(*aggregators));
	asking = asking_new(bootstrap);
	if (!bootstrap->aggregators || !aggregators || !asking ||
	    getrandom(bootstrap->aggregators->id, sizeof(bootstrap->aggregators->id), 0) !=
		    sizeof(bootstrap->aggregators->id)) {
		/* Without aggregators, then. */
		sys_free(aggregators);
		asking_free(asking);
		return 0;
	}
	r = asking_send(bootstrap, group, asking);
	if (r == 0) {
		asking_wait(bootstrap, asking);
		memcpy(bytes, bootstrap->aggregators->id, AGGREGATOR_WIRE_ID_BYTES);
		asking_keep(asking, aggregators, bytes);
		say_go(aggregators, bytes);
	}
	asking_free(asking);
	/* aggregators_learn takes them over. */
	bootstrap->asked = aggregators;
	return 0;
}

/* --------------------------------------------------------------------------------------------------------- everybody */

int aggregators_learn(struct bootstrap *bootstrap, const uint8_t bytes[static AGGREGATORS_BYTES])
{
	size_t count = (size_t)bytes_get(bytes + AGGREGATOR_WIRE_ID_BYTES, 2);
	const uint8_t *at = bytes + AGGREGATOR_WIRE_ID_BYTES + 8;
	struct group *group = bootstrap->group;

	if (count > AGGREGATORS_MAX)
		return -EBADMSG;
	if (!count)
		return 0;
	if (!bootstrap->aggregators)
		bootstrap->aggregators = sys_zalloc(sizeof(*bootstrap->aggregators));
	group->aggregators = bootstrap->asked ? bootstrap->asked : sys_zalloc(sizeof(*group->aggregators));
	bootstrap->asked = NULL;
	if (!bootstrap->aggregators || !group->aggregators)
		return -ENOMEM;
	memcpy(bootstrap->aggregators->id, bytes, AGGREGATOR_WIRE_ID_BYTES);
	bootstrap->aggregators->count = group->aggregators->count = count;
	bootstrap->aggregators->deadline_ns = clock_now_ns() + tenth_ns(bootstrap) * REACH_TENTHS;
	for (size_t i = 0; i < count; i++, at += AGGREGATORS_ENTRY_BYTES) {
		struct group_aggregator *aggregator = &group->aggregators->aggregators[i];

		memcpy(bootstrap->aggregators->aggregators[i].handle, at, TRANSPORT_HANDLE_BYTES);
		aggregator->rate_Bps = bytes_get(at + TRANSPORT_HANDLE_BYTES, 8);
		aggregator->leaf = (int32_t)(uint32_t)bytes_get(at + TRANSPORT_HANDLE_BYTES + 8, 4);
		aggregator->listed = (uint32_t)bytes_get(at + TRANSPORT_HANDLE_BYTES + 12, 4);
		aggregator->previous = AGGREGATOR_WIRE_NONE;
		group->aggregators->used |= aggregators_bit(i); /* until it is known better */
	}
	group->node_count = group->count + count;
	return 0;
}

static void aggregator_give_up(struct bootstrap *bootstrap, struct bootstrap_aggregator *aggregator)
{
	aggregator->lost = true;
	bootstrap->ops->close_connection(aggregator->out);
	bootstrap->ops->close_connection(aggregator->in);
	aggregator->out = aggregator->in = NULL;
	aggregator->hello.state = MESSAGE_NONE;
}

/* As somebody measured or wrote it: what a card says of itself may be a guess, and this is to be a limit. */
static uint32_t own_rate_kBps(const struct aggregate_engine *engine)
{
	const struct cluster *cluster = engine->setup.cluster;
	const struct cluster_host *host = cluster ? cluster_find(cluster, engine->host_name) : NULL;
	uint64_t rate_kBps = host ? host->rate_Bps / 1000 : 0;

	return rate_kBps < UINT32_MAX ? (uint32_t)rate_kBps : 0;
}

static int aggregator_step(struct bootstrap *bootstrap, struct bootstrap_aggregator *aggregator)
{
	struct aggregator_wire_hello hello = { .from = (uint16_t)bootstrap->group->self,
					       .rate_kBps = own_rate_kBps(bootstrap->engine) };
	int r = 0;

	if (!aggregator->out) {
		r = bootstrap->ops->connect(bootstrap->engine->setup.transport, bootstrap->listener->device, -1,
					    aggregator->handle, &aggregator->out);
		if (r == 0 && aggregator->out) {
			bootstrap->ops->set(aggregator->out, TRANSPORT_SET_EAGER_LIMIT, AGGREGATOR_WIRE_UNASKED_BYTES);
			memcpy(hello.id, bootstrap->aggregators->id, sizeof(hello.id));
			aggregator_wire_hello(CODEC_TO(aggregator->hello_bytes), &hello);
			bootstrap_send(&aggregator->hello, aggregator->out, aggregator->hello_bytes,
				       sizeof(aggregator->hello_bytes));
			bootstrap->progressed = true;
		}
	}
	return r == 0 && aggregator->out ? bootstrap_step(bootstrap, &aggregator->hello) : r;
}

/* At the coordinator: what the aggregators themselves say. */
static void clients_step(struct bootstrap *bootstrap)
{
	struct group_aggregators *aggregators = bootstrap->group->aggregators;

	for (size_t i = 0; i < aggregators->count; i++) {
		struct bootstrap_aggregator *aggregator = &bootstrap->aggregators->aggregators[i];

		if (!aggregators->aggregators[i].client || aggregator->ready || aggregator->lost)
			continue;
		switch (control_client_step(aggregators->aggregators[i].client, &aggregators->answer)) {
		case CONTROL_EVENT_READY:
			aggregator->ready = true;
			break;
		case CONTROL_EVENT_LOST:
		case CONTROL_EVENT_FAILURE:
			log_warn("a group goes on without an aggregator: %s", aggregators->answer.sentence);
			aggregator_give_up(bootstrap, aggregator);
			break;
		case CONTROL_EVENT_DRAIN:
			aggregator_give_up(bootstrap, aggregator);
			break;
		default:
			break;
		}
	}
}

bool aggregators_reach(struct bootstrap *bootstrap)
{
	struct bootstrap_aggregators *aggregators = bootstrap->aggregators;
	bool late, coordinator, all = true;

	if (!aggregators || !aggregators->count)
		return true;
	late = clock_now_ns() > aggregators->deadline_ns;
	coordinator = bootstrap->self == 0;
	if (coordinator)
		clients_step(bootstrap);
	for (size_t i = 0; i < aggregators->count; i++) {
		struct bootstrap_aggregator *aggregator = &aggregators->aggregators[i];

		if (aggregator->lost)
			continue;
		if (aggregator->hello.state == MESSAGE_DONE && aggregator->in && (aggregator->ready || !coordinator))
			continue;
		if (late || aggregator_step(bootstrap, aggregator) < 0)
			aggregator_give_up(bootstrap, aggregator);
		else
			all = false;
	}
	return all;
}

enum aggregators_incoming_result aggregators_incoming(struct bootstrap *bootstrap,
						      struct transport_connection *connection, const uint8_t *bytes,
						      size_t count)
{
	struct bootstrap_aggregators *aggregators = bootstrap->aggregators;
	struct aggregator_wire_hello hello;
	struct bootstrap_aggregator *aggregator;

	if (aggregator_wire_hello(CODEC_FROM(bytes, count), &hello) < 0)
		return AGGREGATORS_INCOMING_NONE;
	if (!bootstrap->group)
		return AGGREGATORS_INCOMING_LATER;
	if (!aggregators || hello.from < bootstrap->count || hello.from - bootstrap->count >= aggregators->count ||
	    memcmp(hello.id, aggregators->id, sizeof(hello.id)) != 0)
		return AGGREGATORS_INCOMING_NONE;
	aggregator = &aggregators->aggregators[hello.from - bootstrap->count];
	if (aggregator->in || aggregator->lost)
		return AGGREGATORS_INCOMING_NONE;
	aggregator->in = connection;
	bootstrap->progressed = true;
	return AGGREGATORS_INCOMING_TAKEN;
}

uint32_t aggregators_standing(const struct bootstrap *bootstrap)
{
	const struct bootstrap_aggregators *aggregators = bootstrap->aggregators;
	uint32_t standing = 0;

	for (size_t i = 0; aggregators && i < aggregators->count; i++)
		if (!aggregators->aggregators[i].lost && aggregators->aggregators[i].in &&
		    aggregators->aggregators[i].hello.state == MESSAGE_DONE)
			standing |= aggregators_bit(i);
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
		return bootstrap_fail(bootstrap, -r, "host %s is out of memory", bootstrap->engine->host_name);
	aggregators_log_slow(group, left, "");
	for (size_t i = 0; i < group->aggregators->count; i++) {
		struct bootstrap_aggregator *aggregator = &bootstrap->aggregators->aggregators[i];
		struct group_aggregator *of = &group->aggregators->aggregators[i];

		if (!(group->aggregators->used & aggregators_bit(i))) {
			aggregator_give_up(bootstrap, aggregator);
			control_client_close(of->client);
			of->client = NULL;
			continue;
		}
		if (!(standing & aggregators_bit(i)))
			return bootstrap_fail(bootstrap, EREMOTEIO, "host %s broke the aggregation protocol",
					      bootstrap_host(bootstrap, 0));
		group->out[2 * group->count + i].connection = aggregator->out;
		group->in[2 * group->count + i].connection = aggregator->in;
		aggregator->out = aggregator->in = NULL;
	}
	group_find_facts(group);
	if (aggregators_usable(group) && commit_init(group) < 0)
		return bootstrap_fail(bootstrap, ENOMEM, "host %s is out of memory", bootstrap->engine->host_name);
	return 0;
}

void aggregators_bootstrap_fini(struct bootstrap *bootstrap)
{
	for (size_t i = 0; bootstrap->aggregators && i < bootstrap->aggregators->count; i++)
		aggregator_give_up(bootstrap, &bootstrap->aggregators->aggregators[i]);
	for (size_t i = 0; bootstrap->asked && i < bootstrap->asked->count; i++)
		control_client_close(bootstrap->asked->aggregators[i].client);
	sys_free(bootstrap->asked);
	sys_free(bootstrap->aggregators);
	bootstrap->asked = NULL;
	bootstrap->aggregators = NULL;
}
