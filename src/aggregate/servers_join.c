/* How the members of a group come to use servers. */
#include "aggregate/servers.h"

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

/* Of the time-out: until the servers have answered, and until the connections with them stand. */
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
	} each[SERVERS_MAX];
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
	for (size_t i = 0; i < setup->cluster->aggregator_count && asking->count < SERVERS_MAX; i++) {
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
	struct control_request request = { .data_version = SERVER_WIRE_VERSION,
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
	memcpy(request.id, bootstrap->servers->id, sizeof(request.id));
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
static void asking_keep(struct asking *asking, struct group_servers *servers, uint8_t *bytes)
{
	uint8_t *at = bytes + SERVER_WIRE_ID_BYTES + 8;

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
		at += SERVERS_ENTRY_BYTES;
		servers->servers[servers->count++].client = asking->each[i].client;
		asking->each[i].client = NULL;
	}
	bytes_put(bytes + SERVER_WIRE_ID_BYTES, servers->count, 2);
}

static void asking_free(struct asking *asking)
{
	for (size_t i = 0; asking && i < asking->count; i++)
		control_client_close(asking->each[i].client);
	if (asking)
		control_secret_forget(&asking->secret);
	sys_free(asking);
}

/* Tells the servers of each other; they begin to connect. */
static void say_go(struct group_servers *servers, const uint8_t *bytes)
{
	uint8_t handles[SERVERS_MAX * TRANSPORT_HANDLE_BYTES];
	const uint8_t *at = bytes + SERVER_WIRE_ID_BYTES + 8;

	for (size_t i = 0; i < servers->count; i++)
		memcpy(handles + i * TRANSPORT_HANDLE_BYTES, at + i * SERVERS_ENTRY_BYTES, TRANSPORT_HANDLE_BYTES);
	for (size_t i = 0; i < servers->count; i++) {
		struct control_go go = { .position = (uint16_t)i,
					 .server_count = (uint16_t)servers->count,
					 .handles = handles };

		(void)control_client_go(servers->servers[i].client, &go); /* one that is lost does not become ready */
		(void)control_client_step(servers->servers[i].client, &servers->answer);
	}
}

/* tributaryd has TCP alone. Every group would say it. */
static bool speaks_as_servers(const struct transport_ops *ops)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const bool speaks = strcmp(ops->name, transport_tcp.name) == 0;

	if (!speaks && !atomic_flag_test_and_set(&said))
		log_warn("aggregators are not used, because tributaryd serves TCP alone and this job goes over %s "
			 "(TRIBUTARY_NET)",
			 ops->name);
	return speaks;
}

int servers_ask(struct bootstrap *bootstrap, struct group *group, uint8_t bytes[static SERVERS_BYTES])
{
	const struct aggregate_setup *setup = &bootstrap->engine->setup;
	struct group_servers *servers;
	struct asking *asking;
	int r;

	memset(bytes, 0, SERVERS_BYTES);
	if (bootstrap->count < 2 || !setup->cluster || !setup->cluster->aggregator_count || !setup->params->secret[0] ||
	    !speaks_as_servers(setup->ops))
		return 0;
	bootstrap->servers = sys_zalloc(sizeof(*bootstrap->servers));
	servers = sys_zalloc(sizeof(*servers));
	asking = asking_new(bootstrap);
	if (!bootstrap->servers || !servers || !asking ||
	    getrandom(bootstrap->servers->id, sizeof(bootstrap->servers->id), 0) != sizeof(bootstrap->servers->id)) {
		/* Without aggregators, then. */
		sys_free(servers);
		asking_free(asking);
		return 0;
	}
	r = asking_send(bootstrap, group, asking);
	if (r == 0) {
		asking_wait(bootstrap, asking);
		memcpy(bytes, bootstrap->servers->id, SERVER_WIRE_ID_BYTES);
		asking_keep(asking, servers, bytes);
		say_go(servers, bytes);
	}
	asking_free(asking);
	/* servers_learn takes them over. */
	bootstrap->asked = servers;
	return 0;
}

/* --------------------------------------------------------------------------------------------------------- everybody */

