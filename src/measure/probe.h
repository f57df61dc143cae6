/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of a probe: it runs a set of flows at once and returns their rates. Copies by the CUDA driver, memory
 * copies between NUMA domains, RDMA through a NIC, and a simulated machine are all probes; command/measure.c opens them.
 * One thread.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_H
#define TRIBUTARY_MEASURE_PROBE_H

#include "base/log.h"
#include "tributary/topology.h"

/* Who moves the bytes of a flow. */
enum probe_engine {
	PROBE_ENGINE_DEFAULT, /* the probe's usual one: a GPU's copy engine, a NIC's DMA, a core */
	PROBE_ENGINE_KERNEL,  /* a GPU's cores, loading from and storing to the other end */
	PROBE_ENGINE_COUNT
};

/* The device at `from` writes to where it is sent to; a GPU reads from a host memory. */
struct probe_flow {
	struct topology_flow flow; /* between GPUs, memories, NICs, networks */
	enum probe_engine engine;
};

/* One repetition. Rates are those of the time in which all flows ran. */
struct probe_rates {
	double *rate_Bps; /* a place for each flow, the caller's */
	uint64_t time_ns;
};

struct probe;

struct probe_ops {
	const char *name; /* "cuda", "memory", "tcp", "rdma", "simulated" */
	/* True: it can move this flow on this machine. */
	bool (*can)(struct probe *probe, const struct probe_flow *flow);
	/*
	 * Runs all flows at once for about duration_ns after a warm-up of its own. -ENOTSUP: cannot move one of them; -EIO:
	 * a device failed; -EINTR: `stop` was set. The reason is in *diag.
	 */
	int (*run)(struct probe *probe, const struct probe_flow *flows, size_t count, uint64_t duration_ns,
		   struct probe_rates *ret, struct diag *diag);
	/* Latency of a small transfer, without load; 0 and *ret 0 where it has no meaning. NULL: this probe knows none. */
	int (*latency)(struct probe *probe, const struct probe_flow *flow, uint64_t *ret_ns, struct diag *diag);
	/* Frees the probe. */
	void (*close)(struct probe *probe);
};

/* Embedded, first, in each probe's own struct. */
struct probe {
	const struct probe_ops *ops;
	const struct topology *topology; /* not owned; the vertices that flows name */
	const _Atomic bool *stop;        /* not owned; set by a signal handler; NULL: never */
};

static inline bool probe_stopped(const struct probe *probe)
{
	return probe->stop && *probe->stop;
}

#endif
