/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the flows of an experiment have in common: directed links, both directions of a link together, all links of a
 * device, the cores of a CPU. And how much of it each experiment got. Pure.
 */
#ifndef TRIBUTARY_MEASURE_RESOURCES_H
#define TRIBUTARY_MEASURE_RESOURCES_H

#include "measure/experiments.h"
#include "measure/repeat.h"

/* What came of an experiment. One that cannot be used is as if it had never been. */
struct measure_result {
	const struct measure_experiment *experiment;
	const struct measure_series *series;
	bool usable;
	bool refused;        /* the probe could not move it after all */
	uint64_t latency_ns; /* of a pair; 0: not known */
};

enum measure_resource_kind {
	MEASURE_RESOURCE_LINK,   /* subject: a directed link */
	MEASURE_RESOURCE_BOTH,   /* subject: a link */
	MEASURE_RESOURCE_DEVICE, /* subject: a device with several links: all that enters and leaves it */
	MEASURE_RESOURCE_OUT,
	MEASURE_RESOURCE_IN,
	MEASURE_RESOURCE_CORES,  /* subject: a CPU */
	MEASURE_RESOURCE_ENGINE, /* subject: a directed link of the device whose copy engine moves the bytes */
	MEASURE_RESOURCE_KERNEL, /* the same for its cores */
	MEASURE_RESOURCE_KIND_COUNT
};

struct measure_resource {
	enum measure_resource_kind kind;
	uint32_t subject;
};

/* Of one resource in one experiment. */
struct measure_load {
	double rate_Bps, error_Bps; /* mean of the repetitions that count, and its standard error */
	uint32_t users;             /* flows */
	bool active;                /* what makes it more than one link is in use: both directions, several links */
};

struct measure_resources {
	const struct topology *topology;
	const struct measure_result *results;
	size_t result_count;
	void *arrays;                   /* all that follow but `loads` */
	struct measure_resource *items; /* directed links first, by their index; then links */
	size_t count;
	uint32_t *device;   /* of each vertex, its first of three resources (all, out, in); TOPOLOGY_NONE: none */
	uint32_t *cores;    /* of each vertex */
	uint32_t *engine;   /* of each directed link, its first of two (engine, kernel); TOPOLOGY_NONE: no device's */
	size_t *first_flow; /* of each result, among the flows of all; then how many these are */
	struct topology_route *routes; /* of each flow */
	struct measure_load *loads;    /* of each result, one for each resource */
};

/* -ENOMEM. Keeps `topology` and `results`. */
int measure_resources_init(struct measure_resources *resources, const struct topology *topology,
			   const struct measure_result *results, size_t result_count);
void measure_resources_fini(struct measure_resources *resources);

static inline struct measure_load *measure_resources_load(const struct measure_resources *resources, size_t result,
							  size_t resource)
{
	return &resources->loads[result * resources->count + resource];
}

static inline const struct topology_route *measure_resources_route(const struct measure_resources *resources,
								   size_t result, size_t flow)
{
	return &resources->routes[resources->first_flow[result] + flow];
}

/* The resources that a flow of a result uses, each once. ret has room for MEASURE_USES_MAX; returns how many. */
enum { MEASURE_USES_MAX = 3 * TOPOLOGY_ROUTE_MAX };
struct measure_use {
	uint32_t resource, times; /* the bytes of a copy within a memory cross its link twice */
};
size_t measure_resources_of_flow(const struct measure_resources *resources, size_t result, size_t flow,
				 struct measure_use *ret);

/* The directed links that a resource is made of, ascending; ret has room for all of the graph. Returns how many. */
size_t measure_resources_members(const struct measure_resources *resources, size_t resource, uint32_t *ret);

#endif
