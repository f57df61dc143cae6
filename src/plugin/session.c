#include "plugin/session.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/process.h"
#include "base/sys.h"
#include "gpu/current.h"
#include "plugin/session/collnet.h"
#include "plugin/session/decide.h"
#include "plugin/session/flights.h"
#include "plugin/session/report.h"
#include "plugin/session/setup.h"
#include "plugin/state.h"

#include "transport/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	TICK_MS = 10, /* of the kernel's times of threads */
	NAP_US = 500,
};
#define PATIENCE_NS (10 * NS_PER_S)

static struct {
	pthread_mutex_t lock;
	bool ready;
	struct session_setup setup;
	struct session_flights flights;
	bool joined; /* NCCL has made its virtual devices, once for the process */
	/* Tests replace these. */
	const struct params_source *source;
	const char *root;
	uint64_t patience_ns;
} session = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.flights = { .setup = &session.setup },
	.root = "",
	.patience_ns = PATIENCE_NS,
};

/* Transport's threads listen and connect; what they ask is no topology phase. */
static _Thread_local bool thread_connects;

/* ---------------------------------------------------------------------------------------------------------------- setup */

static void nets_know(struct session_nets *nets)
{
	int count = 0;

	*nets = (struct session_nets){ .ours = plugin_state_choice()->ours };
	if (!nets->ours || plugin_state_device_count(&count) < 0)
		return;
	for (int i = 0; i < count && nets->count < PLAN_NICS_MAX; i++) {
		struct plugin_net_properties device;
		const char *place;

		if (plugin_state_device(i, &device) < 0 || device.member_count > 1)
			continue;
		place = device.pci_path ? strrchr(device.pci_path, '/') : NULL;
		snprintf(nets->at[nets->count].name, sizeof(nets->at[0].name), "%.63s", device.name);
		snprintf(nets->at[nets->count].bus_id, sizeof(nets->at[0].bus_id), "%.23s", place ? place + 1 : "");
		nets->at[nets->count].speed_Bps = device.speed_Bps;
		if (device.latency_ns / NS_PER_US > nets->latency_us)
			nets->latency_us = (unsigned)(device.latency_ns / NS_PER_US);
		nets->reaches_gpu = nets->reaches_gpu ||
				    (device.memory & (TRANSPORT_MEMORY_CUDA | TRANSPORT_MEMORY_DMABUF)) != 0;
		nets->count++;
	}
}

static void setup_once(enum session_level most)
{
	struct params_source environment = params_from_environment();
	struct session_nets nets;

	if (session.ready)
		return;
	nets_know(&nets);
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
	return publish(published);
}

void session_begin_process(void)
{
	pthread_mutex_lock(&session.lock);
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
	if (!session.setup.registry.has_spare || session_files_prepare(&session.setup.files) < 0)
		return SESSION_VETO_NO_ROOM;
	return SESSION_WILLING;
}

static void nap(void)
{
	const struct timespec nap = { .tv_nsec = NAP_US * (long)NS_PER_US };

	pthread_mutex_unlock(&session.lock);
	nanosleep(&nap, NULL);
	pthread_mutex_lock(&session.lock);
}

/*
 * Waits for those whose plan is decided: NCCL is past the exchange that all ranks take part in, so they do not wait for
 * what this thread is about to do. What does not come to its end in time has failed elsewhere.
 */
