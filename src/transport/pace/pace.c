/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pace/pace.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "transport/pace/internal.h"

#include <errno.h>
enum {
	DEFAULT_QUANTUM_BYTES = 32 << 10,
	GRANTS_IN_BUDGET = 4, /* for each waiting flow: enough to share it, few enough to keep messages rare */
	FLOWS_IN_SHARE = 2,   /* more flows than that take turns: each grant is a message and a wake-up at both ends */
	LOOPS_IN_STALL = 8,
	LATE_WAKES = 16,
};
#define STALL_LEAST_NS       (20 * NS_PER_MS) /* above a busy machine's time slices, far below TCP's time-out */
#define POLL_NS              (2 * NS_PER_MS)
/* How late a host with more threads than cores may be with what it was granted; docs/design/transport.md, "Late hosts". */
#define LATE_NS              (8 * NS_PER_MS)
#define LATE_MOST_NS         (64 * NS_PER_MS)
#define ALONE_AFTER_NS       (100 * NS_PER_MS)
#define NEVER                UINT64_MAX
/*
 * Hosts that sent lately send again, also after a rest: an epoch has so many messages at least. Until so many have come at
 * all, every host that is connected may begin.
 */
#define UNSCHEDULED_EPOCH_NS (5 * NS_PER_S)
enum { UNSCHEDULED_KNOWN = 64, UNSCHEDULED_LEAST_BYTES = 2 * 1448 };

static unsigned spread_of(const struct pace_sender *sender)
{
	return sender ? pace_flight_spread(sender->spread, sender->hosts) : 1;
}

static unsigned depth_of(const struct pace_sender *sender)
{
	return sender ? pace_flight_depth(sender->spread, sender->hosts) : 1;
}

static unsigned processes(const struct pace *pace)
{
	return pace->arbiter ? pace_arbiter_processes(pace->arbiter) : 1;
}

/* The only host that this process hears of: that is connected, or that has sent anything for a while. */
static uint64_t only_source(const struct pace *pace)
{
	return pace->source && (pace->hosts_connected == 1 || pace->event_ns > pace->mixed_ns + ALONE_AFTER_NS)
		       ? pace->source
		       : PACE_ARBITER_SEVERAL;
}

/* This process sends long messages, too. */
static bool sends(const struct pace *pace)
{
	return pace->event_ns < atomic_load_explicit(&pace->sends_ns, memory_order_relaxed) + ALONE_AFTER_NS;
}

/* What the other processes are told: nothing of a host that was heard of long ago. */
static uint64_t said_source(const struct pace *pace)
{
	return pace->senders || (pace->messages && pace->event_ns < pace->message_ns + UNSCHEDULED_EPOCH_NS)
		       ? only_source(pace)
		       : 0;
}

/*
 * One host alone cannot overflow the port behind which we sit by more than its own TCP connections would, to whichever of our
 * processes: nothing is gained by holding it back, and on a busy machine, where wake-ups take milliseconds, much is lost.
 */
static bool one_sender_alone(const struct pace *pace)
{
	return only_source(pace) != PACE_ARBITER_SEVERAL && !pace->others.hear_elsewhere;
}

/*
 * What is granted to somebody who sends to several hosts waits for its turn at that host's own port: with the same budget at
 * all of them, for as long as the budget lasts. Whatever time is lost besides is small only against a larger one. A host that
 * sends has late peers as well as late threads; one that only receives may sit behind a small port that many fill. Those
 * that send to many at once, without turns, keep it filled with what their kernels let through, not by grants.
 */
static uint64_t late_ns(const struct pace *pace)
{
	uint64_t ns = sends(pace) ? min_u64(LATE_NS + LATE_WAKES * pace->estimator.wake_ns, LATE_MOST_NS) : LATE_NS;

	if (!pace->spread || pace->event_ns >= pace->spread_ns + ALONE_AFTER_NS)
		return ns;
	return pace->spread * (pace->spread_by_turns ? ns : LATE_MOST_NS);
}

