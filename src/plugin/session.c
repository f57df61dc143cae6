#include "plugin/session.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/process.h"
#include "base/sys.h"
#include "gpu/current.h"
#include "plugin/guest.h"
#include "plugin/session/collnet.h"
#include "plugin/session/flights.h"
#include "plugin/session/meeting.h"
#include "plugin/session/nets.h"
#include "plugin/session/outlook.h"
#include "plugin/session/report.h"
#include "plugin/session/setup.h"
#include "plugin/state.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAP_US = 500 };
#define MEETING_NS (2 * NS_PER_S)
/* NCCL 2.30 on a machine with very much other work takes seconds from its last getProperties to reading. */
#define READING_NS (10 * NS_PER_S)
/* Before each graph it clears hundreds of megabytes, on every rank. */
#define GRAPHS_NS  (10 * NS_PER_S)

static void nap(void);

static struct {
	pthread_mutex_t lock;
	bool ready;
	struct session_setup setup;
	struct session_flights flights;
	bool joined;            /* NCCL has made its virtual devices, once for the process */
	unsigned communicators; /* whose init has come and whose finalize has not */
	bool for_good;          /* the interface has no finalize */
	/* Tests replace these. */
	const struct params_source *source;
	const char *root;
} session = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.flights = { .setup = &session.setup,
		     .patience = { .meeting_ns = MEETING_NS, .reading_ns = READING_NS, .graphs_ns = GRAPHS_NS },
		     .nap = nap },
	.root = "",
};

/* Transport's threads listen and connect; what they ask is no topology phase. */
static _Thread_local bool thread_connects;

/* ---------------------------------------------------------------------------------------------------------------- setup */

static void nap(void)
{
	const struct timespec nap = { .tv_nsec = NAP_US * (long)NS_PER_US };

	pthread_mutex_unlock(&session.lock);
	nanosleep(&nap, NULL);
	pthread_mutex_lock(&session.lock);
}

static void setup_once(enum session_level most)
{
	struct params_source environment = params_from_environment();
	struct session_nets nets;

	if (session.ready)
		return;
	session_nets_know(&nets);
	if (!nets.ours)
		most = SESSION_TOPOLOGY; /* NCCL drops our table, and asks it nothing more */
	session_setup(plugin_state_params(), session.source ? session.source : &environment, session.root, &nets, most,
		      &session.setup);
	session.ready = true;
	session_collnet_advise(&session.setup);
}

static int publish(struct session_flight *flight);

/* What is decided holds for those who have not read it yet; what is not will be a rest, as not all may be known again. */
static void flight_restore(struct session_flight *flight)
{
	struct session_decision *copy;
	struct diag diag;

	if (!session_flight_is_live(flight))
		return;
	flight->veto = flight->veto ? flight->veto : SESSION_VETO_EMPTIED;
	(void)session_flight_record(&session.flights, flight);
	copy = flight->decision ? sys_zalloc(sizeof(*copy)) : NULL;
	if (!copy)
		return;
	memcpy(copy, flight->decision, sizeof(*copy));
	if (session_registry_decide(&session.setup.registry, copy, &diag) == 0)
		flight->is_author = process_identity_same(&copy->author, &session.setup.registry.self);
	(void)session_registry_spare(&session.setup.registry);
	sys_free(copy);
}

/* Makes files again that somebody has removed, and publishes again what was published. */
static int restore(void)
{
	struct session_flight *published;

	if (session.setup.level == SESSION_OFF || session_setup_is_whole(&session.setup))
		return 0;
	published = session_flights_published(&session.flights);
	if (session_setup_restore(&session.setup) < 0) {
		if (published)
			return -EIO;
		session_setup_undo(&session.setup); /* without the variable NCCL searches by itself */
		return 0;
	}
	for (size_t i = 0; session.setup.level == SESSION_FULL && i < SESSION_RECORDS; i++)
		flight_restore(&session.flights.at[i]);
	if (!published)
		return 0;
	published->state = SESSION_FLIGHT_CHECKED;
	if (session_files_prepare(&session.setup.files, published->serial) < 0)
		return -EIO;
	return publish(published);
}

void session_begin_process(void)
{
	pthread_mutex_lock(&session.lock);
	session.for_good = true;
	setup_once(SESSION_TOPOLOGY);
	pthread_mutex_unlock(&session.lock);
}

