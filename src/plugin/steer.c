#include "plugin/steer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/sys.h"
#include "gpu/current.h"
#include "plugin/guest.h"
#include "plugin/net.h"
#include "plugin/state.h"
#include "plugin/steer/agreed.h"
#include "plugin/steer/collnet.h"
#include "plugin/steer/decide.h"
#include "plugin/steer/gpus.h"
#include "plugin/steer/nets.h"
#include "plugin/steer/report.h"
#include "plugin/steer/setup.h"
#include "plugin/steer/status.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { NAP_US = 200, PARENTS = 256 };
/* For another rank's planning; then a rank plans itself, and one decision counts. */
#define PLANNING_NS  NS_PER_S
/* What NCCL is given where a rank cannot follow the plan of the others: an error for it, where going on would hang. */
#define NO_SUCH_FILE "/proc/self/tributary-cannot-follow-the-plan"

enum thread_state { IDLE, REGISTERED, TOPOLOGY, DECIDED };

/* One for each thread that has initialised a communicator. Only its own thread uses it, but for next and slot. */
struct steer_thread {
	struct steer_thread *next; /* of all */
	enum thread_state state;
	struct steer_record record;
	uint64_t process; /* steer_process_hash of this one */
	int slot;         /* of the record; negative: it is not in the registry (steer_registry_drop) */
	bool is_author;   /* of the decision */
	int graph_fd;     /* -1: none */
	char graph_path[STEER_PATH_BYTES];
	const char *graph; /* the answer to NCCL_GRAPH_FILE; NULL: none */
	bool has_decision;
	struct steer_decision decision;
};

static struct {
	pthread_mutex_t lock; /* guards all that follows; what setup has made is not written again */
	atomic_bool ready;    /* setup may be read */
	struct steer_setup setup;
	struct steer_status status;
	struct steer_thread *threads;
	pthread_key_t key;
	bool has_key; /* this, too, is not written again */
	uint64_t serials;
	uint64_t parents[PARENTS]; /* ids of the last communicators, whose children may come */
	size_t parent_count;
	_Atomic unsigned nccl_version; /* 0: there is no environment half */
	/* Tests replace these. */
	const struct params_source *source;
	const char *root;
} steer = { .lock = PTHREAD_MUTEX_INITIALIZER, .root = "" };

/* -------------------------------------------------------------------------------------------------------------- threads */

/* The record and, of its author, the decision. Under the lock. */
static void withdraw(struct steer_thread *thread)
{
	if (thread->is_author)
		steer_registry_forget(&steer.setup.registry, thread->record.comm_id, thread->record.host);
	steer_registry_drop(&steer.setup.registry, thread->slot);
	thread->is_author = false;
	thread->slot = STEER_NO_SLOT;
}

/* NCCL reads no more of what this thread was given. The decision stays for the tuner. */
static void become_idle(struct steer_thread *thread)
{
	if (thread->state == IDLE)
		return;
	pthread_mutex_lock(&steer.lock);
	withdraw(thread);
	pthread_mutex_unlock(&steer.lock);
	sys_close(&thread->graph_fd);
	thread->graph = NULL;
	thread->state = IDLE;
}

static void thread_ends(void *arg)
{
	struct steer_thread *thread = arg, **link = &steer.threads;

	if (plugin_guest_forked())
		return;
	become_idle(thread);
	pthread_mutex_lock(&steer.lock);
	while (*link != thread)
		link = &(*link)->next;
	*link = thread->next;
	pthread_mutex_unlock(&steer.lock);
	sys_free(thread);
}

static struct steer_thread *this_thread(void)
{
	return atomic_load_explicit(&steer.ready, memory_order_acquire) && steer.has_key
		       ? pthread_getspecific(steer.key)
		       : NULL;
}

/* Under the lock. NULL: no memory. */
static struct steer_thread *thread_make(void)
{
	struct steer_thread *thread = this_thread();

	if (thread || !steer.has_key)
		return thread;
	thread = sys_zalloc(sizeof(*thread));
	if (!thread)
		return NULL;
	if (pthread_setspecific(steer.key, thread) != 0) {
		sys_free(thread);
		return NULL;
	}
	thread->slot = STEER_NO_SLOT;
	thread->graph_fd = -1;
	thread->next = steer.threads;
	steer.threads = thread;
	return thread;
}