static uint64_t budget(const struct pace *pace)
{
	uint64_t bytes = pace->estimator.budget_bytes;

	if (pace->fixed_budget_bytes)
		return pace->fixed_budget_bytes;
	if (pace->estimator.measured) /* the nominal speed may be ten times the truth */
		bytes += (uint64_t)((double)pace_estimator_rate(&pace->estimator) * (double)late_ns(pace) * 1e-9);
	if (one_sender_alone(pace))
		bytes = max_u64(bytes, PACE_ALONE_BYTES);
	return min_u64(bytes, pace->most_budget_bytes);
}

/* Books the time since the last look at the pool under what the pool was then. Every entry calls it first. */
static void account(struct pace *pace, uint64_t now_ns)
{
	struct pace_window *window = &pace->window;
	uint64_t passed_ns;

	/* Threads took their time before the lock: it may go back a little. */
	passed_ns = now_ns > pace->event_ns ? now_ns - pace->event_ns : 0;
	pace->event_ns = max_u64(now_ns, pace->event_ns);
	if (!pace->granter.outstanding_bytes) {
		if (!window->busy_ns)
			window->start_ns = pace->event_ns; /* nothing yet: it begins with the first grant */
		return;
	}
	window->busy_ns += passed_ns;
	pace_port_pass(&pace->port, passed_ns);
	if (!pace->granter.waiting_count)
		return;
	window->limited_ns += passed_ns;
	pace->limited_ns += passed_ns;
}

static void window_look(struct pace *pace)
{
	struct pace_window *window = &pace->window;
	uint64_t host_bytes;
	bool shared;

	if (!pace_window_is_over(window, pace_estimator_round_trip(&pace->estimator)))
		return;
	shared = processes(pace) > 1;
	host_bytes = window->shared && pace->arbiter ? pace_arbiter_delivered(pace->arbiter) : 0;
	pace_estimator_take(&pace->estimator, window, pace->event_ns, shared, host_bytes);
	pace->granter.stall_ns = max_u64(STALL_LEAST_NS, LOOPS_IN_STALL * pace_estimator_round_trip(&pace->estimator));
	*window = (struct pace_window){
		.start_ns = pace->event_ns,
		.backlog_bytes = pace->granter.outstanding_bytes,
		.host_bytes = shared ? pace_arbiter_delivered(pace->arbiter) : 0,
		.shared = shared,
	};
}

static void give(struct pace *pace, uint64_t allowance_bytes)
{
	struct pace_granter *granter = &pace->granter;

	for (;;) {
		uint64_t before_bytes = granter->outstanding_bytes, given_bytes;
		struct pace_flow *flow = pace_granter_next(granter, allowance_bytes, pace->event_ns);

		if (!flow)
			return;
		given_bytes = granter->outstanding_bytes - before_bytes;
		allowance_bytes -= given_bytes < allowance_bytes ? given_bytes : allowance_bytes;
		atomic_store_explicit(&((struct pace_message *)flow)->granted_bytes, flow->granted_bytes,
				      memory_order_release);
	}
}

/* What the switch holds for our port. */
static uint64_t port_bytes(const struct pace *pace)
{
	return pace_flight_port_bytes(pace->estimator.measured ? pace_estimator_rate(&pace->estimator)
							       : pace->port_Bps);
}

/* The most that sent at a time. */
static uint64_t hosts_lately(const struct pace *pace)
{
	return max_u64(pace->hosts_most, pace->hosts_most_before);
}