/* ---------------------------------------------------------------------------------------------------------------- begin */

static enum session_veto gpu_veto(struct session_flight *flight)
{
	const struct topology *topology = &session.setup.machine.topology;
	struct diag diag = { .text = "" };
	uint32_t gpu;

	if (gpu_current_bus_id(flight->bus_id, &diag) < 0) {
		log_info(LOG_INIT, "Tributary does not know this rank's GPU: %s", diag.text);
		return SESSION_VETO_NO_GPU;
	}
	gpu = topology_find_bus_id(topology, flight->bus_id);
	if (gpu == TOPOLOGY_NONE || topology->vertices[gpu].kind != TOPOLOGY_GPU)
		return SESSION_VETO_NO_GPU;
	return topology->vertices[gpu].gpu.mig >= 0 ? SESSION_VETO_SLICE : SESSION_WILLING;
}

static enum session_veto own_veto(struct session_flight *flight, bool concurrent)
{
	enum { CUDA_11_3 = 11030 };
	int version = gpu_current_driver_version();
	enum session_veto veto = gpu_veto(flight);

	if (veto)
		return veto;
	if (concurrent)
		return SESSION_VETO_CONCURRENT;
	if (session.setup.environment.bootstrap_by_net)
		return SESSION_VETO_BOOTSTRAP;
	if (session.setup.environment.no_shm)
		return SESSION_VETO_NO_SHM;
	if (version > 0 && version < CUDA_11_3)
		return SESSION_VETO_OLD_DRIVER;
	if (!session.setup.registry.has_spare || session_files_prepare(&session.setup.files, flight->serial) < 0)
		return SESSION_VETO_NO_ROOM;
	return SESSION_WILLING;
}

/*
 * Waits for those whose plan is decided: NCCL is past the exchange that all ranks take part in, so they do not wait for
 * what this thread is about to do. What does not come to its end in time has failed elsewhere.
 */
static void wait_for_planned(uint64_t before_serial)
{
	uint64_t start_ns = clock_now_ns();

	for (;;) {
		bool late = clock_elapsed_ns(start_ns, clock_now_ns()) >= session.flights.patience.reading_ns,
		     waits = false;

		session_flights_refresh(&session.flights);
		for (size_t i = 0; i < SESSION_RECORDS; i++) {
			struct session_flight *flight = &session.flights.at[i];

			if (!session_flight_is_live(flight) || flight->serial >= before_serial || flight->settled ||
			    flight->state == SESSION_FLIGHT_RESTING || flight->is_lost)
				continue;
			if (late && flight->state == SESSION_FLIGHT_PUBLISHED)
				session_meeting_give_up(&session.flights, flight);
			flight->is_lost = late;
			waits = true;
		}
		if (!waits || late)
			return;
		nap();
	}
}

static void begin(uint64_t comm_id)
{
	uint32_t thread = process_thread();
	struct session_flight *flight;
	bool concurrent;

	for (size_t i = 0; i < SESSION_RECORDS; i++)
		if (session_flight_is_live(&session.flights.at[i]) && session.flights.at[i].thread == thread)
			session_flight_leave(&session.flights, &session.flights.at[i]);
	session_reader_forget(&session.flights, thread);
	session_flights_refresh(&session.flights);
	concurrent = session_flights_live(&session.flights) > 0;
	for (size_t i = 0; i < SESSION_RECORDS; i++)
		if (session_flight_is_live(&session.flights.at[i]))
			session_flight_settle(&session.flights, &session.flights.at[i]);
	(void)session_registry_spare(&session.setup.registry);
	flight = session_flight_new(&session.flights);
	if (!flight) {
		(void)session_registry_overflow(&session.setup.registry);
		return;
	}
	flight->comm_id = comm_id;
	flight->thread = thread;
	flight->serial = ++session.flights.serials;
	flight->begun_ns = clock_now_ns();
	flight->veto = own_veto(flight, concurrent);
	flight->state = SESSION_FLIGHT_BEGUN;
	/* Its place was reserved; if it cannot be written all the same, nobody may count on this process. */
	if (session_flight_record(&session.flights, flight) < 0)
		(void)session_registry_overflow(&session.setup.registry);
	if (concurrent)
		wait_for_planned(flight->serial);
}

