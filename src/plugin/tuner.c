/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/tuner.h"

#include "base/sys.h"
#include "nccl/types.h"
#include "plugin/calls.h"
#include "plugin/collnet.h"
#include "plugin/fork.h"
#include "plugin/state.h"
#include "plugin/steer/agreed.h"
#include "plugin/steer/tuning.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PERMILLE 1000.0
#define NO_CALLS                                                                              \
	"NCCL tells another profiler than Tributary's where groups of operations end: unset " \
	"NCCL_PROFILER_PLUGIN, and take libnccl-profiler.so out of the library path"

enum { WITHOUT_COLLNET_SAID = 16 }; /* some questions are about types that no collnet has */

_Static_assert((int)NCCL_FUNC_ALLREDUCE == (int)PREDICT_ALLREDUCE, "NCCL's numbers of collectives");
_Static_assert((int)NCCL_FUNC_BROADCAST == (int)PREDICT_BROADCAST, "NCCL's numbers of collectives");

void plugin_tuner_look(const struct steer_facts *facts, size_t rank_count, size_t node_count,
		       const struct predict_constants *constants, struct predict_tuner *ret)
{
	ret->edits = false;
	ret->collnet = (struct predict_collnet){ 0 };
	if (facts && facts->published && rank_count == facts->local_gpu_count)
		predict_tuner_make(&facts->set, rank_count, node_count, facts->sm, constants, ret);
}

static void say_what_is_done(uint64_t comm_id, const struct predict_tuner *tuner)
{
	const struct predict_graph *file = &tuner->file.ring, *truth = &tuner->truth.ring;

	log_info(LOG_TUNING,
		 "Tributary: communicator %016" PRIx64 ": costs for %zu ranks on one host: rings at %.1f GB/s, "
		 "trees at %.1f; in the graph file %.1f and %.1f",
		 comm_id, tuner->truth.rank_count, (double)truth->channel_count * truth->intra_GBps,
		 (double)tuner->truth.tree.channel_count * tuner->truth.tree.intra_GBps,
		 (double)file->channel_count * file->intra_GBps,
		 (double)tuner->file.tree.channel_count * tuner->file.tree.intra_GBps);
}

/* The table that all ranks of the communicator are known to have, if any; and how the tuner sees from when on. */
static int table_of(uint64_t comm_id, size_t rank_count, size_t node_count, const struct steer_agreed *agreed,
		    struct steer_tuned *ret, struct plugin_calls **ret_calls)
{
	const struct steer_shape shape = { comm_id, rank_count, node_count };
	struct diag why = { .text = "" };
	int r = steer_tuning_of(&shape, agreed, ret, &why);

	*ret_calls = NULL;
	if (r == 0 && ret->from == STEER_TUNED_FROM_SECOND_GROUP) {
		*ret_calls = plugin_calls_take(comm_id);
		if (!*ret_calls) {
			diag_set(&why, 0, 0, "%s", NO_CALLS);
			r = -EPROTO;
		}
	}
	if (r < 0)
		log_warn("Communicator %016" PRIx64 " cannot follow a tuning table (TRIBUTARY_TUNING): %s", comm_id,
			 why.text);
	else if (ret->table)
		log_info(LOG_TUNING,
			 "Tributary: communicator %016" PRIx64 " follows tuning table %016" PRIx64 ", measured on %s%s",
			 comm_id, ret->table->hash, ret->table->table.measured,
			 ret->from == STEER_TUNED_FROM_SECOND_GROUP ? ", from its second group of operations on"
			 : ret->from == STEER_TUNED_FROM_COLLNET    ? ", if collnet stands"
								    : "");
	return r;
}

static int init(uint64_t comm_id, size_t rank_count, size_t node_count, const struct predict_constants *constants,
		struct plugin_tuner **ret)
{
	const struct params *params;
	struct steer_facts facts;
	struct predict_tuner look;
	struct plugin_tuner *tuner;
	struct steer_agreed agreed;
	struct steer_tuned tuned;
	struct plugin_calls *calls;
	bool is_known;
	int r;

