/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a host do together: one decision for all of them, and what their heads agreed on about collnet. */
#include "plugin/steer/process.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "plugin/fork.h"
#include "plugin/state.h"
#include "plugin/steer.h"
#include "plugin/steer/agreed.h"
#include "plugin/steer/collnet.h"
#include "plugin/steer/decide.h"
#include "plugin/steer/nets.h"
#include "plugin/steer/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAP_US = 200 };
/* For another rank's planning; then a rank plans itself, and one decision counts. */
#define PLANNING_NS  NS_PER_S
/* What NCCL is given where a rank cannot follow the plan of the others: an error for it, where going on would hang. */
#define NO_SUCH_FILE "/proc/self/tributary-cannot-follow-the-plan"

/* --------------------------------------------------------------------------------------------------------------- decide */

static int plan_and_publish(struct steer_thread *thread, struct diag *diag)
{
	const struct steer_planner planner = {
		.machine = &steer_here.setup.machine,
		.nets = &steer_here.setup.nets,
		.settings = &steer_here.setup.settings,
		.chain_gain_permille = steer_collnet_gain(&steer_here.setup),
		.elsewhere = &steer_here.setup.elsewhere,
		.compute = steer_compute_ask,
	};
	struct steer_snapshot *snapshot = sys_zalloc(sizeof(*snapshot));
	struct steer_decision *decision = &thread->decision;
	int r = -ENOMEM;

	memset(decision, 0, sizeof(*decision)); /* it is written as bytes */
	decision->comm_id = thread->record.comm_id;
	decision->machine = thread->record.machine;
	pthread_mutex_lock(&steer_here.lock);
	if (snapshot)
		r = steer_registry_scan(&steer_here.setup.registry, decision->comm_id, snapshot, diag);
	pthread_mutex_unlock(&steer_here.lock);
	if (r == 0) {
		steer_decide(&planner, snapshot, decision);
	} else { /* a decision, too, which all ranks can follow */
		if (!diag->text[0])
			diag_set(diag, 0, 0, "%s", strerror(-r));
		steer_decide_against(decision, diag);
	}
	pthread_mutex_lock(&steer_here.lock);
	r = steer_registry_decide(&steer_here.setup.registry, thread->slot, decision, &thread->is_author, diag);
	pthread_mutex_unlock(&steer_here.lock);
	sys_free(snapshot);
	return r;
}

/* The decision of whichever rank comes first. */
static int find_decision(struct steer_thread *thread, struct diag *diag)
{
	const struct timespec nap = { .tv_nsec = NAP_US * (long)NS_PER_US };
	const uint64_t comm_id = thread->record.comm_id, start_ns = clock_now_ns();
	int r;

	for (;;) {
		r = steer_registry_decision(&steer_here.setup.registry, comm_id, &thread->decision, diag);
		if (r != -ENOENT)
			return r;
		if (steer_registry_claim(&steer_here.setup.registry, comm_id) == 0 ||
		    clock_elapsed_ns(start_ns, clock_now_ns()) >= PLANNING_NS)
			break;
		nanosleep(&nap, NULL);
	}
	r = plan_and_publish(thread, diag);
	steer_registry_unclaim(&steer_here.setup.registry, comm_id);
	return r;
}

static int write_graph(struct steer_thread *thread, struct diag *diag)
{
	const struct steer_setup *setup = &steer_here.setup;
	int devices[PLAN_NICS_MAX], r;
	char name[64], *text = NULL;
	size_t bytes = 0;

	steer_nets_devices(&setup->machine, &setup->nets, &thread->decision.request, devices);
	r = steer_decision_write(&setup->machine, &thread->decision, devices, setup->nets.latency_us, &text, &bytes,
				 diag);
	if (r == 0 && bytes > STEER_GRAPH_BYTES)
		r = -E2BIG;
	if (r == 0)
		r = sys_pwrite_whole(thread->graph_fd, text, bytes, 0);
	if (r == 0) {
		snprintf(name, sizeof(name), "steer-%016llx-%s.xml", (unsigned long long)thread->record.comm_id,
			 thread->record.bus_id);
		steer_report_dump(plugin_state_params()->dump_dir, name, text, bytes);
	}
	free(text);
	return r;
}

static bool is_for(const struct steer_thread *thread)
{
	return steer_decision_names(&thread->decision, thread->process, &thread->record);
}

/* One rank speaks for all that the decision names. */
static void tell(const struct steer_thread *thread)
{
	const struct steer_member_name *first = &thread->decision.members[0];

	if (!steer_plans(&steer_here.setup) || first->process != thread->process ||
	    first->serial != thread->record.serial)
		return;
	pthread_mutex_lock(&steer_here.lock);
	steer_status_add(&steer_here.status, &steer_here.setup, &thread->decision);
	pthread_mutex_unlock(&steer_here.lock);
}

