#include "plugin/session/flights.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "plugin/session/decide.h"
#include "plugin/session/nets.h"

#include <stdio.h>
#include <string.h>

static void readers_sweep(struct session_flights *flights);
static void readers_tell(struct session_flights *flights);

bool session_flight_is_live(const struct session_flight *flight)
{
	return flight->state != SESSION_FLIGHT_NONE && flight->state != SESSION_FLIGHT_OVER;
}

struct session_flight *session_flights_of_thread(struct session_flights *flights, uint32_t thread)
{
	for (size_t i = 0; i < SESSION_RECORDS; i++)
		if (session_flight_is_live(&flights->at[i]) && flights->at[i].thread == thread)
			return &flights->at[i];
	return NULL;
}

struct session_flight *session_flights_published(struct session_flights *flights)
{
	for (size_t i = 0; i < SESSION_RECORDS; i++)
		if (flights->at[i].state == SESSION_FLIGHT_PUBLISHED)
			return &flights->at[i];
	return NULL;
}

size_t session_flights_live(const struct session_flights *flights)
{
	size_t count = 0;

	for (size_t i = 0; i < SESSION_RECORDS; i++)
		count += session_flight_is_live(&flights->at[i]);
	return count;
}

struct session_flight *session_flights_last(struct session_flights *flights, uint64_t comm_id, uint32_t thread)
{
	struct session_flight *last = NULL;

	for (size_t i = 0; i < SESSION_RECORDS; i++) {
		struct session_flight *flight = &flights->at[i];
		bool is_threads = flight->thread == thread;

		if (flight->state == SESSION_FLIGHT_NONE || (comm_id ? flight->comm_id != comm_id : !is_threads))
			continue;
		if (!last || is_threads > (last->thread == thread) ||
		    (is_threads == (last->thread == thread) && flight->serial > last->serial))
			last = flight;
	}
	return last;
}

static void decision_forget(struct session_flights *flights, struct session_flight *flight)
{
	if (flight->is_author)
		session_registry_forget(&flights->setup->registry, flight->comm_id, flights->setup->environment.host);
	flight->is_author = false;
}

/* An unused place, or that of the one which is over for longest. */
struct session_flight *session_flight_new(struct session_flights *flights)
{
	struct session_flight *oldest = NULL;

	for (size_t i = 0; i < SESSION_RECORDS; i++) {
		struct session_flight *flight = &flights->at[i];

		if (flight->state == SESSION_FLIGHT_NONE)
			return flight;
		if (flight->state == SESSION_FLIGHT_OVER && (!oldest || flight->serial < oldest->serial))
			oldest = flight;
	}
	if (oldest) {
		decision_forget(flights, oldest);
		sys_free(oldest->decision);
		memset(oldest, 0, sizeof(*oldest));
	}
	return oldest;
}

int session_flight_record(struct session_flights *flights, const struct session_flight *flight)
{
	struct session_record record;

	memset(&record, 0, sizeof(record));
	record.used = 1;
	record.comm_id = flight->comm_id;
	record.host = flights->setup->environment.host;
	record.machine = flights->setup->machine.hash;
	record.veto = flight->veto;
	record.thread = flight->thread;
	record.begun_ns = flight->begun_ns;
	record.serial = flight->serial;
	record.phase = flight->phase;
	record.phase_ns = flight->phase_ns;
	if (flight->decision && flight->decision->verdict == SESSION_PLAN)
		record.planned = flight->decision->member_count;
	memcpy(record.bus_id, flight->bus_id, sizeof(record.bus_id));
	return session_registry_write(&flights->setup->registry, (unsigned)(flight - flights->at), &record);
}

int session_flight_enter(struct session_flights *flights, struct session_flight *flight, enum session_phase phase)
{
	flight->phase = phase;
	flight->phase_ns = clock_now_ns();
	return session_flight_record(flights, flight);
}

