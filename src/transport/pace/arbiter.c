/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pace/arbiter.h"

#include "base/clock.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "transport/pace/arbiter_file.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { NO_SLOT = PACE_ARBITER_SLOTS, OWNER_IS_BEING_FREED = 1, SENDERS_MAX = 1024 };
enum { TURN_OWNER_BITS = 24, TURN_OWNER_MASK = (1 << TURN_OWNER_BITS) - 1, TURN_MOST_MS = 10000 };

/* What this process has seen of a slot. */
struct observed {
	uint64_t owner, beat, quiet_ns;
};

struct pace_arbiter {
	LIST_ENTRY(pace_arbiter) link; /* of this process, for its end */
	struct pace_arbiter_file file;
	struct process_identity self; /* all 0 where /proc is not there: then only the lease counts */
	pid_t opened_by;
	uint64_t token;
	size_t slot; /* NO_SLOT: lost, and none was free since */
	uint32_t generation;
	uint64_t tick_ns;
	unsigned other_count; /* slots of others that are taken and not stale */
	uint8_t others[PACE_ARBITER_SLOTS];
	struct observed observed[PACE_ARBITER_SLOTS];
};

static pthread_mutex_t arbiters_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, pace_arbiter) arbiters;

static struct pace_arbiter_slot *own_slot(const struct pace_arbiter *arbiter)
{
	return arbiter->slot == NO_SLOT ? NULL : &arbiter->file.shared->slots[arbiter->slot];
}

/* Only the owner writes it, so load and store do. */
static void add_own(_Atomic uint64_t *value, uint64_t more)
{
	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + more, memory_order_relaxed);
}

static uint64_t token_make(const struct process_identity *self)
{
	uint64_t token = 0;

	if (getrandom(&token, sizeof(token), GRND_NONBLOCK) != (ssize_t)sizeof(token)) {
		struct timespec now;

		clock_gettime(CLOCK_MONOTONIC, &now);
		token = ((uint64_t)now.tv_nsec << 32) ^ ((uint64_t)now.tv_sec << 20) ^ (uint64_t)getpid() ^
			self->start_ticks;
	}
	return token > OWNER_IS_BEING_FREED ? token : token + 2;
}

static int slot_take(struct pace_arbiter *arbiter)
{
	struct pace_arbiter_shared *shared = arbiter->file.shared;

	for (size_t i = 0; i < PACE_ARBITER_SLOTS; i++) {
		struct pace_arbiter_slot *slot = &shared->slots[i];
		uint64_t free_owner = 0;
		uint32_t high = atomic_load(&shared->high);

		if (!atomic_compare_exchange_strong(&slot->owner, &free_owner, arbiter->token))
			continue;
		while (high < i + 1 && !atomic_compare_exchange_weak(&shared->high, &high, (uint32_t)i + 1))
			;
		atomic_store(&slot->pid_namespace, arbiter->self.pid_namespace);
		atomic_store(&slot->start_ticks, arbiter->self.start_ticks);
		atomic_store(&slot->pid, arbiter->self.pid);
		add_own(&slot->beat, 1);
		arbiter->slot = i;
		atomic_fetch_add(&shared->generation, 1);
		return 0;
	}
	arbiter->slot = NO_SLOT;
	return -EUSERS;
}

/* Takes the slot from `owner`, if it still has it. Who wins the exchange clears the rest, so no new owner is harmed. */
static void slot_free(struct pace_arbiter *arbiter, size_t index, uint64_t owner)
{
	struct pace_arbiter_slot *slot = &arbiter->file.shared->slots[index];

	if (!atomic_compare_exchange_strong(&slot->owner, &owner, OWNER_IS_BEING_FREED))
		return;
	atomic_store(&slot->pid, 0);
	atomic_store(&slot->outstanding_bytes, 0);
	atomic_store(&slot->wants_more, 0);
	atomic_store(&slot->senders, 0);
	atomic_store(&slot->source, 0);
	atomic_store(&slot->owner, 0);
	atomic_fetch_add(&arbiter->file.shared->generation, 1);
}

static size_t slots_in_use(const struct pace_arbiter *arbiter)
{
	size_t high = atomic_load_explicit(&arbiter->file.shared->high, memory_order_relaxed);

	return high < PACE_ARBITER_SLOTS ? high : PACE_ARBITER_SLOTS; /* the file may hold anything */
}