static void wait_for_planned(uint64_t before_serial)
{
	uint64_t start_ns = clock_now_ns();

	for (;;) {
		bool late = clock_elapsed_ns(start_ns, clock_now_ns()) >= session.patience_ns, waits = false;

		session_flights_refresh(&session.flights);
		for (size_t i = 0; i < SESSION_RECORDS; i++) {
			struct session_flight *flight = &session.flights.at[i];

			if (!session_flight_is_live(flight) || flight->serial >= before_serial || flight->settled ||
			    flight->state == SESSION_FLIGHT_RESTING || flight->is_lost)
				continue;
			if (late && flight->state == SESSION_FLIGHT_PUBLISHED)
				session_flight_end(&session.flights, flight);
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
			session_flight_end(&session.flights,
					   &session.flights.at[i]); /* this thread does something else now */
	session_stranger_forget(&session.flights, thread);
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
	setup_once(SESSION_FULL);
	(void)restore(); /* what fails now, fails again when NCCL asks */
	if (session.setup.level == SESSION_FULL)
		begin(comm_id);
	pthread_mutex_unlock(&session.lock);
	errno = saved_errno;
}

/* --------------------------------------------------------------------------------------------------------------- phase */

/* By what number NCCL knows each NIC of the request: its own, or that of the joined device that holds it. */
static void devices_of(const struct plan_request *request, int *ret)
{
	const struct session_setup *setup = &session.setup;
	int count = 0;

	for (size_t i = 0; i < PLAN_NICS_MAX; i++)
		ret[i] = 0;
	if (plugin_state_device_count(&count) < 0)
		return;
	for (size_t nic = 0; nic < request->nic_count; nic++) {
		int physical = -1;

		for (int i = 0; i < count; i++) {
			struct plugin_net_properties device;

			if (plugin_state_device(i, &device) < 0)
				continue;
			if (device.member_count > 1) {
				for (int k = 0; physical >= 0 && k < device.member_count; k++)
					if (device.members[k] == physical)
						ret[nic] = i;
				continue;
			}
			for (size_t k = 0; physical < 0 && k < setup->nets.count; k++)
				if (!strncmp(setup->nets.at[k].name, device.name, sizeof(setup->nets.at[k].name) - 1) &&
				    session_machine_nic(&setup->machine, &setup->nets, k) == request->nics[nic])
					ret[nic] = physical = i;
		}
	}
}

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

	devices_of(&flight->decision->request, devices);
	if (flight->state == SESSION_FLIGHT_PUBLISHED && !memcmp(devices, flight->devices, sizeof(devices)))
		return 0;
	r = session_decision_write(&session.setup.machine, flight->decision, devices, session.setup.nets.latency_us,
				   &text, &bytes, &diag);
	if (r == 0)
		r = session_files_publish(&session.setup.files, text, bytes);
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

/* What all ranks of this host do. -EIO: it cannot be known, and the others may have a plan. */
static int decision_get(struct session_flight *flight, struct session_decision *decision, struct session_census *census)
{
	struct session_setup *setup = &session.setup;
	const struct session_planner planner = {
		.machine = &setup->machine,
		.nets = &setup->nets,
		.environment = &setup->environment,
		.chain_gain_permille = session_collnet_gain(setup),
		.has_older = flight->serial > 1,
	};
	struct diag diag = { .text = "" };
	int looked, r;

	looked = session_registry_look(&setup->registry, flight->comm_id, setup->environment.host, census, &diag);
	r = session_registry_decision(&setup->registry, flight->comm_id, setup->environment.host, decision, &diag);
	if (r == -ENOENT) {
		decision->comm_id = flight->comm_id;
		decision->host = setup->environment.host;
		if (looked == 0)
			session_decide(&planner, census, decision);
		if (looked < 0 ||
		    (decision->verdict == SESSION_PLAN && session_presence_elsewhere(&setup->presence, &diag)))
			session_decision_rest(decision, &diag);
		r = session_registry_decide(&setup->registry, decision, &diag);
		if (r == -ENOSPC && flight->veto)
			r = 0; /* its veto stands in the registry, so everybody decides the same */
	}
	/* Another communicator of the process may have the file when this flight is lost: then it must not read at all. */
	if (r == 0 && looked == 0 && decision->verdict == SESSION_PLAN && !flight->veto && !flight->is_lost &&
	    session_census_given_up(census, &diag))
		session_decision_rest(decision, &diag);
	if (r == 0 && decision->verdict == SESSION_PLAN) {
		if (flight->is_lost)
			diag_set(&diag, 0, 0, "it took too long to come to this");
		r = looked < 0 ? looked : session_decision_check(&planner, census, decision, &diag);
		if (r == 0 && (flight->veto || flight->is_lost))
			r = -EINVAL;
	}
	flight->is_author = r == 0 && process_identity_same(&decision->author, &setup->registry.self);
	if (r == 0)
		return 0;
	log_warn("Communicator %016llx may have a plan that this process cannot follow: %s",
		 (unsigned long long)flight->comm_id, diag.text[0] ? diag.text : strerror(-r));
	return -EIO;
}

/* Other threads may be about to read the file; this thread's flight must still be there after the wait. */
static int wait_and_publish(struct session_flight *flight)
{
	uint64_t serial = flight->serial;

	while (session_strangers_pending(&session.flights, flight->thread) && flight->serial == serial)
		nap();
	if (flight->serial == serial && session_flight_is_live(flight))
		return publish(flight);
	log_warn("A communicator has a plan that came too late in this process");
	return -EIO;
}

/* The first getProperties of the topology phase: all ranks of the host have returned from init. */
static int phase_begin(struct session_flight *flight)
{
	struct session_census *census = sys_zalloc(sizeof(*census));
	struct session_decision *decision = sys_zalloc(sizeof(*decision));
	uint64_t start_ns = clock_now_ns();
	int r = -ENOMEM;

	flight->joined_before = session.joined;
	if (census && decision)
		r = decision_get(flight, decision, census);
	else
		log_warn("Communicator %016llx may have a plan that this process cannot follow: %s",
			 (unsigned long long)flight->comm_id, strerror(ENOMEM));
	sys_free(census);
	if (r < 0) {
		sys_free(decision);
		return -EIO;
	}
	flight->decision = decision;
	session_report_say(&session.setup, flight->comm_id, decision, clock_elapsed_ns(start_ns, clock_now_ns()));
	if (decision->verdict == SESSION_PLAN)
		return wait_and_publish(flight);
	flight->state = SESSION_FLIGHT_RESTING;
	session_files_watch(&session.setup.files);
	return 0;
}

/*
 * How often NCCL may ask for device 0 in one phase: once; once more when it makes its virtual devices, which it does once
 * for the process; for each virtual device that holds it, once up to 2.28 and twice from 2.30 on; and all of it twice
 * for a dump.
 */
static unsigned zeros_allowed(const struct session_flight *flight)
{
	unsigned allowed = flight->joined_before ? 1 : 2;
	int count = 0;

	if (plugin_state_device_count(&count) < 0)
		count = 0;
	for (int i = (int)session.setup.nets.count; i < count; i++) {
		struct plugin_net_properties device;

		if (plugin_state_device(i, &device) < 0 || device.member_count < 2)
			continue;
		for (int k = 0; k < device.member_count; k++)
			allowed += device.members[k] == 0 ? 2 : 0;
	}
	return session.setup.environment.dumps_topology ? 2 * allowed : allowed;
}

static int phase_goes_on(struct session_flight *flight, int device)
{
	flight->zeros += device == 0;
	if (flight->state == SESSION_FLIGHT_RESTING)
		return 0;
	/* NCCL reads only after it has asked; and who asks anew has given up what it was at before. */
	if (session_files_was_read(&session.setup.files)) {
		session_flight_end(&session.flights, flight);
		return 0;
	}
	if (flight->zeros <= zeros_allowed(flight))
		return publish(flight);
	log_info(LOG_INIT, "Tributary, communicator %016llx: NCCL has begun something else, so its plan is taken back",
		 (unsigned long long)flight->comm_id);
	session_flight_end(&session.flights, flight);
	return 0;
}

/* NCCL makes the threads that connect after all graphs were read. Numbers of threads are used again, ages tell then. */
static bool is_younger_than(uint32_t thread, const struct session_flight *published)
{
	uint64_t since_ns = clock_elapsed_ns(published->published_ns, clock_now_ns());

	return published->last_thread && thread > published->last_thread &&
	       process_thread_age_ns() <= since_ns + 2 * TICK_MS * NS_PER_MS;
}

/*
 * A thread that initialises nothing we know of: it connects something, or it makes a communicator that shares its
 * parent's resources and is about to read the graph file, which must be at rest then.
 */
static void strange_properties(uint32_t thread)
{
	uint64_t start_ns = clock_now_ns();
	struct session_flight *published;

	if (thread_connects)
		return;
	for (;;) {
		session_flights_refresh(&session.flights);
		published = session_flights_published(&session.flights);
		if (!published || clock_elapsed_ns(start_ns, clock_now_ns()) >= SESSION_STRANGER_MS * NS_PER_MS)
			break;
		if (session_files_was_read(&session.setup.files) && is_younger_than(thread, published))
			session_flight_end(&session.flights, published);
		else
			nap();
	}
	session_stranger_note(&session.flights, thread);
}

static int properties(int device)
{
	uint32_t thread = process_thread();
	struct session_flight *flight = session_flights_of_thread(&session.flights, thread);
	int r = restore();

	if (r < 0 || session.setup.level < SESSION_FULL)
		return r;
	if (!flight) {
		strange_properties(thread);
		return 0;
	}
	switch (flight->state) {
	case SESSION_FLIGHT_BEGUN:
		flight->state = SESSION_FLIGHT_CHECKED;
		return 0;
	case SESSION_FLIGHT_CHECKED:
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
		return publish(flight);
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
		session_stranger_forget(&session.flights, thread);
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

void session_end(uint64_t comm_id)
{
	int saved_errno = errno;

	pthread_mutex_lock(&session.lock);
	if (session.ready)
		end_others_of_thread(comm_id);
	for (size_t i = 0; session.ready && i < SESSION_RECORDS; i++)
		if (session_flight_is_live(&session.flights.at[i]) && session.flights.at[i].comm_id == comm_id)
			session_flight_end(&session.flights, &session.flights.at[i]);
	pthread_mutex_unlock(&session.lock);
	errno = saved_errno;
}

static int facts_of(const struct session_flight *flight, struct session_facts *ret)
{
	const struct topology *topology = &session.setup.machine.topology;
	const struct session_decision *decision = flight->decision;

	if (!decision)
		return -ENOENT;
	memset(ret, 0, sizeof(*ret));
	ret->published = decision->verdict == SESSION_PLAN;
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
	session_stranger_forget(&session.flights, thread);
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

void session_reset(const struct params_source *source, const char *root, uint64_t patience_ns)
{
	pthread_mutex_lock(&session.lock);
	session_flights_forget(&session.flights);
	if (session.ready)
		session_setup_undo(&session.setup);
	session.ready = session.joined = false;
	session.source = source;
	session.root = root ? root : "";
	session.patience_ns = patience_ns ? patience_ns : PATIENCE_NS;
	pthread_mutex_unlock(&session.lock);
}