void session_begin(uint64_t comm_id)
{
	int saved_errno = errno;

	pthread_mutex_lock(&session.lock);
	session.communicators++;
	setup_once(SESSION_FULL);
	(void)restore(); /* what fails now, fails again when NCCL asks */
	if (session.setup.level == SESSION_FULL)
		begin(comm_id);
	pthread_mutex_unlock(&session.lock);
	errno = saved_errno;
}

/* --------------------------------------------------------------------------------------------------------------- phase */

static void dump(const struct session_flight *flight, const char *text, size_t bytes)
{
	char name[64];

	snprintf(name, sizeof(name), "session-%016llx-%s.xml", (unsigned long long)flight->comm_id, flight->bus_id);
	session_report_dump(plugin_state_params()->dump_dir, name, text, bytes);
}

static int publish(struct session_flight *flight)
{
	struct diag diag = { .text = "" };
	char *text = NULL;
	size_t bytes = 0;
	int devices[PLAN_NICS_MAX], r;

	session_nets_devices(&session.setup, &flight->decision->request, devices);
	if (flight->state == SESSION_FLIGHT_PUBLISHED && !memcmp(devices, flight->devices, sizeof(devices)))
		return 0;
	r = session_decision_write(&session.setup.machine, flight->decision, devices, session.setup.nets.latency_us,
				   &text, &bytes, &diag);
	if (r == 0)
		r = session_flight_enter(&session.flights, flight, SESSION_FOLLOWS);
	if (r == 0 && session.setup.files.number != flight->serial)
		r = -ECANCELED;
	if (r == 0)
		r = session_files_publish(&session.setup.files, text, bytes);
	if (r == -ECANCELED) {
		free(text);
		return r;
	}
	if (r == 0) {
		memcpy(flight->devices, devices, sizeof(devices));
		flight->state = SESSION_FLIGHT_PUBLISHED;
		flight->published_ns = clock_now_ns();
		flight->last_thread = process_last_thread();
		dump(flight, text, bytes);
	} else {
		log_warn("Communicator %016llx has a plan that this process cannot give to NCCL: %s",
			 (unsigned long long)flight->comm_id, diag.text[0] ? diag.text : strerror(-r));
		r = -EIO;
	}
	free(text);
	return r;
}

/* NCCL reads the file at rest, or something that does not concern this flight. */
static int rest(struct session_flight *flight)
{
	uint64_t serial = flight ? flight->serial : 0;

	if (flight && flight->phase != SESSION_AWAY)
		(void)session_flight_enter(&session.flights, flight, SESSION_AWAY);
	session_let_go(&session.flights, process_thread());
	if (flight && flight->serial == serial && session_flight_is_live(flight))
		flight->state = SESSION_FLIGHT_RESTING;
	return 0;
}

static int follow(struct session_flight *flight)
{
	int r = publish(flight);
	struct diag diag;

	if (r != -ECANCELED)
		return r;
	diag_set(&diag, 0, 0, "another rank of the host took the plan back");
	session_decision_rest(flight->decision, &diag);
	return rest(flight);
}

/* The first getProperties of the topology phase: all ranks of the host have returned from init. */
static int phase_begin(struct session_flight *flight)
{
	struct session_decision *decision = sys_zalloc(sizeof(*decision));
	uint64_t start_ns = clock_now_ns();
	int r = -EIO;

	flight->joined_before = session.joined;
	session_reader_forget(&session.flights, flight->thread);
	if (decision)
		r = session_meet(&session.flights, flight, decision);
	else
		log_warn("Communicator %016llx may have a plan that this process cannot follow: %s",
			 (unsigned long long)flight->comm_id, strerror(ENOMEM));
	if (r < 0) {
		sys_free(decision);
		return r == -ECANCELED ? rest(NULL) : r;
	}
	flight->decision = decision;
	session_report_say(&session.setup, flight->comm_id, decision, clock_elapsed_ns(start_ns, clock_now_ns()));
	return decision->verdict == SESSION_PLAN ? follow(flight) : rest(flight);
}

/*
 * With NCCL_TOPO_DUMP_FILE there is one more topology phase before the one that counts, without virtual devices and
 * without graphs. True: this still belongs to it.
 */
static bool is_dump(struct session_flight *flight, int device)
{
	if (!session.setup.environment.dumps_topology || (flight->dumped && device == 0))
		return false;
	if (device == 0) {
		flight->dumped = true;
		session_let_go(&session.flights, flight->thread);
	}
	return true;
}

