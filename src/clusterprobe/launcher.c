/* SPDX-License-Identifier: Apache-2.0 */
#include "clusterprobe/clusterprobe.h"

#include "base/parse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Launchers, and what each calls rank and size; plugin/steer/settings.c has those of jobs. torchrun's are also the test-bed's. */
static const struct {
	const char *launcher, *rank, *size;
} launchers[] = {
	{ "torchrun", "RANK", "WORLD_SIZE" },        { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
	{ "PMI", "PMI_RANK", "PMI_SIZE" },           { "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS" },
	{ "Slurm", "SLURM_PROCID", "SLURM_NTASKS" }, { "PMIx", "PMIX_RANK", "PMIX_SIZE" },
};

static int find_rank(const char *(*get)(const char *name), struct clusterprobe_launch *ret, struct diag *diag)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(*launchers); i++) {
		const char *rank = get(launchers[i].rank), *size = get(launchers[i].size);
		uint64_t r, n;

		if (!rank || !size)
			continue;
		if (parse_u64(size, 2, CLUSTERPROBE_RANKS_MAX, &n) < 0 || parse_u64(rank, 0, n - 1, &r) < 0) {
			diag_set(diag, 0, 0,
				 "%s is \"%.20s\" and %s \"%.20s\" (%s): expected 2 to %d processes on as many hosts",
				 launchers[i].rank, rank, launchers[i].size, size, launchers[i].launcher,
				 CLUSTERPROBE_RANKS_MAX);
			return -EINVAL;
		}
		ret->rank = (uint32_t)r;
		ret->size = (uint32_t)n;
		return 0;
	}
	diag_set(diag, 0, 0,
		 "this is no job: start it on every host with mpirun, srun or torchrun, or set RANK, WORLD_SIZE, "
		 "MASTER_ADDR and MASTER_PORT");
	return -EINVAL;
}

/*
 * The first name of Slurm's list of nodes: "gpu[03-07,9],login1" begins with gpu03, "rack[2-3]node[1,5]" with rack2node1.
 */
static void first_of_list(const char *list, char *ret, size_t ret_bytes)
{
	size_t at = 0;

	while (*list && *list != ',' && at + 1 < ret_bytes) {
		const char *end = *list == '[' ? strchr(list, ']') : NULL;

		if (!end) {
			ret[at++] = *list++;
			continue;
		}
		for (list++; *list >= '0' && *list <= '9' && at + 1 < ret_bytes; list++)
			ret[at++] = *list;
		list = end + 1;
	}
	ret[at] = '\0';
}

static int split_master(const char *text, struct clusterprobe_launch *ret, struct diag *diag)
{
	const char *end = strrchr(text, ':'), *close = strchr(text, ']');
	size_t bytes = strlen(text), skip = *text == '[';
	uint64_t port;

	if (end && (strchr(text, ':') == end || (close && end == close + 1))) {
		if (parse_u64(end + 1, 1, 65535, &port) < 0)
			goto wrong;
		ret->port = (uint16_t)port;
		bytes = (size_t)(end - text);
	}
	if (skip) {
		if (!close || bytes < 3)
			goto wrong;
		bytes = (size_t)(close - text) - 1;
	}
	if (!bytes || bytes >= sizeof(ret->address))
		goto wrong;
	snprintf(ret->address, sizeof(ret->address), "%.*s", (int)bytes, text + skip);
	return 0;
wrong:
	diag_set(diag, 0, 0, "--master is \"%.60s\", expected ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT", text);
	return -EINVAL;
}

static int find_port(const char *(*get)(const char *name), struct clusterprobe_launch *ret, struct diag *diag)
{
	const char *text = get("MASTER_PORT");
	uint64_t port;

	ret->port = CLUSTERPROBE_PORT_DEFAULT;
	if (!text)
		return 0;
	/* torchrun's own store has the port that it names: ours is the next. */
	if (parse_u64(text, 1, 65534, &port) < 0) {
		diag_set(diag, 0, 0, "MASTER_PORT is \"%.20s\", expected 1 to 65534", text);
		return -EINVAL;
	}
	ret->port = (uint16_t)(port + (get("TORCHELASTIC_RUN_ID") != NULL));
	return 0;
}

int clusterprobe_launch_find(const char *(*get)(const char *name), const char *master, struct clusterprobe_launch *ret,
			     struct diag *diag)
{
	struct clusterprobe_launch launch = { 0 };
	const char *address = get("MASTER_ADDR"), *list = get("SLURM_STEP_NODELIST");
	int r = find_rank(get, &launch, diag);

	if (r == 0)
		r = find_port(get, &launch, diag);
	if (r == 0 && master)
		r = split_master(master, &launch, diag);
	if (r < 0)
		return r;
	if (!list)
		list = get("SLURM_JOB_NODELIST");
	if (!master && address && *address)
		snprintf(launch.address, sizeof(launch.address), "%s", address);
	else if (!master && list)
		first_of_list(list, launch.address, sizeof(launch.address));
	if (!launch.address[0]) {
		diag_set(diag, 0, 0,
			 "nobody says where rank 0 is: set MASTER_ADDR to its address on every host (mpirun -x "
			 "MASTER_ADDR=...), or give --master ADDRESS");
		return -EINVAL;
	}
	*ret = launch;
	return 0;
}