/* Whenever a message begins or ends, or a connection. */
static void unscheduled_look(struct pace *pace)
{
	uint64_t hosts = pace->hosts_sending, bytes;
	bool alone;

	if (!pace->enabled)
		return;
	hosts += pace->others.senders_elsewhere;
	if (pace->messages - pace->hosts_epoch_messages >= UNSCHEDULED_KNOWN &&
	    pace->event_ns >= pace->hosts_epoch_ns + UNSCHEDULED_EPOCH_NS) {
		pace->hosts_most_before = pace->hosts_most;
		pace->hosts_most = 0;
		pace->hosts_epoch_ns = pace->event_ns;
		pace->hosts_epoch_messages = pace->messages;
	}
	pace->hosts_most = (unsigned)max_u64(pace->hosts_most, hosts);
	hosts = hosts_lately(pace);
	atomic_store_explicit(&pace->compete, hosts > 1, memory_order_relaxed);
	if (pace->messages < UNSCHEDULED_KNOWN)
		hosts = max_u64(hosts, pace->hosts_connected);
	bytes = hosts < 2 ? PACE_UNSCHEDULED_BYTES : min_u64(port_bytes(pace) / hosts, PACE_UNSCHEDULED_BYTES);
	bytes = bytes < UNSCHEDULED_LEAST_BYTES ? 0 : bytes;
	atomic_store_explicit(&pace->unscheduled_bytes, bytes, memory_order_relaxed);
	/*
	 * Not at the beginning: others are about to connect. Nor after a rest where several hosts compete: they all begin again.
	 * While one goes on sending alone it may: our kernel does not bound that connection, and still bounds theirs.
	 */
	alone = pace->messages >= UNSCHEDULED_KNOWN && one_sender_alone(pace) &&
		(hosts < 2 || pace->senders || pace->event_ns < pace->message_ns + ALONE_AFTER_NS);
	atomic_store_explicit(&pace->alone_host, alone ? pace->source : 0, memory_order_relaxed);
}

/* Who competes is known whenever a message begins or ends, here or in another process. */
static void flight_look(struct pace *pace)
{
	uint64_t bytes = 0;

	pace_flight_note(&pace->flight, pace->senders + pace->others.senders, pace->event_ns);
	if (!one_sender_alone(pace))
		bytes = pace_flight_bytes(&pace->flight, port_bytes(pace), pace_estimator_rate(&pace->estimator),
					  pace->path_ns ? pace->path_ns : PACE_NOMINAL_LOOP_NS / 2);
	atomic_store_explicit(&pace->flight_bytes, bytes, memory_order_relaxed);
	/* What we send delays our acknowledgements: as much again is on its way. Of more hosts than a tree's it comes at once. */
	atomic_store_explicit(&pace->flight_spread, sends(pace) && hosts_lately(pace) <= PACE_FLIGHT_TREE_HOSTS ? 2 : 1,
			      memory_order_relaxed);
	atomic_store_explicit(&pace->flight_lasts,
			      port_bytes(pace) >= pace_flight_port_bytes(pace_estimator_rate(&pace->estimator)),
			      memory_order_relaxed);
	unscheduled_look(pace);
}

/* Grants all that can be granted now. */
static void run(struct pace *pace)
{
	struct pace_granter *granter = &pace->granter;
	uint64_t room, budget_bytes;

	if (pace->arbiter)
		pace->others = pace_arbiter_look(pace->arbiter, only_source(pace));
	atomic_store_explicit(&pace->one_sender, one_sender_alone(pace) && processes(pace) == 1, memory_order_relaxed);
	budget_bytes = budget(pace);
	flight_look(pace);
	pace->port.sends = sends(pace);
	pace_turn_look(pace);
	if (granter->waiting_count)
		pace_granter_resize(granter, budget_bytes,
				    budget_bytes / processes(pace) / GRANTS_IN_BUDGET /
					    min_u64(granter->waiting_count, FLOWS_IN_SHARE));
	if (pace_granter_may_give(granter)) {
		if (pace->arbiter) {
			room = less_u64(budget_bytes, granter->outstanding_bytes);
			if (!granter->outstanding_bytes)
				room = max_u64(room, granter->quantum_bytes);
			give(pace, pace_arbiter_reserve(pace->arbiter, granter->outstanding_bytes, room, budget_bytes,
							granter->quantum_bytes));
		} else {
			give(pace, UINT64_MAX);
		}
	}
	if (pace->arbiter)
		pace_arbiter_publish(pace->arbiter, granter->outstanding_bytes, granter->waiting_count > 0,
				     pace->senders, said_source(pace));
	if (!granter->waiting_count)
		atomic_store_explicit(&pace->poll_due_ns, NEVER, memory_order_relaxed);
	else if (atomic_load_explicit(&pace->poll_due_ns, memory_order_relaxed) == NEVER)
		atomic_store_explicit(&pace->poll_due_ns, pace->event_ns + POLL_NS, memory_order_relaxed);
}

