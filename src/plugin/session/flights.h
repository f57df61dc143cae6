/*
 * The communicators that this process initialises, from init until NCCL has certainly read its graph file. At most one
 * is published, because the file is the process's. And the threads that were let go on to read the file at rest: of a
 * communicator that has no plan, or of one that shares its parent's resources, of which nothing else is known.
 *
 * Threads: under the lock of session.c.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_FLIGHTS_H
#define TRIBUTARY_PLUGIN_SESSION_FLIGHTS_H

#include "gpu/current.h"
#include "plugin/session/registry.h"
#include "plugin/session/setup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum session_flight_state {
	SESSION_FLIGHT_NONE,
	SESSION_FLIGHT_BEGUN,     /* init has returned */
	SESSION_FLIGHT_CHECKED,   /* NCCL has looked at device 0, right after init: not all ranks need have come */
	SESSION_FLIGHT_RESTING,   /* its topology phase has begun, and NCCL searches by itself */
	SESSION_FLIGHT_PUBLISHED, /* its topology phase has begun, and the graph file has its plan */
	SESSION_FLIGHT_OVER,
};

struct session_flight {
	enum session_flight_state state;
	uint64_t comm_id, serial;
	uint32_t thread;
	enum session_veto veto;
	char bus_id[GPU_CURRENT_BUS_ID_BYTES];
	enum session_phase phase; /* as the other processes see it */
	uint64_t phase_ns;
	unsigned zeros;     /* getProperties of device 0 in this phase: each begins to go through all devices */
	bool dumped;        /* the phase that NCCL_TOPO_DUMP_FILE adds has begun */
	bool joined_before; /* NCCL had made its virtual devices before */
	bool settled;       /* that it rests is decided, for all ranks */
	bool is_author;     /* of the decision */
	bool is_lost;       /* it kept others waiting too long; it must not get a plan any more */
	uint64_t begun_ns, published_ns;
	uint32_t last_thread;              /* that the kernel had made when it was published */
	uint64_t read_ns;                  /* when the file was first seen to have been read; 0: not yet */
	struct session_decision *decision; /* NULL: none yet */
	int devices[PLAN_NICS_MAX];        /* that the published file names */
};

/* A thread that was let go on at rest in a topology phase, and is not known to have read the graph file. */
enum { SESSION_READERS = 16, SESSION_READER_S = 10 /* for so long it counts */ };
struct session_reader {
	uint32_t thread; /* 0: none */
	bool is_stranger;
	uint64_t since_ns;
};

/* How long is waited for what may never come. */
struct session_patience {
	uint64_t
		meeting_ns; /* for ranks to come to their phase, and for others because of threads nothing is known of */
	uint64_t reading_ns; /* for ranks of which nothing says that they will not read their graph files */
	uint64_t graphs_ns;  /* from the first graph that NCCL reads to the last */
};

struct session_flights {
	struct session_setup *setup;
	struct session_flight at[SESSION_RECORDS];
	uint64_t serials;
	struct session_reader readers[SESSION_READERS];
	uint64_t readers_read_ns; /* when the file was first seen to have been read; 0: not yet */
	bool readers_mixed;       /* there were several at once: that the file was read does not tell who has */
	struct session_patience patience;
	void (*nap)(void); /* gives the lock back for a while */
};

bool session_flight_is_live(const struct session_flight *flight);
/* NULL: it initialises nothing. */
struct session_flight *session_flights_of_thread(struct session_flights *flights, uint32_t thread);
struct session_flight *session_flights_published(struct session_flights *flights);
size_t session_flights_live(const struct session_flights *flights);
/* The last one of that communicator on that thread, else on any; comm_id 0: of that thread. Also one that is over. */
struct session_flight *session_flights_last(struct session_flights *flights, uint64_t comm_id, uint32_t thread);

/* A cleared place for one more; NULL: all are in flight. */
struct session_flight *session_flight_new(struct session_flights *flights);
/* Tells the other processes. */
int session_flight_record(struct session_flights *flights, const struct session_flight *flight);
/* The same, with another phase. */
int session_flight_enter(struct session_flights *flights, struct session_flight *flight, enum session_phase phase);
/*
 * Another communicator is about to be initialised in this process: this one is decided to rest, unless it is decided
 * already.
 */
void session_flight_settle(struct session_flights *flights, struct session_flight *flight);
/* The graph file is at rest then. */
void session_flight_end(struct session_flights *flights, struct session_flight *flight);
/*
 * Of a thread that does something else now. Where it has read at rest, so have the other ranks of its communicator in
 * this process: its init has come to its end, on all of them, or nowhere.
 */
void session_flight_leave(struct session_flights *flights, struct session_flight *flight);
/* The same when all ranks of the host have read their files: nobody needs the decision any more. */
void session_flight_end_for_all(struct session_flights *flights, struct session_flight *flight);
/* Ends those that nothing else tells of: NCCL has read the file, or the thread is no more. */
void session_flights_refresh(struct session_flights *flights);
void session_flights_forget(struct session_flights *flights);

/* A thread that is in no topology phase of a communicator that it has begun: in that of a split, perhaps. */
bool session_flights_is_stranger(struct session_flights *flights, uint32_t thread);
/* Tells the other processes. What was read before this is forgotten. */
void session_reader_note(struct session_flights *flights, uint32_t thread);
void session_reader_forget(struct session_flights *flights, uint32_t thread);

#endif