int servers_learn(struct bootstrap *bootstrap, const uint8_t bytes[static SERVERS_BYTES])
{
	size_t count = (size_t)bytes_get(bytes + SERVER_WIRE_ID_BYTES, 2);
	const uint8_t *at = bytes + SERVER_WIRE_ID_BYTES + 8;
	struct group *group = bootstrap->group;

	if (count > SERVERS_MAX)
		return -EBADMSG;
	if (!count)
		return 0;
	if (!bootstrap->servers)
		bootstrap->servers = sys_zalloc(sizeof(*bootstrap->servers));
	group->servers = bootstrap->asked ? bootstrap->asked : sys_zalloc(sizeof(*group->servers));
	bootstrap->asked = NULL;
	if (!bootstrap->servers || !group->servers)
		return -ENOMEM;
	memcpy(bootstrap->servers->id, bytes, SERVER_WIRE_ID_BYTES);
	bootstrap->servers->count = group->servers->count = count;
	bootstrap->servers->deadline_ns = clock_now_ns() + tenth_ns(bootstrap) * REACH_TENTHS;
	for (size_t i = 0; i < count; i++, at += SERVERS_ENTRY_BYTES) {
		struct group_server *server = &group->servers->servers[i];

		memcpy(bootstrap->servers->servers[i].handle, at, TRANSPORT_HANDLE_BYTES);
		server->rate_Bps = bytes_get(at + TRANSPORT_HANDLE_BYTES, 8);
		server->leaf = (int32_t)(uint32_t)bytes_get(at + TRANSPORT_HANDLE_BYTES + 8, 4);
		server->aggregator = (uint32_t)bytes_get(at + TRANSPORT_HANDLE_BYTES + 12, 4);
		server->previous = SERVER_WIRE_NONE;
		server->used = true; /* until it is known better */
	}
	group->node_count = group->count + count;
	return 0;
}

static void server_give_up(struct bootstrap *bootstrap, struct bootstrap_server *server)
{
	server->lost = true;
	bootstrap->ops->close_connection(server->out);
	bootstrap->ops->close_connection(server->in);
	server->out = server->in = NULL;
	server->hello.state = MESSAGE_NONE;
}

/* As somebody measured or wrote it: what a card says of itself may be a guess, and this is to be a limit. */
static uint32_t own_rate_kBps(const struct aggregate_engine *engine)
{
	const struct cluster *cluster = engine->setup.cluster;
	const struct cluster_host *host = cluster ? cluster_find(cluster, engine->host_name) : NULL;
	uint64_t rate_kBps = host ? host->rate_Bps / 1000 : 0;

	return rate_kBps < UINT32_MAX ? (uint32_t)rate_kBps : 0;
}

static int server_step(struct bootstrap *bootstrap, struct bootstrap_server *server)
{
	struct server_wire_hello hello = { .from = (uint16_t)bootstrap->group->self,
					   .rate_kBps = own_rate_kBps(bootstrap->engine) };
	int r = 0;

	if (!server->out) {
		r = bootstrap->ops->connect(bootstrap->engine->setup.transport, bootstrap->listener->device, -1,
					    server->handle, &server->out);
		if (r == 0 && server->out) {
			if (bootstrap->ops->limit_eager)
				bootstrap->ops->limit_eager(server->out, SERVER_WIRE_UNASKED_BYTES);
			memcpy(hello.id, bootstrap->servers->id, sizeof(hello.id));
			server_wire_put_hello(&hello, server->hello_bytes);
			bootstrap_send(&server->hello, server->out, server->hello_bytes, sizeof(server->hello_bytes));
			bootstrap->progressed = true;
		}
	}
	return r == 0 && server->out ? bootstrap_step(bootstrap, &server->hello) : r;
}

/* At the coordinator: what the servers themselves say. */
static void clients_step(struct bootstrap *bootstrap)
{
	struct group_servers *servers = bootstrap->group->servers;

	for (size_t i = 0; i < servers->count; i++) {
		struct bootstrap_server *server = &bootstrap->servers->servers[i];

		if (!servers->servers[i].client || server->ready || server->lost)
			continue;
		switch (control_client_step(servers->servers[i].client, &servers->answer)) {
		case CONTROL_EVENT_READY:
			server->ready = true;
			break;
		case CONTROL_EVENT_LOST:
		case CONTROL_EVENT_FAILURE:
			log_warn("a group goes on without an aggregator: %s", servers->answer.sentence);
			server_give_up(bootstrap, server);
			break;
		case CONTROL_EVENT_DRAIN:
			server_give_up(bootstrap, server);
			break;
		default:
			break;
		}
	}
}

bool servers_reach(struct bootstrap *bootstrap)
{
	struct bootstrap_servers *servers = bootstrap->servers;
	bool late, coordinator, all = true;

	if (!servers || !servers->count)
		return true;
	late = clock_now_ns() > servers->deadline_ns;
	coordinator = bootstrap->self == 0;
	if (coordinator)
		clients_step(bootstrap);
	for (size_t i = 0; i < servers->count; i++) {
		struct bootstrap_server *server = &servers->servers[i];

		if (server->lost)
			continue;
		if (server->hello.state == MESSAGE_DONE && server->in && (server->ready || !coordinator))
			continue;
		if (late || server_step(bootstrap, server) < 0)
			server_give_up(bootstrap, server);
		else
			all = false;
	}
	return all;
}