static void open_arbiter(struct pace *pace, const struct pace_options *options)
{
	struct diag diag = { 0 };

	if (pace_arbiter_open(options->arbiter_directory, options->device_name, &pace->arbiter, &diag) == 0)
		return;
	log_info(LOG_NET, "pace: %s: the arbiter in %s cannot be had (%s): this process paces by itself",
		 options->device_name, options->arbiter_directory, diag.text);
}

int pace_new(const struct pace_options *options, struct pace **ret)
{
	uint64_t quantum_bytes = options->quantum_bytes ? options->quantum_bytes : DEFAULT_QUANTUM_BYTES;
	struct pace *pace = sys_zalloc(sizeof(*pace));

	if (!pace)
		return -ENOMEM;
	pthread_mutex_init(&pace->lock, NULL); /* a plain mutex: glibc's cannot fail */
	pace->enabled = options->enabled;
	pace->port_Bps = options->port_Bps;
	pace->most_budget_bytes = options->most_budget_bytes ? options->most_budget_bytes : PACE_BUDGET_MAX_BYTES;
	atomic_init(&pace->poll_due_ns, NEVER);
	atomic_init(&pace->flight_spread, 1);
	atomic_init(&pace->one_sender, !options->enabled);
	atomic_init(&pace->unscheduled_bytes, PACE_UNSCHEDULED_BYTES);
	pace_port_init(&pace->port, options->port_Bps);
	if (options->enabled && options->device_name)
		open_arbiter(pace, options);
	pace->fixed_budget_bytes = options->fixed_budget_bytes;
	pace_estimator_init(&pace->estimator, options->speed_Bps, quantum_bytes);
	pace_granter_init(&pace->granter, budget(pace), quantum_bytes, STALL_LEAST_NS);
	*ret = pace;
	return 0;
}

void pace_free(struct pace *pace)
{
	if (!pace)
		return;
	pace_arbiter_close(pace->arbiter);
	pthread_mutex_destroy(&pace->lock);
	sys_free(pace);
}

struct pace_arbiter *pace_arbiter_of(struct pace *pace)
{
	return pace ? pace->arbiter : NULL;
}

void pace_add(struct pace *pace, struct pace_message *message, uint64_t total_bytes, uint64_t now_ns)
{
	struct pace_sender *sender = message->sender;
	uint64_t source = sender ? sender->host : 0;

	if (!pace->enabled) {
		atomic_store_explicit(&message->granted_bytes, total_bytes, memory_order_release);
		return;
	}
	if (!total_bytes)
		return;
	pthread_mutex_lock(&pace->lock);
	account(pace, now_ns);
	/* Of several hosts the first one after a rest is not alone: the others follow. */
	if (!source || source != pace->source ||
	    (!pace->senders && hosts_lately(pace) > 1 && pace->event_ns > pace->message_ns + ALONE_AFTER_NS)) {
		pace->source = source;
		pace->mixed_ns = pace->event_ns;
	}
	if (sender && spread_of(sender) > 1) {
		pace->spread = spread_of(sender);
		pace->spread_by_turns = sender->spread > 1;
		pace->spread_ns = pace->event_ns;
	}
	pace_granter_add(&pace->granter, &message->flow, sender ? &sender->held_bytes : NULL, total_bytes, now_ns);
	if (message->unscheduled_bytes) {
		pace_granter_charge(&pace->granter, &message->flow, message->unscheduled_bytes);
		pace_granter_delivered(&pace->granter, &message->flow, message->came_bytes, now_ns);
		message->told_bytes = message->unscheduled_bytes;
		atomic_store_explicit(&message->granted_bytes, message->unscheduled_bytes, memory_order_release);
	}
	pace->messages++;
	pace->message_ns = pace->event_ns;
	if (sender && !sender->coming_count)
		pace_port_turns(&pace->port, sender, pace->event_ns);
	if (sender && sender->coming_count++ == 0) {
		pace->senders++;
		pace->hosts_sending += pace->hosts[sender->place].sending++ == 0;
	}
	run(pace);
	pthread_mutex_unlock(&pace->lock);
}

void pace_add_again(struct pace *pace, struct pace_message *message, uint64_t now_ns)
{
	const uint64_t told_bytes = message->told_bytes;

	message->unscheduled_bytes = pace_granted(message);
	message->came_bytes = message->flow.delivered_bytes;
	pace_add(pace, message, message->flow.total_bytes, now_ns);
	message->told_bytes = told_bytes;
}

