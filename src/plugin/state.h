/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one instance that a process has: parameters, choice of network, the transport, its devices, the aggregation engine.
 * All mutable variables of src/plugin are in state.c, steer/process.c and metrics.c.
 *
 * The transport is open while anybody holds it: every communicator (for good, up to version 10 of NCCL's interface),
 * every listener and every connection. It is closed by the last one to let go, and opened again by the next.
 *
 * Threads: any. The lock is taken only to open, to close, and for what NCCL asks about devices.
 */
#ifndef TRIBUTARY_PLUGIN_STATE_H
#define TRIBUTARY_PLUGIN_STATE_H

#include "base/log.h"
#include "base/params.h"
#include "plugin/choose.h"
#include "plugin/devices.h"

#include <stdbool.h>

/*
 * Reads the parameters and makes the choice, the first time; says in warnings what was wrong with them. From then on
 * forked children are recognised.
 */
void plugin_state_load(void);

/*
 * NCCL's log function, from an init on. It is called until as many contexts have gone as were counted here, and never
 * again: NCCL may be unloaded then. An init without a finalize holds it for good.
 */
void plugin_state_log_hold(log_sink *logger, bool for_good);
void plugin_state_log_put(void);

/* After plugin_state_load(): fixed from then on. */
const struct params *plugin_state_params(void);
/* Sets params.tuning_told, before this process listens. */
void plugin_state_tell_tuning(uint64_t number);
const struct plugin_choice *plugin_state_choice(void);
/* The RDMA ports that NCCL would use. The first call looks for them, unless plugin_state_load() has. */
const struct plugin_rdma *plugin_state_rdma(void);
const struct transport_ops *plugin_state_ops(void);

/* Takes hold of the transport, opening it if need be. -ENODEV: the network is left to NCCL. */
int plugin_state_get(struct transport **ret);
/* One more hold of a transport that the caller knows to be held. */
void plugin_state_hold(void);
void plugin_state_put(void);
/* Takes a hold that is never given back, once however often it is called. */
int plugin_state_get_for_good(void);

/*
 * The aggregation engine, opened with the first who takes hold of it and closed by the last to let go. It holds the
 * transport. Errors: those of plugin_state_get and aggregate_open.
 */
struct aggregate_engine;
int plugin_state_engine_get(struct aggregate_engine **ret);
/* One more hold of an engine that the caller knows to be held. */
void plugin_state_engine_hold(void);
void plugin_state_engine_put(void);

/* The cluster, read the first time that somebody asks. NULL: not known. It lives as long as the process. */
struct cluster;
const struct cluster *plugin_state_cluster(void);

/* What NCCL asks. The transport is opened for it if it is not open. When the network is left to NCCL: a count of 0. */
int plugin_state_device_count(int *ret);
int plugin_state_device(int device, struct plugin_net_properties *ret);
/* The transport's number of a device that NCCL knows by this one, while somebody holds the transport (devices.h). */
int plugin_state_served(int device);
/* -EOPNOTSUPP: they stay apart (TRIBUTARY_JOIN). */
int plugin_state_join(int count, const int *members, int *ret_device);

/*
 * Only for tests, before the first use or with nothing held: another transport (NULL: TCP), other RDMA devices
 * (NULL: the real ones; kept by reference); everything is forgotten, the parameters too.
 */
void plugin_state_reset(const struct transport_ops *ops, const struct plugin_rdma_source *rdma);
/* Only for tests: how many hold the transport, and the engine. */
unsigned plugin_state_holders(void);
unsigned plugin_state_engine_holders(void);

#endif
