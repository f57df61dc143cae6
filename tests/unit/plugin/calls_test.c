/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/calls.h"

#include "nccl/profiler.h"
#include "plugin/profiler.h"
#include "plugin/state.h"
#include "plugin/steer.h"
#include "support/log_lines.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

extern const struct nccl_profiler_v4 ncclProfiler_v4;
extern const struct nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6;

static void *take_it(void *arg)
{
	return plugin_calls_take(*(const uint64_t *)arg);
}

/* A process may have several ranks of a communicator, each of which is initialised by a thread of its own. */
static void calls_are_those_of_the_thread(void **state)
{
	const uint64_t id = 7;
	struct plugin_calls *first = plugin_calls_open(id), *second = plugin_calls_open(id), *taken;
	pthread_t thread;
	void *other;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, take_it, (void *)(uintptr_t)&id), 0);
	assert_int_equal(pthread_join(thread, &other), 0);
	assert_null(other);
	taken = plugin_calls_take(id);
	assert_ptr_equal(taken, second);
	plugin_calls_put(taken);
	plugin_calls_close(second);
	plugin_calls_close(first);
	plugin_calls_close(NULL);
	plugin_calls_put(NULL);
}

/* A named table needs them, whatever else is off. */
static void nccl_is_asked_for_them_where_a_table_is_named(void **state)
{
	static const struct nccl_profiler_v5 *const versions[] = { &ncclProfiler_v5, &ncclProfiler_v6 };
	struct nccl_profiler_event_v5 event = { .type = NCCL_PROFILER_COLL_API };

	(void)state;
	event.collApi.func = "AllReduce";
	event.collApi.datatype = "ncclFloat32";
	setenv("TRIBUTARY_PROFILER", "off", 1);
	for (int named = 0; named < 2; named++) {
		setenv("TRIBUTARY_TUNING", named ? "0123456789abcdef" : "auto", 1);
		plugin_profiler_reset();
		steer_reset(NULL, "");
		plugin_state_reset(NULL, NULL);
		for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++) {
			struct plugin_calls *calls;
			void *comm, *handle;
			int mask = 0;

			assert_int_equal(versions[v]->init(&comm, 9, &mask, NULL, 1, 4, 0, log_lines_ignore),
					 NCCL_SUCCESS);
			assert_int_equal(mask, named ? NCCL_PROFILER_COLL_API : 0);
			calls = plugin_calls_take(9);
			assert_int_equal(calls != NULL, named);
			for (uint64_t i = 0; i < 3 && calls; i++) {
				assert_int_equal(plugin_calls_count(calls), i);
				assert_int_equal(versions[v]->startEvent(comm, &handle, &event), NCCL_SUCCESS);
				assert_null(handle);
			}
			assert_int_equal(versions[v]->finalize(comm), NCCL_SUCCESS);
			plugin_calls_put(calls);
		}
	}
	assert_null(plugin_profiler_operations());
}

/* Versions that tell of no calls. */
static void old_versions_have_none(void **state)
{
	void *comm;
	int mask = 0;

	(void)state;
	assert_int_equal(ncclProfiler_v4.init(&comm, &mask, "name", 9, 1, 4, 0, log_lines_ignore), NCCL_SUCCESS);
	assert_null(plugin_calls_take(9));
	assert_int_equal(mask, 0);
	assert_int_equal(ncclProfiler_v4.finalize(comm), NCCL_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_those_of_the_thread),
		cmocka_unit_test(nccl_is_asked_for_them_where_a_table_is_named),
		cmocka_unit_test(old_versions_have_none),
	};

	return cmocka_run_group_tests_name("plugin/calls", tests, NULL, NULL);
}