static void count_bytes(struct pace *pace, struct pace_sender *sender, uint64_t bytes)
{
	pace_port_came(&pace->port, sender, bytes, pace->event_ns);
	pace->window.bytes += bytes;
	if (pace->arbiter)
		pace_arbiter_count_delivered(pace->arbiter, bytes);
}

void pace_came(struct pace *pace, uint64_t bytes, uint64_t now_ns)
{
	if (!pace->enabled)
		return;
	pthread_mutex_lock(&pace->lock);
	account(pace, now_ns);
	if (pace->granter.outstanding_bytes) /* else their time is not counted either */
		count_bytes(pace, NULL, bytes);
	pthread_mutex_unlock(&pace->lock);
}

void pace_delivered(struct pace *pace, struct pace_message *message, uint64_t bytes, uint64_t now_ns)
{
	if (!pace->enabled)
		return;
	pthread_mutex_lock(&pace->lock);
	account(pace, now_ns);
	pace_granter_delivered(&pace->granter, &message->flow, bytes, now_ns);
	count_bytes(pace, message->sender, bytes);
	if (message->grant_sent_ns && message->flow.delivered_bytes > message->sample_offset_bytes) {
		if (now_ns > message->grant_sent_ns)
			pace_estimator_loop(&pace->estimator, now_ns - message->grant_sent_ns);
		message->grant_sent_ns = 0;
	}
	window_look(pace);
	run(pace);
	pthread_mutex_unlock(&pace->lock);
}

void pace_remove(struct pace *pace, struct pace_message *message)
{
	if (!pace->enabled)
		return;
	pthread_mutex_lock(&pace->lock);
	if (message->flow.listed) {
		account(pace, pace->event_ns);
		pace_granter_remove(&pace->granter, &message->flow);
		if (message->sender && message->sender->coming_count == 1)
			pace_port_turns(&pace->port, message->sender, pace->event_ns);
		if (message->sender && --message->sender->coming_count == 0) {
			pace->senders--;
			pace->hosts_sending -= --pace->hosts[message->sender->place].sending == 0;
		}
		message->grant_sent_ns = 0;
		pace->message_ns = pace->event_ns;
		run(pace);
	}
	pthread_mutex_unlock(&pace->lock);
}

void pace_grant_sent(struct pace *pace, struct pace_message *message, uint64_t granted_bytes, uint64_t now_ns)
{
	if (!pace->enabled || pace->fixed_budget_bytes)
		return;
	pthread_mutex_lock(&pace->lock);
	if (message->flow.listed && granted_bytes > message->told_bytes) {
		uint64_t new_bytes = granted_bytes - message->told_bytes;

		/* Only with nothing else on its way: behind other bytes the time would be that of our own queue. */
		if (!message->grant_sent_ns && pace->granter.outstanding_bytes <= new_bytes) {
			message->grant_sent_ns = now_ns;
			message->sample_offset_bytes = message->told_bytes;
		}
		message->told_bytes = granted_bytes;
	}
	pthread_mutex_unlock(&pace->lock);
}

uint64_t pace_flight(struct pace *pace, const struct pace_sender *sender)
{
	uint64_t bytes = atomic_load_explicit(&pace->flight_bytes, memory_order_relaxed);
	unsigned depth = depth_of(sender);

	return bytes * (depth > 1 ? depth : atomic_load_explicit(&pace->flight_spread, memory_order_relaxed));
}

bool pace_flight_lasts(struct pace *pace)
{
	return atomic_load_explicit(&pace->flight_lasts, memory_order_relaxed);
}

void pace_note_send(struct pace *pace, uint64_t host, uint64_t now_ns)
{
	if (pace) {
		pace_fanout_note(&pace->fanout, host, now_ns);
		atomic_store_explicit(&pace->sends_ns, now_ns, memory_order_relaxed);
	}
}

unsigned pace_hosts_sent_to(struct pace *pace)
{
	return pace ? pace_fanout_count(&pace->fanout) : 1;
}

bool pace_has_one_sender(struct pace *pace)
{
	return atomic_load_explicit(&pace->one_sender, memory_order_relaxed);
}

