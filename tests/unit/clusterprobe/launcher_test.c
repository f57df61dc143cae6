/* SPDX-License-Identifier: Apache-2.0 */
/* Where a process is in its job: what each launcher says, and what is wrong with it. */
#include "clusterprobe/clusterprobe.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char *const *environment; /* name, value, ..., NULL */

static const char *get(const char *name)
{
	for (const char *const *at = environment; *at; at += 2)
		if (!strcmp(at[0], name))
			return at[1];
	return NULL;
}

static int find(const char *const *pairs, const char *master, struct clusterprobe_launch *ret)
{
	struct diag diag = { 0 };
	int r;

	environment = pairs;
	memset(ret, 0, sizeof(*ret));
	r = clusterprobe_launch_find(get, master, ret, &diag);
	assert_int_equal(r < 0, diag.text[0] != '\0');
	return r;
}

static void check(const char *const *pairs, const char *master, uint32_t rank, uint32_t size, const char *address,
		  uint16_t port)
{
	struct clusterprobe_launch launch;

	assert_int_equal(find(pairs, master, &launch), 0);
	assert_int_equal(launch.rank, rank);
	assert_int_equal(launch.size, size);
	assert_string_equal(launch.address, address);
	assert_int_equal(launch.port, port);
}

static void every_launcher_is_understood(void **state)
{
	(void)state;
	check((const char *const[]){ "RANK", "3", "WORLD_SIZE", "8", "MASTER_ADDR", "10.0.0.1", "MASTER_PORT", "5000",
				     NULL },
	      NULL, 3, 8, "10.0.0.1", 5000);
	/* torchrun's own store listens on the port that it names. */
	check((const char *const[]){ "RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "a", "MASTER_PORT", "5000",
				     "TORCHELASTIC_RUN_ID", "x", NULL },
	      NULL, 0, 2, "a", 5001);
	check((const char *const[]){ "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4", "MASTER_ADDR", "b",
				     NULL },
	      NULL, 1, 4, "b", CLUSTERPROBE_PORT_DEFAULT);
	check((const char *const[]){ "PMI_RANK", "2", "PMI_SIZE", "3", NULL }, "c:77", 2, 3, "c", 77);
	check((const char *const[]){ "SLURM_PROCID", "5", "SLURM_NTASKS", "6", "SLURM_JOB_NODELIST",
				     "gpu[03-07,9]-ib,x1", NULL },
	      NULL, 5, 6, "gpu03-ib", CLUSTERPROBE_PORT_DEFAULT);
	check((const char *const[]){ "SLURM_PROCID", "1", "SLURM_NTASKS", "6", "SLURM_JOB_NODELIST",
				     "rack[2-3]node[01,5]x,x1", NULL },
	      NULL, 1, 6, "rack2node01x", CLUSTERPROBE_PORT_DEFAULT);
	check((const char *const[]){ "SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "2", "SLURM_NTASKS", "9",
				     "SLURM_STEP_NODELIST", "n7,n8", NULL },
	      NULL, 0, 2, "n7", CLUSTERPROBE_PORT_DEFAULT);
}

static void master_may_be_said(void **state)
{
	static const char *const job[] = {
		"RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "a", "MASTER_PORT", "9", NULL
	};
	struct clusterprobe_launch launch;

	(void)state;
	check(job, "h1", 0, 2, "h1", 9);
	check(job, "h1:50", 0, 2, "h1", 50);
	check(job, "fe80::1", 0, 2, "fe80::1", 9);
	check(job, "[fe80::1]:51", 0, 2, "fe80::1", 51);
	check(job, "[fe80::1]", 0, 2, "fe80::1", 9);
	assert_int_equal(find(job, "h1:0", &launch), -EINVAL);
	assert_int_equal(find(job, ":50", &launch), -EINVAL);
	assert_int_equal(find(job, "[]:50", &launch), -EINVAL);
	assert_int_equal(find(job, "[fe80::1", &launch), -EINVAL);
}

static void what_is_missing_or_wrong_is_said(void **state)
{
	struct clusterprobe_launch launch;

	(void)state;
	assert_int_equal(find((const char *const[]){ NULL }, NULL, &launch), -EINVAL);
	assert_int_equal(find((const char *const[]){ "RANK", "1", "WORLD_SIZE", "2", NULL }, NULL, &launch), -EINVAL);
	assert_int_equal(
		find((const char *const[]){ "RANK", "2", "WORLD_SIZE", "2", "MASTER_ADDR", "a", NULL }, NULL, &launch),
		-EINVAL);
	assert_int_equal(
		find((const char *const[]){ "RANK", "0", "WORLD_SIZE", "1", "MASTER_ADDR", "a", NULL }, NULL, &launch),
		-EINVAL);
	assert_int_equal(find((const char *const[]){ "RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "a", "MASTER_PORT",
						     "65535", NULL },
			      NULL, &launch),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_launcher_is_understood),
		cmocka_unit_test(master_may_be_said),
		cmocka_unit_test(what_is_missing_or_wrong_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
