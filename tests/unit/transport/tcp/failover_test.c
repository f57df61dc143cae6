/*
 * Streams that die. Whatever dies where, every message arrives once, in the order of its tag and whole, as long as one
 * stream lives or comes back before the other dies; when all are gone at once, every request fails.
 */
#include "harness.h"

#include "base/clock.h"
#include "base/log.h"
#include "support/runtime.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t bytes_of(struct harness *harness, const struct harness_program *program, unsigned index,
		       unsigned active_count)
{
	size_t bytes;

	harness_open(harness, program, active_count);
	assert_true(harness_run(harness));
	bytes = harness->middles[index].passed;
	harness_close(harness);
	return bytes;
}

static void must_arrive(struct harness *harness, unsigned index, size_t cut)
{
	if (!harness_run(harness))
		fail_msg("%s: stream %u of %u active cut after %zu bytes: the connection failed",
			 harness->program->name, index, harness->sender->active_count, cut);
}

struct losses {
	unsigned runs, rejoins, came_ahead;
};

/* Each stream in turn dies after `first`, `first` + stride, ... bytes: a single loss is never an error. */
static struct losses cut_everywhere(const struct harness_program *program, unsigned active_count,
				    enum harness_death death, bool with_rejoin, size_t first, size_t stride)
{
	struct harness *harness = calloc(1, sizeof(*harness));
	struct losses losses = { 0 };

	assert_non_null(harness);
	for (unsigned index = 0; index < HARNESS_STREAMS; index++) {
		size_t bytes = bytes_of(harness, program, index, active_count);

		for (size_t cut = first; cut <= bytes; cut += stride, losses.runs++) {
			harness_open(harness, program, active_count);
			harness->rejoin = with_rejoin;
			harness->middles[index].left = cut;
			harness->middles[index].death = death;
			must_arrive(harness, index, cut);
			losses.rejoins += harness->rejoins;
			losses.came_ahead += harness->came_ahead;
			harness_close(harness);
		}
	}
	free(harness);
	return losses;
}

/* Every program, with one active stream and with all, after every so-many-th byte; long_stride: in a long run. */
static struct losses cut_all(enum harness_death death, bool with_rejoin, size_t short_stride, size_t long_stride)
{
	const size_t stride = runtime_long() ? long_stride : short_stride;
	struct losses all = { 0 };
	size_t first = 0;

	for (const struct harness_program *program = harness_programs; program->name; program++)
		for (unsigned active_count = 1; active_count <= HARNESS_STREAMS; active_count++) {
			struct losses losses = cut_everywhere(program, active_count, death, with_rejoin,
							      first++ % stride, stride);

			/* Striped data could come before its announcement. */
			assert_true(active_count == 1 || !losses.came_ahead);
			all.runs += losses.runs;
			all.rejoins += losses.rejoins;
			all.came_ahead += losses.came_ahead;
		}
	return all;
}

static void a_stream_closed_after_any_byte_loses_nothing(void **state)
{
	struct losses all = cut_all(HARNESS_CLOSED, false, 61, 1);

	(void)state;
	assert_true(all.runs > 2000);
	assert_true(all.came_ahead > all.runs / 2);
}

static void a_stream_silent_after_any_byte_loses_nothing(void **state)
{
	struct losses all = cut_all(HARNESS_SILENT, false, 331, 31);

	(void)state;
	assert_true(all.runs > 300);
}

static void a_stream_that_comes_back_is_used_again(void **state)
{
	struct losses all = cut_all(HARNESS_CLOSED, true, 61, 3);

	(void)state;
	assert_true(all.runs > 2000);
	assert_true(all.rejoins > all.runs / 8);
}

/*
 * One stream, and when it has come back under a new epoch, the same again or the other one. At each moment one lives, so
 * this, too, is never an error.
 */
static void two_losses_one_after_the_other_lose_nothing(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));
	unsigned rejoins = 0, runs = 0;
	size_t first = 0;

	(void)state;
	assert_non_null(harness);
	for (const struct harness_program *program = harness_programs; program->name; program++)
		for (unsigned kind = 0; kind < 8; kind++) {
			const unsigned active_count = 1 + (kind & 1), index = kind >> 1 & 1, second_index = kind >> 2;
			const size_t stride = runtime_long() ? 307 : 1499;
			const size_t bytes = bytes_of(harness, program, index, active_count);

			for (first = first % stride; first <= bytes; first += stride)
				for (size_t second = first % 89; second < bytes; second += stride, runs++) {
					harness_open(harness, program, active_count);
					harness->rejoin = harness->second = true;
					harness->middles[index].left = first;
					harness->second_index = second_index;
					harness->second_left = second;
					must_arrive(harness, index, first);
					rejoins += harness->rejoins;
					harness_close(harness);
				}
			first += 7;
		}
	free(harness);
	assert_true(runs > 500);
	assert_true(rejoins > runs);
}