/*
 * The library is never unloaded (-z nodelete), so this is the end of the process, where other threads may still be at
 * work: only what would be left behind goes. Who holds the lock for long has ended with it.
 */
__attribute__((destructor)) static void leave(void)
{
	enum { TRIES = 100 };
	int r = EBUSY;

	if (plugin_guest_forked())
		return;
	for (unsigned i = 0; i < TRIES && r; i++) {
		r = pthread_mutex_trylock(&steer.lock);
		if (r)
			nanosleep(&(struct timespec){ .tv_nsec = (long)NS_PER_MS }, NULL);
	}
	if (r)
		return;
	if (atomic_load(&steer.ready)) {
		for (struct steer_thread *thread = steer.threads; thread; thread = thread->next)
			withdraw(thread);
		steer_status_end(&steer.status, &steer.setup);
		steer_registry_close(&steer.setup.registry);
		steer_elsewhere_close(&steer.setup.elsewhere);
	}
	pthread_mutex_unlock(&steer.lock);
}

/* ---------------------------------------------------------------------------------------------------------------- setup */

static void point_nccl_to_topology(void)
{
	char mark[STEER_PATH_BYTES + 1];

	snprintf(mark, sizeof(mark), "%s:", steer.setup.topology_path);
	if (setenv(STEER_MARK_VARIABLE, mark, 1) < 0 ||
	    setenv(STEER_TOPOLOGY_VARIABLE, steer.setup.topology_path, 1) < 0)
		log_warn("%s cannot be set: %s", STEER_TOPOLOGY_VARIABLE, strerror(errno));
}

/* Under the lock. */
static void setup_once(void)
{
	const struct params_source environment = params_from_environment();
	struct steer_setup_request request = { .params = plugin_state_params(),
					       .source = steer.source ? steer.source : &environment,
					       .root = steer.root,
					       .nccl_version = atomic_load(&steer.nccl_version) };
	struct steer_nets nets;

	if (atomic_load_explicit(&steer.ready, memory_order_relaxed))
		return;
	steer_nets_know(&nets);
	request.nets = &nets;
	request.collnet = steer_collnet_may_come(request.source);
	steer_setup(&request, &steer.setup);
	steer_status_begin(request.params, request.source, &steer.setup, &steer.status);
	/* Without the environment half the environment itself is the only way, before NCCL reads it for the first time. */
	if (!request.nccl_version && steer.setup.level > STEER_OFF)
		point_nccl_to_topology();
	steer.has_key = pthread_key_create(&steer.key, thread_ends) == 0;
	atomic_store_explicit(&steer.ready, true, memory_order_release);
	steer_collnet_advise(&steer.setup);
}

void steer_environment_half(unsigned nccl_version)
{
	atomic_store(&steer.nccl_version, nccl_version);
}

void steer_begin_process(void)
{
	pthread_mutex_lock(&steer.lock);
	setup_once();
	pthread_mutex_unlock(&steer.lock);
}

/* ---------------------------------------------------------------------------------------------------------------- begin */

static enum steer_reason reason_of_gpu(char bus_id[static STEER_BUS_ID_BYTES])
{
	const struct topology *topology = &steer.setup.machine.topology;
	struct diag diag = { .text = "" };
	uint32_t gpu;

	if (gpu_current_bus_id(bus_id, &diag) < 0) {
		log_info(LOG_INIT, "Tributary does not know this rank's GPU: %s", diag.text);
		return STEER_REASON_NO_GPU;
	}
	gpu = topology_find_bus_id(topology, bus_id);
	if (gpu == TOPOLOGY_NONE || topology->vertices[gpu].kind != TOPOLOGY_GPU)
		return STEER_REASON_NO_GPU;
	return topology->vertices[gpu].gpu.mig >= 0 ? STEER_REASON_MIG : STEER_ELIGIBLE;
}

/* Under the lock. Also remembers this one as a parent. */
static bool is_shrunk(uint64_t comm_id)
{
	bool found = false;

	for (size_t i = 0; i < steer.parent_count && i < PARENTS; i++)
		found |= steer_shrink_id(steer.parents[i]) == comm_id;
	steer.parents[steer.parent_count++ % PARENTS] = comm_id;
	return found;
}