void session_flight_settle(struct session_flights *flights, struct session_flight *flight)
{
	struct session_setup *setup = flights->setup;
	struct session_decision *decision;
	struct diag diag = { .text = "" };

	if (!session_flight_is_live(flight) || flight->state >= SESSION_FLIGHT_RESTING || flight->settled)
		return;
	decision = sys_zalloc(sizeof(*decision));
	if (!decision)
		return;
	decision->comm_id = flight->comm_id;
	decision->host = setup->environment.host;
	decision->machine = setup->machine.hash;
	decision->verdict = SESSION_REST;
	snprintf(decision->reason, sizeof(decision->reason), "%s", session_veto_text(SESSION_VETO_CONCURRENT));
	if (session_registry_decide(&setup->registry, decision, &diag) == 0) {
		flight->settled = decision->verdict == SESSION_REST;
		flight->is_author = process_identity_same(&decision->author, &setup->registry.self);
	}
	(void)session_registry_spare(&setup->registry);
	sys_free(decision);
}

/* NCCL searches by itself again. Exchanging two names of a folder of our own does not fail unless the folder is gone. */
static void retract(struct session_files *files)
{
	int r = session_files_rest(files);

	if (r < 0)
		log_warn("NCCL's graph file %s cannot be put back to rest: %s", files->graph_path, strerror(-r));
}

/* Another rank of the host has retracted it, for all of them, before NCCL read it: the tuner must not go by it. */
static void lose_plan(struct session_flight *flight)
{
	struct diag diag;

	diag_set(&diag, 0, 0, "another rank of the host took its plan back, as nobody had read it for long");
	log_info(LOG_INIT, "Tributary, communicator %016llx: NCCL searches its channels itself: %s",
		 (unsigned long long)flight->comm_id, diag.text);
	if (flight->decision)
		session_decision_rest(flight->decision, &diag);
}

void session_flight_end(struct session_flights *flights, struct session_flight *flight)
{
	const struct session_files *files = &flights->setup->files;
	bool has_read = false;

	if (flight->state == SESSION_FLIGHT_PUBLISHED) {
		enum session_plan_state plan = session_files_plan_state(files->directory, files->id, flight->serial);

		has_read = plan == SESSION_PLAN_READ;
		if (plan == SESSION_PLAN_OVER && session_files_plan_is_unread(files))
			lose_plan(flight);
		retract(&flights->setup->files);
	}
	session_reader_forget(flights, flight->thread);
	if (flight->state != SESSION_FLIGHT_RESTING) {
		flight->veto = SESSION_VETO_ENDED; /* who looks from now on learns that it will not come */
		(void)session_flight_enter(flights, flight, has_read ? SESSION_HAS_READ : SESSION_AWAY);
	}
	flight->state = SESSION_FLIGHT_OVER;
}

void session_flight_leave(struct session_flights *flights, struct session_flight *flight)
{
	bool has_read = flight->state == SESSION_FLIGHT_RESTING && session_files_was_read(&flights->setup->files);

	for (size_t i = 0; has_read && i < SESSION_RECORDS; i++) {
		struct session_flight *other = &flights->at[i];

		if (other != flight && other->state == SESSION_FLIGHT_RESTING && other->comm_id == flight->comm_id)
			session_flight_end(flights, other);
	}
	session_flight_end(flights, flight);
}

void session_flight_end_for_all(struct session_flights *flights, struct session_flight *flight)
{
	if (session_flight_is_live(flight))
		session_flight_end(flights, flight);
	decision_forget(flights, flight);
}

static void refresh(struct session_flights *flights, struct session_flight *flight, bool is_alone)
{
	uint64_t now_ns = clock_now_ns();

	if (!session_flight_is_live(flight))
		return;
	/* Of several that rest nobody knows which has read. */
	if (flight->state == SESSION_FLIGHT_PUBLISHED || (flight->state == SESSION_FLIGHT_RESTING && is_alone)) {
		if (!flight->read_ns && session_files_was_read(&flights->setup->files))
			flight->read_ns = now_ns;
		if (flight->read_ns && clock_elapsed_ns(flight->read_ns, now_ns) >= flights->patience.graphs_ns) {
			session_flight_end(flights, flight);
			return;
		}
	}
	if (!process_thread_lives(flight->thread))
		session_flight_end(flights, flight);
}