/* Who else is there. Done again when the generation changed, and at ticks. */
static void others_update(struct pace_arbiter *arbiter)
{
	size_t count;

	/* The generation first: what changes after it is looked at again. Pairs with slot_take and slot_free. */
	arbiter->generation = atomic_load(&arbiter->file.shared->generation);
	count = slots_in_use(arbiter);
	arbiter->other_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct observed *observed = &arbiter->observed[i];
		uint64_t owner = atomic_load(&arbiter->file.shared->slots[i].owner);

		if (!owner || i == arbiter->slot)
			continue;
		if (owner == observed->owner && observed->quiet_ns >= PACE_ARBITER_STALE_NS)
			continue;
		arbiter->others[arbiter->other_count++] = (uint8_t)i;
	}
}

struct demand {
	uint64_t outstanding_bytes, content_bytes; /* of all others; of those that want no more */
	uint64_t wanting;
};

static struct demand demand_of_others(const struct pace_arbiter *arbiter, uint64_t budget_bytes)
{
	struct demand demand = { 0 };

	for (unsigned i = 0; i < arbiter->other_count; i++) {
		const struct pace_arbiter_slot *slot = &arbiter->file.shared->slots[arbiter->others[i]];
		uint64_t bytes = atomic_load(&slot->outstanding_bytes);

		if (bytes > budget_bytes)
			bytes = budget_bytes; /* more changes nothing, and sums must not wrap */
		demand.outstanding_bytes += bytes;
		if (atomic_load_explicit(&slot->wants_more, memory_order_relaxed))
			demand.wanting++;
		else
			demand.content_bytes += bytes;
	}
	return demand;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

uint64_t pace_arbiter_reserve(struct pace_arbiter *arbiter, uint64_t outstanding_bytes, uint64_t wanted_bytes,
			      uint64_t budget_bytes, uint64_t quantum_bytes)
{
	struct pace_arbiter_slot *slot = own_slot(arbiter);
	uint64_t share, most, more;
	struct demand demand;

	wanted_bytes = min_u64(wanted_bytes, less(max_u64(budget_bytes, quantum_bytes), outstanding_bytes));
	if (!slot)
		return wanted_bytes;
	if (atomic_load(&arbiter->file.shared->generation) != arbiter->generation)
		others_update(arbiter);
	if (!arbiter->other_count) {
		/*
		 * Sequentially consistent store, then load; a process that joins changes the generation, then looks at
		 * our slot. One of the two sees the other.
		 */
		atomic_store(&slot->outstanding_bytes, outstanding_bytes + wanted_bytes);
		if (atomic_load(&arbiter->file.shared->generation) == arbiter->generation)
			return wanted_bytes;
		others_update(arbiter);
	}
	demand = demand_of_others(arbiter, budget_bytes);
	share = less(budget_bytes, demand.content_bytes) / (demand.wanting + 1);
	most = less(budget_bytes, demand.outstanding_bytes);
	more = min_u64(less(max_u64(min_u64(share, most), quantum_bytes), outstanding_bytes), wanted_bytes);
	/*
	 * Say first, then look again: of two processes that take the same bytes at once at least one sees that, and
	 * each that sees it goes back. Never over the budget; at worst both come again a little later.
	 */
	atomic_store(&slot->outstanding_bytes, outstanding_bytes + more);
	demand = demand_of_others(arbiter, budget_bytes);
	most = max_u64(less(budget_bytes, demand.outstanding_bytes), quantum_bytes);
	if (outstanding_bytes + more > most) {
		more = less(most, outstanding_bytes);
		atomic_store(&slot->outstanding_bytes, outstanding_bytes + more);
	}
	return more;
}

void pace_arbiter_publish(struct pace_arbiter *arbiter, uint64_t outstanding_bytes, bool wants_more, unsigned senders,
			  uint64_t source)
{
	struct pace_arbiter_slot *slot = own_slot(arbiter);

	if (!slot)
		return;
	/* Never more than was reserved, but for a forgiven flow that came back: no order with others' words is needed. */
	atomic_store_explicit(&slot->outstanding_bytes, outstanding_bytes, memory_order_release);
	atomic_store_explicit(&slot->wants_more, wants_more, memory_order_relaxed);
	atomic_store_explicit(&slot->senders, senders, memory_order_relaxed);
	atomic_store_explicit(&slot->source, source, memory_order_relaxed);
	add_own(&slot->beat, 1);
}

struct pace_arbiter_others pace_arbiter_look(struct pace_arbiter *arbiter, uint64_t source)
{
	struct pace_arbiter_others ret = { 0 };

