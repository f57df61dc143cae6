#include "plugin/session/meeting.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "plugin/session/collnet.h"
#include "plugin/session/outlook.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A thread that was let go on in a process with one of the ranks, whose file it shares, counts for so long. */
#define SHARED_NS (10 * NS_PER_S)
/* It is not looked into why a plan has not been read for so long. */
#define FRESH_NS  (50 * NS_PER_MS)
enum {
	SELDOM = 16,    /* naps between two looks of one who has waited for longer than is usual */
	LOOK_EVERY = 8, /* of the times that somebody who waits looks for a decision */
	TICK_MS = 10,   /* of the kernel's times of threads */
};

/* What this process has written must be there for others before it looks at what they have. */
static void write_before_look(void)
{
	__sync_synchronize();
}

/* --------------------------------------------------------------------------------------------------- what is looked at */

bool session_meeting_is_whole(const struct session_census *census)
{
	if (!census->member_count || census->member_count > SESSION_MEMBERS_MAX)
		return false;
	for (size_t i = 0; i < census->member_count; i++)
		if (census->members[i].record.phase != SESSION_ARRIVED &&
		    census->members[i].record.phase != SESSION_CLAIMS)
			return false;
	return true;
}

static size_t other_count(const struct session_census *census)
{
	return census->other_count < SESSION_OTHERS_MAX ? census->other_count : SESSION_OTHERS_MAX;
}

/* Whether some rank of that communicator has a plan that it has not read, and none has read it. */
static bool is_unread(const struct session_registry *registry, const struct session_census *census, uint64_t comm_id)
{
	bool unread = false;

	for (size_t i = 0; i < other_count(census); i++) {
		const struct session_other *other = &census->others[i];
		enum session_plan_state state;

		if (other->comm_id != comm_id)
			continue;
		if (other->phase == SESSION_HAS_READ)
			return false;
		if (other->phase != SESSION_FOLLOWS)
			continue;
		state = session_registry_plan_state(registry, &other->identity, other->serial);
		if (state == SESSION_PLAN_READ)
			return false;
		unread |= state == SESSION_PLAN_UNREAD;
	}
	return unread;
}

static bool is_members_job(const struct session_census *census, uint64_t job_key)
{
	for (size_t i = 0; i < census->member_count; i++)
		if (census->members[i].process.job_key == job_key)
			return true;
	return false;
}

static bool is_members(const struct session_census *census, const struct process_identity *identity)
{
	for (size_t i = 0; i < census->member_count; i++)
		if (process_identity_same(&census->members[i].process.identity, identity))
			return true;
	return false;
}

static uint64_t last_begun_ns(const struct session_census *census)
{
	uint64_t last_ns = 0;

	for (size_t i = 0; i < census->member_count; i++)
		if (census->members[i].record.begun_ns > last_ns)
			last_ns = census->members[i].record.begun_ns;
	return last_ns;
}

/*
 * A thread of this process may be about to read together with ranks of the communicator: then the communicator was given
 * up, and they are all in one that calls no init, whose phase has begun after the communicator's last init. One of a
 * rank's process reads the same file as the rank, for one graph after the other; its process knows when it is done.
 */
static bool has_reader(const struct session_registry *registry, const struct session_census *census,
		       const struct session_process *process)
{
	if (!process->readers.count)
		return false;
	if (is_members(census, &process->identity))
		return clock_elapsed_ns(process->readers.since_ns, census->now_ns) < SHARED_NS;
	return process->readers.since_ns > last_begun_ns(census) &&
	       (process->readers.count > 1 || !session_registry_was_read(registry, &process->identity));
}

/* A stranger may be in a split with ranks of this communicator, and then waits for them at B. */
static enum session_claim claim_past_readers(const struct session_registry *registry,
					     const struct session_census *census, uint64_t host)
{
	enum session_claim claim = SESSION_CLAIM_FREE;

	for (size_t i = 0; i < census->process_count; i++) {
		const struct session_process *process = &census->processes[i];

		if (process->host != host || !is_members_job(census, process->job_key) ||
		    !has_reader(registry, census, process))
			continue;
		if (process->readers.stranger_count)
			return SESSION_CLAIM_PASS;
		claim = SESSION_CLAIM_WAIT;
	}
	return claim;
}