static int phase_goes_on(struct session_flight *flight, int device)
{
	uint64_t comm_id = flight->comm_id;
	bool was_read;

	flight->zeros += device == 0;
	if (flight->state == SESSION_FLIGHT_RESTING)
		return device == 0 ? rest(flight) : 0;
	/* NCCL reads only after it has asked; and who asks anew has given up what it was at before. */
	was_read = session_files_was_read(&session.setup.files);
	if (!was_read && flight->zeros <= session_nets_zeros(&session.setup.nets, flight->joined_before)) {
		int r = publish(flight);

		return r == -ECANCELED ? 0 : r;
	}
	if (!was_read)
		log_info(LOG_INIT,
			 "Tributary, communicator %016llx: NCCL has begun something else, so its plan is taken back",
			 (unsigned long long)comm_id);
	session_flight_end(&session.flights, flight);
	if (!was_read)
		session_outlook_retract(&session.setup.registry, comm_id, session.setup.environment.host);
	return rest(NULL);
}

static int properties(int device)
{
	uint32_t thread = process_thread();
	struct session_flight *flight = session_flights_of_thread(&session.flights, thread);
	int r = restore();

	if (r < 0 || session.setup.level < SESSION_FULL)
		return r;
	if (!flight) {
		if (!thread_connects)
			session_let_go(&session.flights, thread);
		return 0;
	}
	switch (flight->state) {
	case SESSION_FLIGHT_BEGUN:
		flight->state = SESSION_FLIGHT_CHECKED;
		return 0;
	case SESSION_FLIGHT_CHECKED:
		if (is_dump(flight, device))
			return 0;
		flight->zeros = device == 0;
		return phase_begin(flight);
	default:
		return phase_goes_on(flight, device);
	}
}

int session_properties(int device)
{
	int saved_errno = errno, r = 0;

	pthread_mutex_lock(&session.lock);
	if (session.ready && session.setup.level == SESSION_FULL)
		r = properties(device);
	pthread_mutex_unlock(&session.lock);
	errno = saved_errno;
	return r;
}

/*
 * NCCL asks right after init when it has just loaded the plugin (and will make its virtual devices), in the topology
 * phase when it has made them, and from 2.30 on once more after the last graph.
 */
static int devices_asked(struct session_flight *flight)
{
	if (flight->state == SESSION_FLIGHT_BEGUN)
		session.joined = false;
	if (flight->state < SESSION_FLIGHT_RESTING)
		return 0;
	session.joined = true;
	if (flight->state == SESSION_FLIGHT_RESTING)
		return 0;
	if (!session_files_was_read(&session.setup.files))
		return publish(flight) == -EIO ? -EIO : 0;
	session_flight_end(&session.flights, flight);
	return 0;
}

int session_devices(void)
{
	int saved_errno = errno, r = 0;
	struct session_flight *flight;

	pthread_mutex_lock(&session.lock);
	flight = session.ready && session.setup.level == SESSION_FULL
			 ? session_flights_of_thread(&session.flights, process_thread())
			 : NULL;
	if (flight)
		r = devices_asked(flight);
	pthread_mutex_unlock(&session.lock);
	errno = saved_errno;
	return r;
}

/* ------------------------------------------------------------------------------------------------------------------ end */

void session_connects(uint64_t comm_id)
{
	int saved_errno = errno;
	uint32_t thread = process_thread();

	pthread_mutex_lock(&session.lock);
	if (session.ready && session.setup.level == SESSION_FULL &&
	    !session_flights_of_thread(&session.flights, thread)) {
		thread_connects = true;
		session_reader_forget(&session.flights, thread);
		for (size_t i = 0; i < SESSION_RECORDS; i++)
			if (session.flights.at[i].comm_id == comm_id &&
			    session.flights.at[i].state >= SESSION_FLIGHT_RESTING)
				session_flight_end_for_all(&session.flights, &session.flights.at[i]);
	}
	pthread_mutex_unlock(&session.lock);
	errno = saved_errno;
}

/* A thread that does something for another communicator has given up the one that it initialised. */
static void end_others_of_thread(uint64_t comm_id)
{
	struct session_flight *flight = session_flights_of_thread(&session.flights, process_thread());

	if (flight && flight->comm_id != comm_id)
		session_flight_end(&session.flights, flight);
}

