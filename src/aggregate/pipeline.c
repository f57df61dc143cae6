/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/pipeline.h"

#include "aggregate/schedule.h"
#include "base/minmax.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

enum {
	LINKS_MOST = 4,        /* that a message crosses: two NICs, two uplinks */
	STEPS_OF_SEGMENT = 10, /* in the time that the busiest link takes for its part of a segment */
	SEGMENTS_FINE = 16,    /* in flight; steps are longer by as much as there are more */
	STEPS_MOST = 1 << 16,  /* 30 times what all take at the bound */
	SEGMENTS_LEAST = 256,  /* followed, in at least WINDOWS times the calls in flight */
	WINDOWS = 12,
	FILLING = 4,               /* the first quarter of the calls only fills the links */
	FIXED_POINT = 1 << 16,     /* of a byte: a narrow uplink divides a few bytes a step among many */
	ROUNDS = 8,                /* of fair sharing in a step */
	NEARLY_SAME_PERCENT = 110, /* links whose shares differ by less are full in the same round */
};
#define UNBOUNDED ((double)(UINT64_C(1) << 62))
#define NS_IN_S   1e9

/* A way of one message: an input to its leaf's node, its sum to the root, the result to a leaf's node, and to a host. */
enum kind { INPUT, SUM, RESULT, COPY };

struct message {
	uint32_t segment;
	uint16_t leaf, host;
	uint8_t kind, link_count;
	uint32_t turn; /* of an input */
	uint16_t links[LINKS_MOST];
	uint64_t left; /* of its bytes, times FIXED_POINT */
};
/* An input that waits until the one before it, of its turn, is sent. */
struct input {
	uint32_t segment, turn;
};
/* A message that is sent, until its latency is over. */
struct arrival {
	uint64_t step;
	uint32_t segment;
	uint16_t leaf, host;
	uint8_t kind;
};
struct pipeline_link {
	uint64_t carries, left,
		share;  /* in message units: a step's capacity, what is not yet assigned, a message's share */
	uint32_t count; /* messages without their share */
};

struct pipeline {
	const struct schedule_group *group;
	struct schedule *schedule;
	void *arrays; /* the block of all of these */
	size_t host_count, member_hosts, leaf_count, call_segments, call_count, calls, segment_count, abreast,
		in_flight;
	uint16_t *leaf_of, *leaf_hosts; /* of hosts, SCHEDULE_NONE: none of members; and how many a leaf has */
	uint16_t *leaders;              /* [segment × leaf_count]: hosts */
	uint16_t *root, *root_leaf;     /* of segments */
	uint16_t *inputs, *sums;        /* [segment × leaf_count], [segment]: that are still missing */
	uint16_t *missing;              /* [call × host_count]: segments of which a host has no result yet */
	uint64_t *through; /* [call × host_count]: from which step a host may begin the call that waits for this one */
	uint32_t *next, *turns,
		*had;          /* of hosts: the segment it inputs next; inputs so far; calls that it has, in order */
	bool *is_sending;      /* [host × abreast]: its inputs on their way, by turns */
	struct input *waiting; /* [host × in_flight] */
	uint32_t *waits;       /* of hosts: how many */
	uint32_t *hosts_had;   /* of calls */
	uint64_t *had_step;    /* [call × host_count]: by when a host has it */
	uint64_t *end_step;    /* of calls: by when all hosts have it, and it is committed */
	uint64_t *before;      /* of hosts: `through`, as a round of a commit begins */
	struct pipeline_link *links; /* hosts' NICs out and in, leaves' uplinks out and in */
	struct message *messages;
	uint32_t *unshared; /* messages without their share of this step */
	struct arrival *arrivals;
	size_t message_count, arrival_room, arrival_first, arrival_end, calls_had;
	uint64_t step, latency_steps, commit_steps; /* commit: of one message */
	uint64_t segment_units;
	double step_s, segment_bytes;
	bool is_served;
};

static size_t link_out(const struct pipeline *pipeline, size_t host)
{
	(void)pipeline;
	return host;
}

static size_t link_in(const struct pipeline *pipeline, size_t host)
{
	return pipeline->host_count + host;
}