	*ret = NULL;
	plugin_state_load();
	params = plugin_state_params();
	is_known = steer_tuner(comm_id, &facts) == 0;
	if (params->disable || !params->tuner)
		return 0;
	plugin_tuner_look(is_known ? &facts : NULL, rank_count, node_count, constants, &look);
	/* Not by what this host knows: a host that knows less must come to the same. */
	if (node_count > 1 && params->collnet)
		predict_collnet_make(rank_count, node_count, constants, &look.collnet);
	r = steer_collnet_agreed(comm_id, rank_count, &agreed);
	if (r < 0) {
		log_warn("Communicator %016" PRIx64
			 ": what was agreed on collnet cannot be read, and the other ranks may "
			 "know: %s",
			 comm_id, strerror(-r));
		return r;
	}
	look.collnet.gain_permille = agreed.gain_permille;
	r = table_of(comm_id, rank_count, node_count, &agreed, &tuned, &calls);
	if (r < 0 || (!look.edits && !look.collnet.node_count && !tuned.table))
		return r;
	tuner = sys_zalloc(sizeof(*tuner));
	if (!tuner) {
		plugin_calls_put(calls);
		return -ENOMEM;
	}
	tuner->calls = calls;
	tuner->look = look;
	tuner->comm_id = comm_id;
	tuner->table = tuned.table;
	atomic_store(&tuner->from, tuned.from);
	/* They forbid what is not in them, which is no loss. */
	tuner->is_restricted = getenv("NCCL_ALGO") || getenv("NCCL_PROTO");
	if (look.collnet.gain_permille)
		log_info(LOG_TUNING,
			 "Tributary, communicator %016" PRIx64
			 ": large AllReduces are aggregated, by the cluster file %.2f "
			 "times as fast as NCCL's ring or tree",
			 comm_id, look.collnet.gain_permille / PERMILLE);
	if (look.edits)
		say_what_is_done(comm_id, &look);
	*ret = tuner;
	return 0;
}

int plugin_tuner_init(uint64_t comm_id, size_t rank_count, size_t node_count, const struct predict_constants *constants,
		      log_sink *logger, struct plugin_tuner **ret)
{
	int saved_errno = errno, r;

	*ret = NULL;
	if (plugin_is_forked())
		return 0;
	if (logger)
		plugin_state_log_hold(logger, false);
	log_collect();
	r = init(comm_id, rank_count, node_count, constants, ret);
	if (*ret)
		(*ret)->holds_log = logger != NULL;
	else if (logger)
		plugin_state_log_put();
	log_flush();
	errno = saved_errno;
	return r;
}

void plugin_tuner_sizes_chunks(struct plugin_tuner *tuner)
{
	if (tuner)
		tuner->look.collnet.sizes_chunks = true;
}

void plugin_tuner_fini(struct plugin_tuner *tuner)
{
	int saved_errno = errno;

	if (tuner && !plugin_is_forked()) {
		if (tuner->holds_log)
			plugin_state_log_put();
		plugin_calls_put(tuner->calls);
		sys_free(tuner);
	}
	errno = saved_errno;
}

static bool allows_collnet(const struct predict_table *table)
{
	bool is_there = false;

	if (table->protocol_count != PREDICT_PROTOCOL_COUNT || table->algorithm_count <= PREDICT_COLLNET_CHAIN)
		return false;
	for (int a = PREDICT_COLLNET_DIRECT; a <= PREDICT_COLLNET_CHAIN; a++)
		is_there |= table->costs[a * table->protocol_count + PREDICT_SIMPLE] >= 0;
	return is_there;
}

static void watch_collnet(struct plugin_tuner *tuner, int collective, const struct predict_table *table)
{
	if (!tuner->look.collnet.node_count || collective != PREDICT_ALLREDUCE || !plugin_collnet_was_connected() ||
	    tuner->is_restricted || atomic_load(&tuner->without_collnet) > WITHOUT_COLLNET_SAID)
		return;
	if (allows_collnet(table))
		atomic_store(&tuner->without_collnet, UINT_MAX / 2);
	else if (atomic_fetch_add(&tuner->without_collnet, 1) == WITHOUT_COLLNET_SAID)
		log_info(LOG_TUNING,
			 "Tributary: communicator %016" PRIx64
			 " has no collnet, and another of this process has: one that "
			 "was split off over as many nodes gets it only with NCCL_COMM_SPLIT_SHARE_RESOURCES=1",
			 tuner->comm_id);
}

