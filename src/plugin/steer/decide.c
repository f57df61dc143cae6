/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/decide.h"

#include "base/sys.h"
#include "ncclxml/graph_xml.h"
#include "profile/job_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool object(struct diag *diag, const char *reason)
{
	diag_set(diag, 0, 0, "%s", reason);
	return true;
}

/* What speaks against a plan, whatever proof there is that all ranks are known. */
static bool members_object(const struct steer_snapshot *snapshot, uint64_t machine, struct diag *diag)
{
	if (snapshot->dead_member_count)
		return object(diag, "a rank has died");
	if (snapshot->foreign_count)
		return object(diag, "a process of this user has another version of the plugin: use one for all");
	if (snapshot->member_count > PLAN_GPUS_MAX)
		return object(diag, "it has more GPUs on this host than plans are made for");
	for (size_t i = 0; i < snapshot->process_count; i++)
		if (snapshot->processes[i].overflowed)
			return object(diag, "a process initialises more communicators at once than it can tell of: "
					    "fewer at a time");
	for (size_t i = 0; i < snapshot->member_count; i++) {
		const struct steer_record *record = &snapshot->members[i].record;

		if (record->reason)
			return object(diag, steer_reason_text((enum steer_reason)record->reason));
		if (record->machine != machine)
			return object(diag, "the ranks have different profiles, settings, versions or /dev/shm: give "
					    "all the same TRIBUTARY_PROFILE, NCCL_ variables and /dev/shm");
		if (i && !strcmp(record->bus_id, snapshot->members[i - 1].record.bus_id))
			return object(diag, "two ranks have the same GPU, or the same id was used twice: each needs "
					    "its own");
	}
	return false;
}

static bool is_complete(const struct steer_planner *planner, const struct steer_snapshot *snapshot, struct diag *diag)
{
	struct steer_compute compute;
	struct diag last;
	bool is_counted;

	if (steer_evidence_machine(snapshot, &planner->machine->gpus, planner->settings->shares_gpus, diag))
		return true;
	/* Who is elsewhere is not counted here, and names the remedy. */
	is_counted = steer_evidence_launcher(snapshot, diag);
	if (!steer_elsewhere_is(planner->elsewhere, diag) && is_counted)
		return true;
	planner->compute(&compute);
	return steer_evidence_nvml(snapshot, &planner->machine->gpus, &compute, compute.known ? diag : &last);
}

void steer_decide_against(struct steer_decision *decision, const struct diag *why)
{
	decision->result = STEER_NCCL_SEARCHES;
	log_sentence(decision->reason, sizeof(decision->reason), "%s", why->text);
}

static void name_member(const struct steer_member *member, struct steer_member_name *ret)
{
	ret->process = steer_process_hash(&member->process);
	ret->serial = member->record.serial;
	memcpy(ret->bus_id, member->record.bus_id, sizeof(ret->bus_id));
}

/* In the order of the request, which is that of NVML's numbers; before there is one, in that of bus ids. */
static void name_members(const struct steer_planner *planner, const struct steer_snapshot *snapshot,
			 struct steer_decision *decision)
{
	const struct plan_request *request = &decision->request;

	decision->member_count = 0;
	for (size_t i = 0; i < request->gpu_count; i++)
		for (size_t k = 0; k < snapshot->member_count; k++)
			if (!strcmp(planner->machine->topology.vertices[request->gpus[i]].bus_id,
				    snapshot->members[k].record.bus_id))
				name_member(&snapshot->members[k], &decision->members[decision->member_count++]);
	for (size_t k = 0; !request->gpu_count && k < snapshot->member_count && k < PLAN_GPUS_MAX; k++)
		name_member(&snapshot->members[k], &decision->members[decision->member_count++]);
}

/* Whether it is known that no rank is missing shows when the tuner is told how many there are. */
static void agree_on_tuning(const struct steer_snapshot *snapshot, struct steer_decision *decision)
{
	const struct steer_member *members = snapshot->members;
	bool is_certain = snapshot->member_count && snapshot->member_count <= PLAN_GPUS_MAX &&
			  !snapshot->dead_member_count && !snapshot->foreign_count;

	for (size_t i = 0; i < snapshot->member_count && i < STEER_MEMBERS_MAX; i++) {
		decision->named |= members[i].record.named;
		is_certain = is_certain && !members[i].process.overflowed &&
			     members[i].record.reason != STEER_REASON_ID &&
			     (!i || strcmp(members[i].record.bus_id, members[i - 1].record.bus_id) != 0);
	}
	for (int kind = 0; kind < STEER_TUNING_KINDS && is_certain; kind++) {
		decision->tuning[kind] = members[0].record.tuning[kind];
		for (size_t i = 1; i < snapshot->member_count; i++)
			if (members[i].record.tuning[kind] != decision->tuning[kind])
				decision->tuning[kind] = 0;
	}
}