static void all_streams_gone_fails_both_ends(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));

	(void)state;
	assert_non_null(harness);
	for (unsigned death = HARNESS_CLOSED; death <= HARNESS_SILENT; death++)
		for (size_t cut = 0; cut < 3000; cut += 101) {
			uint64_t begin_ns;

			harness_open(harness, harness_programs, 1 + (unsigned)(cut % 2));
			for (unsigned i = 0; i < HARNESS_STREAMS; i++) {
				harness->middles[i].left = cut;
				harness->middles[i].death = (enum harness_death)death;
			}
			begin_ns = harness->now_ns;
			assert_false(harness_run(harness));
			assert_int_equal(harness->sender->error, -EREMOTEIO);
			assert_int_equal(harness->receiver->error, -EREMOTEIO);
			assert_true(harness->now_ns - begin_ns < harness->transport.timeout_ns * 3 / 2);
			for (unsigned m = 0; m < HARNESS_MESSAGES; m++) {
				bool done = false;

				if (harness->sends[m])
					assert_int_equal(tcp_connection_test(harness->sends[m], &done, NULL),
							 -EREMOTEIO);
				if (harness->receives[m])
					assert_int_equal(tcp_connection_test(harness->receives[m], &done, NULL),
							 -EREMOTEIO);
				assert_false(done);
			}
			harness_close(harness);
		}
	free(harness);
}

/* The service thread alone looks at an idle connection: every stream's signs of life must be read in time. */
static void an_idle_connection_keeps_its_streams(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));

	(void)state;
	assert_non_null(harness);
	harness_open(harness, harness_programs, 1);
	for (unsigned beat = 0; beat < 200; beat++) {
		harness->now_ns += harness->transport.beat_ns;
		tcp_connection_tick(harness->sender, harness->now_ns);
		tcp_connection_tick(harness->receiver, harness->now_ns);
		for (unsigned i = 0; i < HARNESS_STREAMS; i++)
			harness_pass(&harness->middles[i]);
	}
	assert_int_equal(harness->sender->live_count, HARNESS_STREAMS);
	assert_int_equal(harness->receiver->live_count, HARNESS_STREAMS);
	assert_true(harness_run(harness));
	harness_close(harness);
	free(harness);
}

/* The machine stood still, or gave this process no CPU: its peer on the same machine is not dead for that. */
static void time_in_which_nobody_looked_is_no_silence(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));
	uint64_t silent_ns;

	(void)state;
	assert_non_null(harness);
	harness_open(harness, harness_programs, 1);
	harness->now_ns += 5 * harness->transport.timeout_ns;
	tcp_connection_tick(harness->sender, harness->now_ns);
	tcp_connection_tick(harness->receiver, harness->now_ns);
	assert_int_equal(harness->sender->error, 0);
	assert_int_equal(harness->receiver->error, 0);
	assert_int_equal(harness->sender->live_count, HARNESS_STREAMS);
	assert_int_equal(harness->receiver->live_count, HARNESS_STREAMS);
	assert_true(harness_run(harness));
	/* It looks again, and nothing comes: that is. */
	tcp_connection_tick(harness->sender, harness->now_ns);
	silent_ns = harness->now_ns;
	while (!harness->sender->error && harness->now_ns - silent_ns < 2 * harness->transport.timeout_ns)
		tcp_connection_tick(harness->sender, harness->now_ns += harness->transport.beat_ns);
	assert_int_equal(harness->sender->error, -EREMOTEIO);
	assert_true(harness->now_ns - silent_ns <= harness->transport.timeout_ns);
	harness_close(harness);
	free(harness);
}

static unsigned waits_said;
static void hear_waits(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	va_list arguments;

	(void)level, (void)flags, (void)file, (void)line;
	assert_string_equal(fmt, "%s");
	va_start(arguments, fmt);
	waits_said += strstr(va_arg(arguments, const char *), "has waited") != NULL;
	va_end(arguments);
}

static void only_a_connection_that_lives_is_waited_for(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));

	(void)state;
	assert_non_null(harness);
	for (int lives = 1; lives >= 0; lives--) {
		harness_open(harness, harness_programs, 1);
		assert_non_null(harness_send(harness, harness->out[1], 3000, 5));
		if (!lives)
			tcp_connection_fail(harness->sender, -EREMOTEIO, "the test says so");
		waits_said = 0;
		log_set_sink(hear_waits);
		harness->now_ns += harness->params.report_after_ns + NS_PER_S;
		for (unsigned i = 0; i < HARNESS_STREAMS; i++)
			harness->sender->streams[i].last_rx_ns = harness->now_ns;
		harness->sender->last_rx_ns = harness->now_ns;
		tcp_connection_tick(harness->sender, harness->now_ns);
		log_set_sink(NULL);
		assert_int_equal(waits_said, lives);
		harness_close(harness);
	}
	free(harness);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_connection_that_lives_is_waited_for),
		cmocka_unit_test(an_idle_connection_keeps_its_streams),
		cmocka_unit_test(time_in_which_nobody_looked_is_no_silence),
		cmocka_unit_test(a_stream_closed_after_any_byte_loses_nothing),
		cmocka_unit_test(a_stream_silent_after_any_byte_loses_nothing),
		cmocka_unit_test(a_stream_that_comes_back_is_used_again),
		cmocka_unit_test(two_losses_one_after_the_other_lose_nothing),
		cmocka_unit_test(all_streams_gone_fails_both_ends),
	};

	(void)argc;
	runtime_start(argv[0], runtime_long() ? 1200 : 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
