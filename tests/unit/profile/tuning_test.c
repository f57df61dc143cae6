/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/sys.h"
#include "profile/store_tuning.h"
#include "support/runtime.h"
#include "unit/profile/state_place.h"

#define HEAD                                                                                                      \
	"tributary tuning 1\nnccl 2.28.9\nranks 8\nhosts 2\ngpus NVIDIA RTX A6000\nnetwork tcp 25 Gbit/s\n" \
	"measured 2026-11-27T18:30:00Z\n"

static const char example[] = HEAD
	"# collective up-to-bytes algorithm protocol channels chunk-bytes time-ns untuned-ns\n"
	"choice broadcast 1 ring simple 1 0 9000 9100\n"
	"choice allreduce 32768 - - 0 0 20000 20000\n"
	"choice allreduce 65536 tree ll 4 131072 35210 51000\n";

static void words_and_numbers_are_read(void **state)
{
	const struct tuning_choice *choice;
	struct tuning_table table;

	(void)state;
	assert_int_equal(tuning_parse(example, strlen(example), &table, NULL), 0);
	assert_int_equal(table.nccl_version, 22809);
	assert_int_equal(table.rank_count, 8);
	assert_int_equal(table.host_count, 2);
	assert_string_equal(table.gpus, "NVIDIA RTX A6000");
	assert_string_equal(table.network, "tcp 25 Gbit/s");
	assert_string_equal(table.measured, "2026-11-27T18:30:00Z");
	choice = tuning_find(&table, PREDICT_ALLREDUCE, 65536);
	assert_non_null(choice);
	assert_int_equal(choice->algorithm, PREDICT_TREE);
	assert_int_equal(choice->protocol, PREDICT_LL);
	assert_int_equal(choice->channels, 4);
	assert_int_equal(choice->chunk_bytes, 131072);
	assert_int_equal(choice->time_ns, 35210);
	assert_int_equal(choice->untuned_ns, 51000);
	assert_int_equal(tuning_find(&table, PREDICT_ALLREDUCE, 20000)->algorithm, -1);
}

static void only_sizes_that_were_measured_are_found(void **state)
{
	struct tuning_table table;

	(void)state;
	assert_int_equal(tuning_parse(example, strlen(example), &table, NULL), 0);
	assert_ptr_equal(tuning_find(&table, PREDICT_ALLREDUCE, 32769), tuning_find(&table, PREDICT_ALLREDUCE, 65536));
	assert_null(tuning_find(&table, PREDICT_ALLREDUCE, 65537));
	assert_null(tuning_find(&table, PREDICT_ALLREDUCE, 16384));
	assert_non_null(tuning_find(&table, PREDICT_BROADCAST, 0));
	assert_non_null(tuning_find(&table, PREDICT_BROADCAST, 1));
	assert_null(tuning_find(&table, PREDICT_BROADCAST, 2));
	assert_null(tuning_find(&table, PREDICT_BROADCAST, UINT64_MAX));
	assert_null(tuning_find(&table, PREDICT_COLLECTIVE_COUNT, 1));
	assert_null(tuning_find(&table, -1, 1));
}

