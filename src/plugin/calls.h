/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many calls NCCL has told its profiler of, of each communicator. NCCL tells of all calls of a group of operations ahead of
 * its first question to the tuner about them, and of none while it asks and connects: a question behind a later call is one of
 * another group, when what the first one needed is connected.
 *
 * Threads: any. Only plugin_calls_count() and _add() come with operations, and take no lock.
 */
#ifndef TRIBUTARY_PLUGIN_CALLS_H
#define TRIBUTARY_PLUGIN_CALLS_H

#include <stdint.h>

struct plugin_calls;

/* From the profiler's init. NULL: no memory. */
struct plugin_calls *plugin_calls_open(uint64_t comm_id);
/* From its end; NULL is fine, here and below. */
void plugin_calls_close(struct plugin_calls *calls);
void plugin_calls_add(struct plugin_calls *calls);

/* From the tuner's init, which NCCL calls on the thread of the profiler's. NULL: there are none. */
struct plugin_calls *plugin_calls_take(uint64_t comm_id);
void plugin_calls_put(struct plugin_calls *calls);
uint64_t plugin_calls_count(const struct plugin_calls *calls);

#endif
