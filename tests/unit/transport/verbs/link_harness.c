/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/transport/verbs/link_harness.h"

#include "base/clock.h"
#include "support/runtime.h"
#include "transport/verbs/verbs.h"

#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool stands;
/* These devices are in no other process, so their budget is shared with none. */
static char shared_dir[] = "/tmp/tributary-verbs-test.XXXXXX";

/* What a test that failed left standing has a thread, which would use the devices of the next one. */
static void start(struct verbs_link_harness *harness, struct fake_verbs_options options, const char *root)
{
	if (stands) {
		print_error("the test before has failed and left its connection: no other can be tried\n");
		exit(EXIT_FAILURE);
	}
	stands = true;
	options.seed = runtime_seed();
	verbs_transport_use(fake_verbs_start(&options), root);
	assert_int_equal(transport_verbs.open(&harness->params, &harness->transport), 0);
}

static void set_params(struct verbs_link_harness *harness)
{
	memset(harness, 0, sizeof(*harness));
	params_defaults(&harness->params);
	snprintf(harness->params.interfaces, sizeof(harness->params.interfaces), "lo");
	harness->params.timeout_ns = 3 * NS_PER_S;
	harness->params.gid_index = 1;
	memset(shared_dir + sizeof(shared_dir) - 7, 'X', 6);
	assert_non_null(mkdtemp(shared_dir));
	snprintf(harness->params.shared_dir, sizeof(harness->params.shared_dir), "%s", shared_dir);
}

void verbs_link_harness_begin(struct verbs_link_harness *harness, struct fake_verbs_options options, const char *root)
{
	set_params(harness);
	start(harness, options, root);
}

void verbs_link_harness_open_paced(struct verbs_link_harness *harness, struct fake_verbs_options options, unsigned qps,
				   bool join, bool pace)
{
	const int members[] = { 0, 1 };

	set_params(harness);
	harness->params.qps = qps;
	harness->params.pace = pace;
	start(harness, options, NULL);
	if (join)
		assert_int_equal(transport_verbs.device_join(harness->transport, 2, members, &harness->device), 0);
	assert_int_equal(link_open(&transport_verbs, harness->transport, harness->device, &harness->link), 0);
}

void verbs_link_harness_open(struct verbs_link_harness *harness, struct fake_verbs_options options, unsigned qps,
			     bool join)
{
	verbs_link_harness_open_paced(harness, options, qps, join, true);
}

void verbs_link_harness_close(struct verbs_link_harness *harness)
{
	struct fake_verbs_counts counts;

	link_close(&harness->link);
	fake_verbs_counts(&counts);
	assert_int_equal(counts.searches, 0); /* who closes a connection waits for those */
	transport_verbs.close(harness->transport);
	assert_int_equal(rmdir(shared_dir), 0);
	assert_int_equal(fake_verbs_stop(), 0);
	fake_verbs_counts(&counts);
	assert_int_equal(counts.missing_receives, 0);
	assert_int_equal(counts.overflows, 0);
	assert_int_equal(counts.wrong_calls, 0);
	verbs_transport_use(NULL, NULL);
	stands = false;
}

/* ---- traffic ---- */

void verbs_link_harness_lose_one_of_the_first(uint64_t *random)
{
	fake_verbs_lose(0, (enum fake_verbs_loss)random_below(random, FAKE_VERBS_LOSS_COUNT));
}

bool verbs_link_harness_sender_has_offers(const struct verbs_link_harness *harness)
{
	struct verbs_connection *connection = (struct verbs_connection *)harness->link.sender;
	bool has;

	pthread_mutex_lock(&connection->lock);
	has = connection->s.offer_count > 0;
	pthread_mutex_unlock(&connection->lock);
	return has;
}

static const struct traffic_shape busy = { .name = "busy",
					   .messages = 300,
					   .max_bytes = 700 << 10,
					   .window = 8,
					   .group_max = 3,
					   .shuffled = true,
					   .extra_max = 9 };

void verbs_run_begin(struct verbs_run *run, struct verbs_link_harness *harness, uint64_t seed)
{
	run->done = 0;
	run->ends = calloc(2, sizeof(*run->ends));
	assert_non_null(run->ends);
	assert_int_equal(traffic_plan_init(&busy, seed, TRANSPORT_MAX_RECVS, &run->plan), 0);
	traffic_end_init(&run->ends[0], &transport_verbs, harness->link.sender, &run->plan, true);
	traffic_end_init(&run->ends[1], &transport_verbs, harness->link.receiver, &run->plan, false);
}

int verbs_run_step(struct verbs_run *run, unsigned at)
{
	int r = run->done & 1U << at ? 0 : traffic_step(&run->ends[at]);

	if (r > 0)
		run->done |= 1U << at;
	return r < 0 ? r : 0;
}

void verbs_run_end(struct verbs_run *run)
{
	traffic_end_fini(&run->ends[0]);
	traffic_end_fini(&run->ends[1]);
	traffic_plan_fini(&run->plan);
	free(run->ends);
}

void verbs_survive(unsigned qps, bool join, void (*harm)(uint64_t *random), unsigned rounds)
{
	enum { HARMS = 12, HARM_MS = 5 };
	uint64_t failed_queues = 0;

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
		uint64_t random = runtime_seed() + round;
		struct fake_verbs_counts counts;
		uint64_t harm_ns = runtime_deadline_ns(HARM_MS);
		unsigned harms = 0;
		struct verbs_link_harness harness;
		struct verbs_run run;

		verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2, .lazy = round % 2 }, qps,
					join);
		verbs_run_begin(&run, &harness, runtime_seed() + round);
		while (run.done != 3) {
			unsigned at = (unsigned)random_below(&random, 2);
			int r = verbs_run_step(&run, at);

			if (r < 0)
				fail_msg("round %u, the %s: %d", round, at ? "receiver" : "sender", r);
			if (harms < HARMS && runtime_past(harm_ns)) {
				harms++;
				harm(&random);
				harm_ns = runtime_deadline_ns(HARM_MS);
			} else if (harms == HARMS && runtime_past(harm_ns)) {
				harms++;
				for (unsigned i = 0; i < 2; i++) {
					fake_verbs_unreached(i, UINT_MAX, 0);
					fake_verbs_port(i, true);
				}
			}
			assert_false(runtime_past(deadline_ns));
		}
		fake_verbs_counts(&counts);
		failed_queues += counts.failed_queues;
		verbs_run_end(&run);
		verbs_link_harness_close(&harness);
	}
	print_message("%u rounds, %u queues failed\n", rounds, (unsigned)failed_queues);
	assert_true(failed_queues > rounds / 2);
}
