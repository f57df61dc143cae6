/* SPDX-License-Identifier: Apache-2.0 */
#include "collnet_crew.h"

#include "collnet_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GUARD_BYTES = 64, GUARD = 0xa5, SLOTS_MAX = 33 };

/* ------------------------------------------------------------------------------------------------------------ the test */

void collnet_crew_start(const char *role, unsigned count, int version, uint64_t seed, const char *words,
			struct collnet_crew *ret)
{
	char argument[128];

	memset(ret, 0, sizeof(*ret));
	assert_in_range(count, 1, COLLNET_CREW_MAX);
	for (unsigned i = 0; i < count; i++) {
		snprintf(argument, sizeof(argument), "%u %u %d %" PRIx64 " %s", i, count, version, seed, words);
		assert_int_equal(peer_start(role, argument, &ret->peers[i]), 0);
		ret->count++;
	}
}

/* A permutation from the seed: handles come in the order of their members' numbers, which are not their indices. */
static void permute(unsigned count, uint64_t seed, unsigned order[static COLLNET_CREW_MAX])
{
	uint64_t random = seed;

	for (unsigned i = 0; i < count; i++) {
		unsigned other = (unsigned)random_below(&random, i + 1);

		order[i] = order[other];
		order[other] = i;
	}
}

unsigned collnet_crew_rank(unsigned count, uint64_t seed, unsigned index)
{
	unsigned ranks[COLLNET_CREW_MAX];

	permute(count, seed ^ 0x72616e6b, ranks);
	return ranks[index];
}

void collnet_crew_introduce(struct collnet_crew *crew, uint64_t seed)
{
	unsigned order[COLLNET_CREW_MAX];

	permute(crew->count, seed, order);
	for (unsigned i = 0; i < crew->count; i++)
		assert_int_equal(peer_read(crew->peers[i].control, crew->handles[i], NCCL_HANDLE_BYTES), 0);
	for (unsigned i = 0; i < crew->count; i++)
		for (unsigned k = 0; k < crew->count; k++)
			assert_int_equal(peer_write(crew->peers[i].control, crew->handles[order[k]], NCCL_HANDLE_BYTES),
					 0);
}

int collnet_crew_wait(struct collnet_crew *crew, unsigned milliseconds)
{
	uint64_t deadline_ns = runtime_deadline_ns(milliseconds);
	int worst = 0;

	for (unsigned i = 0; i < crew->count; i++) {
		uint64_t now_ns = runtime_now_ns();
		unsigned left = deadline_ns > now_ns ? (unsigned)((deadline_ns - now_ns) / 1000000) : 0;
		int status = peer_wait(&crew->peers[i], left);

		if (status && !worst)
			worst = status;
	}
	if (worst)
		collnet_crew_stop(crew);
	return worst;
}

void collnet_crew_stop(struct collnet_crew *crew)
{
	for (unsigned i = 0; i < crew->count; i++)
		peer_stop(&crew->peers[i]);
	crew->count = 0;
}

/* ------------------------------------------------------------------------------------------------------------ a member */

static void leave(const struct collnet_member *member, const char *what, int result)
{
	runtime_complain(EIO, "member %u: %s: %d", member->index, what, result);
	exit(1);
}

void collnet_member_open(int control, const char *argument, struct collnet_member *ret)
{
	struct collnet_member member = { .control = control };
	int version;

	if (sscanf(argument, "%u %u %d %" SCNx64 " %63s", &member.index, &member.count, &version, &member.seed,
		   member.words) != 5)
		leave(&member, "no such argument", 0);
	member.rank = collnet_crew_rank(member.count, member.seed, member.index);
	member.random = member.seed + member.index * UINT64_C(7919);
	collnet_ops_open(version, member.seed, &member.ops);
	*ret = member;
}

