#include "plugin/session/decide.h"

#include "base/log.h"
#include "base/sys.h"
#include "ncclxml/graph_xml.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool object(struct diag *diag, const char *reason)
{
	diag_set(diag, 0, 0, "%s", reason);
	return true;
}

static bool member_objects(const struct session_member *member, uint64_t machine, struct diag *diag)
{
	if (member->record.veto)
		return object(diag, session_veto_text((enum session_veto)member->record.veto));
	if (member->process.overflowed)
		return object(diag, "a process has more communicators at once than it can tell of");
	if (member->record.machine != machine)
		return object(diag, "the ranks have different profiles, settings or versions");
	if (member->state == PROCESS_GONE)
		return object(diag, "a rank has gone");
	if (member->state == PROCESS_UNKNOWN)
		return object(diag, "a rank is in another process id namespace");
	return false;
}

bool session_census_objects(const struct session_census *census, uint64_t machine, struct diag *diag)
{
	if (census->member_count > PLAN_GPUS_MAX)
		return object(diag, "it has more GPUs on this host than plans are made for");
	for (size_t i = 0; i < census->member_count; i++) {
		const struct session_member *a = &census->members[i];

		if (member_objects(a, machine, diag))
			return true;
		for (size_t k = 0; k < i; k++) {
			const struct session_member *b = &census->members[k];

			if (process_identity_same(&a->process.identity, &b->process.identity))
				return object(diag, "a process has several of its GPUs");
			if (!strcmp(a->record.bus_id, b->record.bus_id))
				return object(diag, "two ranks share a GPU");
		}
	}
	return false;
}

void session_decision_rest(struct session_decision *decision, const struct diag *why)
{
	decision->verdict = SESSION_REST;
	log_sentence(decision->reason, sizeof(decision->reason), "%s", why->text);
}

static bool is_late(const struct session_planner *planner, const struct session_census *census, struct diag *diag)
{
	uint64_t last_ns = 0;

	for (size_t i = 0; i < census->member_count; i++)
		if (census->members[i].record.begun_ns > last_ns)
			last_ns = census->members[i].record.begun_ns;
	if (!planner->has_older || clock_elapsed_ns(last_ns, census->now_ns) < SESSION_LATE_NS)
		return false;
	return object(diag, "its ranks waited so long for others that it may have been given up");
}

/* In the order of the request, which is that of NVML's numbers. */
static void name_members(const struct session_machine *machine, struct session_decision *decision)
{
	decision->member_count = (uint32_t)decision->request.gpu_count;
	for (size_t i = 0; i < decision->request.gpu_count; i++)
		snprintf(decision->bus_ids[i], sizeof(decision->bus_ids[i]), "%s",
			 machine->topology.vertices[decision->request.gpus[i]].bus_id);
}

static int request_of(const struct session_planner *planner, const struct session_census *census,
		      struct plan_request *ret, struct diag *diag)
{
	char bus_ids[PLAN_GPUS_MAX][SESSION_BUS_ID_BYTES];
	int r;

	for (size_t i = 0; i < census->member_count; i++)
		memcpy(bus_ids[i], census->members[i].record.bus_id, sizeof(bus_ids[i]));
	r = session_machine_request(planner->machine, planner->nets, planner->environment, bus_ids,
				    census->member_count, ret);
	if (r < 0)
		diag_set(diag, 0, 0, "the profile has not got the GPU of a rank");
	return r;
}

/*
 * NCCL has one figure for inside a host, and of a communicator that may have one host or several it can be right for one
 * of both. Our tuner knows better; another one does not.
 */
static bool misleads(const struct session_planner *planner, const struct plan_set *set, struct diag *diag)
{
	if (!planner->environment->other_tuner || set->where != PLAN_EITHER ||
	    set->intra_Bps[PLAN_RING] / 3 * 2 <= set->inter_Bps[PLAN_RING])
		return false;
	return object(diag, "without Tributary's tuner NCCL would take it for as slow as the network");
}

static int plan(const struct session_planner *planner, enum plan_where where, struct session_decision *decision,
		struct diag *diag)
{
	static const int devices[PLAN_NICS_MAX]; /* any: only whether it can be written */
	size_t bytes;
	char *text;
	int r;

