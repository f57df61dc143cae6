/*
 * How the ranks of a host meet in their topology phases, so that no plan is read by who must not. docs/session.md says why
 * this suffices ("Meeting").
 *
 *  - A communicator gets a plan at a moment when all its ranks of the host are within the plugin, each in the first
 *    getProperties of its phase, and no other rank of the job is on its way to read at rest.
 *  - A thread is let go on to read at rest when no rank of the job has a plan that is not read yet. What is not read for
 *    long, or was given up (outlook.h), is taken back, for all ranks of its communicator.
 *
 * Who wants the one writes so before it looks whether somebody wants the other. Threads: under the lock of session.c, which
 * they give back while they wait. None waits for longer than a few times what struct session_patience says.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_MEETING_H
#define TRIBUTARY_PLUGIN_SESSION_MEETING_H

#include "plugin/session/decide.h"
#include "plugin/session/flights.h"

/*
 * What all ranks of this host do, the others of the flight's communicator being in their phases, too. -ECANCELED: the
 * flight has ended meanwhile. -EIO: it cannot be known, and the others may have a plan.
 */
int session_meet(struct session_flights *flights, struct session_flight *flight, struct session_decision *ret);

/* Ends a published flight that nothing more is heard of, for all ranks of this host unless one of them has read. */
void session_meeting_give_up(struct session_flights *flights, struct session_flight *published);

/* This thread is about to go on and read at rest: returns when it may. */
void session_let_go(struct session_flights *flights, uint32_t thread);

/* ---- what the two go by; but for the files of the registry, what they are given ---- */

/* Whether all ranks of the host wait for each other. */
bool session_meeting_is_whole(const struct session_census *census);

enum session_claim {
	SESSION_CLAIM_FREE, /* it may be decided now */
	SESSION_CLAIM_WAIT, /* others are on their way to read, or go first */
	SESSION_CLAIM_PASS, /* the same, and it may be that they wait for this one, so not for long */
	SESSION_CLAIM_HOLD, /* others are about to give way */
};
enum session_claim session_meeting_claim(const struct session_registry *registry, const struct session_census *census,
					 uint64_t comm_id, uint64_t host);
/* Takes back what will not be read, or was not for patience->reading_ns. False: something may be read yet. */
bool session_meeting_may_read(struct session_registry *registry, const struct session_census *census, uint64_t job_key,
			      uint64_t host, const struct session_patience *patience);

#endif
