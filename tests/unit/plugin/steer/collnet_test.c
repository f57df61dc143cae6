/* SPDX-License-Identifier: Apache-2.0 */
/* The word where collnet could help: said where it is true, and not anywhere else. */
#include "plugin/steer/collnet.h"

#include "plugin/state.h"
#include "support/tree.h"
#include "unit/plugin/fake_transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/tributary-collnet-test-XXXXXX";

/* Two leaves of four hosts and a narrow way between them. */
static const char two_leaves[] = "tributary-cluster 1\n"
				 "switch spine\n"
				 "switch a parent=spine rate=10Mbit/s\nswitch b parent=spine rate=10Mbit/s\n"
				 "host n[1-4] leaf=a rate=100Mbit/s\nhost n[5-8] leaf=b rate=100Mbit/s\n";

static struct steer_setup setup_of(uint32_t world, uint32_t local, bool wants)
{
	struct steer_setup setup = { .nets = { .ours = true }, .level = STEER_FULL };

	setup.settings.job.world_size = world;
	setup.settings.job.local_size = local;
	setup.settings.wants_collnet = wants;
	return setup;
}

static void in_cluster(const char *text)
{
	tree_put(path, text);
	setenv("TRIBUTARY_CLUSTER", path, 1);
	plugin_state_reset(&fake_transport_ops, NULL);
	plugin_state_load();
	log_lines_forget();
}

static void gain_is_that_of_the_jobs_hosts(void **state)
{
	struct steer_setup all = setup_of(16, 2, false), few = setup_of(8, 2, false), unknown = setup_of(0, 0, false);

	(void)state;
	in_cluster(two_leaves);
	assert_in_range(steer_collnet_gain(&all), 1700, 1750);
	assert_int_equal(steer_collnet_gain(&few), 0); /* four hosts fit one leaf */
	assert_in_range(steer_collnet_gain(&unknown), 1700, 1750);
	all.nets.ours = false;
	assert_int_equal(steer_collnet_gain(&all), 0);
}

static void advice_is_given_where_it_helps(void **state)
{
	struct steer_setup quiet = setup_of(16, 2, true), offered = setup_of(16, 2, false),
			   all = setup_of(16, 2, false);
	struct steer_setup few = setup_of(8, 2, false);

	(void)state;
	in_cluster(two_leaves);
	steer_collnet_advise(&quiet);
	steer_collnet_advise(&few);
	assert_int_equal(log_lines()->infos, 0);
	steer_collnet_advise(&all);
	assert_int_equal(log_lines()->infos, 1);
	assert_non_null(strstr(log_lines()->info, "NCCL_COLLNET_ENABLE=1"));
	offered.offers_collnet = true; /* NCCL will use it */
	steer_collnet_advise(&offered);
	assert_int_equal(log_lines()->infos, 1);
	assert_int_equal(log_lines()->warnings, 0);
}

static void a_cluster_that_cannot_be_read_is_said_once(void **state)
{
	struct steer_setup all = setup_of(16, 2, false);

	(void)state;
	in_cluster("tributary-cluster 1\nswitch a\nhost n1 leaf=nowhere\n");
	steer_collnet_advise(&all);
	steer_collnet_advise(&all);
	assert_int_equal(log_lines()->infos, 0);
	assert_int_equal(log_lines()->warnings, 1);
	assert_non_null(strstr(log_lines()->warning, "all hosts count as one leaf"));
	assert_non_null(strstr(log_lines()->warning, path));
}

static int teardown(void **state)
{
	unsetenv("TRIBUTARY_CLUSTER");
	return fake_transport_teardown(state);
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, fake_transport_setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(gain_is_that_of_the_jobs_hosts),
		TEST(advice_is_given_where_it_helps),
		TEST(a_cluster_that_cannot_be_read_is_said_once),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
