#include "plugin/session/flights.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"

#include <stdio.h>
#include <string.h>

/* NCCL reads the file for one graph right after the other; this is ample. */
enum { READS_MS = 1000 };

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
	memcpy(record.bus_id, flight->bus_id, sizeof(record.bus_id));
	return session_registry_write(&flights->setup->registry, (unsigned)(flight - flights->at), &record);
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

void session_flight_end(struct session_flights *flights, struct session_flight *flight)
{
	if (flight->state == SESSION_FLIGHT_PUBLISHED)
		retract(&flights->setup->files);
	/*
	 * Who looks from now on learns that it will not come. NCCL reads a plan only when all ranks of the host have looked:
	 * one that looks when another's plan is over is not in this communicator's topology phase, or it fails anyway.
	 */
	if (flight->state != SESSION_FLIGHT_RESTING) {
		flight->veto = SESSION_VETO_ENDED;
		(void)session_flight_record(flights, flight);
	}
	flight->state = SESSION_FLIGHT_OVER;
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
		if (flight->read_ns && clock_elapsed_ns(flight->read_ns, now_ns) >= READS_MS * NS_PER_MS) {
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
}

void session_flights_forget(struct session_flights *flights)
{
	for (size_t i = 0; i < SESSION_RECORDS; i++)
		sys_free(flights->at[i].decision);
	memset(flights->at, 0, sizeof(flights->at));
	memset(flights->strangers, 0, sizeof(flights->strangers));
}

/* ------------------------------------------------------------------------------------------------------------ strangers */

void session_stranger_note(struct session_flights *flights, uint32_t thread)
{
	struct session_stranger *place = NULL;

	session_stranger_forget(flights, thread);
	for (size_t i = 0; i < SESSION_STRANGERS; i++) {
		struct session_stranger *other = &flights->strangers[i];

		if (!place || !other->thread || (place->thread && other->since_ns < place->since_ns))
			place = other;
		if (!place->thread)
			break;
	}
	*place = (struct session_stranger){ thread, clock_now_ns() };
}

void session_stranger_forget(struct session_flights *flights, uint32_t thread)
{
	for (size_t i = 0; i < SESSION_STRANGERS; i++)
		if (flights->strangers[i].thread == thread)
			flights->strangers[i].thread = 0;
}

bool session_strangers_pending(struct session_flights *flights, uint32_t thread)
{
	uint64_t now_ns = clock_now_ns();
	bool pending = false;

	for (size_t i = 0; i < SESSION_STRANGERS; i++) {
		struct session_stranger *stranger = &flights->strangers[i];

		if (!stranger->thread || stranger->thread == thread)
			continue;
		if (clock_elapsed_ns(stranger->since_ns, now_ns) >= SESSION_STRANGER_MS * NS_PER_MS ||
		    !process_thread_lives(stranger->thread))
			stranger->thread = 0;
		else
			pending = true;
	}
	return pending;
}
