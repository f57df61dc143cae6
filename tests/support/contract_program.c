/* SPDX-License-Identifier: Apache-2.0 */
#include "support/contract_program.h"

#include "support/link.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	STALL_MS = 5000,
	STALL_POLLS = 1000, /* a machine that gives no time is no stall of the connection */
	FAILURES_MOST = 3,
	PATIENCE_POLLS = 50,
};
#define BYTES_MOST ((uint64_t)96 << 20) /* of a program, about */

/* ---- the style of a program ---- */

static void choose_tags(struct contract_style *style, uint64_t *random)
{
	style->tag_count = 2 + (unsigned)random_below(random, CONTRACT_TAGS - 1);
	for (unsigned i = 0; i < style->tag_count; i++) {
		const uint64_t use = random_below(random, 8);

		style->tags[i] = (int)(random_next(random) & 0xffffff00U) + (int)i;
		style->uses[i] = i == 0 || use > 2 ? CONTRACT_USED_BY_BOTH
				 : use == 2        ? CONTRACT_POSTED_ALONE
						   : CONTRACT_SENT_ALONE;
	}
}

static void style_make(const struct contract_mover *mover, uint64_t seed, unsigned operations_most,
		       struct contract_style *ret)
{
	struct contract_style style = { .seed = seed };
	uint64_t random = seed;
	uint64_t most;

	choose_tags(&style, &random);
	style.max_bytes = (size_t)64 << random_below(&random, 17);
	style.more_room = random_below(&random, 3) ? 0 : 500;
	style.group_max = 1 + (unsigned)random_below(&random, mover->max_recvs);
	style.unmet_most = 1 + (unsigned)random_below(&random, 24);
	style.stall_most = random_below(&random, 2) ? 200 : 0;
	style.two_threads = random_below(&random, 3) == 0;
	style.watched = mover->ops->watch && random_below(&random, 3) == 0;
	style.own_buffers = random_below(&random, 2);
	style.registers = random_below(&random, 2);
	style.cancels = random_below(&random, 3) == 0;
	style.truncates = random_below(&random, 16) == 0;
	style.short_tag = (unsigned)random_below(&random, style.tag_count);
	style.short_number = random_below(&random, 30);
	style.disturbed = mover->disturb && random_below(&random, 3) == 0;
	style.hints = (unsigned)random_below(&random, 16);
	most = BYTES_MOST / (style.max_bytes / 8 + 64);
	if (most > 4000)
		most = 4000;
	style.operations = 20 + (unsigned)random_below(&random, most);
	if (style.operations > operations_most)
		style.operations = operations_most;
	*ret = style;
}

/* ---- a run ---- */

struct run {
	const struct contract_mover *mover;
	struct contract_shared shared;
	struct link link;
	struct contract_end ends[2]; /* the sender first */
};

/* A program's own verdicts; other errors are the transport's. */
static int differs(const char *text, int error)
{
	return runtime_complain(EBADMSG, "%s: %d", text, error);
}

static int look_for_stall(struct run *run, const struct contract_end *end)
{
	const unsigned stall_ms = run->mover->stall_ms ? run->mover->stall_ms : STALL_MS;
	const uint64_t patience_ns = runtime_deadline_ns(stall_ms) - runtime_now_ns();

	if (end->idle_polls < STALL_POLLS || runtime_own_ns() < atomic_load(&run->shared.moved_ns) + patience_ns)
		return 0;
	return runtime_complain(ETIME, "nothing moves for %u ms, but %u sends and %u receives are due", stall_ms,
				contract_end_due(&run->ends[0]), contract_end_due(&run->ends[1]));
}

/* With the lock: the other end may be in the midst of the post that breaks it. */
static bool is_broken(struct run *run)
{
	bool broken;

	pthread_mutex_lock(&run->shared.lock);
	broken = run->shared.broken;
	pthread_mutex_unlock(&run->shared.lock);
	return broken;
}

/* On a busy machine the core that is given up comes back late: only when there is nothing to do. */
static void rest(const struct contract_end *end)
{
	if (end->idle_polls > PATIENCE_POLLS)
		runtime_nap();
}

/* An error is right where a message has met a receive that is too short. */
static int poll_end(struct run *run, struct contract_end *end, bool all)
{
	int r = contract_end_poll(end, all);

	if (r >= 0 || r == -EBADMSG)
		return r < 0 ? r : 0;
	return is_broken(run) ? r : differs("an error that the model does not have", r);
}

static int post_end(struct run *run, struct contract_end *end)
{
	int r = contract_end_post(end);

	if (r >= 0 || r == -EBADMSG)
		return r;
	return is_broken(run) ? r : differs("an error of a post that the model does not have", r);
}

static int poll_both(struct run *run)
{
	const bool first = random_below(&run->ends[0].random, 2);
	int r = poll_end(run, &run->ends[first], true);

	return r < 0 ? r : poll_end(run, &run->ends[!first], true);
}