static size_t uplink_out(const struct pipeline *pipeline, size_t leaf)
{
	return 2 * pipeline->host_count + leaf;
}

static size_t uplink_in(const struct pipeline *pipeline, size_t leaf)
{
	return 2 * pipeline->host_count + pipeline->leaf_count + leaf;
}

/* ------------------------------------------------------------------------------------------------------- what arrives */

static void pass_on(struct pipeline *pipeline, enum kind kind, size_t segment, size_t leaf, size_t host, size_t from,
		    size_t to)
{
	struct message *message = &pipeline->messages[pipeline->message_count++];
	size_t root_leaf = pipeline->root_leaf[segment];

	*message = (struct message){ .segment = (uint32_t)segment,
				     .leaf = (uint16_t)leaf,
				     .host = (uint16_t)host,
				     .kind = (uint8_t)kind,
				     .link_count = 2,
				     .left = pipeline->segment_units };
	message->links[0] = (uint16_t)link_out(pipeline, from);
	message->links[1] = (uint16_t)link_in(pipeline, to);
	if (kind != SUM && kind != RESULT)
		return;
	message->link_count = LINKS_MOST;
	message->links[2] = (uint16_t)uplink_out(pipeline, kind == SUM ? leaf : root_leaf);
	message->links[3] = (uint16_t)uplink_in(pipeline, kind == SUM ? root_leaf : leaf);
}

/*
 * A dissemination (commit.c): in each round a member sends to the one twice as many places on which
 * members it knows to have the call. So members begin the next call one after another. A few commits
 * are open at a time; they end in order.
 */
static void commit(struct pipeline *pipeline, size_t call)
{
	size_t hosts = pipeline->host_count, members = pipeline->member_hosts;
	uint64_t *now = pipeline->through + call * hosts, *before = pipeline->before;

	memcpy(now, pipeline->had_step + call * hosts, members * sizeof(*now));
	for (size_t places = 1; places < members; places *= 2) {
		memcpy(before, now, members * sizeof(*before));
		for (size_t host = 0; host < members; host++) {
			size_t from = (host + members - places) % members;
			uint64_t sent = before[from];

			if (places == 1 && call >= PIPELINE_COMMITS)
				sent = max_u64(sent, (now - PIPELINE_COMMITS * hosts)[from]);
			now[host] = max_u64(now[host], sent + pipeline->commit_steps);
		}
	}
	for (size_t host = 0; host < members; host++) {
		if (call)
			now[host] = max_u64(now[host], (now - hosts)[host]);
		pipeline->end_step[call] = max_u64(pipeline->end_step[call], now[host]);
	}
}

/* A host has a segment's result. Hosts look at their calls in order. */
static void host_has(struct pipeline *pipeline, size_t segment, size_t host)
{
	size_t hosts = pipeline->host_count;

	if (--pipeline->missing[segment / pipeline->call_segments * hosts + host])
		return;
	for (size_t call = pipeline->had[host]; call < pipeline->call_count && !pipeline->missing[call * hosts + host];
	     call++) {
		pipeline->had[host]++;
		pipeline->had_step[call * hosts + host] = pipeline->step;
		if (!pipeline->is_served)
			pipeline->through[call * hosts + host] = pipeline->step;
		if (++pipeline->hosts_had[call] < pipeline->member_hosts)
			continue;
		pipeline->end_step[call] = pipeline->step;
		if (pipeline->is_served)
			commit(pipeline, call);
		pipeline->calls_had++;
	}
}

static void leaf_has_result(struct pipeline *pipeline, size_t segment, size_t leaf)
{
	size_t leader = pipeline->leaders[segment * pipeline->leaf_count + leaf];

	for (size_t host = 0; host < pipeline->host_count; host++) {
		if (pipeline->leaf_of[host] != leaf)
			continue;
		if (host == leader)
			host_has(pipeline, segment, host);
		else
			pass_on(pipeline, COPY, segment, leaf, host, leader, host);
	}
}

