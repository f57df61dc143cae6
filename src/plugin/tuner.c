/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/tuner.h"

#include "base/sys.h"
#include "nccl/types.h"
#include "plugin/collnet.h"
#include "plugin/fork.h"
#include "plugin/state.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PERMILLE 1000.0

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
		 "trees at %.1f (the graph file says %.1f and %.1f, for several hosts)",
		 comm_id, tuner->truth.rank_count, (double)truth->channel_count * truth->intra_GBps,
		 (double)tuner->truth.tree.channel_count * tuner->truth.tree.intra_GBps,
		 (double)file->channel_count * file->intra_GBps,
		 (double)tuner->file.tree.channel_count * tuner->file.tree.intra_GBps);
}

static int init(uint64_t comm_id, size_t rank_count, size_t node_count, const struct predict_constants *constants,
		struct plugin_tuner **ret)
{
	const struct params *params;
	struct steer_facts facts;
	struct predict_tuner look;
	struct plugin_tuner *tuner;
	unsigned gain_permille;
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
	r = steer_collnet_agreed(comm_id, rank_count, &gain_permille);
	if (r < 0) {
		log_warn("Communicator %016" PRIx64
			 ": what was agreed on collnet cannot be read, and the other ranks may "
			 "know: %s",
			 comm_id, strerror(-r));
		return r;
	}
	look.collnet.gain_permille = gain_permille;
	if (!look.edits && !look.collnet.node_count)
		return 0;
	tuner = sys_zalloc(sizeof(*tuner));
	if (!tuner)
		return -ENOMEM;
	tuner->look = look;
	tuner->comm_id = comm_id;
	/* They forbid what is not in them, which is no loss. */
	tuner->is_restricted = getenv("NCCL_ALGO") || getenv("NCCL_PROTO");
	if (look.collnet.gain_permille)
		log_info(LOG_TUNING,
			 "Tributary, communicator %016" PRIx64
			 ": large AllReduces are aggregated, by the cluster file %.2f "
			 "times as fast as a ring",
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
		sys_free(tuner);
	}
	errno = saved_errno;
}

static void watch_collnet(struct plugin_tuner *tuner, int collective, const struct predict_table *table)
{
	bool is_there = false;

	if (!tuner->look.collnet.node_count || collective != PREDICT_ALLREDUCE || !plugin_collnet_was_connected() ||
	    table->protocol_count != PREDICT_PROTOCOL_COUNT || table->algorithm_count <= PREDICT_COLLNET_CHAIN ||
	    tuner->is_restricted || atomic_load(&tuner->without_collnet) > WITHOUT_COLLNET_SAID)
		return;
	for (int a = PREDICT_COLLNET_DIRECT; a <= PREDICT_COLLNET_CHAIN; a++)
		is_there |= table->costs[a * table->protocol_count + PREDICT_SIMPLE] >= 0;
	if (is_there)
		atomic_store(&tuner->without_collnet, UINT_MAX / 2);
	else if (atomic_fetch_add(&tuner->without_collnet, 1) == WITHOUT_COLLNET_SAID)
		log_info(LOG_TUNING,
			 "Tributary: communicator %016" PRIx64
			 " has no collnet, and another of this process has: one that "
			 "was split off over as many nodes gets it only with NCCL_COMM_SPLIT_SHARE_RESOURCES=1",
			 tuner->comm_id);
}

void plugin_tuner_edit(struct plugin_tuner *tuner, int collective, size_t bytes, int operations,
		       const struct predict_table *table)
{
	if (!tuner || plugin_is_forked())
		return;
	watch_collnet(tuner, collective, table);
	(void)predict_tuner_edit(&tuner->look, collective, bytes, operations, table);
}
