/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tuner without NCCL's versions: what each tuner_v*.c in versions/ converts to and from. It joins what steering
 * knows of a communicator with what the model says of it (struct predict_tuner).
 *
 * NCCL picks the algorithm and protocol of a collective on each rank by itself, from a table of costs that is the same on
 * all of them because NCCL has gathered what it is made of. A rank that picks differently hangs the job. So:
 *
 *   - Communicators over several nodes: collnet's costs alone are changed, and by nothing but the table itself, the
 *     numbers of nodes and ranks, the version of this interface, and the gain that all ranks know to have been agreed on
 *     by the heads (predict_collnet_edit, steer_collnet_agreed). Profiles and plans differ
 *     from host to host; what they say has reached NCCL's table by way of the graph files, whose speeds NCCL reduces to
 *     the least of all hosts.
 *   - One node, and steering has published a plan there: all ranks have the same one.
 *   - A tuning table, which all ranks are known to have (steer_tuning_of): what it names becomes the cheapest, where NCCL
 *     allows it, ahead of these rules; also channels, and chunks where NCCL asks for them. Of operations that NCCL has
 *     put together nothing was measured.
 *   - Chunks of CollNetChain are no longer than the operation (predict_chunk_bytes), where NCCL asks for their size.
 *   - Else the number of channels, and always the model's constants, are left to NCCL.
 *
 * Threads: init and fini from any thread; plugin_tuner_edit from several at once. No call blocks; errno is kept.
 */
#ifndef TRIBUTARY_PLUGIN_TUNER_H
#define TRIBUTARY_PLUGIN_TUNER_H

#include "base/log.h"
#include "plugin/steer.h"
#include "tributary/predict.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Of one communicator. */
struct plugin_tuner {
	struct predict_tuner look;
	uint64_t comm_id;
	const struct steer_table *table; /* NULL: none */
	atomic_uint from;                /* enum steer_tuned_from: until then it is not followed; then 0 */
	struct plugin_calls *calls;      /* where it is followed from the second group on */
	atomic_uint_least64_t asked_at;  /* how many there were at the first question; 0: none was asked */
	atomic_uint_least64_t chunk;     /* of the last question: tuner.c */
	/* Questions of AllReduces so far in which NCCL allowed no collnet; stays at its greatest value once it did. */
	atomic_uint without_collnet;
	bool is_restricted; /* NCCL_ALGO or NCCL_PROTO is set */
	bool holds_log;
};

/*
 * For each communicator. comm_id 0: NCCL does not say (versions 2 to 4), the last one that this thread initialised.
 * constants NULL: NCCL does not say. *ret may be NULL, which leaves everything to NCCL. An error: other ranks may edit and
 * this one could not.
 */
int plugin_tuner_init(uint64_t comm_id, size_t rank_count, size_t node_count, const struct predict_constants *constants,
		      log_sink *logger, struct plugin_tuner **ret);
/* Behind init: NCCL asks this tuner for the size of chunks. NULL is fine, here and for fini. */
void plugin_tuner_sizes_chunks(struct plugin_tuner *tuner);
void plugin_tuner_fini(struct plugin_tuner *tuner);

/* The part of init that only looks: what steering says (NULL: nothing) of such a communicator. */
void plugin_tuner_look(const struct steer_facts *facts, size_t rank_count, size_t node_count,
		       const struct predict_constants *constants, struct predict_tuner *ret);

/*
 * tuner NULL: the table stays as it is, as it does in a forked child. *ret_channels: written where NCCL's own number is not
 * to count. Says once if this communicator, over several nodes,
 * has no collnet and another of this process has: NCCL gives a child as large as its parent none unless they share.
 */
void plugin_tuner_edit(struct plugin_tuner *tuner, int collective, size_t bytes, int operations,
		       const struct predict_table *table, int *ret_channels);

/* The chunk of an operation, or part of one, of so many bytes, where NCCL would take chunk_bytes. */
size_t plugin_tuner_chunk(struct plugin_tuner *tuner, int collective, size_t bytes, int algorithm, int protocol,
			  size_t chunk_bytes);

#endif