static void root_has_sum(struct pipeline *pipeline, size_t segment)
{
	if (--pipeline->sums[segment])
		return;
	for (size_t leaf = 0; leaf < pipeline->leaf_count; leaf++) {
		if (!pipeline->leaf_hosts[leaf])
			continue;
		if (leaf == pipeline->root_leaf[segment])
			leaf_has_result(pipeline, segment, leaf);
		else
			pass_on(pipeline, RESULT, segment, leaf, 0, pipeline->root[segment],
				pipeline->leaders[segment * pipeline->leaf_count + leaf]);
	}
}

static void leaf_has_input(struct pipeline *pipeline, size_t segment, size_t leaf)
{
	size_t at = segment * pipeline->leaf_count + leaf;

	if (--pipeline->inputs[at])
		return;
	if (leaf == pipeline->root_leaf[segment])
		root_has_sum(pipeline, segment);
	else
		pass_on(pipeline, SUM, segment, leaf, 0, pipeline->leaders[at], pipeline->root[segment]);
}

static bool send_input(struct pipeline *pipeline, size_t host, struct input input)
{
	size_t leaf = pipeline->leaf_of[host], turn = host * pipeline->abreast + input.turn;

	if (pipeline->is_sending[turn])
		return false;
	pipeline->is_sending[turn] = true;
	pass_on(pipeline, INPUT, input.segment, leaf, host, host,
		pipeline->leaders[input.segment * pipeline->leaf_count + leaf]);
	pipeline->messages[pipeline->message_count - 1].turn = (uint32_t)turn;
	return true;
}

/* Each waits for the one of its turn. */
static void send_inputs(struct pipeline *pipeline, size_t host)
{
	struct input *waiting = &pipeline->waiting[host * pipeline->in_flight];
	uint32_t kept = 0;

	for (uint32_t i = 0; i < pipeline->waits[host]; i++)
		if (!send_input(pipeline, host, waiting[i]))
			waiting[kept++] = waiting[i];
	pipeline->waits[host] = kept;
}

/* A host begins its calls in order. */
static void begin(struct pipeline *pipeline, size_t host)
{
	size_t leaf = pipeline->leaf_of[host];

	if (leaf == SCHEDULE_NONE)
		return;
	for (uint32_t *next = &pipeline->next[host]; *next < pipeline->segment_count; (*next)++) {
		size_t call = *next / pipeline->call_segments;

		if (call >= pipeline->calls &&
		    pipeline->through[(call - pipeline->calls) * pipeline->host_count + host] > pipeline->step)
			break;
		if (pipeline->leaders[*next * pipeline->leaf_count + leaf] == host)
			leaf_has_input(pipeline, *next, leaf);
		else
			pipeline->waiting[host * pipeline->in_flight + pipeline->waits[host]++] = (struct input){
				.segment = *next, .turn = (uint32_t)(pipeline->turns[host]++ % pipeline->abreast)
			};
	}
	send_inputs(pipeline, host);
}

static void arrive(struct pipeline *pipeline)
{
	while (pipeline->arrival_first < pipeline->arrival_end) {
		const struct arrival *arrival = &pipeline->arrivals[pipeline->arrival_first % pipeline->arrival_room];

		if (arrival->step > pipeline->step)
			return;
		pipeline->arrival_first++;
		if (arrival->kind == INPUT)
			leaf_has_input(pipeline, arrival->segment, arrival->leaf);
		else if (arrival->kind == SUM)
			root_has_sum(pipeline, arrival->segment);
		else if (arrival->kind == RESULT)
			leaf_has_result(pipeline, arrival->segment, arrival->leaf);
		else
			host_has(pipeline, arrival->segment, arrival->host);
	}
}

/* ------------------------------------------------------------------------------------------------------------- a step */

static uint64_t least_share(const struct pipeline *pipeline, const struct message *message)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < message->link_count; i++)
		least = min_u64(least, pipeline->links[message->links[i]].share);
	return least;
}

/*
 * Max-min fair shares, by filling: the links that are full first settle the messages on them, and so on with what the others have
 * left. The last round settles all.
 */