/* Under the lock. */
static void enter(struct steer_thread *thread, uint64_t comm_id)
{
	struct steer_record *record = &thread->record;
	struct diag diag = { .text = "" };
	bool shrunk = is_shrunk(comm_id);

	memset(record, 0, sizeof(*record)); /* it is written as bytes */
	record->comm_id = comm_id;
	record->host = steer.setup.settings.host;
	record->machine = steer.setup.machine.hash;
	record->serial = ++steer.serials;
	record->reason = reason_of_gpu(record->bus_id);
	record->follows = record->bus_id[0] && !shrunk && !steer.setup.settings.other_tuner &&
			  steer_collnet_is_possible();
	if (steer.setup.reason)
		record->reason = steer.setup.reason;
	else if (!record->reason && shrunk)
		record->reason = STEER_REASON_SHRINK;
	thread->graph_fd = record->reason ? -1 : steer_memory_file(STEER_GRAPH_BYTES, thread->graph_path);
	if (!record->reason && thread->graph_fd < 0)
		record->reason = STEER_REASON_NO_ROOM;
	if (steer_registry_restore(&steer.setup.registry, &diag) == 0) {
		thread->process = steer_process_hash(&steer.setup.registry.own->process);
		thread->slot = steer_registry_add(&steer.setup.registry, record);
	}
	/* Without a record it is not known to the others; for none of the proofs is the set complete then. */
	if (thread->slot < 0)
		log_info(LOG_INIT, "Tributary cannot tell the other ranks of communicator %016llx of this one: %s",
			 (unsigned long long)comm_id, diag.text[0] ? diag.text : "shared memory is full");
	thread->state = REGISTERED;
}

bool steer_wants_communicators(void)
{
	return atomic_load_explicit(&steer.ready, memory_order_acquire) && steer.setup.level == STEER_FULL;
}

void steer_begin(uint64_t comm_id)
{
	struct steer_thread *thread;
	int saved_errno = errno;

	pthread_mutex_lock(&steer.lock);
	setup_once();
	thread = steer.setup.registers ? thread_make() : this_thread();
	pthread_mutex_unlock(&steer.lock);
	if (thread) {
		become_idle(thread);
		thread->has_decision = false;
	}
	if (thread && steer.setup.registers) {
		pthread_mutex_lock(&steer.lock);
		enter(thread, comm_id);
		pthread_mutex_unlock(&steer.lock);
	}
	errno = saved_errno;
}

/* --------------------------------------------------------------------------------------------------------------- decide */

static void ask_nvml(void *arg, struct steer_compute *ret)
{
	(void)arg;
	steer_compute_ask(ret);
}

static bool job_is_elsewhere(void *arg, struct diag *diag)
{
	(void)arg;
	return steer_elsewhere_is(&steer.setup.elsewhere, diag);
}

static int plan_and_publish(struct steer_thread *thread, struct diag *diag)
{
	const struct steer_planner planner = {
		.machine = &steer.setup.machine,
		.nets = &steer.setup.nets,
		.settings = &steer.setup.settings,
		.chain_gain_permille = steer_collnet_gain(&steer.setup),
		.compute = ask_nvml,
		.job_is_elsewhere = job_is_elsewhere,
	};
	struct steer_snapshot *snapshot = sys_zalloc(sizeof(*snapshot));
	struct steer_decision *decision = &thread->decision;
	int r = -ENOMEM;

	memset(decision, 0, sizeof(*decision)); /* it is written as bytes */
	decision->comm_id = thread->record.comm_id;
	decision->host = thread->record.host;
	decision->machine = thread->record.machine;
	pthread_mutex_lock(&steer.lock);
	if (snapshot)
		r = steer_registry_scan(&steer.setup.registry, decision->comm_id, decision->host, snapshot, diag);
	pthread_mutex_unlock(&steer.lock);
	if (r == 0) {
		steer_decide(&planner, snapshot, decision);
	} else { /* a decision, too, which all ranks can follow */
		if (!diag->text[0])
			diag_set(diag, 0, 0, "%s", strerror(-r));
		steer_decide_against(decision, diag);
	}
	pthread_mutex_lock(&steer.lock);
	r = steer_registry_decide(&steer.setup.registry, thread->slot, decision, &thread->is_author, diag);
	pthread_mutex_unlock(&steer.lock);
	sys_free(snapshot);
	return r;
}