/* Whatever the other ranks do: this one has no plan, and why. */
static void decide_alone(struct steer_thread *thread, const struct diag *why)
{
	struct steer_decision *decision = &thread->decision;
	struct steer_member_name *self = &decision->members[0];

	*decision = (struct steer_decision){ .comm_id = thread->record.comm_id, .member_count = 1 };
	self->process = thread->process;
	self->serial = thread->record.serial;
	memcpy(self->bus_id, thread->record.bus_id, sizeof(self->bus_id));
	steer_decide_against(decision, why);
}

/*
 * A decision of another communicator with the same id, earlier or at the same time, may go before the other ranks have
 * looked for one; then they must not plan with this rank, which has seen it. Only a plan that names this rank is certainly
 * its own: "no plan" may be that of two communicators at once, and names the ranks of both. The rank says so and looks
 * again: if that decision is still there, whoever finds none later scans later, too, and sees what this rank said; if not,
 * there is the others' decision, or none yet.
 */
static int find_own_decision(struct steer_thread *thread, struct diag *diag)
{
	int r = find_decision(thread, diag);

	if (r < 0 || (thread->decision.result == STEER_PLAN && is_for(thread)))
		return r;
	pthread_mutex_lock(&steer_here.lock);
	r = steer_registry_refuse(&steer_here.setup.registry, thread->slot, STEER_REASON_ID);
	pthread_mutex_unlock(&steer_here.lock);
	if (r == 0)
		r = find_decision(thread, diag);
	if (r == 0 && thread->decision.result == STEER_PLAN && !is_for(thread)) {
		diag_set(diag, 0, 0, "%s", steer_reason_text(STEER_REASON_ID));
		decide_alone(thread, diag);
	}
	return r;
}

void steer_thread_decide(struct steer_thread *thread)
{
	const uint64_t start_ns = clock_now_ns();
	struct diag diag = { .text = "" };
	int r;

	if (thread->slot < 0) {
		diag_set(&diag, 0, 0, "%s", steer_reason_text(STEER_REASON_NO_ROOM));
		decide_alone(thread, &diag);
		tell(thread);
		return;
	}
	r = find_own_decision(thread, &diag);
	if (r == 0)
		tell(thread);
	if (r == 0 && thread->decision.result == STEER_PLAN)
		r = write_graph(thread, &diag);
	if (r < 0) {
		log_warn("Communicator %016llx may have a plan that this rank cannot follow: %s",
			 (unsigned long long)thread->record.comm_id, diag.text[0] ? diag.text : strerror(-r));
		thread->graph = NO_SUCH_FILE;
		thread->cannot_follow = true;
		decide_alone(thread, &diag);
		tell(thread);
		return;
	}
	thread->has_decision = true;
	if (thread->decision.result == STEER_PLAN)
		thread->graph = thread->graph_path;
	if (steer_plans(&steer_here.setup))
		steer_report_say(&steer_here.setup, thread->record.comm_id, &thread->decision,
				 clock_elapsed_ns(start_ns, clock_now_ns()));
}

/* ------------------------------------------------------------------------------------------------------------- collnet */

void steer_collnet_audience(uint64_t comm_id, struct steer_audience *ret)
{
	struct steer_snapshot *snapshot;
	int saved_errno = errno;
	struct diag diag;

	ret->count = 0;
	if (!atomic_load_explicit(&steer_here.ready, memory_order_acquire) || !comm_id)
		return;
	snapshot = sys_zalloc(sizeof(*snapshot));
	pthread_mutex_lock(&steer_here.lock);
	if (snapshot && steer_here.setup.registers &&
	    steer_registry_scan(&steer_here.setup.registry, comm_id, snapshot, &diag) == 0)
		steer_agreed_audience(snapshot, ret);
	pthread_mutex_unlock(&steer_here.lock);
	sys_free(snapshot);
	errno = saved_errno;
}

int steer_collnet_tell(const struct steer_audience *audience, const struct steer_agreed *agreed)
{
	int saved_errno = errno, r;

	pthread_mutex_lock(&steer_here.lock);
	r = steer_agreed_tell(steer_here.setup.registry.directory, audience, agreed);
	pthread_mutex_unlock(&steer_here.lock);
	errno = saved_errno;
	return r;
}

int steer_collnet_agreed(uint64_t comm_id, size_t rank_count, struct steer_agreed *ret)
{
	const struct steer_thread *thread = plugin_is_forked() ? NULL : steer_this_thread();
	struct steer_agreed agreed;
	int saved_errno = errno, r;

	*ret = (struct steer_agreed){ .rank_count = 0 };
	if (!thread || thread->slot < 0 || !comm_id || thread->record.comm_id != comm_id)
		return 0;
	pthread_mutex_lock(&steer_here.lock);
	r = steer_agreed_hear(steer_here.setup.registry.directory, steer_here.setup.registry.id, thread->record.serial,
			      &agreed);
	pthread_mutex_unlock(&steer_here.lock);
	errno = saved_errno;
	if (r == 0 && agreed.rank_count == rank_count)
		*ret = agreed;
	return r == -ENOENT ? 0 : r;
}

