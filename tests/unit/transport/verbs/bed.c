#include "unit/transport/verbs/bed.h"

#include "base/clock.h"
#include "support/runtime.h"
#include "transport/verbs/verbs.h"

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
static void start(struct verbs_bed *bed, struct fake_verbs_options options, const char *root)
{
	if (stands) {
		print_error("the test before has failed and left its connection: no other can be tried\n");
		exit(EXIT_FAILURE);
	}
	stands = true;
	options.seed = runtime_seed();
	verbs_transport_use(fake_verbs_start(&options), root);
	assert_int_equal(transport_verbs.open(&bed->params, &bed->transport), 0);
}

static void set_params(struct verbs_bed *bed)
{
	memset(bed, 0, sizeof(*bed));
	params_defaults(&bed->params);
	snprintf(bed->params.interfaces, sizeof(bed->params.interfaces), "lo");
	bed->params.timeout_ns = 3 * NS_PER_S;
	bed->params.gid_index = 1;
	memset(shared_dir + sizeof(shared_dir) - 7, 'X', 6);
	assert_non_null(mkdtemp(shared_dir));
	snprintf(bed->params.shared_dir, sizeof(bed->params.shared_dir), "%s", shared_dir);
}

void verbs_bed_begin(struct verbs_bed *bed, struct fake_verbs_options options, const char *root)
{
	set_params(bed);
	start(bed, options, root);
}

void verbs_bed_open_paced(struct verbs_bed *bed, struct fake_verbs_options options, unsigned qps, bool join, bool pace)
{
	const int members[] = { 0, 1 };

	set_params(bed);
	bed->params.qps = qps;
	bed->params.pace = pace;
	start(bed, options, NULL);
	if (join)
		assert_int_equal(transport_verbs.device_join(bed->transport, 2, members, &bed->device), 0);
	assert_int_equal(link_open(&transport_verbs, bed->transport, bed->device, &bed->link), 0);
}

void verbs_bed_open(struct verbs_bed *bed, struct fake_verbs_options options, unsigned qps, bool join)
{
	verbs_bed_open_paced(bed, options, qps, join, true);
}

void verbs_bed_close(struct verbs_bed *bed)
{
	struct fake_verbs_counts counts;

	link_close(&bed->link);
	transport_verbs.close(bed->transport);
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

void verbs_bed_lose_one_of_the_first(struct random *random)
{
	fake_verbs_lose(0, (enum fake_verbs_loss)random_below(random, FAKE_VERBS_LOSS_COUNT));
}

bool verbs_bed_sender_has_offers(const struct verbs_bed *bed)
{
	struct verbs_connection *connection = (struct verbs_connection *)bed->link.sender;
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

void verbs_run_begin(struct verbs_run *run, struct verbs_bed *bed, uint64_t seed)
{
	run->done = 0;
	run->ends = calloc(2, sizeof(*run->ends));
	assert_non_null(run->ends);
	assert_int_equal(traffic_plan_init(&busy, seed, TRANSPORT_MAX_RECVS, &run->plan), 0);
	traffic_end_init(&run->ends[0], &transport_verbs, bed->link.sender, &run->plan, true);
	traffic_end_init(&run->ends[1], &transport_verbs, bed->link.receiver, &run->plan, false);
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