static int request_of(const struct steer_planner *planner, const struct steer_snapshot *snapshot,
		      struct plan_request *ret, struct diag *diag)
{
	char bus_ids[PLAN_GPUS_MAX][STEER_BUS_ID_BYTES];
	int r;

	for (size_t i = 0; i < snapshot->member_count; i++)
		memcpy(bus_ids[i], snapshot->members[i].record.bus_id, sizeof(bus_ids[i]));
	r = steer_machine_request(planner->machine, planner->nets, planner->settings, bus_ids, snapshot->member_count,
				  ret);
	if (r < 0)
		diag_set(diag, 0, 0, "the profile has not got the GPU of a rank: run `tributary measure` again");
	return r;
}

/*
 * NCCL has one figure for inside a host, and of a communicator that may have one host or several it can be right for one
 * of both. Our tuner knows better; another one does not.
 */
static bool misleads(const struct steer_planner *planner, const struct plan_set *set, struct diag *diag)
{
	if (!planner->settings->other_tuner || set->where != PLAN_EITHER ||
	    set->intra_Bps[PLAN_RING] / 3 * 2 <= set->inter_Bps[PLAN_RING])
		return false;
	return object(diag, "without Tributary's tuner NCCL would take it for as slow as the network: unset "
			    "NCCL_TUNER_PLUGIN and TRIBUTARY_TUNER, and take libnccl-tuner.so out of the library path");
}

static int plan(const struct steer_planner *planner, enum plan_where where, struct steer_decision *decision,
		struct diag *diag)
{
	static const int devices[PLAN_NICS_MAX]; /* any: only whether it can be written */
	size_t bytes;
	char *text;
	int r;

	if (where == PLAN_EITHER && !decision->request.nic_count) {
		diag_set(diag, 0, 0, "it may have several hosts, and %s",
			 planner->nets->why[0] ? planner->nets->why
					       : "none of its NICs is in the profile: run `tributary measure` again");
		return -ENODATA;
	}
	r = plan_make_set(&planner->machine->topology, &decision->request, where, &decision->set);
	if (r == -ENODATA)
		diag_set(diag, 0, 0,
			 "no channels are good for one host as well as for several, and NCCL has one set for both");
	else if (r < 0)
		diag_set(diag, 0, 0, "no plan can be made: %s", strerror(-r));
	if (r == 0 && misleads(planner, &decision->set, diag))
		r = -ENODATA;
	if (r < 0)
		return r;
	decision->set.chain_gain_permille = where == PLAN_ONE_HOST ? 0 : planner->chain_gain_permille;
	r = steer_decision_write(planner->machine, decision, devices, planner->nets->latency_us, &text, &bytes, diag);
	if (r == 0)
		free(text);
	return r;
}

void steer_decide(const struct steer_planner *planner, const struct steer_snapshot *snapshot,
		  struct steer_decision *ret)
{
	const uint64_t comm_id = ret->comm_id;
	struct diag diag = { .text = "" };
	bool whole;

	memset(ret, 0, sizeof(*ret)); /* it is compared and written as bytes */
	ret->comm_id = comm_id;
	ret->machine = planner->machine->hash;
	agree_on_tuning(snapshot, ret);
	if (members_object(snapshot, planner->machine->hash, &diag) || !is_complete(planner, snapshot, &diag) ||
	    request_of(planner, snapshot, &ret->request, &diag) < 0)
		goto against;
	ret->shaped = planner->machine->shaped_text != NULL;
	whole = steer_is_whole_job(snapshot);
	if (whole && snapshot->member_count == 1) {
		diag_set(&diag, 0, 0, "%s", JOB_WHY_ONE_GPU);
		goto against;
	}
	if (!planner->settings->no_net_inside_host &&
	    steer_machine_splits(planner->machine, planner->nets, &ret->request, &diag))
		goto against;
	if (plan(planner, whole ? PLAN_ONE_HOST : PLAN_EITHER, ret, &diag) < 0)
		goto against;
	ret->result = STEER_PLAN;
	name_members(planner, snapshot, ret);
	return;
against:
	name_members(planner, snapshot, ret);
	steer_decide_against(ret, &diag);
}

bool steer_decision_names(const struct steer_decision *decision, uint64_t process, const struct steer_record *record)
{
	for (size_t i = 0; i < decision->member_count; i++)
		if (decision->members[i].process == process && decision->members[i].serial == record->serial &&
		    !strcmp(decision->members[i].bus_id, record->bus_id))
			return decision->result != STEER_PLAN || decision->machine == record->machine;
	return false;
}

int steer_decision_write(const struct steer_machine *machine, const struct steer_decision *decision, const int *devices,
			 unsigned latency_us, char **ret, size_t *ret_bytes, struct diag *diag)
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