void collnet_member_meet(struct collnet_member *member)
{
	uint8_t handle[NCCL_HANDLE_BYTES];
	int r = collnet_ops_listen(&member->ops, 0, handle, &member->listener);

	if (r != NCCL_SUCCESS || !member->listener)
		leave(member, "listen", r);
	r = peer_write(member->control, handle, sizeof(handle));
	for (unsigned i = 0; r == 0 && i < member->count; i++)
		r = peer_read(member->control, member->handles[i], sizeof(member->handles[i]));
	if (r < 0)
		leave(member, "the handles", r);
}

int collnet_member_connect(struct collnet_member *member)
{
	void *handles[COLLNET_CREW_MAX];
	int r;

	for (unsigned i = 0; i < member->count; i++)
		handles[i] = member->handles[i];
	r = collnet_ops_connect(&member->ops, handles, (int)member->count, (int)member->rank, member->listener,
				&member->group);
	if (r == NCCL_SUCCESS) {
		if (!member->group)
			leave(member, "success without a group", 0);
		if (collnet_ops_close_listener(&member->ops, member->listener) != NCCL_SUCCESS)
			leave(member, "closeListen", 0);
	}
	member->listener = NULL;
	return r;
}

void collnet_member_close(struct collnet_member *member)
{
	if (member->group && collnet_ops_close_group(&member->ops, member->group) != NCCL_SUCCESS)
		leave(member, "closeColl", 0);
	member->group = NULL;
	collnet_ops_close(&member->ops);
}

/* ---- operations ---- */

struct step {
	int type, operation;
	size_t count;
	uint64_t seed;
};

struct slot {
	void *request;
	struct step step;
	unsigned number;
	uint8_t *send, *recv; /* max_bytes and a guard */
};

struct running {
	struct collnet_member *member;
	const struct collnet_shape *shape;
	uint64_t script; /* the same at all members */
	struct slot slots[SLOTS_MAX];
	unsigned posted, done, outstanding;
	struct step next;
	bool prepared;
};

static struct step step_next(struct running *running)
{
	const struct collnet_shape *shape = running->shape;
	struct step step = { .seed = random_next(&running->script) };
	size_t bytes = shape->max_bytes;

	step.type = shape->type >= 0 ? shape->type : (int)(running->posted % COLLNET_TYPES);
	step.operation = shape->type >= 0 ? NCCL_SUM : (int)(running->posted / COLLNET_TYPES % COLLNET_OPERATIONS);
	/* Small ones are as likely as large ones. */
	if (!shape->whole) {
		bytes = (size_t)1 << random_below(&running->script, 64);
		bytes = bytes && bytes < shape->max_bytes ? bytes : shape->max_bytes;
		bytes = 1 + (size_t)random_below(&running->script, bytes);
	}
	step.count = bytes / collnet_type_bytes(step.type);
	step.count = step.count ? step.count : 1;
	return step;
}

static int slots_new(struct running *running)
{
	for (unsigned i = 0; i < running->shape->window; i++) {
		struct slot *slot = &running->slots[i];

		slot->send = malloc(running->shape->max_bytes + 8 + GUARD_BYTES);
		slot->recv = running->shape->in_place ? slot->send
						      : malloc(running->shape->max_bytes + 8 + GUARD_BYTES);
		if (!slot->send || !slot->recv)
			return -ENOMEM;
	}
	return 0;
}

static void slots_free(struct running *running)
{
	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		if (running->slots[i].recv != running->slots[i].send)
			free(running->slots[i].recv);
		free(running->slots[i].send);
	}
}

static int post(struct running *running, struct slot *slot)
{
	struct collnet_member *member = running->member;
	size_t bytes;
	int r;

	if (!running->prepared)
		running->next = step_next(running);
	running->prepared = true;
	slot->step = running->next;
	bytes = slot->step.count * collnet_type_bytes(slot->step.type);
	memset(slot->recv, GUARD, bytes + GUARD_BYTES);
	collnet_values_fill(slot->send, slot->step.type, slot->step.operation, member->rank, slot->step.seed, 0,
			    slot->step.count);
	r = collnet_ops_reduce(&member->ops, member->group, slot->send, slot->recv, slot->step.count, slot->step.type,
			       slot->step.operation, member->registration, &slot->request);
	if (r != NCCL_SUCCESS || !slot->request)
		return r;
	slot->number = running->posted++;
	running->prepared = false;
	running->outstanding++;
	return 0;
}