static void share_links(struct pipeline *pipeline)
{
	size_t links = 2 * (pipeline->host_count + pipeline->leaf_count), count = pipeline->message_count;

	for (size_t i = 0; i < count; i++)
		pipeline->unshared[i] = (uint32_t)i;
	for (size_t round = 0; round < ROUNDS; round++) {
		uint64_t least = UINT64_MAX, limit;
		size_t kept = 0;

		for (size_t i = 0; i < links; i++) {
			struct pipeline_link *link = &pipeline->links[i];

			link->share = link->count ? link->left / link->count : UINT64_MAX;
			least = min_u64(least, link->share);
		}
		if (least == UINT64_MAX)
			return;
		limit = round + 1 == ROUNDS ? UINT64_MAX : max_u64(least, least / 100 * NEARLY_SAME_PERCENT);
		for (size_t i = 0; i < count; i++) {
			struct message *message = &pipeline->messages[pipeline->unshared[i]];
			uint64_t share = least_share(pipeline, message);

			if (share > limit) {
				pipeline->unshared[kept++] = pipeline->unshared[i];
				continue;
			}
			for (size_t j = 0; j < message->link_count; j++) {
				struct pipeline_link *link = &pipeline->links[message->links[j]];

				link->left -= min_u64(link->left, share);
				link->count--;
			}
			message->left -= min_u64(message->left, share);
		}
		count = kept;
	}
}

static void take_step(struct pipeline *pipeline)
{
	size_t kept = 0;

	for (size_t i = 0; i < 2 * (pipeline->host_count + pipeline->leaf_count); i++)
		pipeline->links[i].left = pipeline->links[i].carries;
	for (size_t i = 0; i < pipeline->message_count; i++)
		for (size_t j = 0; j < pipeline->messages[i].link_count; j++)
			pipeline->links[pipeline->messages[i].links[j]].count++;
	share_links(pipeline);
	pipeline->step++;
	for (size_t i = 0; i < pipeline->message_count; i++) {
		const struct message *message = &pipeline->messages[i];

		if (message->left) {
			pipeline->messages[kept++] = *message;
			continue;
		}
		if (message->kind == INPUT)
			pipeline->is_sending[message->turn] = false;
		pipeline->arrivals[pipeline->arrival_end++ % pipeline->arrival_room] =
			(struct arrival){ .step = pipeline->step + pipeline->latency_steps,
					  .segment = message->segment,
					  .leaf = message->leaf,
					  .host = message->host,
					  .kind = message->kind };
	}
	pipeline->message_count = kept;
}

/* Seconds a byte between the calls that fill the links and those that drain them. */
static double run(struct pipeline *pipeline)
{
	size_t first = pipeline->call_count / FILLING - 1, last = pipeline->call_count - pipeline->calls - 1;
	double calls = (double)(last - first), steps;

	while (pipeline->calls_had < pipeline->call_count && pipeline->step < STEPS_MOST) {
		arrive(pipeline);
		for (size_t host = 0; host < pipeline->host_count; host++)
			begin(pipeline, host);
		take_step(pipeline);
	}
	if (pipeline->calls_had <= last) /* it was too long, and a byte takes at least so long */
		steps = (double)pipeline->step;
	else
		steps = (double)(pipeline->end_step[last] - pipeline->end_step[first]);
	return steps * pipeline->step_s / (calls * (double)pipeline->call_segments * pipeline->segment_bytes);
}

/* -------------------------------------------------------------------------------------------------------------- setup */

