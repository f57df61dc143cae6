#include "plugin/env.h"
#include "plugin/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

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
		plugin_state_reset(NULL, "");
		assert_string_equal(plugin_env_get("NCCL_NET_PLUGIN_REF_COUNT"), "1000000");
	}
	unsetenv("TRIBUTARY_NET");
}

static void test_the_users_values_win(void **state)
{
	static const char *const names[] = { "NCCL_NET_PLUGIN_REF_COUNT", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN",
					     "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_NET" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		setenv(names[i], "the user's", 1);
		assert_string_equal(plugin_env_get(names[i]), "the user's");
		unsetenv(names[i]);
	}
	assert_null(plugin_env_get("NCCL_ALGO"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nccl_never_unloads_the_plugin),
		cmocka_unit_test(test_the_users_values_win),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