/* Until nothing is due any more. */
static int drain(struct run *run)
{
	int r = 0;

	while (r == 0 && !is_broken(run) && contract_end_due(&run->ends[0]) + contract_end_due(&run->ends[1]) > 0) {
		for (unsigned i = 0; i < 2 && r >= 0; i++)
			if (run->ends[i].wanted.count)
				r = post_end(run, &run->ends[i]);
		if (r >= 0)
			r = poll_both(run);
		if (r >= 0)
			r = look_for_stall(run, &run->ends[0]);
		rest(&run->ends[0]);
	}
	return r;
}

static void disturb_now_and_then(const struct run *run, uint64_t *random)
{
	if (run->shared.style.disturbed && random_below(random, 300) == 0)
		run->mover->disturb(random);
}

static int in_one_thread(struct run *run)
{
	const struct contract_style *style = &run->shared.style;
	unsigned stalled_until[2] = { 0, 0 };
	uint64_t random = style->seed ^ 0x70726f67;
	int r = 0;

	for (unsigned i = 0; i < style->operations && r >= 0 && !is_broken(run); i++) {
		const unsigned at = (unsigned)random_below(&random, 2);
		struct contract_end *end = &run->ends[at];

		disturb_now_and_then(run, &random);
		if (style->stall_most && random_below(&random, 60) == 0)
			stalled_until[at] = i + (unsigned)random_below(&random, style->stall_most);
		if (i < stalled_until[at])
			continue;
		r = post_end(run, end);
		if (r >= 0 && end->wanted.count)
			r = drain(run);
		else if (r >= 0 && (end->pending_count == TRANSPORT_MAX_REQUESTS || random_below(&random, 2)))
			r = poll_end(run, end, false);
	}
	return r < 0 || style->cancels ? r : drain(run);
}

/* ---- two threads ---- */

struct half {
	struct run *run;
	unsigned at;
	int result;
};

/* As long as the other end may need this one. */
static int serve(struct run *run, struct contract_end *end, unsigned at)
{
	struct contract_shared *shared = &run->shared;
	int r = 0;

	atomic_fetch_sub(&shared->posting, 1);
	while (r >= 0 && !atomic_load(&shared->stop)) {
		const bool settled = !atomic_load(&shared->posting);

		if (end->wanted.count)
			r = post_end(run, end);
		if (r >= 0)
			r = poll_end(run, end, true);
		/* What is due changes only by posts, until it is done. */
		atomic_store(&shared->due[at], settled ? contract_end_due(end) : 1);
		if (shared->style.cancels && settled)
			return r;
		if (settled && !atomic_load(&shared->due[0]) && !atomic_load(&shared->due[1]))
			return r;
		if (r >= 0)
			r = look_for_stall(run, end);
		rest(end);
	}
	return r;
}

static int half_program(struct run *run, struct contract_end *end, unsigned at)
{
	const struct contract_style *style = &run->shared.style;
	unsigned stalled_until = 0;
	uint64_t random = style->seed ^ 0x68616c66 ^ at;
	int r = 0;

	for (unsigned i = 0; i < style->operations / 2 && r >= 0 && !atomic_load(&run->shared.stop); i++) {
		disturb_now_and_then(run, &random);
		if (style->stall_most && random_below(&random, 60) == 0)
			stalled_until = i + (unsigned)random_below(&random, style->stall_most);
		if (i < stalled_until) {
			if (i % 16 == 0)
				runtime_nap();
			continue;
		}
		r = post_end(run, end);
		while (r >= 0 && end->wanted.count && !atomic_load(&run->shared.stop)) {
			r = poll_end(run, end, true);
			if (r >= 0)
				r = look_for_stall(run, end);
			if (r >= 0)
				r = post_end(run, end);
			rest(end);
		}
		if (r >= 0 && (end->pending_count == TRANSPORT_MAX_REQUESTS || random_below(&random, 2)))
			r = poll_end(run, end, false);
	}
	return r;
}

static void *half_run(void *arg)
{
	struct half *half = arg;
	struct contract_end *end = &half->run->ends[half->at];
	int r = half_program(half->run, end, half->at);

	if (r >= 0)
		r = serve(half->run, end, half->at);
	if (r < 0)
		atomic_store(&half->run->shared.stop, true);
	half->result = r;
	return NULL;
}

static int in_two_threads(struct run *run)
{
	struct half halves[2] = { { run, 0, 0 }, { run, 1, 0 } };
	pthread_t thread;

	atomic_store(&run->shared.posting, 2);
	atomic_store(&run->shared.due[0], 1);
	atomic_store(&run->shared.due[1], 1);
	if (pthread_create(&thread, NULL, half_run, &halves[0]) != 0)
		return -EAGAIN;
	half_run(&halves[1]);
	pthread_join(thread, NULL);
	/* One may have met the error that is right, and the other a wrong byte. */
	if (halves[0].result == -EBADMSG || halves[0].result == -ETIME)
		return halves[0].result;
	return halves[1].result < 0 ? halves[1].result : halves[0].result;
}

/* ---- the end ---- */