static int make_arrays(struct pipeline *pipeline)
{
	size_t hosts = pipeline->host_count, leaves = pipeline->leaf_count, segments = pipeline->segment_count,
	       calls = pipeline->call_count, /* Inputs and copies of a host, sums and results of a leaf. */
		room = 2 * pipeline->calls * pipeline->call_segments * (hosts + 2 * leaves);

	pipeline->arrival_room = room;
	pipeline->arrays =
		sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(pipeline->leaf_of, hosts),
							SYS_ARRAY(pipeline->leaf_hosts, leaves),
							SYS_ARRAY(pipeline->leaders, segments * leaves),
							SYS_ARRAY(pipeline->root, segments),
							SYS_ARRAY(pipeline->root_leaf, segments),
							SYS_ARRAY(pipeline->inputs, segments * leaves),
							SYS_ARRAY(pipeline->sums, segments),
							SYS_ARRAY(pipeline->missing, calls * hosts),
							SYS_ARRAY(pipeline->through, calls * hosts),
							SYS_ARRAY(pipeline->next, hosts),
							SYS_ARRAY(pipeline->turns, hosts),
							SYS_ARRAY(pipeline->is_sending, hosts * pipeline->abreast),
							SYS_ARRAY(pipeline->had, hosts),
							SYS_ARRAY(pipeline->hosts_had, calls),
							SYS_ARRAY(pipeline->had_step, calls * hosts),
							SYS_ARRAY(pipeline->end_step, calls),
							SYS_ARRAY(pipeline->before, hosts),
							SYS_ARRAY(pipeline->waits, hosts),
							SYS_ARRAY(pipeline->waiting, hosts * pipeline->in_flight),
							SYS_ARRAY(pipeline->links, 2 * (hosts + leaves)),
							SYS_ARRAY(pipeline->messages, room),
							SYS_ARRAY(pipeline->unshared, room),
							SYS_ARRAY(pipeline->arrivals, room) },
				  23);
	return pipeline->arrays ? 0 : -ENOMEM;
}

static void list_hosts(struct pipeline *pipeline)
{
	const struct schedule_group *group = pipeline->group;

	for (size_t host = 0; host < pipeline->host_count; host++)
		pipeline->leaf_of[host] = SCHEDULE_NONE;
	for (size_t i = 0; i < group->member_count; i++) {
		uint16_t *leaf = &pipeline->leaf_of[group->nodes[i].host];

		if (*leaf == SCHEDULE_NONE) {
			pipeline->leaf_hosts[group->nodes[i].leaf]++;
			pipeline->member_hosts++;
		}
		*leaf = group->nodes[i].leaf;
	}
}

static void list_segments(struct pipeline *pipeline)
{
	size_t leaves = pipeline->leaf_count;

	for (size_t i = 0; i < pipeline->segment_count; i++) {
		struct schedule_segment segment;

		schedule_next(pipeline->schedule, (size_t)pipeline->segment_bytes, &segment);
		pipeline->root[i] = pipeline->group->nodes[segment.root].host;
		pipeline->root_leaf[i] = segment.root_leaf;
		for (size_t leaf = 0; leaf < leaves; leaf++) {
			uint16_t node = segment.leaf_node[leaf];

			pipeline->leaders[i * leaves + leaf] = node;
			if (node != SCHEDULE_NONE)
				pipeline->leaders[i * leaves + leaf] = pipeline->group->nodes[node].host;
			pipeline->inputs[i * leaves + leaf] = pipeline->leaf_hosts[leaf];
			pipeline->sums[i] = (uint16_t)(pipeline->sums[i] + (pipeline->leaf_hosts[leaf] > 0));
		}
	}
	for (size_t i = 0; i < pipeline->call_count * pipeline->host_count; i++) {
		pipeline->missing[i] = (uint16_t)pipeline->call_segments;
		pipeline->through[i] = UINT64_MAX;
	}
}

static uint64_t steps_of(const struct pipeline *pipeline, double time_s)
{
	return (uint64_t)(time_s / pipeline->step_s + 0.5);
}

static void set_link(struct pipeline *pipeline, size_t link, double rate_Bps)
{
	double units = rate_Bps * pipeline->step_s * FIXED_POINT;

	pipeline->links[link].carries = (uint64_t)(rate_Bps > 0 && units < UNBOUNDED ? units : UNBOUNDED);
}

