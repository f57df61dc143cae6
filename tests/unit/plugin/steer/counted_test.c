/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL_NET=IB: NCCL asks for nothing but what the profiler half may count. Others see that all the same. */
#include "base/process.h"
#include "plugin/profiler.h"
#include "plugin/state.h"
#include "plugin/steer.h"
#include "profile/store_jobs.h"
#include "support/tree.h"
#include "tributary/predict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tree tree;
static int mask;

/* As the end of a process, and the start of the next. */
static void next_process(void)
{
	plugin_profiler_reset();
	steer_reset(NULL, "");
	plugin_state_reset(NULL, NULL);
}

static int make_folder(void **state)
{
	(void)state;
	tree_open(&tree);
	setenv("TRIBUTARY_SHARED_DIR", tree.root, 1);
	setenv("TRIBUTARY_STATE_DIR", tree.root, 1);
	next_process();
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	next_process();
	tree_close(&tree);
	return 0;
}

static struct plugin_profiler *count_one(void)
{
	const struct plugin_profiler_comm comm = { .id = 1, .rank_count = 4, .node_count = 1, .count_events = 1 };
	const struct plugin_profiler_operation operation = {
		.collective = PREDICT_ALLREDUCE, .algorithm = PREDICT_RING, .protocol = PREDICT_LL, .bytes = 1024
	};
	struct plugin_profiler *profiler;
	void *handle;

	plugin_profiler_init(&comm, &mask, &profiler);
	assert_non_null(profiler);
	plugin_profiler_operation(profiler, &operation, NULL, &handle);
	return profiler;
}

/* Of what others see: what it tells and counts, and that it is alive. */
static unsigned files(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/tributary-%u", tree.root, (unsigned)process_user());
	return tree_count(path, "t-") + tree_count(path, "o-") + tree_count(path, "w-");
}

static void take(void *arg, const char *text)
{
	*(bool *)arg |= strstr(text, " why NCCL uses another network: unset NCCL_NET\n") &&
			strstr(text, "\noperation allreduce to 1024 ");
}

static void it_is_seen_while_it_runs_and_at_its_end(void **state)
{
	bool is_recent = false;

	(void)state;
	plugin_profiler_fini(count_one());
	assert_int_equal(files(), 3);
	next_process();
	assert_int_equal(files(), 0);
	plugin_state_load();
	assert_int_equal(store_jobs_read(plugin_state_params(), take, &is_recent), 0);
	assert_true(is_recent);
}

/* A second communicator is over the plugin's network. */
static void a_setup_that_comes_later_takes_its_place(void **state)
{
	struct plugin_profiler *profiler = count_one();

	(void)state;
	assert_int_equal(files(), 3);
	steer_begin_process();
	assert_int_equal(files(), 0);
	assert_ptr_equal(steer_operations(), plugin_profiler_operations());
	plugin_profiler_fini(profiler);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_is_seen_while_it_runs_and_at_its_end, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_setup_that_comes_later_takes_its_place, make_folder, remove_folder),
	};

	return cmocka_run_group_tests_name("plugin/steer/counted", tests, NULL, NULL);
}