enum servers_incoming_result servers_incoming(struct bootstrap *bootstrap, struct transport_connection *connection,
					      const uint8_t *bytes, size_t count)
{
	struct bootstrap_servers *servers = bootstrap->servers;
	struct server_wire_hello hello;
	struct bootstrap_server *server;

	if (count != SERVER_WIRE_HELLO_BYTES || server_wire_get_hello(bytes, &hello) < 0)
		return SERVERS_INCOMING_NONE;
	if (!bootstrap->group)
		return SERVERS_INCOMING_LATER;
	if (!servers || hello.from < bootstrap->count || hello.from - bootstrap->count >= servers->count ||
	    memcmp(hello.id, servers->id, sizeof(hello.id)) != 0)
		return SERVERS_INCOMING_NONE;
	server = &servers->servers[hello.from - bootstrap->count];
	if (server->in || server->lost)
		return SERVERS_INCOMING_NONE;
	server->in = connection;
	bootstrap->progressed = true;
	return SERVERS_INCOMING_TAKEN;
}

uint32_t servers_standing(const struct bootstrap *bootstrap)
{
	const struct bootstrap_servers *servers = bootstrap->servers;
	uint32_t standing = 0;

	for (size_t i = 0; servers && i < servers->count; i++)
		if (!servers->servers[i].lost && servers->servers[i].in &&
		    servers->servers[i].hello.state == MESSAGE_DONE)
			standing |= UINT32_C(1) << i;
	return standing;
}

static void say_left(const struct group *group, uint32_t set)
{
	char name[128];

	for (size_t i = 0; i < group->servers->count; i++) {
		if (!(set & UINT32_C(1) << i))
			continue;
		servers_name(group, &group->servers->servers[i], name, sizeof(name));
		log_info(LOG_INIT, "aggregator %s is not used: it is too slow for %zu hosts to gain by it", name,
			 group->host_count);
	}
}

int servers_settle(struct bootstrap *bootstrap, uint32_t used)
{
	struct group *group = bootstrap->group;
	uint32_t standing = servers_standing(bootstrap), left = 0;
	int r;

	if (!group->servers)
		return 0;
	for (size_t i = 0; i < group->servers->count; i++)
		group->servers->servers[i].used = (used & UINT32_C(1) << i) != 0;
	r = group_choose(group, &left);
	for (size_t i = 0; r == 0 && i < group->servers->count; i++)
		group->servers->servers[i].used &= !(left & UINT32_C(1) << i);
	if (r == 0)
		r = group_plan(group, 0);
	if (r < 0)
		return bootstrap_fail(bootstrap, -r, "host %s is out of memory", bootstrap->engine->host_name);
	if (bootstrap->self == 0)
		say_left(group, left);
	for (size_t i = 0; i < group->servers->count; i++) {
		struct bootstrap_server *server = &bootstrap->servers->servers[i];
		struct group_server *of = &group->servers->servers[i];

		if (!of->used) {
			server_give_up(bootstrap, server);
			control_client_close(of->client);
			of->client = NULL;
			continue;
		}
		if (!(standing & UINT32_C(1) << i))
			return bootstrap_fail(bootstrap, EREMOTEIO, "host %s broke the aggregation protocol",
					      bootstrap_host(bootstrap, 0));
		group->out[2 * group->count + i].connection = server->out;
		group->in[2 * group->count + i].connection = server->in;
		server->out = server->in = NULL;
	}
	group_find_facts(group);
	if (servers_any(group) && commit_init(group) < 0)
		return bootstrap_fail(bootstrap, ENOMEM, "host %s is out of memory", bootstrap->engine->host_name);
	return 0;
}

void servers_bootstrap_fini(struct bootstrap *bootstrap)
{
	for (size_t i = 0; bootstrap->servers && i < bootstrap->servers->count; i++)
		server_give_up(bootstrap, &bootstrap->servers->servers[i]);
	for (size_t i = 0; bootstrap->asked && i < bootstrap->asked->count; i++)
		control_client_close(bootstrap->asked->servers[i].client);
	sys_free(bootstrap->asked);
	sys_free(bootstrap->servers);
	bootstrap->asked = NULL;
	bootstrap->servers = NULL;
}