enum session_claim session_meeting_claim(const struct session_registry *registry, const struct session_census *census,
					 uint64_t comm_id, uint64_t host)
{
	uint64_t begun_ns = last_begun_ns(census);
	enum session_claim claim;

	if (census->other_count > SESSION_OTHERS_MAX)
		return SESSION_CLAIM_PASS;
	claim = claim_past_readers(registry, census, host);
	if (claim != SESSION_CLAIM_FREE)
		return claim;
	for (size_t i = 0; i < census->other_count; i++) {
		const struct session_other *other = &census->others[i];

		if (!is_members_job(census, other->job_key))
			continue;
		if (other->phase == SESSION_CLAIMS && other->comm_id > comm_id)
			claim = SESSION_CLAIM_HOLD;
		else if (other->phase == SESSION_CLAIMS ||
			 (other->phase == SESSION_FOLLOWS && other->phase_ns > begun_ns &&
			  is_unread(registry, census, other->comm_id)))
			return SESSION_CLAIM_WAIT;
	}
	return claim;
}

/* Since when the last of its ranks has its plan. */
static uint64_t followed_ns(const struct session_census *census, uint64_t comm_id)
{
	uint64_t last_ns = 0;

	for (size_t i = 0; i < other_count(census); i++)
		if (census->others[i].comm_id == comm_id && census->others[i].phase == SESSION_FOLLOWS &&
		    census->others[i].phase_ns > last_ns)
			last_ns = census->others[i].phase_ns;
	return last_ns;
}

/* Some rank has a plan that it has not read. False: nobody need wait for that any more. */
static bool is_waited_for(struct session_registry *registry, const struct session_census *census, uint64_t comm_id,
			  uint64_t host, uint64_t patience_ns)
{
	uint64_t waited_ns = clock_elapsed_ns(followed_ns(census, comm_id), census->now_ns);
	enum session_outlook outlook;

	if (waited_ns < FRESH_NS)
		return true;
	outlook = session_outlook(registry, comm_id, host);
	if (outlook == SESSION_OUTLOOK_SLOW && waited_ns < patience_ns)
		return true;
	if (outlook != SESSION_OUTLOOK_READ)
		session_outlook_retract(registry, comm_id, host);
	return false;
}

/* Takes back what was given up. What is slow is left to who goes on at rest. */
static void reap(struct session_registry *registry, const struct session_census *census, uint64_t job_key,
		 uint64_t host)
{
	for (size_t i = 0; i < other_count(census); i++) {
		const struct session_other *other = &census->others[i];

		if (other->job_key == job_key && other->phase == SESSION_FOLLOWS &&
		    is_unread(registry, census, other->comm_id))
			(void)is_waited_for(registry, census, other->comm_id, host, UINT64_MAX);
	}
}

/* Of one communicator many ranks may wait, and a look at it walks through the registry and /proc. */
static bool is_looked_at(const struct session_census *census, size_t index)
{
	const struct session_other *other = &census->others[index];

	for (size_t i = 0; i < index; i++)
		if (census->others[i].job_key == other->job_key && census->others[i].comm_id == other->comm_id &&
		    census->others[i].phase == SESSION_FOLLOWS)
			return true;
	return false;
}

bool session_meeting_may_read(struct session_registry *registry, const struct session_census *census, uint64_t job_key,
			      uint64_t host, const struct session_patience *patience)
{
	bool may = true;

	for (size_t i = 0; i < other_count(census); i++) {
		const struct session_other *other = &census->others[i];

		if (other->job_key != job_key)
			continue;
		if (other->phase == SESSION_CLAIMS &&
		    clock_elapsed_ns(other->phase_ns, census->now_ns) < 2 * patience->meeting_ns)
			may = false;
		if (other->phase == SESSION_FOLLOWS && !is_looked_at(census, i) &&
		    is_unread(registry, census, other->comm_id) &&
		    is_waited_for(registry, census, other->comm_id, host, patience->reading_ns))
			may = false;
	}
	return may;
}

/* ------------------------------------------------------------------------------------------------------------ to a plan */

struct meeting {
	struct session_flights *flights;
	struct session_flight *flight;
	struct session_planner planner;
	struct session_census *census;
	struct session_decision *plan; /* of who came last: what will be decided; NULL: not made yet */
	struct diag diag;
	uint64_t serial, since_ns;
	unsigned polls;
	bool is_last; /* of the ranks of this host to come; it plans */
	bool passes;  /* who is waited for may be waiting for this one */
};