	if (where == PLAN_EITHER && !decision->request.nic_count) {
		diag_set(diag, 0, 0, "none of its NICs is in the profile, and it may have several hosts");
		return -ENODATA;
	}
	r = plan_make_set(&planner->machine->topology, &decision->request, where, &decision->set);
	if (r == -ENODATA)
		diag_set(diag, 0, 0,
			 "no channels are good for one host and for several, and which it has is not known");
	else if (r < 0)
		diag_set(diag, 0, 0, "no plan can be made: %s", strerror(-r));
	if (r == 0)
		decision->set.chain_gain_permille = planner->chain_gain_permille;
	if (r == 0 && misleads(planner, &decision->set, diag))
		r = -ENODATA;
	if (r < 0)
		return r;
	r = session_decision_write(planner->machine, decision, devices, planner->nets->latency_us, &text, &bytes, diag);
	if (r == 0)
		sys_free(text);
	return r;
}

void session_decide(const struct session_planner *planner, const struct session_census *census,
		    struct session_decision *ret)
{
	uint64_t comm_id = ret->comm_id, host = ret->host;
	bool whole = session_census_is_whole_job(census);
	struct diag diag = { .text = "" };

	memset(ret, 0, sizeof(*ret));
	ret->comm_id = comm_id;
	ret->host = host;
	ret->machine = planner->machine->hash;
	ret->member_count = (uint32_t)(census->member_count < PLAN_GPUS_MAX ? census->member_count : PLAN_GPUS_MAX);
	if (session_census_objects(census, planner->machine->hash, &diag) || is_late(planner, census, &diag) ||
	    !session_census_complete(census, &diag) || request_of(planner, census, &ret->request, &diag) < 0)
		goto rest;
	if (whole && census->member_count == 1) {
		diag_set(&diag, 0, 0, "it has one GPU");
		goto rest;
	}
	if (!planner->environment->no_net_inside_host &&
	    session_machine_splits(planner->machine, planner->nets, &ret->request, &diag))
		goto rest;
	name_members(planner->machine, ret);
	if (plan(planner, whole ? PLAN_ONE_HOST : PLAN_EITHER, ret, &diag) < 0)
		goto rest;
	ret->verdict = SESSION_PLAN;
	return;
rest:
	session_decision_rest(ret, &diag);
}

static bool is_member(const struct session_decision *decision, const char *bus_id)
{
	for (size_t i = 0; i < decision->member_count; i++)
		if (!strcmp(decision->bus_ids[i], bus_id))
			return true;
	return false;
}

static bool has_member(const struct session_census *census, const char *bus_id)
{
	for (size_t i = 0; i < census->member_count; i++)
		if (!strcmp(census->members[i].record.bus_id, bus_id))
			return true;
	return false;
}

int session_decision_check(const struct session_planner *planner, const struct session_census *census,
			   const struct session_decision *decision, struct diag *diag)
{
	struct plan_request request;

	if (decision->machine != planner->machine->hash || decision->member_count != census->member_count) {
		diag_set(diag, 0, 0, "it was planned for %u GPUs, and the communicator has %zu on this host",
			 decision->member_count, census->member_count);
		return -EINVAL;
	}
	for (size_t i = 0; i < census->member_count; i++) {
		if (is_member(decision, census->members[i].record.bus_id) && has_member(census, decision->bus_ids[i]))
			continue;
		diag_set(diag, 0, 0, "it was planned without GPU %s or with GPU %s", census->members[i].record.bus_id,
			 decision->bus_ids[i]);
		return -EINVAL;
	}
	/* Equal machines give equal vertices; what differs was not written by this version. */
	if (request_of(planner, census, &request, diag) < 0)
		return -EINVAL;
	if (memcmp(request.gpus, decision->request.gpus, sizeof(request.gpus)) != 0 ||
	    memcmp(request.nics, decision->request.nics, sizeof(request.nics)) != 0 ||
	    request.gpu_count != decision->request.gpu_count || request.nic_count != decision->request.nic_count) {
		diag_set(diag, 0, 0, "it was planned for other GPUs or NICs");
		return -EINVAL;
	}
	return 0;
}

int session_decision_write(const struct session_machine *machine, const struct session_decision *decision,
			   const int *devices, unsigned latency_us, char **ret, size_t *ret_bytes, struct diag *diag)
{
	struct graph_xml *graphs = sys_zalloc(sizeof(*graphs));
	struct graph_xml_numbers numbers = { .inter_latency_us = latency_us };
	int r;

	if (!graphs)
		return -ENOMEM;
	memcpy(numbers.net_devices, devices, sizeof(numbers.net_devices));
	r = graph_xml_of_set(&machine->topology, &decision->request, &decision->set, &numbers, graphs, diag);
	if (r == 0)
		r = graph_xml_write(graphs, ret, ret_bytes, diag);
	sys_free(graphs);
	return r;
}
