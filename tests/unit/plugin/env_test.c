/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/env.h"

#include "nccl/env.h"
#include "plugin/state.h"
#include "plugin/tuner.h"
#include "unit/plugin/fake_rdma.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct nccl_env_v2 ncclEnvPlugin_v2;

static char said[4096];

__attribute__((format(printf, 5, 6))) static void sink(int level, unsigned long flags, const char *file, int line,
						       const char *fmt, ...)
{
	size_t used = strlen(said);
	va_list args;

	(void)level, (void)flags, (void)file, (void)line;
	va_start(args, fmt);
	vsnprintf(said + used, sizeof(said) - used, fmt, args);
	va_end(args);
}

/*
 * With a count of 0 NCCL 2.28 unloads the plugin with the last communicator that it served and forgets its name: all that
 * follow get NCCL's own network and no channels. With a declined network it does so at once.
 */
static void test_nccl_never_unloads_the_plugin(void **state)
{
	static const char *const networks[] = { "off", "tcp", "auto" };

	(void)state;
	for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++) {
		setenv("TRIBUTARY_NET", networks[i], 1);
		plugin_state_reset(NULL, &fake_rdma_none);
		assert_string_equal(plugin_env_get("NCCL_NET_PLUGIN_REF_COUNT"), "1000000");
	}
	unsetenv("TRIBUTARY_NET");
}

static void test_the_users_values_win(void **state)
{
	static const char *const names[] = { "NCCL_NET_PLUGIN_REF_COUNT", "NCCL_NET_PLUGIN",
					     "NCCL_TUNER_PLUGIN",         "NCCL_TOPO_FILE",
					     "NCCL_GRAPH_FILE",           "NCCL_NET" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		setenv(names[i], "the user's", 1);
		assert_string_equal(plugin_env_get(names[i]), "the user's");
		unsetenv(names[i]);
	}
	assert_null(plugin_env_get("NCCL_ALGO"));
}

/* NCCL never calls the net plugin then, and before 2.30 gives the environment plugin no logger. */
static void test_another_network_is_reported_by_the_tuner(void **state)
{
	struct plugin_tuner *tuner;

	(void)state;
	said[0] = '\0';
	setenv("NCCL_NET", "Socket", 1);
	plugin_env_init(22809);
	assert_string_equal(plugin_env_get("NCCL_NET"), "Socket");
	assert_int_equal(plugin_tuner_init(0, 4, 1, NULL, sink, &tuner), 0);
	assert_non_null(strstr(said, "plans no channels, as NCCL_NET=Socket is set"));
	plugin_tuner_fini(tuner);
	unsetenv("NCCL_NET");
}

static void test_the_logger_of_version_2_is_used(void **state)
{
	(void)state;
	plugin_state_reset(NULL, &fake_rdma_none);
	said[0] = '\0';
	assert_int_equal(ncclEnvPlugin_v2.init(2, 30, 7, "", sink), 0);
	log_info(LOG_INIT, "for the logger");
	assert_true(log_drain(60000));
	assert_non_null(strstr(said, "for the logger"));
	assert_int_equal(ncclEnvPlugin_v2.finalize(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nccl_never_unloads_the_plugin),
		cmocka_unit_test(test_the_users_values_win),
		cmocka_unit_test(test_another_network_is_reported_by_the_tuner),
		cmocka_unit_test(test_the_logger_of_version_2_is_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