static int decide(struct meeting *meeting, struct session_decision *decision)
{
	int r = session_registry_decide(&meeting->flights->setup->registry, decision, &meeting->diag);

	return r == -ENOSPC && meeting->flight->veto ? 0 : r; /* its veto stands in the registry for everybody */
}

static int decide_rest(struct meeting *meeting, struct session_decision *ret)
{
	struct session_setup *setup = meeting->flights->setup;

	memset(ret, 0, sizeof(*ret));
	ret->comm_id = meeting->flight->comm_id;
	ret->host = setup->environment.host;
	ret->machine = setup->machine.hash;
	session_decision_rest(ret, &meeting->diag);
	return decide(meeting, ret);
}

/* It may take its time, so it comes before the others are asked to wait. False: there is none, and why. */
static bool prepare(struct meeting *meeting)
{
	struct session_setup *setup = meeting->flights->setup;

	if (!meeting->plan)
		meeting->plan = sys_zalloc(sizeof(*meeting->plan));
	if (!meeting->plan) {
		diag_set(&meeting->diag, 0, 0, "%s", strerror(ENOMEM));
		return false;
	}
	if (meeting->plan->verdict == SESSION_PLAN)
		return true;
	meeting->plan->comm_id = meeting->flight->comm_id;
	meeting->plan->host = setup->environment.host;
	session_decide(&meeting->planner, meeting->census, meeting->plan);
	meeting->since_ns = clock_now_ns(); /* this is no waiting */
	if (meeting->plan->verdict != SESSION_PLAN)
		diag_set(&meeting->diag, 0, 0, "%s", meeting->plan->reason);
	return meeting->plan->verdict == SESSION_PLAN && !session_presence_elsewhere(&setup->presence, &meeting->diag);
}

static int look(struct meeting *meeting)
{
	struct session_setup *setup = meeting->flights->setup;

	return session_registry_look(&setup->registry, meeting->flight->comm_id, setup->environment.host,
				     meeting->census, &meeting->diag);
}

static enum session_claim ask(struct meeting *meeting)
{
	struct session_setup *setup = meeting->flights->setup;
	enum session_claim answer = session_meeting_claim(&setup->registry, meeting->census, meeting->flight->comm_id,
							  setup->environment.host);

	meeting->passes = answer == SESSION_CLAIM_PASS;
	return answer;
}

static bool is_refusal(enum session_claim answer)
{
	return answer == SESSION_CLAIM_WAIT || answer == SESSION_CLAIM_PASS;
}

/*
 * All are here, and this one came last. Whoever is on the way to read has to be let by, so there is no claim before there
 * is nobody. -EAGAIN: others are under way.
 */
static int claim(struct meeting *meeting, struct session_decision *ret)
{
	struct session_setup *setup = meeting->flights->setup;
	struct session_flight *flight = meeting->flight;
	enum session_claim answer;

	if (!prepare(meeting))
		return decide_rest(meeting, ret);
	if (flight->phase != SESSION_CLAIMS) {
		if (is_refusal(ask(meeting))) {
			reap(&setup->registry, meeting->census, setup->environment.job.key, setup->environment.host);
			return -EAGAIN;
		}
		if (session_flight_enter(meeting->flights, flight, SESSION_CLAIMS) < 0)
			return decide_rest(meeting, ret);
	}
	write_before_look();
	if (look(meeting) < 0 || session_census_objects(meeting->census, setup->machine.hash, &meeting->diag))
		return decide_rest(meeting, ret);
	answer = session_meeting_is_whole(meeting->census) ? ask(meeting) : SESSION_CLAIM_WAIT;
	if (answer == SESSION_CLAIM_FREE) {
		memcpy(ret, meeting->plan, sizeof(*ret));
		return decide(meeting, ret);
	}
	if (is_refusal(answer))
		(void)session_flight_enter(meeting->flights, flight, SESSION_ARRIVED);
	return -EAGAIN;
}

/* A slow rank is not a lost one; but where one has not come, or they may wait for each other, all rest soon. */
static uint64_t meeting_patience_ns(const struct meeting *meeting, bool is_whole)
{
	const struct session_patience *patience = &meeting->flights->patience;

	if (!is_whole || meeting->passes)
		return patience->meeting_ns;
	/* Who came last plans, before it waits for others to read. */
	return meeting->is_last ? patience->reading_ns : patience->reading_ns + 4 * patience->meeting_ns;
}