/* The decision of whichever rank comes first. */
static int find_decision(struct steer_thread *thread, struct diag *diag)
{
	const struct timespec nap = { .tv_nsec = NAP_US * (long)NS_PER_US };
	const uint64_t comm_id = thread->record.comm_id, host = thread->record.host, start_ns = clock_now_ns();
	int r;

	for (;;) {
		r = steer_registry_decision(&steer.setup.registry, comm_id, host, &thread->decision, diag);
		if (r != -ENOENT)
			return r;
		if (steer_registry_claim(&steer.setup.registry, comm_id, host) == 0 ||
		    clock_elapsed_ns(start_ns, clock_now_ns()) >= PLANNING_NS)
			break;
		nanosleep(&nap, NULL);
	}
	r = plan_and_publish(thread, diag);
	steer_registry_unclaim(&steer.setup.registry, comm_id, host);
	return r;
}

static int write_graph(struct steer_thread *thread, struct diag *diag)
{
	const struct steer_setup *setup = &steer.setup;
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

	if (first->process != thread->process || first->serial != thread->record.serial)
		return;
	pthread_mutex_lock(&steer.lock);
	steer_status_add(&steer.status, &steer.setup, &thread->decision);
	pthread_mutex_unlock(&steer.lock);
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
 * A decision about an earlier communicator with the same id may go before the other ranks have looked for one; then they
 * must not plan with this rank, which has seen it. It says so and looks again: if the old one is still there, whoever finds
 * none later scans later, too, and sees what this rank said; if not, there is the others' decision, or none yet.
 */
static int find_own_decision(struct steer_thread *thread, struct diag *diag)
{
	int r = find_decision(thread, diag);

	if (r < 0 || is_for(thread))
		return r;
	pthread_mutex_lock(&steer.lock);
	r = steer_registry_refuse(&steer.setup.registry, thread->slot, STEER_REASON_ID);
	pthread_mutex_unlock(&steer.lock);
	if (r == 0)
		r = find_decision(thread, diag);
	if (r == 0 && thread->decision.verdict == STEER_PLAN && !is_for(thread)) {
		diag_set(diag, 0, 0, "%s", steer_reason_text(STEER_REASON_ID));
		decide_alone(thread, diag);
	}
	return r;
}

static void decide(struct steer_thread *thread)
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
	if (r == 0 && thread->decision.verdict == STEER_PLAN)
		r = write_graph(thread, &diag);
	if (r < 0) {
		log_warn("Communicator %016llx may have a plan that this rank cannot follow: %s",
			 (unsigned long long)thread->record.comm_id, diag.text[0] ? diag.text : strerror(-r));
		thread->graph = NO_SUCH_FILE;
		decide_alone(thread, &diag);
		tell(thread);
		return;
	}
	thread->has_decision = true;
	if (thread->decision.verdict == STEER_PLAN)
		thread->graph = thread->graph_path;
	steer_report_say(&steer.setup, thread->record.comm_id, &thread->decision,
			 clock_elapsed_ns(start_ns, clock_now_ns()));
}

/* -------------------------------------------------------------------------------------------------------------- answers */

static const char *users(const char *name)
{
	return steer.source ? steer.source->get(name) : getenv(name);
}

static void decide_aloud(struct steer_thread *thread)
{
	log_collect();
	decide(thread);
	log_flush();
}

/* The decision says which of two texts all ranks get, where there are two. */
static const char *topology_file(struct steer_thread *thread)
{
	const struct steer_setup *setup = &steer.setup;

	if (thread && thread->state == REGISTERED) {
		thread->state = TOPOLOGY;
		if (setup->machine.shaped_text)
			decide_aloud(thread);
	} else if (thread && thread->state == DECIDED) {
		become_idle(thread);
	}
	if (setup->level <= STEER_OFF)
		return users(STEER_TOPOLOGY_VARIABLE);
	return thread && thread->state == TOPOLOGY && thread->has_decision && thread->decision.shaped
		       ? setup->shaped_path
		       : setup->topology_path;
}

static const char *graph_file(struct steer_thread *thread)
{
	if (steer.setup.settings.graph_file == STEER_FILE_USERS)
		return users(STEER_GRAPH_VARIABLE);
	if (thread && thread->state == TOPOLOGY && steer.setup.level == STEER_FULL) {
		thread->state = DECIDED;
		if (!steer.setup.machine.shaped_text)
			decide_aloud(thread);
	}
	return thread ? thread->graph : NULL;
}