/*
 * NCCL asks for chunks when it has asked for everything of a group, and of parts of an operation then, whose size says little.
 * So a chunk is that of the last question, if it was of this kind: in a group the same on all ranks, and only there
 * perhaps another than was measured.
 */
static uint64_t chunk_key(int collective, int algorithm, int protocol)
{
	return (uint64_t)(unsigned)(collective + 1) << 48 | (uint64_t)(unsigned)algorithm << 40 |
	       (uint64_t)(unsigned)protocol << 32;
}

static bool is_collnet_or_nvls(int algorithm)
{
	return algorithm == PREDICT_COLLNET_DIRECT || algorithm == PREDICT_COLLNET_CHAIN || algorithm == PREDICT_NVLS;
}

/* It becomes cheaper than all others. False: NCCL does not allow it, which it does on all ranks or on none. */
static bool follow(struct plugin_tuner *tuner, int collective, const struct tuning_choice *choice,
		   const struct predict_table *table, int *ret_channels)
{
	const int at = choice->algorithm * table->protocol_count + choice->protocol;
	float least;

	if (choice->algorithm < 0 || choice->algorithm >= table->algorithm_count ||
	    table->protocol_count != PREDICT_PROTOCOL_COUNT || !(table->costs[at] >= 0))
		return false;
	least = table->costs[at];
	for (int i = 0; i < table->algorithm_count * table->protocol_count; i++)
		if (table->costs[i] >= 0 && table->costs[i] < least)
			least = table->costs[i];
	table->costs[at] = least / 2;
	/* NCCL runs collnet and NVLS on as many as it is told, and may not have them. */
	if (choice->channels && !is_collnet_or_nvls(choice->algorithm))
		*ret_channels = (int)choice->channels;
	if (choice->chunk_bytes)
		atomic_store_explicit(&tuner->chunk,
				      chunk_key(collective, choice->algorithm, choice->protocol) | choice->chunk_bytes,
				      memory_order_relaxed);
	return true;
}

static bool is_past_first_group(struct plugin_tuner *tuner)
{
	const uint64_t count = plugin_calls_count(tuner->calls);
	const uint64_t asked_at = atomic_load_explicit(&tuner->asked_at, memory_order_relaxed);

	if (!asked_at)
		atomic_store_explicit(&tuner->asked_at, count, memory_order_relaxed);
	return asked_at && count != asked_at;
}

/* The same on all ranks, as all are asked the same in the same order. */
static bool is_followed(struct plugin_tuner *tuner, const struct predict_table *table)
{
	const unsigned from = atomic_load_explicit(&tuner->from, memory_order_relaxed);

	if (from == STEER_TUNED_FROM_FIRST)
		return tuner->table != NULL;
	if (from == STEER_TUNED_FROM_COLLNET ? !allows_collnet(table) : !is_past_first_group(tuner))
		return false;
	atomic_store_explicit(&tuner->from, STEER_TUNED_FROM_FIRST, memory_order_relaxed);
	return tuner->table != NULL;
}

void plugin_tuner_edit(struct plugin_tuner *tuner, int collective, size_t bytes, int operations,
		       const struct predict_table *table, int *ret_channels)
{
	const struct tuning_choice *choice = NULL;

	if (!tuner || plugin_is_forked())
		return;
	watch_collnet(tuner, collective, table);
	atomic_store_explicit(&tuner->chunk, 0, memory_order_relaxed);
	if (is_followed(tuner, table) && operations == 1)
		choice = tuning_find(&tuner->table->table, collective, bytes);
	if (choice && follow(tuner, collective, choice, table, ret_channels))
		return;
	(void)predict_tuner_edit(&tuner->look, collective, bytes, operations, table);
}

size_t plugin_tuner_chunk(struct plugin_tuner *tuner, int collective, size_t bytes, int algorithm, int protocol,
			  size_t chunk_bytes)
{
	const uint64_t chunk = tuner && !plugin_is_forked() ? atomic_load_explicit(&tuner->chunk, memory_order_relaxed)
							    : 0;

	if (chunk && (chunk & ~(uint64_t)UINT32_MAX) == chunk_key(collective, algorithm, protocol))
		return (size_t)(chunk & UINT32_MAX);
	return predict_chunk_bytes(collective, algorithm, protocol, bytes, chunk_bytes);
}