/* -EAGAIN: come again. */
static int meet_once(struct meeting *meeting, struct session_decision *ret)
{
	struct session_setup *setup = meeting->flights->setup;
	uint64_t waited_ns = clock_elapsed_ns(meeting->since_ns, clock_now_ns());
	bool is_whole;
	int r;

	r = session_registry_decision(&setup->registry, meeting->flight->comm_id, setup->environment.host, ret,
				      &meeting->diag);
	if (r != -ENOENT)
		return r;
	if (!meeting->is_last && meeting->polls++ % LOOK_EVERY)
		return -EAGAIN;
	if (look(meeting) < 0 || session_census_objects(meeting->census, setup->machine.hash, &meeting->diag) ||
	    !session_census_complete(meeting->census, &meeting->diag))
		return decide_rest(meeting, ret);
	is_whole = session_meeting_is_whole(meeting->census);
	if (waited_ns >= meeting_patience_ns(meeting, is_whole)) {
		diag_set(&meeting->diag, 0, 0, "%s",
			 is_whole ? "others of the job were about to read their graph files"
				  : "a rank of this host has not come to its topology phase");
		return decide_rest(meeting, ret);
	}
	return meeting->is_last && is_whole ? claim(meeting, ret) : -EAGAIN;
}

/* Not decided with this rank, who waits here: NCCL of nobody has got to reading it, and nobody shall. */
static int refuse(struct meeting *meeting, struct session_decision *ret)
{
	log_info(LOG_INIT, "Tributary, communicator %016llx: its plan is taken back: %s",
		 (unsigned long long)meeting->flight->comm_id, meeting->diag.text);
	session_outlook_retract(&meeting->flights->setup->registry, meeting->flight->comm_id,
				meeting->flights->setup->environment.host);
	session_decision_rest(ret, &meeting->diag);
	return 0;
}

static int conclude(struct meeting *meeting, bool was_here, struct session_decision *ret)
{
	struct session_flight *flight = meeting->flight;

	if (ret->verdict != SESSION_PLAN)
		return 0;
	if (!was_here || flight->veto || flight->is_lost) {
		diag_set(&meeting->diag, 0, 0, "it was made without this rank");
		return refuse(meeting, ret);
	}
	if (look(meeting) < 0 || session_decision_check(&meeting->planner, meeting->census, ret, &meeting->diag) < 0)
		return refuse(meeting, ret);
	return 0;
}

static int meet(struct meeting *meeting, struct session_decision *ret)
{
	struct session_flights *flights = meeting->flights;
	struct session_flight *flight = meeting->flight;
	struct session_setup *setup = flights->setup;
	bool was_here = false;
	int r;

	/* What was decided before this one has come was not decided with it. */
	r = session_registry_decision(&setup->registry, flight->comm_id, setup->environment.host, ret, &meeting->diag);
	if (r == -ENOENT) {
		was_here = session_flight_enter(flights, flight, SESSION_ARRIVED) == 0;
		write_before_look();
		meeting->is_last = look(meeting) == 0 && session_meeting_is_whole(meeting->census);
		for (;;) {
			r = meet_once(meeting, ret);
			if (r != -EAGAIN)
				break;
			flights->nap();
			session_flights_refresh(flights); /* threads of this process that are done with reading */
			if (flight->serial != meeting->serial || flight->state != SESSION_FLIGHT_CHECKED)
				return -ECANCELED;
		}
	}
	flight->is_author = r == 0 && process_identity_same(&ret->author, &setup->registry.self);
	if (r == 0)
		r = conclude(meeting, was_here, ret);
	if (flight->phase != SESSION_AWAY && (r < 0 || ret->verdict != SESSION_PLAN))
		(void)session_flight_enter(flights, flight, SESSION_AWAY);
	return r;
}

int session_meet(struct session_flights *flights, struct session_flight *flight, struct session_decision *ret)
{
	struct session_setup *setup = flights->setup;
	struct meeting meeting = {
		.flights = flights,
		.flight = flight,
		.planner = { .machine = &setup->machine,
			     .nets = &setup->nets,
			     .environment = &setup->environment,
			     .chain_gain_permille = session_collnet_gain(setup),
			     .has_older = flight->serial > 1 },
		.census = sys_zalloc(sizeof(*meeting.census)),
		.serial = flight->serial,
		.since_ns = clock_now_ns(),
	};
	uint64_t comm_id = flight->comm_id;
	int r = -ENOMEM;

	if (meeting.census)
		r = meet(&meeting, ret);
	sys_free(meeting.census);
	sys_free(meeting.plan);
	if (r == 0 || r == -ECANCELED)
		return r;
	log_warn("Communicator %016llx may have a plan that this process cannot follow: %s",
		 (unsigned long long)comm_id, meeting.diag.text[0] ? meeting.diag.text : strerror(-r));
	return -EIO;
}