/* Others of the host wait for this one: they learn from its record that it will not come. */
static bool is_awaited(const struct session_flight *flight)
{
	return flight->state < SESSION_FLIGHT_RESTING ||
	       (flight->state == SESSION_FLIGHT_PUBLISHED && !session_files_was_read(&session.setup.files));
}

static void leave(void)
{
	for (size_t i = 0; i < SESSION_RECORDS; i++)
		session_flight_end_for_all(&session.flights, &session.flights.at[i]);
	session_setup_leave(&session.setup);
}

void session_end(uint64_t comm_id)
{
	int saved_errno = errno;
	bool awaited = false;

	pthread_mutex_lock(&session.lock);
	if (session.ready)
		end_others_of_thread(comm_id);
	for (size_t i = 0; session.ready && i < SESSION_RECORDS; i++) {
		struct session_flight *flight = &session.flights.at[i];

		if (!session_flight_is_live(flight) || flight->comm_id != comm_id)
			continue;
		awaited = awaited || is_awaited(flight);
		session_flight_end(&session.flights, flight);
	}
	/* Where the network is left to NCCL finalize comes at once, and then NCCL reads the files. */
	if (session.communicators && --session.communicators == 0 && session.ready && !session.for_good && !awaited &&
	    session.setup.nets.ours)
		leave();
	pthread_mutex_unlock(&session.lock);
	errno = saved_errno;
}

/* At exit; the library stays mapped (nodelete), so dlclose does not come here. A forked child's copy removes nothing. */
__attribute__((destructor)) static void unload(void)
{
	enum { TRIES = 100 };
	int r = EBUSY;

	if (plugin_guest_forked())
		return;
	/* Other threads may be at work; one that holds the lock for long has ended with it. */
	for (unsigned i = 0; i < TRIES && r; i++) {
		r = pthread_mutex_trylock(&session.lock);
		if (r)
			nanosleep(&(struct timespec){ .tv_nsec = (long)NS_PER_MS }, NULL);
	}
	if (r)
		return;
	if (session.ready)
		session_setup_end(&session.setup);
	pthread_mutex_unlock(&session.lock);
}

static int facts_of(const struct session_flight *flight, struct session_facts *ret)
{
	const struct topology *topology = &session.setup.machine.topology;
	const struct session_decision *decision = flight->decision;

	if (!decision)
		return -ENOENT;
	memset(ret, 0, sizeof(*ret));
	/* What was taken back unread NCCL does not know of, on any rank. */
	ret->published = decision->verdict == SESSION_PLAN && flight->phase == SESSION_HAS_READ;
	ret->local_gpu_count = decision->member_count;
	ret->set = decision->set;
	for (size_t i = 0; ret->published && i < decision->request.gpu_count; i++) {
		int sm = topology->vertices[decision->request.gpus[i]].gpu.sm;

		ret->sm = i == 0 || sm < ret->sm ? sm : ret->sm;
	}
	return 0;
}

int session_tuner(uint64_t comm_id, struct session_facts *ret)
{
	int saved_errno = errno, r = -ENOENT;
	uint32_t thread = process_thread();
	struct session_flight *flight;

	pthread_mutex_lock(&session.lock);
	session_reader_forget(&session.flights, thread);
	if (session.ready && comm_id)
		end_others_of_thread(comm_id);
	flight = session.ready && session.setup.level == SESSION_FULL
			 ? session_flights_last(&session.flights, comm_id, thread)
			 : NULL;
	if (flight) {
		session_flight_end_for_all(&session.flights, flight);
		r = facts_of(flight, ret);
	}
	pthread_mutex_unlock(&session.lock);
	errno = saved_errno;
	return r;
}

void session_reset(const struct params_source *source, const char *root, const struct session_patience *patience)
{
	pthread_mutex_lock(&session.lock);
	session_flights_forget(&session.flights);
	if (session.ready)
		session_setup_undo(&session.setup);
	session.ready = session.joined = session.for_good = false;
	session.communicators = 0;
	session.source = source;
	session.root = root ? root : "";
	session.flights.patience = patience ? *patience
					    : (struct session_patience){ .meeting_ns = MEETING_NS,
									 .reading_ns = READING_NS,
									 .graphs_ns = GRAPHS_NS };
	pthread_mutex_unlock(&session.lock);
}