static void set_links(struct pipeline *pipeline, const struct pipeline_engine *engine)
{
	const struct schedule_group *group = pipeline->group;
	double slowest_Bps = 0;

	for (size_t i = 0; i < group->node_count; i++) {
		double rate_Bps = schedule_node_rate_Bps(pipeline->schedule, (unsigned)i);

		if (!group->nodes[i].aggregator && engine->rate_Bps && rate_Bps > (double)engine->rate_Bps)
			rate_Bps = (double)engine->rate_Bps;
		set_link(pipeline, link_out(pipeline, group->nodes[i].host), rate_Bps);
		set_link(pipeline, link_in(pipeline, group->nodes[i].host), rate_Bps);
		if (!group->nodes[i].aggregator && (!(slowest_Bps > 0) || rate_Bps < slowest_Bps))
			slowest_Bps = rate_Bps;
	}
	for (size_t leaf = 0; leaf < pipeline->leaf_count; leaf++) {
		set_link(pipeline, uplink_out(pipeline, leaf), (double)group->uplink_out_Bps[leaf]);
		set_link(pipeline, uplink_in(pipeline, leaf), (double)group->uplink_in_Bps[leaf]);
	}
	pipeline->latency_steps = steps_of(pipeline, (double)engine->latency_ns / NS_IN_S);
	pipeline->commit_steps =
		steps_of(pipeline, (double)engine->latency_ns / NS_IN_S + PIPELINE_COMMIT_BEHIND_BYTES / slowest_Bps);
}

/* As the engine does: the least length follows from the slowest card that is known. */
static size_t segment_bytes_of(const struct pipeline *pipeline, const struct pipeline_engine *engine)
{
	uint64_t slowest_Bps = 0;

	for (size_t i = 0; i < pipeline->group->member_count; i++)
		slowest_Bps = min_known_u64(slowest_Bps, pipeline->group->nodes[i].rate_Bps);
	return schedule_segment_bytes(pipeline->schedule, engine->call_bytes,
				      schedule_segment_least_bytes(slowest_Bps));
}

static int set_up(struct pipeline *pipeline, const struct pipeline_engine *engine)
{
	size_t bytes = segment_bytes_of(pipeline, engine);
	struct schedule_loads loads;
	int r;

	schedule_loads(pipeline->schedule, &loads);
	if (!(loads.slowest_s_per_B > 0))
		return -EINVAL;
	pipeline->host_count = pipeline->group->host_count;
	pipeline->leaf_count = pipeline->group->leaf_count;
	pipeline->calls = engine->calls;
	pipeline->segment_bytes = (double)bytes;
	pipeline->segment_units = (uint64_t)bytes * FIXED_POINT;
	pipeline->call_segments = (engine->call_bytes + bytes - 1) / bytes;
	pipeline->call_count = max_u64(SEGMENTS_LEAST / pipeline->call_segments, WINDOWS * pipeline->calls);
	pipeline->segment_count = pipeline->call_count * pipeline->call_segments;
	pipeline->in_flight = pipeline->calls * pipeline->call_segments;
	pipeline->step_s = (double)bytes * loads.slowest_s_per_B / STEPS_OF_SEGMENT *
			   (double)max_u64(pipeline->in_flight, SEGMENTS_FINE) / SEGMENTS_FINE;
	for (size_t i = pipeline->group->member_count; i < pipeline->group->node_count; i++)
		pipeline->is_served |= !pipeline->group->nodes[i].lost;
	pipeline->abreast = PIPELINE_ABREAST;
	if (pipeline->is_served)
		pipeline->abreast = max_u64(1,
					    (pipeline->in_flight + PIPELINE_ABREAST_PART / 2) / PIPELINE_ABREAST_PART);
	r = make_arrays(pipeline);
	if (r < 0)
		return r;
	list_hosts(pipeline);
	list_segments(pipeline);
	set_links(pipeline, engine);
	return 0;
}

struct pipeline_engine pipeline_engine_today(void)
{
	return (struct pipeline_engine){ .call_bytes = PIPELINE_CALL_BYTES,
					 .calls = PIPELINE_CALLS,
					 .latency_ns = PIPELINE_LATENCY_NS };
}

int pipeline_find(const struct schedule_group *group, const struct pipeline_engine *engine, double *ret_s_per_B)
{
	struct pipeline pipeline = { .group = group };
	struct schedule_loads loads;
	double time;
	int r = schedule_new(group, &pipeline.schedule);

	if (r == 0)
		r = set_up(&pipeline, engine);
	if (r == 0) {
		schedule_loads(pipeline.schedule, &loads);
		time = run(&pipeline);
		*ret_s_per_B = time > loads.slowest_s_per_B ? time : loads.slowest_s_per_B;
	}
	sys_free(pipeline.arrays);
	schedule_free(pipeline.schedule);
	return r;
}