static void each_mistake_has_its_line_and_remedy(void **state)
{
	static const struct {
		const char *text, *reason;
		int line;
	} cases[] = {
		{ "", "its first line is not \"tributary tuning 1\"", 0 },
		{ "tributary tuning 2\n", "newer Tributary", 1 },
		{ "tributary tuning 1", "cut off", 1 },
		{ "tributary tuning 1\nnccl 2.28\n", "version like 2.28.9", 2 },
		{ "tributary tuning 1\nnccl 2.28.100\n", "version like 2.28.9", 2 },
		{ "tributary tuning 1\nranks 8\n", "expected \"nccl\"", 2 },
		{ "tributary tuning 1\nnccl 2.28.9\nranks 0\n", "\"ranks\" is a number", 3 },
		{ "tributary tuning 1\nnccl 2.28.9\nranks 2\nhosts 3\n", "more hosts than ranks", 4 },
		{ "tributary tuning 1\nnccl 2.28.9\nranks 2\nhosts 1\ngpus \n", "expected \"gpus\"", 5 },
		{ "tributary tuning 1\nnccl 2.28.9\nranks 2\nhosts 1\ngpus a\tb\n", "not printable", 5 },
		{ "tributary tuning 1\nnccl 2.28.9\nranks 2\nhosts 1\ngpus a\nnetwork b\nmeasured 27.11.2026\n",
		  "time like", 7 },
		{ HEAD "choose allreduce 1 tree ll 4 0 1 1\n", "expected \"choice\"", 8 },
		{ HEAD "choice allreduce 1 tree ll 4 0 1 1 1\n", "expected \"choice\"", 8 },
		{ HEAD "choice allreduce 1  tree ll 4 0 1 1\n", "expected \"choice\"", 8 },
		{ HEAD "choice alltoall 1 tree ll 4 0 1 1\n", "no collective \"alltoall\"", 8 },
		{ HEAD "choice allreduce 3 tree ll 4 0 1 1\n", "no power of two", 8 },
		{ HEAD "choice allreduce 2199023255552 tree ll 4 0 1 1\n", "no power of two", 8 },
		{ HEAD "choice allreduce 1 star ll 4 0 1 1\n", "no algorithm \"star\"", 8 },
		{ HEAD "choice allreduce 1 tree fast 4 0 1 1\n", "no protocol \"fast\"", 8 },
		{ HEAD "choice allreduce 1 tree - 0 0 1 1\n", "both named, or both", 8 },
		{ HEAD "choice allreduce 1 tree ll 65 0 1 1\n", "channels are a number from 0 to 64", 8 },
		{ HEAD "choice allreduce 1 tree ll 4 1073741825 1 1\n", "chunks have", 8 },
		{ HEAD "choice allreduce 1 tree ll 4 4095 1 1\n", "chunks have", 8 },
		{ HEAD "choice allreduce 1 - - 4 0 1 1\n", "without one both are 0", 8 },
		{ HEAD "choice allreduce 1 tree ll 4 0 1.5 1\n", "whole nanoseconds", 8 },
		{ HEAD "choice allreduce 2 tree ll 4 0 1 1\n# so\nchoice allreduce 2 tree ll 4 0 1 1\n",
		  "not behind the line before it", 10 },
		{ HEAD "choice allreduce 2 tree ll 4 0 1 1\nchoice broadcast 4 tree ll 4 0 1 1\n",
		  "not behind the line before it", 9 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct diag diag = { .text = "" };
		struct tuning_table table;

		if (tuning_parse(cases[i].text, strlen(cases[i].text), &table, &diag) != -EINVAL ||
		    !strstr(diag.text, cases[i].reason) || !strstr(diag.text, "tributary tune --measure") ||
		    diag.line != cases[i].line)
			fail_msg("%s: line %d: %s", cases[i].text, diag.line, diag.text);
	}
}

/* Each has another set of lines, choices and names. */
static void random_table(uint64_t *seed, struct tuning_table *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->nccl_version = (unsigned)(20000 + random_next(seed) % 10000);
	ret->host_count = 1 + random_next(seed) % 64;
	ret->rank_count = ret->host_count + random_next(seed) % 500;
	for (size_t i = 0, n = 1 + random_next(seed) % 80; i < n; i++)
		ret->gpus[i] = (char)(i ? ' ' + random_next(seed) % 95 : 'A');
	snprintf(ret->network, sizeof(ret->network), "%u Gbit/s", (unsigned)(random_next(seed) % 400));
	snprintf(ret->measured, sizeof(ret->measured), "2026-%02u-27T18:30:00Z",
		 (unsigned)(1 + random_next(seed) % 12));
	for (int c = 0; c < PREDICT_COLLECTIVE_COUNT; c++) {
		for (size_t s = 0; s < TUNING_SIZES; s++) {
			const bool is_named = random_next(seed) % 3 != 0;

			if (random_next(seed) % 4 == 0)
				continue;
			ret->choices[c][s] = (struct tuning_choice){
				.bytes_max = (size_t)1 << s,
				.algorithm = is_named ? (int)(random_next(seed) % PREDICT_ALGORITHM_COUNT) : -1,
				.protocol = is_named ? (int)(random_next(seed) % PREDICT_PROTOCOL_COUNT) : -1,
				.channels = is_named ? random_next(seed) % (TUNING_CHANNELS_MAX + 1) : 0,
				.chunk_bytes = is_named ? TUNING_CHUNK_MIN + random_next(seed) % (TUNING_CHUNK_MAX -
												  TUNING_CHUNK_MIN)
							: 0,
				.time_ns = random_next(seed) >> random_next(seed) % 64,
				.untuned_ns = random_next(seed) >> random_next(seed) % 64,
			};
		}
	}
}

static void what_is_written_is_read_back_and_has_the_same_hash(void **state)
{
	uint64_t seed = runtime_seed();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		char *text = NULL, *second = NULL;
		size_t bytes = 0, second_bytes = 0;
		struct tuning_table table, again;

		random_table(&seed, &table);
		assert_int_equal(tuning_print(&table, &text, &bytes), 0);
		assert_true(bytes <= TUNING_MOST_BYTES);
		assert_int_equal(tuning_parse(text, bytes, &again, NULL), 0);
		assert_memory_equal(&table, &again, sizeof(table));
		assert_int_equal(tuning_print(&again, &second, &second_bytes), 0);
		assert_int_equal(tuning_hash(text, bytes), tuning_hash(second, second_bytes));
		sys_free(text);
		sys_free(second);
	}
}