bool pace_hosts_compete(struct pace *pace)
{
	return atomic_load_explicit(&pace->compete, memory_order_relaxed);
}

bool pace_has_waiting(struct pace *pace)
{
	return atomic_load_explicit(&pace->poll_due_ns, memory_order_relaxed) != NEVER;
}

uint64_t pace_unscheduled(struct pace *pace, const struct pace_sender *sender)
{
	uint64_t bytes;

	if (sender && (!pace->enabled ||
		       (sender->host && sender->host == atomic_load_explicit(&pace->alone_host, memory_order_relaxed))))
		return PACE_UNSCHEDULED_ALONE_BYTES;
	bytes = atomic_load_explicit(&pace->unscheduled_bytes, memory_order_relaxed);
	/* Not of those that take turns, which grants order. */
	return sender && sender->spread < 2 ? min_u64(bytes * depth_of(sender), PACE_UNSCHEDULED_BYTES) : bytes;
}

void pace_join(struct pace *pace, struct pace_sender *sender)
{
	unsigned place = 0;

	pthread_mutex_lock(&pace->lock);
	while (place < PACE_HOSTS_MAX && !(pace->hosts[place].connections && pace->hosts[place].id == sender->host))
		place++;
	for (unsigned i = 0; i < PACE_HOSTS_MAX && place == PACE_HOSTS_MAX; i++)
		if (!pace->hosts[i].connections)
			place = i;
	sender->place = place < PACE_HOSTS_MAX ? place : PACE_HOSTS_MAX - 1;
	if (!pace->hosts[sender->place].connections++) {
		pace->hosts[sender->place].id = sender->host;
		pace->hosts_connected++;
	}
	pace_port_join(&pace->port, sender);
	unscheduled_look(pace);
	pthread_mutex_unlock(&pace->lock);
}

void pace_note_path(struct pace *pace, uint64_t round_trip_ns)
{
	pthread_mutex_lock(&pace->lock);
	if (round_trip_ns && (!pace->path_ns || round_trip_ns < pace->path_ns))
		pace->path_ns = round_trip_ns;
	pthread_mutex_unlock(&pace->lock);
}

void pace_leave(struct pace *pace, struct pace_sender *sender)
{
	pthread_mutex_lock(&pace->lock);
	if (!--pace->hosts[sender->place].connections)
		pace->hosts_connected--;
	pace_port_leave(&pace->port, sender, pace->event_ns);
	pace_turn_look(pace);
	unscheduled_look(pace);
	pthread_mutex_unlock(&pace->lock);
}

static void look_again(struct pace *pace, uint64_t now_ns)
{
	account(pace, now_ns);
	pace_granter_forgive(&pace->granter, now_ns);
	atomic_store_explicit(&pace->poll_due_ns, NEVER, memory_order_relaxed); /* run sets the next time */
	run(pace);
}

void pace_poll(struct pace *pace, uint64_t now_ns)
{
	if (now_ns < atomic_load_explicit(&pace->poll_due_ns, memory_order_relaxed))
		return;
	if (pthread_mutex_trylock(&pace->lock) != 0)
		return; /* someone is at it */
	look_again(pace, now_ns);
	pthread_mutex_unlock(&pace->lock);
}

void pace_tick(struct pace *pace, uint64_t now_ns)
{
	if (!pace->enabled)
		return;
	pthread_mutex_lock(&pace->lock);
	if (pace->arbiter)
		pace_arbiter_tick(pace->arbiter, now_ns);
	look_again(pace, now_ns);
	pthread_mutex_unlock(&pace->lock);
}

void pace_state(struct pace *pace, struct pace_state *ret)
{
	pthread_mutex_lock(&pace->lock);
	*ret = (struct pace_state){
		.budget_bytes = budget(pace),
		.outstanding_bytes = pace->granter.outstanding_bytes,
		.rate_Bps = pace_estimator_rate(&pace->estimator),
		.round_trip_ns = pace_estimator_round_trip(&pace->estimator),
		.limited_ns = pace->limited_ns,
		.waiting_count = pace->granter.waiting_count,
		.sharing_processes = processes(pace),
	};
	pthread_mutex_unlock(&pace->lock);
}
