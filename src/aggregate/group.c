/* Groups: who is in one and where, its operations, its turns, and its end. */
#include "aggregate/group.h"

#include "aggregate/gain.h"
#include "aggregate/servers.h"
#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of a copied input: more is given back when its operation is done. */
#define KEPT_FOR_GOOD_BYTES ((size_t)8 << 20)

/* ----------------------------------------------------------------------------------------------- making and unmaking */

int group_new(struct aggregate_engine *engine, int device, size_t count, struct group **ret)
{
	struct group *group = sys_zalloc(sizeof(*group));

	if (!group)
		return -ENOMEM;
	pthread_mutex_init(&group->lock, NULL);
	group->engine = engine;
	group->device = device;
	group->count = group->node_count = count;
	group->small_end = &group->small_first;
	group->segmented_end = &group->segmented_first;
	group->members = sys_zalloc(count * sizeof(*group->members));
	group->out = sys_zalloc((2 * count + SERVERS_MAX) * sizeof(*group->out));
	group->in = sys_zalloc((2 * count + SERVERS_MAX) * sizeof(*group->in));
	if (!group->members || !group->out || !group->in) {
		group_free(group);
		return -ENOMEM;
	}
	for (size_t i = 0; i < 2 * count + SERVERS_MAX; i++) {
		queue_init(&group->out[i], engine->setup.ops, true);
		queue_init(&group->in[i], engine->setup.ops, false);
	}
	*ret = group;
	return 0;
}

static void queues_close(struct group *group)
{
	for (size_t i = 0; group->out && group->in && i < group_queues(group); i++) {
		queue_close(&group->out[i]);
		queue_close(&group->in[i]);
	}
}

void group_free(struct group *group)
{
	if (!group)
		return;
	queues_close(group);
	servers_close(group);
	for (size_t i = 0; i < AGGREGATE_MAX_REQUESTS; i++)
		sys_free(group->operations[i].kept);
	commit_fini(group);
	segment_fini(group);
	flat_fini(group);
	schedule_free(group->schedule);
	sys_free(group->host_members);
	sys_free(group->host_begin);
	sys_free(group->leaf_hosts);
	sys_free(group->leaf_begin);
	sys_free(group->members);
	sys_free(group->out);
	sys_free(group->in);
	pthread_mutex_destroy(&group->lock);
	sys_free(group);
}

const char *group_host(const struct group *group, size_t position)
{
	return node_is_server(group, position) ? "of an aggregator" : group->members[position].facts.host;
}

static bool same_leaf(const struct aggregate_wire_facts *a, const struct aggregate_wire_facts *b)
{
	/* A host that the cluster file does not name is a leaf of its own. */
	return a->host_id == b->host_id || (a->leaf == b->leaf && a->leaf != AGGREGATE_LEAF_UNKNOWN);
}

/* Hosts and leaves, numbered by first appearance. */
static void number_members(struct group *group)
{
	for (size_t i = 0; i < group->count; i++) {
		struct group_member *member = &group->members[i];
		size_t k;

		for (k = 0; k < i && group->members[k].facts.host_id != member->facts.host_id;)
			k++;
		member->host = k < i ? group->members[k].host : (uint16_t)group->host_count++;
		for (k = 0; k < i && !same_leaf(&group->members[k].facts, &member->facts);)
			k++;
		member->leaf = k < i ? group->members[k].leaf : (uint16_t)group->leaf_count++;
	}
}

static int list_members(struct group *group)
{
	size_t used = 0;

	group->host_members = sys_zalloc(group->count * sizeof(*group->host_members));
	group->leaf_hosts = sys_zalloc(group->count * sizeof(*group->leaf_hosts));
	group->host_begin = sys_zalloc((group->host_count + 1) * sizeof(*group->host_begin));
	group->leaf_begin = sys_zalloc((group->leaf_count + 1) * sizeof(*group->leaf_begin));
	if (!group->host_members || !group->leaf_hosts || !group->host_begin || !group->leaf_begin)
		return -ENOMEM;
	for (size_t host = 0; host < group->host_count; host++) {
		group->host_begin[host] = (uint16_t)used;
		for (size_t i = 0; i < group->count; i++)
			if (group->members[i].host == host)
				group->host_members[used++] = (uint16_t)i;
	}
	group->host_begin[group->host_count] = (uint16_t)used;
	used = 0;
	for (size_t leaf = 0; leaf < group->leaf_count; leaf++) {
		group->leaf_begin[leaf] = (uint16_t)used;
		for (size_t host = 0; host < group->host_count; host++)
			if (group->members[group->host_members[group->host_begin[host]]].leaf == leaf)
				group->leaf_hosts[used++] = (uint16_t)host;
	}
	group->leaf_begin[group->leaf_count] = (uint16_t)used;
	return 0;
}