static void what_could_not_be_read_back_is_not_written(void **state)
{
	struct tuning_table table;
	size_t bytes;
	char *text;

	(void)state;
	assert_int_equal(tuning_parse(example, strlen(example), &table, NULL), 0);
	strcpy(table.gpus, "a\nranks 9");
	assert_int_equal(tuning_print(&table, &text, &bytes), -EINVAL);
}

static void kept(void *arg, uint64_t hash, const struct tuning_table *table)
{
	uint64_t *sum = arg;

	*sum += hash + table->rank_count;
}

static void a_table_is_found_by_its_hash_alone(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES], text[512];
	struct tuning_table table, again;
	struct diag why = { .text = "" };
	uint64_t hash, sum = 0;
	size_t bytes;
	FILE *file;

	assert_int_equal(tuning_parse(example, strlen(example), &table, NULL), 0);
	assert_int_equal(store_tuning_each(&place->params, kept, &sum, &why), 0);
	assert_int_equal(store_tuning_load(&place->params, 2, &again, &why), -ENOENT);
	assert_non_null(strstr(why.text, "0000000000000002.tuning is not there: copy it"));
	assert_int_equal(store_tuning_save(&place->params, &table, &hash, path, &why), 0);
	assert_int_equal(store_tuning_load(&place->params, hash, &again, &why), 0);
	assert_memory_equal(&table, &again, sizeof(table));
	assert_int_equal(store_tuning_each(&place->params, kept, &sum, &why), 0);
	assert_int_equal(sum, hash + 8);

	/* Somebody edits the file. */
	file = fopen(path, "r+");
	assert_non_null(file);
	bytes = fread(text, 1, sizeof(text), file);
	text[bytes - 2] ^= 1;
	rewind(file);
	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	fclose(file);
	assert_int_equal(store_tuning_load(&place->params, hash, &again, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "its name is not the hash of its text"));
	why.text[0] = '\0';
	assert_int_equal(store_tuning_each(&place->params, kept, &sum, &why), 1);
	assert_non_null(strstr(why.text, "delete it"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_and_numbers_are_read),
		cmocka_unit_test(only_sizes_that_were_measured_are_found),
		cmocka_unit_test(each_mistake_has_its_line_and_remedy),
		cmocka_unit_test(what_is_written_is_read_back_and_has_the_same_hash),
		cmocka_unit_test(what_could_not_be_read_back_is_not_written),
		cmocka_unit_test_setup_teardown(a_table_is_found_by_its_hash_alone, state_place_new, state_place_free),
	};

	runtime_start("tuning_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