	if (atomic_load(&arbiter->file.shared->generation) != arbiter->generation)
		others_update(arbiter);
	for (unsigned i = 0; i < arbiter->other_count; i++) {
		const struct pace_arbiter_slot *slot = &arbiter->file.shared->slots[arbiter->others[i]];
		uint64_t senders = min_u64(atomic_load_explicit(&slot->senders, memory_order_relaxed), SENDERS_MAX);
		uint64_t theirs = atomic_load_explicit(&slot->source, memory_order_relaxed);

		ret.senders += (unsigned)senders; /* bounded: the file may hold anything */
		if (theirs && (theirs != source || source == PACE_ARBITER_SEVERAL)) {
			ret.senders_elsewhere += (unsigned)senders;
			ret.hear_elsewhere = true;
		}
	}
	return ret;
}

void pace_arbiter_count_delivered(struct pace_arbiter *arbiter, uint64_t bytes)
{
	struct pace_arbiter_slot *slot = own_slot(arbiter);

	if (slot)
		add_own(&slot->delivered_bytes, bytes);
}

uint64_t pace_arbiter_delivered(const struct pace_arbiter *arbiter)
{
	size_t count = slots_in_use(arbiter);
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += atomic_load_explicit(&arbiter->file.shared->slots[i].delivered_bytes, memory_order_relaxed);
	return bytes;
}

/* NULL: there is no arbiter, or its places are taken by other hosts. */
static struct pace_arbiter_turn *turn_of(const struct pace_arbiter *arbiter, uint64_t host)
{
	for (size_t i = 0; arbiter && i < PACE_ARBITER_TURNS; i++) {
		struct pace_arbiter_turn *turn = &arbiter->file.shared->turns[i];
		uint64_t found = atomic_load(&turn->host);

		if (found == host || (!found && atomic_compare_exchange_strong(&turn->host, &found, host)) ||
		    found == host)
			return turn;
	}
	return NULL;
}

static uint64_t turn_owner(const struct pace_arbiter *arbiter)
{
	return (arbiter->token & TURN_OWNER_MASK) | 1;
}

bool pace_arbiter_turn_take(struct pace_arbiter *arbiter, uint64_t host, uint64_t rested_ns, uint64_t now_ns)
{
	struct pace_arbiter_turn *turn = turn_of(arbiter, host);
	const uint64_t now_ms = now_ns / NS_PER_MS;
	uint64_t lease = turn ? atomic_load(&turn->lease) : 0, until_ms = lease >> TURN_OWNER_BITS;

	if (!turn)
		return true;
	/* One that ends far in the future is none of this clock: the file may hold anything. */
	if (lease && (lease & TURN_OWNER_MASK) != turn_owner(arbiter) && now_ms <= until_ms + rested_ns / NS_PER_MS &&
	    until_ms <= now_ms + TURN_MOST_MS)
		return false;
	return atomic_compare_exchange_strong(&turn->lease, &lease,
					      (now_ms + PACE_ARBITER_TURN_NS / NS_PER_MS) << TURN_OWNER_BITS |
						      turn_owner(arbiter));
}

void pace_arbiter_turn_leave(struct pace_arbiter *arbiter, uint64_t host)
{
	struct pace_arbiter_turn *turn = turn_of(arbiter, host);
	uint64_t lease = turn ? atomic_load(&turn->lease) : 0;

	if (turn && (lease & TURN_OWNER_MASK) == turn_owner(arbiter))
		atomic_compare_exchange_strong(&turn->lease, &lease, 0);
}

unsigned pace_arbiter_processes(const struct pace_arbiter *arbiter)
{
	return arbiter->other_count + 1;
}

/* A slot of someone else: has it moved, is its owner gone? */
static void slot_watch(struct pace_arbiter *arbiter, size_t index, uint64_t passed_ns)
{
	struct pace_arbiter_slot *slot = &arbiter->file.shared->slots[index];
	struct observed *observed = &arbiter->observed[index];
	uint64_t owner = atomic_load(&slot->owner), beat = atomic_load(&slot->beat);

	if (owner != observed->owner || beat != observed->beat) {
		*observed = (struct observed){ .owner = owner, .beat = beat };
		return;
	}
	if (!owner)
		return;
	observed->quiet_ns += passed_ns;
	if (observed->quiet_ns >= PACE_ARBITER_LEASE_NS || pace_arbiter_slot_is_dead(slot, &arbiter->self))
		slot_free(arbiter, index, owner);
}

void pace_arbiter_tick(struct pace_arbiter *arbiter, uint64_t now_ns)
{
	struct pace_arbiter_slot *slot = own_slot(arbiter);
	uint64_t passed_ns = arbiter->tick_ns ? less(now_ns, arbiter->tick_ns) : 0;
	size_t count = slots_in_use(arbiter);

	/* Time in which we were stopped ourselves is no evidence against the others: a second at most counts. */
	passed_ns = min_u64(passed_ns, NS_PER_S);
	arbiter->tick_ns = now_ns;
	if (!slot || atomic_load(&slot->owner) != arbiter->token)
		slot_take(arbiter); /* none free: shares as if there were no arbiter, until there is one */
	else
		add_own(&slot->beat, 1);
	for (size_t i = 0; i < count; i++)
		if (i != arbiter->slot)
			slot_watch(arbiter, i, passed_ns);
	others_update(arbiter);
}

int pace_arbiter_open(const char *directory, const char *device_name, struct pace_arbiter **ret, struct diag *diag)
{
	struct pace_arbiter *arbiter = sys_zalloc(sizeof(*arbiter));
	int r;

	if (!arbiter) {
		diag_set(diag, 0, 0, "no memory");
		return -ENOMEM;
	}
	arbiter->slot = NO_SLOT;
	pthread_mutex_lock(&arbiters_lock);
	LIST_INSERT_HEAD(&arbiters, arbiter, link);
	pthread_mutex_unlock(&arbiters_lock);
	r = pace_arbiter_file_open(&arbiter->file, directory, device_name, diag);
	if (r < 0)
		goto fail;
	(void)process_identity(&arbiter->self);
	arbiter->token = token_make(&arbiter->self);
	arbiter->opened_by = getpid();
	for (size_t i = 0; i < slots_in_use(arbiter); i++) {
		uint64_t owner = atomic_load(&arbiter->file.shared->slots[i].owner);

		if (owner && pace_arbiter_slot_is_dead(&arbiter->file.shared->slots[i], &arbiter->self))
			slot_free(arbiter, i, owner);
	}
	r = slot_take(arbiter);
	if (r < 0)
		diag_set(diag, 0, 0, "all %d places are taken", PACE_ARBITER_SLOTS);
	pace_arbiter_file_unlock(&arbiter->file);
	if (r < 0)
		goto fail;
	pace_arbiter_file_sweep(&arbiter->file, &arbiter->self);
	others_update(arbiter);
	*ret = arbiter;
	return 0;
fail:
	pace_arbiter_close(arbiter);
	return r;
}

/* Gives the slot back, and removes the file if it was the last one. In a forked child the slot is the parent's. */
static void leave(struct pace_arbiter *arbiter)
{
	bool locked;

	if (arbiter->slot == NO_SLOT || arbiter->opened_by != getpid())
		return;
	locked = pace_arbiter_file_lock(&arbiter->file) == 0;
	slot_free(arbiter, arbiter->slot, arbiter->token);
	if (locked && pace_arbiter_is_deserted(arbiter->file.shared, &arbiter->self))
		pace_arbiter_file_remove(&arbiter->file);
	if (locked)
		pace_arbiter_file_unlock(&arbiter->file);
}

void pace_arbiter_close(struct pace_arbiter *arbiter)
{
	int saved_errno = errno;

	if (!arbiter)
		return;
	pthread_mutex_lock(&arbiters_lock);
	LIST_REMOVE(arbiter, link);
	pthread_mutex_unlock(&arbiters_lock);
	leave(arbiter);
	pace_arbiter_file_close(&arbiter->file);
	sys_free(arbiter);
	errno = saved_errno;
}

/*
 * Interfaces of NCCL without a finalize never close what they opened. Threads may go on using the memory, which stays; a
 * slot that one of them takes again is that of a process that is gone.
 */
__attribute__((destructor)) static void leave_all(void)
{
	if (pthread_mutex_trylock(&arbiters_lock))
		return;
	for (struct pace_arbiter *arbiter = LIST_FIRST(&arbiters); arbiter; arbiter = LIST_NEXT(arbiter, link))
		leave(arbiter);
	pthread_mutex_unlock(&arbiters_lock);
}