void session_flights_refresh(struct session_flights *flights)
{
	bool is_alone = session_flights_live(flights) == 1;

	for (size_t i = 0; i < SESSION_RECORDS; i++)
		refresh(flights, &flights->at[i], is_alone);
	readers_sweep(flights);
	readers_tell(flights);
}

void session_flights_forget(struct session_flights *flights)
{
	for (size_t i = 0; i < SESSION_RECORDS; i++)
		sys_free(flights->at[i].decision);
	memset(flights->at, 0, sizeof(flights->at));
	memset(flights->readers, 0, sizeof(flights->readers));
	flights->readers_read_ns = 0;
	flights->readers_mixed = false;
}

/* -------------------------------------------------------------------------------------------------------------- readers */

/* Nothing is to be done when it fails: who cannot write into the registry has no plans either. */
static void readers_tell(struct session_flights *flights)
{
	struct session_reader_counts counts = { .count = 0 };

	for (size_t i = 0; i < SESSION_READERS; i++) {
		const struct session_reader *reader = &flights->readers[i];

		counts.count += reader->thread != 0;
		counts.stranger_count += reader->thread && reader->is_stranger;
		if (reader->thread && reader->since_ns > counts.since_ns)
			counts.since_ns = reader->since_ns;
	}
	flights->readers_mixed = counts.count > 1 || (counts.count && flights->readers_mixed);
	if (flights->readers_mixed)
		counts.count = 2;
	(void)session_registry_readers(&flights->setup->registry, &counts);
}

/*
 * Those that have certainly read, for all graphs, that are no more, or of which nothing was heard for long. What several
 * have read does not tell which of them.
 */
static void readers_sweep(struct session_flights *flights)
{
	uint64_t now_ns = clock_now_ns();
	bool was_read;

	if (flights->readers_mixed || flights->setup->files.published ||
	    !session_files_was_read(&flights->setup->files))
		flights->readers_read_ns = 0;
	else if (!flights->readers_read_ns)
		flights->readers_read_ns = now_ns;
	was_read = flights->readers_read_ns &&
		   clock_elapsed_ns(flights->readers_read_ns, now_ns) >= flights->patience.graphs_ns;

	for (size_t i = 0; i < SESSION_READERS; i++) {
		struct session_reader *reader = &flights->readers[i];

		if (reader->thread &&
		    (was_read || clock_elapsed_ns(reader->since_ns, now_ns) >= SESSION_READER_S * NS_PER_S ||
		     !process_thread_lives(reader->thread)))
			reader->thread = 0;
	}
}

static void reader_remove(struct session_flights *flights, uint32_t thread)
{
	for (size_t i = 0; i < SESSION_READERS; i++)
		if (flights->readers[i].thread == thread)
			flights->readers[i].thread = 0;
}

/* Each communicator goes through the devices a number of times; whoever does so once more is in something else. */
bool session_flights_is_stranger(struct session_flights *flights, uint32_t thread)
{
	const struct session_flight *flight = session_flights_of_thread(flights, thread);

	return !flight || flight->zeros > session_nets_zeros(&flights->setup->nets, flight->joined_before);
}

void session_reader_note(struct session_flights *flights, uint32_t thread)
{
	struct session_reader *place = NULL;

	reader_remove(flights, thread);
	readers_sweep(flights);
	for (size_t i = 0; i < SESSION_READERS; i++) {
		struct session_reader *other = &flights->readers[i];

		if (!place || !other->thread || (place->thread && other->since_ns < place->since_ns))
			place = other;
		if (!place->thread)
			break;
	}
	*place = (struct session_reader){ thread, session_flights_is_stranger(flights, thread), clock_now_ns() };
	session_files_watch(&flights->setup->files);
	flights->readers_read_ns = 0;
	readers_tell(flights);
}

void session_reader_forget(struct session_flights *flights, uint32_t thread)
{
	reader_remove(flights, thread);
	readers_tell(flights);
}