/* -------------------------------------------------------------------------------------------------------- to a rest */

/* NCCL makes the threads that connect after all graphs were read. Numbers of threads are used again, ages tell then. */
static bool is_younger_than(uint32_t thread, const struct session_flight *published)
{
	uint64_t since_ns = clock_elapsed_ns(published->published_ns, clock_now_ns());

	return published->last_thread && thread > published->last_thread &&
	       process_thread_age_ns() <= since_ns + 2 * TICK_MS * NS_PER_MS;
}

static enum session_outlook outlook_of(struct session_flights *flights, const struct session_flight *flight)
{
	return session_outlook(&flights->setup->registry, flight->comm_id, flights->setup->environment.host);
}

void session_meeting_give_up(struct session_flights *flights, struct session_flight *published)
{
	bool is_all = outlook_of(flights, published) != SESSION_OUTLOOK_READ;
	uint64_t comm_id = published->comm_id;

	session_flight_end(flights, published);
	if (is_all)
		session_outlook_retract(&flights->setup->registry, comm_id, flights->setup->environment.host);
}

static struct session_patience patience_with(struct session_flights *flights, uint32_t thread)
{
	struct session_patience patience = flights->patience;

	/* Those who have the plan may be in the same split, and wait for this thread at B. */
	if (session_flights_is_stranger(flights, thread))
		patience.reading_ns = patience.meeting_ns;
	return patience;
}

/*
 * Another communicator of this process has its plan in the file that this thread is about to read. Its ranks have all got
 * to it at once and read soon; it is over when it is read, and when it is not read for long.
 */
static void see_to_published(struct session_flights *flights, struct session_flight *published, uint32_t thread)
{
	uint64_t since_ns = clock_elapsed_ns(published->published_ns, clock_now_ns()), patience_ns;
	enum session_outlook outlook;

	if (session_files_was_read(&flights->setup->files)) {
		if (is_younger_than(thread, published))
			session_flight_end(flights, published);
		return;
	}
	if (since_ns < FRESH_NS)
		return;
	outlook = outlook_of(flights, published);
	patience_ns = outlook == SESSION_OUTLOOK_READ ? SHARED_NS : patience_with(flights, thread).reading_ns;
	if (outlook == SESSION_OUTLOOK_GIVEN_UP || since_ns >= patience_ns)
		session_meeting_give_up(flights, published);
}

/* One attempt: true, and the thread is noted, when it may go on. */
static bool let_go(struct session_flights *flights, uint32_t thread, struct session_census *census, bool keeps_note)
{
	struct session_setup *setup = flights->setup;
	struct session_patience patience = patience_with(flights, thread);
	struct session_flight *published;
	struct diag diag;

	session_flights_refresh(flights);
	published = session_flights_published(flights);
	if (published) {
		see_to_published(flights, published, thread);
		return false;
	}
	session_reader_note(flights, thread);
	write_before_look();
	if (!census || session_registry_look(&setup->registry, 0, setup->environment.host, census, &diag) < 0)
		return true; /* nobody plans where the registry cannot be read */
	if (session_meeting_may_read(&setup->registry, census, setup->environment.job.key, setup->environment.host,
				     &patience))
		return true;
	if (!keeps_note) /* who claims a plan waits for those who are noted */
		session_reader_forget(flights, thread);
	return false;
}

void session_let_go(struct session_flights *flights, uint32_t thread)
{
	struct session_census *census = sys_zalloc(sizeof(*census));
	uint64_t start_ns = clock_now_ns(), waited_ns = 0;

	/* Others have their turn first; those that come one after the other, not for ever. */
	while (!let_go(flights, thread, census, waited_ns >= 2 * flights->patience.meeting_ns)) {
		waited_ns = clock_elapsed_ns(start_ns, clock_now_ns());
		for (unsigned i = 0; i < (waited_ns < FRESH_NS ? 1 : SELDOM); i++)
			flights->nap();
	}
	sys_free(census);
}