/* -------------------------------------------------------------------------------------------------------------- tuning */

/* NCCL takes it for invalid usage, which it is: the text says of what. */
static int refuse(struct diag *why, const char *reason)
{
	diag_set(why, 0, 0, "%s", reason);
	return -EPROTO;
}

/* The ranks of this host, which are known to be all where each host has as many. */
static bool host_agrees(const struct steer_thread *thread, enum steer_tuning_kind kind, size_t rank_count,
			size_t host_count)
{
	return thread->has_decision && thread->decision.tuning[kind] == thread->record.tuning[kind] &&
	       thread->decision.member_count * host_count == rank_count;
}

static int table_of(const struct steer_thread *thread, const struct steer_shape *shape,
		    const struct steer_agreed *agreed, struct steer_tuned *ret, struct diag *why)
{
	const struct steer_tuning *tuning = &steer_here.setup.tuning;
	const enum steer_tuning_kind kind = shape->host_count > 1 ? STEER_TUNING_SEVERAL : STEER_TUNING_ALONE;
	const struct steer_table *table = steer_tuning_find(tuning, shape->rank_count, shape->host_count);

	if (!table ||
	    (thread && !thread->record.tuning[kind])) /* a child of ncclCommShrink: the same on all its ranks */
		return 0;
	/* A rank without tables has returned: all of a host have the same ones, or its decision has none. */
	if (thread && thread->cannot_follow)
		return refuse(why, "what the ranks of this host agreed on cannot be read");
	if (!thread &&
	    (!tuning->is_named || shape->host_count == 1)) /* it shares its parent's resources, as all its ranks do */
		return 0;
	if (shape->host_count == 1 && host_agrees(thread, kind, shape->rank_count, 1)) {
		ret->table = table;
		return 0;
	}
	/* What was told is certain where collnet then stands; a named table asks for no collnet, on any rank. */
	if (!tuning->is_named) {
		ret->table = shape->host_count > 1 && agreed->tuning == thread->record.tuning[kind] ? table : NULL;
		ret->from = STEER_TUNED_FROM_COLLNET;
		return 0;
	}
	if (thread && !thread->record.bus_id[0])
		return refuse(why, "the CUDA driver does not say which GPU this rank has");
	if (shape->host_count == 1 || (thread && agreed->rank_count && agreed->tuning != thread->record.tuning[kind]))
		return refuse(
			why,
			"not all ranks of the communicator have the same table and NCCL_ALGO, NCCL_PROTO: give all "
			"of them the same TRIBUTARY_TUNING (mpirun -x TRIBUTARY_TUNING)");
	if (!plugin_state_choice()->ours)
		return refuse(
			why,
			"between hosts the table is safe only over Tributary's network, whose connections show that "
			"both sides have it: set TRIBUTARY_NET=verbs or tcp");
	if (!thread || !host_agrees(thread, kind, shape->rank_count, shape->host_count))
		return refuse(
			why, "not all ranks of this host are known to have it: each host needs as many ranks, and each "
			     "communicator resources of its own (NCCL_COMM_SPLIT_SHARE_RESOURCES=0)");
	ret->table = table;
	ret->from = STEER_TUNED_FROM_SECOND_GROUP;
	return 0;
}

int steer_tuning_of(const struct steer_shape *shape, const struct steer_agreed *agreed, struct steer_tuned *ret,
		    struct diag *why)
{
	const struct steer_thread *thread = plugin_is_forked() ? NULL : steer_this_thread();
	const struct steer_tuning *tuning = &steer_here.setup.tuning;

	*ret = (struct steer_tuned){ .table = NULL };
	if (plugin_is_forked())
		return 0;
	if (!atomic_load_explicit(&steer_here.ready, memory_order_acquire))
		return params_tuning_named(plugin_state_params())
			       ? refuse(why,
					"NCCL tells Tributary of no communicator, as NCCL_NET names another network")
			       : 0;
	if (thread && thread->record.comm_id != shape->comm_id)
		thread = NULL;
	if (thread && thread->has_decision && thread->decision.named && !tuning->is_named)
		return refuse(why, "other ranks of this host have TRIBUTARY_TUNING with the name of a table: "
				   "give it to all ranks (mpirun -x TRIBUTARY_TUNING)");
	if (tuning->is_named && tuning->why.text[0])
		return refuse(why, tuning->why.text);
	return table_of(thread, shape, agreed, ret, why);
}