static uint64_t lesser_rate(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* Where a server's leaf has no members it counts with the first: it can then be a root at least. */
static void plan_servers(const struct group *group, struct schedule_group *plan, uint32_t without)
{
	for (size_t i = group->count; i < group->node_count; i++) {
		const struct group_server *server = &group->servers->servers[i - group->count];
		struct schedule_node *node = &plan->nodes[i];

		*node = (struct schedule_node){ .host = (uint16_t)plan->host_count++,
						.rate_Bps = server->rate_Bps,
						.server = true,
						.lost = !server->used || server->excluded ||
							(without & UINT32_C(1) << (i - group->count)) };
		for (size_t k = 0; k < group->count; k++)
			if (group->members[k].facts.leaf == server->leaf)
				node->leaf = group->members[k].leaf;
	}
	plan->node_count = group->node_count;
}

static struct schedule_group *plan_new(const struct group *group, uint32_t without)
{
	struct schedule_group *plan = sys_zalloc(sizeof(*plan));

	if (!plan)
		return NULL;
	plan->member_count = plan->node_count = group->count;
	plan->host_count = group->host_count;
	plan->leaf_count = group->leaf_count;
	for (size_t i = 0; i < group->count; i++) {
		const struct group_member *member = &group->members[i];

		plan->nodes[i] = (struct schedule_node){ .host = member->host,
							 .leaf = member->leaf,
							 .rate_Bps = member->facts.rate_Bps };
		plan->uplink_out_Bps[member->leaf] = member->facts.up_rate_Bps;
		plan->uplink_in_Bps[member->leaf] = member->facts.down_rate_Bps;
	}
	plan_servers(group, plan, without);
	return plan;
}

int group_choose(const struct group *group, uint32_t *ret_left)
{
	struct schedule_group *plan = plan_new(group, 0);

	if (!plan)
		return -ENOMEM;
	schedule_leave_servers(plan);
	*ret_left = 0;
	for (size_t i = group->count; i < group->node_count; i++) {
		const struct group_server *server = &group->servers->servers[i - group->count];

		if (plan->nodes[i].lost && server->used && !server->excluded)
			*ret_left |= UINT32_C(1) << (i - group->count);
	}
	sys_free(plan);
	return 0;
}

int group_plan(struct group *group, uint32_t without)
{
	struct schedule_group *plan = plan_new(group, without);
	int r;

	if (!plan)
		return -ENOMEM;
	schedule_free(group->schedule);
	group->schedule = NULL;
	r = schedule_new(plan, &group->schedule);
	sys_free(plan);
	return r;
}

int group_expect(const struct group *group, uint32_t without, struct schedule_loads *ret)
{
	struct schedule_group *plan = plan_new(group, without);
	struct schedule *schedule = NULL;
	int r = plan ? schedule_new(plan, &schedule) : -ENOMEM;

	sys_free(plan);
	if (r < 0)
		return r;
	schedule_loads(schedule, ret);
	schedule_free(schedule);
	return 0;
}

unsigned group_gain(const struct group *group, bool assumed)
{
	struct schedule_group *plan = plan_new(group, 0);
	unsigned gain = 0;

	if (!plan)
		return 0;
	for (size_t i = group->count; assumed && i < plan->node_count; i++)
		plan->nodes[i].lost = false;
	gain = gain_of_group(plan);
	sys_free(plan);
	return gain;
}

void group_find_facts(struct group *group)
{
	struct aggregate_facts *facts = &group->facts;

	*facts = (struct aggregate_facts){ .members = group->count,
					   .hosts = group->host_count,
					   .leaves = group->leaf_count,
					   .gain_permille = facts->gain_permille,
					   .rank_count = facts->rank_count };
	for (size_t i = 0; i < group->count; i++) {
		const struct aggregate_wire_facts *member = &group->members[i].facts;

		facts->rate_Bps = lesser_rate(facts->rate_Bps, member->rate_Bps);
		facts->uplink_Bps = lesser_rate(facts->uplink_Bps, member->up_rate_Bps);
		facts->uplink_Bps = lesser_rate(facts->uplink_Bps, member->down_rate_Bps);
		if (member->leaf == AGGREGATE_LEAF_UNKNOWN && !facts->unknown_host) {
			memcpy(group->unknown_host, member->host, sizeof(group->unknown_host));
			facts->unknown_host = group->unknown_host;
		}
	}
	for (size_t i = group->count; i < group->node_count; i++)
		facts->servers += group->servers->servers[i - group->count].used &&
				  !group->servers->servers[i - group->count].excluded;
	if (facts->servers) {
		struct schedule_loads loads;

		schedule_loads(group->schedule, &loads);
		facts->host_share = loads.host;
		facts->uplink_share = loads.uplink;
		return;
	}
	for (unsigned leaf = 0; leaf < group->leaf_count; leaf++) {
		double n = (double)(group->leaf_begin[leaf + 1] - group->leaf_begin[leaf]);
		double m = (double)group->leaf_count, rho = schedule_leaf_share(group->schedule, leaf);
		double uplink = m > 1 ? 1 - rho + (m - 1) * rho : 0;
		double host = (2 * (n - 1) + uplink) / n;

		facts->uplink_share = uplink > facts->uplink_share ? uplink : facts->uplink_share;
		facts->host_share = host > facts->host_share ? host : facts->host_share;
	}
}

int group_settle(struct group *group)
{
	int r;

	number_members(group);
	r = list_members(group);
	split_settle(group);
	if (r == 0)
		r = group_plan(group, 0);
	if (r == 0)
		r = segment_init(group);
	if (r == 0)
		r = flat_init(group);
	if (r == 0)
		group_find_facts(group);
	return r;
}

/* ----------------------------------------------------------------------------------------- the engine's thread alone */

void group_break(struct group *group, int error, const char *fmt, ...)
{
	char text[512];
	va_list args;

	if (group->error)
		return;
	va_start(args, fmt);
	log_sentence_v(text, sizeof(text), fmt, args);
	va_end(args);
	if (group->under_way || atomic_load_explicit(&group->refused, memory_order_relaxed))
		log_warn("aggregation over %zu hosts ends at host %s: %s", group->host_count,
			 group_host(group, group->self), text);
	queues_close(group);    /* from here on nobody writes to the callers' buffers, or reads them */
	servers_hang_up(group); /* what is known of them stays: a caller may be trying them */
	atomic_store_explicit(&group->error, error, memory_order_release);
}

bool group_transfer_came_whole(struct group *group, const struct transfer *transfer, size_t from)
{
	if (transfer->received == transfer->bytes)
		return true;
	group_break(group, -EREMOTEIO,
		    "host %s sent %zu bytes where %zu were due: its operations are not the same ones",
		    group_host(group, from), transfer->received, transfer->bytes);
	return false;
}

static void operation_finish(struct operation *operation)
{
	struct group *group = operation->group;

	group->under_way--;
	group->progressed = true;
	group_add(&group->operations_done, 1);
	atomic_store_explicit(&operation->state, OPERATION_DONE, memory_order_release);
}

void group_operation_step(struct operation *operation)
{
	struct group *group = operation->group;

	if (group->error || operation->waits)
		return;
	if (!operation->flat && operation->segments_done < operation->segment_count)
		return;
	if ((operation->flat || operation->rooted || operation->split) && !operation->summed) {
		operation->summed = true;
		if (operation->flat)
			flat_end(group, operation);
		else if (operation->rooted)
			flat_rooted_end(group, operation);
		else
			split_end(group, operation);
	}
	if (operation->commits && !operation->committed) {
		commit_drained(group, operation);
		return;
	}
	if (group->settings.verify && !operation->verified) {
		operation->verified = true;
		flat_verify(group, operation);
		return;
	}
	operation_finish(operation);
}

/* Alone in the group: its input is the result. */
static void take_alone(struct group *group, struct operation *operation)
{
	if (operation->recv != operation->send) {
		memmove(operation->recv, operation->send, operation->bytes);
		group_add(&group->bytes_copied, operation->bytes);
	}
	operation_finish(operation);
}

static void take(struct group *group, struct operation *operation)
{
	group->under_way++;
	group->progressed = true;
	operation->waits = 0;
	operation->summed = operation->verified = false;
	operation->commits = operation->drained = operation->poisoned = operation->committed = false;
	operation->next_segment = operation->segments_done = operation->segment_count = 0;
	operation->next_small = operation->next_segmented = NULL;
	if (group->count == 1) {
		take_alone(group, operation);
		return;
	}
	operation->rooted = operation->bytes && operation->bytes <= group->rooted_bytes;
	operation->flat = !operation->rooted && operation->bytes <= group->settings.flat_bytes;
	operation->split = !operation->rooted && !operation->flat && operation->bytes <= group->split_bytes;
	*group->small_end = operation;
	group->small_end = &operation->next_small;
	if (operation->flat || operation->rooted)
		return;
	operation->waits = flat_words(group, operation);
	if (operation->split) {
		operation->split_parts = split_part_count(group, operation->bytes);
		operation->split_first = flat_root_of(group, operation);
		return;
	}
	operation->segmented_number = group->segmented_taken++;
	/* Where servers may be lost the schedule is known when the first segment is cut; till then, some. */
	operation->segment_count = group->commit ? 1 : segment_count_of(group, operation->bytes, operation->count);
	*group->segmented_end = operation;
	group->segmented_end = &operation->next_segmented;
}

/* Those to so many nodes, of which the first has that queue. */
static void queues_progress(struct group *group, size_t first, size_t count)
{
	for (size_t i = 1; i < count && !group->error; i++) { /* member r begins with r + 1 */
		struct queue *out = &group->out[first + (group->self + i) % count];
		struct queue *in = &group->in[first + (group->self + count - i) % count];

		if (in->ready || in->added)
			queue_progress(group, in);
		if ((out->ready || out->added) && !group->error)
			queue_progress(group, out);
	}
}

bool group_turn(struct group *group)
{
	uint64_t posted = atomic_load_explicit(&group->posted, memory_order_acquire);

	group->progressed = group->received = group->soon = group->now = false;
	if (atomic_load_explicit(&group->refused, memory_order_acquire)) {
		group_break(group, -ENOMEM, "there is no memory for an operation");
		return true;
	}
	while (group->taken != posted)
		take(group, &group->operations[group->ring[group->taken++ % AGGREGATE_MAX_REQUESTS]]);
	servers_carry_out(group);
	if (!group->under_way)
		return false;
	flat_begin(group);
	segment_activate(group);
	queues_progress(group, 0, group->count); /* small ones first */
	queues_progress(group, group->count, group->node_count);
	if (!group->error)
		servers_carry_out(group);
	return group->progressed;
}

void group_stir(struct group *group, bool all)
{
	for (size_t i = 0; i < group_queues(group); i++) {
		group->in[i].ready |= group->in[i].soon || (all && !queue_is_empty(&group->in[i]));
		group->out[i].ready |= group->out[i].soon || (all && !queue_is_empty(&group->out[i]));
	}
}

bool group_is_idle(const struct group *group)
{
	return !group->under_way && group->taken == atomic_load_explicit(&group->posted, memory_order_acquire);
}

/* ----------------------------------------------------------------------------------------------------- callers */

static struct group *group_of(struct aggregate_group *group)
{
	return (struct group *)group;
}

static struct operation *operation_get(struct group *group)
{
	for (unsigned i = 0; i < AGGREGATE_MAX_REQUESTS; i++) {
		struct operation *operation = &group->operations[i];

		if (atomic_load_explicit(&operation->state, memory_order_acquire) == OPERATION_FREE)
			return operation;
	}
	return NULL;
}

static void operation_post(struct group *group, struct operation *operation)
{
	uint64_t posted = atomic_load_explicit(&group->posted, memory_order_relaxed);

	operation->group = group;
	operation->number = posted;
	atomic_store_explicit(&operation->state, OPERATION_POSTED, memory_order_relaxed);
	group->ring[posted % AGGREGATE_MAX_REQUESTS] = (unsigned)(operation - group->operations);
	atomic_store_explicit(&group->posted, posted + 1, memory_order_release);
	engine_wake(group->engine);
}

/*
 * There is no memory for one that the other members post, too, and then wait for: the group ends, here and so everywhere.
 * Returns -ENOMEM.
 */
static int operation_refuse(struct group *group)
{
	atomic_store_explicit(&group->refused, true, memory_order_release);
	engine_wake(group->engine);
	return -ENOMEM;
}

/*
 * What a server is to make may have to be made again, from the inputs: one that the result overwrites is copied. -ENOMEM.
 */
static int keep_input(struct group *group, struct operation *operation)
{
	const uint8_t *send = operation->send, *recv = operation->recv;
	size_t bytes = operation->bytes;

	if (bytes <= group->settings.flat_bytes || bytes <= group->split_bytes || send + bytes <= recv ||
	    recv + bytes <= send || !atomic_load_explicit(&group->retains, memory_order_relaxed))
		return 0;
	if (operation->kept_bytes < bytes) {
		sys_free(operation->kept);
		operation->kept_bytes = 0;
		operation->kept = sys_zalloc(bytes);
		if (!operation->kept)
			return operation_refuse(group);
		operation->kept_bytes = bytes;
	}
	memcpy(operation->kept, send, bytes);
	operation->send = operation->kept;
	group_add(&group->bytes_copied, bytes);
	return 0;
}

/* Small ones are used again. */
static void let_input_go(struct operation *operation)
{
	if (operation->kept_bytes <= KEPT_FOR_GOOD_BYTES)
		return;
	sys_free(operation->kept);
	operation->kept = NULL;
	operation->kept_bytes = 0;
}

int group_reduce(struct group *group, const void *send, void *recv, size_t count, enum reduce_type type,
		 enum reduce_operation operation, uint32_t without, struct operation **ret)
{
	struct operation *posted;
	int error = group_end_of(group);

	*ret = NULL;
	if (error)
		return error;
	if (type >= REDUCE_TYPE_COUNT || operation >= REDUCE_OPERATION_COUNT ||
	    count > AGGREGATE_MAX_BYTES / reduce_type_bytes(type) || (count && (!send || !recv)))
		return -EINVAL;
	posted = operation_get(group);
	if (!posted)
		return 0;
	posted->type = type;
	posted->operation = operation;
	posted->send = send;
	posted->recv = recv;
	posted->count = count;
	posted->bytes = count * reduce_type_bytes(type);
	posted->without = without;
	error = keep_input(group, posted);
	if (error < 0)
		return error;
	operation_post(group, posted);
	*ret = posted;
	return 0;
}

int aggregate_reduce_all(struct aggregate_group *opaque, const void *send, void *recv, size_t count,
			 enum reduce_type type, enum reduce_operation operation, struct aggregate_request **ret)
{
	struct operation *posted;
	int r = group_reduce(group_of(opaque), send, recv, count, type, operation, 0, &posted);

	*ret = (struct aggregate_request *)posted;
	return r;
}

int aggregate_test(struct aggregate_request *request, bool *ret_done, size_t *ret_bytes)
{
	struct operation *operation = (struct operation *)request;

	*ret_done = false;
	if (atomic_load_explicit(&operation->state, memory_order_acquire) != OPERATION_DONE)
		engine_help(operation->group->engine);
	if (atomic_load_explicit(&operation->state, memory_order_acquire) != OPERATION_DONE)
		return atomic_load_explicit(&operation->group->error, memory_order_acquire);
	if (ret_bytes)
		*ret_bytes = operation->bytes;
	*ret_done = true;
	let_input_go(operation);
	atomic_store_explicit(&operation->state, OPERATION_FREE, memory_order_release);
	return 0;
}

void aggregate_close_group(struct aggregate_group *opaque)
{
	struct group *group = group_of(opaque);

	if (!group)
		return;
	atomic_store(&group->wanted, true);
	pthread_mutex_lock(&group->lock);
	queues_close(group);
	servers_close(group);
	group->closed = true;
	pthread_mutex_unlock(&group->lock);
	engine_forget(group->engine, group);
}

void aggregate_facts(const struct aggregate_group *opaque, struct aggregate_facts *ret)
{
	const struct group *group = (const struct group *)opaque;

	*ret = group->facts;
}

void aggregate_counters(const struct aggregate_group *opaque, struct aggregate_counters *ret)
{
	const struct group *group = (const struct group *)opaque;

	ret->operations = atomic_load_explicit(&group->operations_done, memory_order_relaxed);
	ret->segments = atomic_load_explicit(&group->segments_done, memory_order_relaxed);
	ret->flat_operations = atomic_load_explicit(&group->flat_done, memory_order_relaxed);
	ret->split_operations = atomic_load_explicit(&group->split_done, memory_order_relaxed);
	ret->bytes_sent = atomic_load_explicit(&group->bytes_sent, memory_order_relaxed);
	ret->bytes_received = atomic_load_explicit(&group->bytes_received, memory_order_relaxed);
	ret->bytes_copied = atomic_load_explicit(&group->bytes_copied, memory_order_relaxed);
	ret->messages_sent = atomic_load_explicit(&group->messages_sent, memory_order_relaxed);
}
