/*
 * What to do for one communicator: a plan for exactly these GPUs, or none and why. Pure but for what it is given.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_DECIDE_H
#define TRIBUTARY_PLUGIN_SESSION_DECIDE_H

#include "base/clock.h"
#include "plugin/session/machine.h"
#include "plugin/session/registry.h"

/*
 * A communicator's topology phase follows when the last rank has returned from init, wherever it is. One that comes this
 * much after the last of this host is taken for something else: a communicator that was given up, because a rank
 * elsewhere never came, and a split of an older one with shared resources, which calls no init, on the same thread.
 */
#define SESSION_LATE_NS (3 * NS_PER_S)

struct session_planner {
	const struct session_machine *machine;
	const struct session_nets *nets;
	const struct session_environment *environment;
	unsigned chain_gain_permille; /* struct plan_set */
	bool has_older;               /* this process has had a communicator before, which could be split */
};

/* comm_id, host: filled in by the caller. *ret is whole but for its seal. Never fails: what fails is a rest. */
void session_decide(const struct session_planner *planner, const struct session_census *census,
		    struct session_decision *ret);

/* A rest, for that reason; the other fields stay. */
void session_decision_rest(struct session_decision *decision, const struct diag *why);

/* Why there can be no plan, whatever is known of the job. False: nothing. */
bool session_census_objects(const struct session_census *census, uint64_t machine, struct diag *diag);

/*
 * Whether a decision that somebody else made is for this communicator, as this process sees it. -EINVAL with the reason in
 * *diag.
 */
int session_decision_check(const struct session_planner *planner, const struct session_census *census,
			   const struct session_decision *decision, struct diag *diag);

/*
 * The graph file of a plan. devices: of the net plugin, for each NIC of the request. *ret is malloc'ed.
 */
int session_decision_write(const struct session_machine *machine, const struct session_decision *decision,
			   const int *devices, unsigned latency_us, char **ret, size_t *ret_bytes, struct diag *diag);

#endif