static int check(const struct running *running, const struct slot *slot, int size)
{
	const struct step *step = &slot->step;
	size_t bytes = step->count * collnet_type_bytes(step->type), wrong;

	wrong = collnet_values_wrong_at(slot->recv, step->type, step->operation, running->member->count, step->seed, 0,
					step->count);
	if (wrong != SIZE_MAX)
		runtime_complain(EBADMSG,
				 "%s: operation %u (type %d, operation %d, %zu elements): element %zu is wrong",
				 running->shape->name, slot->number, step->type, step->operation, step->count, wrong);
	if ((size_t)size != bytes)
		wrong = (size_t)runtime_complain(EBADMSG, "operation %u of %zu bytes: test says %d", slot->number,
						 bytes, size);
	for (size_t i = 0; wrong == SIZE_MAX && i < GUARD_BYTES; i++)
		if (slot->recv[bytes + i] != GUARD)
			wrong = (size_t)runtime_complain(EBADMSG, "operation %u wrote beyond its end", slot->number);
	return wrong == SIZE_MAX ? 0 : -EBADMSG;
}

static int poll_slot(struct running *running, struct slot *slot)
{
	int done = 0, size = -1, r;

	r = collnet_ops_test(&running->member->ops, slot->request, &done, &size);
	if (r != NCCL_SUCCESS || !done)
		return r;
	slot->request = NULL;
	running->outstanding--;
	running->done++;
	return check(running, slot, size);
}

static struct slot *pick(struct running *running, bool busy)
{
	struct slot *found = NULL;
	unsigned candidates = 0;

	for (unsigned i = 0; i < running->shape->window; i++) {
		struct slot *slot = &running->slots[i];

		if ((slot->request != NULL) != busy)
			continue;
		if (busy && running->shape->oldest_only ? !found || slot->number < found->number
							: !random_below(&running->member->random, ++candidates))
			found = slot;
	}
	return found;
}

static int run_step(struct running *running)
{
	struct slot *slot = running->posted < running->shape->operations ? pick(running, false) : NULL;
	int r = slot ? post(running, slot) : 0;

	slot = r == 0 ? pick(running, true) : NULL;
	return slot ? poll_slot(running, slot) : r;
}

static void nap(struct running *running)
{
	struct timespec nap = { .tv_nsec = 1000 *
					   (long)random_below(&running->member->random, running->shape->nap_us + 1) };

	if (nap.tv_nsec)
		nanosleep(&nap, NULL);
	else
		runtime_nap();
}

int collnet_member_run(struct collnet_member *member, const struct collnet_shape *shape, unsigned milliseconds)
{
	struct running *running = calloc(1, sizeof(*running));
	uint64_t deadline_ns = runtime_deadline_ns(milliseconds);
	int r;

	if (!running)
		return -ENOMEM;
	running->member = member;
	running->shape = shape;
	running->script = member->seed ^ 0x5363726970;
	r = slots_new(running);
	while (r == 0 && running->done < shape->operations) {
		r = run_step(running);
		if (r == 0 && runtime_past(deadline_ns))
			r = runtime_complain(ETIMEDOUT, "%s: member %u: %u of %u operations done, %u posted",
					     shape->name, member->index, running->done, shape->operations,
					     running->posted);
		nap(running);
	}
	slots_free(running);
	free(running);
	return r;
}

int collnet_member_leave(struct collnet_member *member, unsigned count, size_t bytes)
{
	for (unsigned i = 0; i < count; i++) {
		void *send = calloc(1, bytes), *recv = calloc(1, bytes), *request = NULL;
		int r;

		if (!send || !recv)
			return -ENOMEM;
		r = collnet_ops_reduce(&member->ops, member->group, send, recv, bytes, NCCL_UINT8, NCCL_SUM,
				       member->registration, &request);
		if (r != NCCL_SUCCESS || !request)
			return r;
	}
	return 0;
}