const char *steer_get(const char *name)
{
	int saved_errno = errno;
	const char *value;
	bool ready;

	if (strncmp(name, "NCCL_", 5) != 0 || plugin_guest_forked())
		return users(name);
	ready = atomic_load_explicit(&steer.ready, memory_order_acquire);
	if (!strcmp(name, "NCCL_NET") && this_thread())
		become_idle(this_thread());
	if (ready && !strcmp(name, STEER_TOPOLOGY_VARIABLE))
		value = topology_file(this_thread());
	else if (ready && !strcmp(name, STEER_GRAPH_VARIABLE))
		value = graph_file(this_thread());
	else
		value = users(name);
	if (!strcmp(name, "NCCL_PROTO") && this_thread())
		become_idle(this_thread());
	errno = saved_errno;
	return value;
}

/* Not when NCCL_NET is asked: before NCCL 2.30 nobody has given the plugin a logger by then. */
static void say_if_another_network_is_named(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const char *value = users("NCCL_NET");

	if (value && strcasecmp(value, PLUGIN_NET_NAME) != 0 && log_once(&said))
		log_info(LOG_INIT,
			 "Tributary hears of no communicator and plans no channels, as NCCL_NET=%s is set; "
			 "TRIBUTARY_NET=off leaves the network to NCCL, too",
			 value);
}

int steer_tuner(uint64_t comm_id, struct steer_facts *ret)
{
	const struct steer_thread *thread = plugin_guest_forked() ? NULL : this_thread();
	const struct topology *topology = &steer.setup.machine.topology;
	const struct plan_request *request;

	if (!plugin_guest_forked())
		say_if_another_network_is_named();
	if (!thread || !thread->has_decision || (comm_id && thread->record.comm_id != comm_id))
		return -ENOENT;
	*ret = (struct steer_facts){ .published = thread->decision.verdict == STEER_PLAN };
	if (!ret->published)
		return 0;
	request = &thread->decision.request;
	ret->set = thread->decision.set;
	ret->local_gpu_count = request->gpu_count;
	for (size_t i = 0; i < request->gpu_count; i++) {
		int sm = topology->vertices[request->gpus[i]].gpu.sm;

		ret->sm = i == 0 || sm < ret->sm ? sm : ret->sm;
	}
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------- collnet */

void steer_collnet_audience(uint64_t comm_id, struct steer_audience *ret)
{
	struct steer_snapshot *snapshot;
	struct diag diag;

	ret->count = 0;
	if (!atomic_load_explicit(&steer.ready, memory_order_acquire) || !comm_id)
		return;
	snapshot = sys_zalloc(sizeof(*snapshot));
	pthread_mutex_lock(&steer.lock);
	if (snapshot && steer.setup.registers &&
	    steer_registry_scan(&steer.setup.registry, comm_id, steer.setup.settings.host, snapshot, &diag) == 0)
		steer_agreed_audience(snapshot, ret);
	pthread_mutex_unlock(&steer.lock);
	sys_free(snapshot);
}

int steer_collnet_tell(const struct steer_audience *audience, const struct steer_agreed *agreed)
{
	int r;

	pthread_mutex_lock(&steer.lock);
	r = steer_agreed_tell(steer.setup.registry.directory, audience, agreed);
	pthread_mutex_unlock(&steer.lock);
	return r;
}

int steer_collnet_agreed(uint64_t comm_id, size_t rank_count, unsigned *ret_gain_permille)
{
	const struct steer_thread *thread = plugin_guest_forked() ? NULL : this_thread();
	struct steer_agreed agreed;
	int r;

	*ret_gain_permille = 0;
	if (!thread || thread->slot < 0 || !comm_id || thread->record.comm_id != comm_id)
		return 0;
	pthread_mutex_lock(&steer.lock);
	r = steer_agreed_hear(steer.setup.registry.directory, thread->process, thread->record.serial, &agreed);
	pthread_mutex_unlock(&steer.lock);
	if (r == 0 && agreed.rank_count == rank_count)
		*ret_gain_permille = agreed.gain_permille;
	return r == -ENOENT ? 0 : r;
}

void steer_reset(const struct params_source *source, const char *root)
{
	while (steer.threads)
		thread_ends(steer.threads);
	if (steer.has_key) /* whichever threads had a value of it are gone, or begin anew */
		pthread_key_delete(steer.key);
	steer.has_key = false;
	if (atomic_exchange(&steer.ready, false)) {
		steer_status_end(&steer.status, &steer.setup);
		steer_setup_end(&steer.setup);
	}
	steer.parent_count = 0;
	atomic_store(&steer.nccl_version, 0);
	steer.source = source;
	steer.root = root ? root : "";
}