/* Everything outstanding completes or has an error; the receive that is too short cannot complete. */
static int ends_in_time(struct run *run, struct contract_end *end)
{
	int r = 0;

	atomic_store(&run->shared.moved_ns, runtime_own_ns());
	end->idle_polls = 0;
	while (end->pending_count && r >= 0) {
		r = contract_end_poll(end, true);
		if (r >= 0 && look_for_stall(run, end) < 0)
			return runtime_complain(ETIME, "%u requests of the %s have no end", end->pending_count,
						end->sends ? "sender" : "receiver");
		rest(end);
	}
	return r == -EBADMSG ? r : 0;
}

static void close_end(struct run *run, unsigned at)
{
	struct transport_connection **connection = at ? &run->link.receiver : &run->link.sender;

	run->mover->ops->close_connection(*connection);
	*connection = NULL;
	run->ends[at].connection = NULL;
}

static int finish(struct run *run, int r)
{
	const unsigned first = run->shared.style.seed >> 3 & 1;
	int finished;

	if (is_broken(run) && r != -EBADMSG && r != -ETIME) {
		r = ends_in_time(run, &run->ends[1]);
		if (r == 0)
			r = ends_in_time(run, &run->ends[0]);
	}
	close_end(run, first);
	if (r == 0 && run->shared.style.seed & 1)
		r = ends_in_time(run, &run->ends[!first]);
	close_end(run, !first);
	link_close(&run->link);
	for (unsigned i = 0; i < 2; i++) {
		finished = contract_end_finish(&run->ends[i]);
		if (finished < 0 && r >= 0)
			r = finished;
	}
	return r;
}

/* At most so many operations of the program. 0, -EBADMSG: a difference, -ETIME: a stall, or why it cannot run. */
static int run_program(struct run *run, uint64_t seed, unsigned operations_most, struct contract_counts *counts)
{
	const struct contract_mover *mover = run->mover;
	struct contract_shared *shared = &run->shared;
	int r = link_open(mover->ops, mover->transport, mover->device, &run->link);

	if (r < 0) {
		link_close(&run->link);
		return runtime_complain(-r, "no connection: %d", r);
	}
	memset(shared, 0, sizeof(*shared));
	pthread_mutex_init(&shared->lock, NULL);
	style_make(mover, seed, operations_most, &shared->style);
	atomic_store(&shared->moved_ns, runtime_own_ns());
	r = contract_end_begin(&run->ends[0], shared, mover->ops, run->link.sender, true);
	if (r == 0)
		r = contract_end_begin(&run->ends[1], shared, mover->ops, run->link.receiver, false);
	if (r == 0)
		r = shared->style.two_threads ? in_two_threads(run) : in_one_thread(run);
	r = finish(run, r);
	pthread_mutex_destroy(&shared->lock);
	counts->programs++;
	counts->operations += atomic_load(&shared->operations);
	return r < 0 ? r : 0;
}

/* By halves: a prefix that fails may have a shorter one that does not, and then a shorter one again that does. */
static void tell_failure(struct run *run, uint64_t seed, int error)
{
	struct contract_counts ignored = { 0 };
	unsigned passes = 0, fails = run->shared.style.operations;

	while (fails - passes > 1) {
		const unsigned middle = passes + (fails - passes) / 2;

		if (run_program(run, seed, middle, &ignored) < 0)
			fails = middle;
		else
			passes = middle;
	}
	fprintf(stderr, "%s: %s: replay with TRIBUTARY_TEST_SEED=%#" PRIx64 "; %u operations are enough (%s)\n",
		run->mover->label, error == -ETIME ? "a stall" : "a difference", seed, fails,
		run->shared.style.two_threads ? "two threads" : "one thread");
}

uint64_t contract_first_seed(unsigned index)
{
	return runtime_setting("TEST_SEED") ? runtime_seed() : 1 + index * UINT64_C(100000);
}

unsigned contract_programs_run(const struct contract_mover *mover, uint64_t operations, struct contract_counts *counts)
{
	struct contract_counts now = { 0 };
	struct run *run = calloc(1, sizeof(*run));
	unsigned failures = 0;

	if (!run)
		return 1;
	run->mover = mover;
	runtime_watch_stalls(); /* after one, other threads may not have run when this one has polled often */
	for (uint64_t seed = mover->first_seed; now.operations < operations && failures < FAILURES_MOST; seed++) {
		int r = run_program(run, seed, UINT32_MAX, &now);

		if (r == 0)
			continue;
		failures++;
		now.stalls += r == -ETIME;
		now.differences += r != -ETIME;
		tell_failure(run, seed, r);
	}
	contract_end_free(&run->ends[0]);
	contract_end_free(&run->ends[1]);
	free(run);
	counts->programs += now.programs;
	counts->operations += now.operations;
	counts->differences += now.differences;
	counts->stalls += now.stalls;
	return failures;
}

void contract_counts_print(const char *label, const struct contract_counts *counts)
{
	fprintf(stderr,
		"%s: %" PRIu64 " operations in %" PRIu64 " programs, %" PRIu64 " differences, %" PRIu64 " stalls\n",
		label, counts->operations, counts->programs, counts->differences, counts->stalls);
}
