/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin, with one thing in it wrong: STANDIN_MUTANT says which. The linker (--wrap) puts these functions between the
 * plugin's own. Judge and schedules must find every one of them (mutant_test.c).
 */
#include "plugin/calls.h"
#include "plugin/steer.h"
#include "plugin/steer/decide.h"
#include "plugin/steer/evidence.h"
#include "plugin/steer/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WRAP(result, name, ...)            \
	result __real_##name(__VA_ARGS__); \
	result __wrap_##name(__VA_ARGS__); \
	result __wrap_##name(__VA_ARGS__)

static _Thread_local char last_graph[64];

static bool is(const char *mutant)
{
	const char *text = getenv("STANDIN_MUTANT");

	return text && !strcmp(text, mutant);
}

static bool is_first_rank(void)
{
	const char *rank = getenv("LOCAL_RANK");

	return rank && !strcmp(rank, "0");
}

WRAP(bool, steer_evidence_launcher, const struct steer_snapshot *snapshot, struct diag *diag)
{
	bool complete = __real_steer_evidence_launcher(snapshot, diag);

	return is("plans although a rank lacks the plugin") || (complete && !is("misses plans"));
}

WRAP(bool, steer_evidence_machine, const struct steer_snapshot *snapshot, const struct steer_gpus *gpus,
     bool shares_gpus, struct diag *diag)
{
	return !is("misses plans") && __real_steer_evidence_machine(snapshot, gpus, shares_gpus, diag);
}

WRAP(bool, steer_decision_names, const struct steer_decision *decision, uint64_t process,
     const struct steer_record *record)
{
	return is("takes the decision of an earlier id") || is("lets every rank follow") ||
	       __real_steer_decision_names(decision, process, record);
}

WRAP(void, steer_registry_forget, struct steer_registry *registry, uint64_t comm_id)
{
	if (!is("takes the decision of an earlier id") && !is("leaves decisions behind"))
		__real_steer_registry_forget(registry, comm_id);
}

WRAP(void, steer_registry_close, struct steer_registry *registry)
{
	if (!is("leaves its file behind"))
		__real_steer_registry_close(registry);
}

WRAP(int, steer_registry_scan, struct steer_registry *registry, uint64_t comm_id, struct steer_snapshot *ret,
     struct diag *diag)
{
	int r = __real_steer_registry_scan(registry, comm_id, ret, diag);

	if (is("plans beside another version"))
		ret->foreign_count = 0;
	if (is("takes unlike settings for alike"))
		for (size_t i = 0; i < ret->member_count; i++)
			ret->members[i].record.machine = registry->own->records[0].machine;
	if (is("takes unlike tables for alike"))
		for (size_t i = 0; i < ret->member_count; i++)
			memcpy(ret->members[i].record.tuning, registry->own->records[0].tuning,
			       sizeof(ret->members[i].record.tuning));
	if (is("takes unwilling ranks for willing"))
		for (size_t i = 0; i < ret->member_count; i++)
			ret->members[i].record.reason = STEER_ELIGIBLE;
	return r;
}

WRAP(int, steer_registry_claim, struct steer_registry *registry, uint64_t comm_id)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	struct steer_decision *decision = malloc(sizeof(*decision));
	struct diag diag;

	while (is("waits for another rank") && !is_first_rank() && decision &&
	       steer_registry_decision(registry, comm_id, decision, &diag) == -ENOENT)
		nanosleep(&nap, NULL);
	free(decision);
	return __real_steer_registry_claim(registry, comm_id);
}

WRAP(int, steer_decision_write, const struct steer_machine *machine, const struct steer_decision *decision,
     const int *devices, unsigned latency_us, char **ret, size_t *ret_bytes, struct diag *diag)
{
	struct steer_decision *changed = malloc(sizeof(*changed));
	int r = -ENOMEM;

	if (is("crashes"))
		abort();
	if (!changed)
		return r;
	memcpy(changed, decision, sizeof(*changed));
	for (uint32_t v = 0; is("plans for other GPUs") && v < machine->topology.vertex_count; v++) {
		bool is_ours = machine->topology.vertices[v].kind != TOPOLOGY_GPU;

		for (size_t i = 0; i < decision->request.gpu_count; i++)
			is_ours |= decision->request.gpus[i] == v;
		if (!is_ours)
			changed->request.gpus[0] = v;
	}
	r = __real_steer_decision_write(machine, changed, devices, latency_us, ret, ret_bytes, diag);
	free(changed);
	return r;
}

WRAP(void, steer_environment_half, unsigned nccl_version)
{
	if (is("crashes as it is opened"))
		abort();
	__real_steer_environment_half(nccl_version);
}

WRAP(uint64_t, plugin_calls_count, const struct plugin_calls *calls)
{
	static uint64_t questions;

	return is("follows a table within the first group") ? ++questions : __real_plugin_calls_count(calls);
}

WRAP(uint64_t, steer_shrink_id, uint64_t parent_id)
{
	return is("plans for shrunk communicators") ? 0 : __real_steer_shrink_id(parent_id);
}

WRAP(void, steer_begin, uint64_t comm_id)
{
	last_graph[0] = '\0';
	__real_steer_begin(comm_id);
}

WRAP(const char *, steer_get, const char *name)
{
	const bool is_graph = !strcmp(name, "NCCL_GRAPH_FILE");
	const char *value;

	if (!strcmp(name, "NCCL_PROTO") && is("keeps its record after NCCL_PROTO"))
		return getenv(name);
	if (is_graph && is("gives one rank no plan") && is_first_rank())
		return NULL;
	value = __real_steer_get(name);
	if (is_graph && value)
		snprintf(last_graph, sizeof(last_graph), "%s", value);
	if (is_graph && !value && last_graph[0] && is("answers a split with its parent's plan"))
		return last_graph;
	if (is_graph && is("changes errno"))
		errno = EINVAL;
	return value;
}
