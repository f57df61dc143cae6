/* SPDX-License-Identifier: Apache-2.0 */
/* A topology file that joins GPUs by P2P, where that is measured to be faster: for all ranks of a host or for none. */
#include "plugin/steer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/params.h"
#include "gpu/current.h"
#include "plugin/state.h"
#include "profile/store_places.h"
#include "support/tree.h"

#define GBPS(x) ((uint64_t)(x)*1000000000ULL)

enum { GPUS = 4, TEXT_BYTES = 8192, NCCL_VERSION = 22809 };

struct place {
	char root[64], profile[96], shared[96];
};

struct answers {
	char topology[TEXT_BYTES], again[TEXT_BYTES], after[TEXT_BYTES]; /* after: once it is idle */
	bool planned;
};

/* One rank of a communicator on a thread of its own, step by step with the others, as in NCCL. */
struct rank {
	pthread_barrier_t *barrier;
	uint64_t comm_id;
	int gpu;
	struct answers answers;
};

static _Thread_local int current_gpu;

static int thread_device(int *ret)
{
	*ret = current_gpu;
	return 0;
}

static int thread_bus_id(char *ret, int bytes, int device)
{
	snprintf(ret, (size_t)bytes, "00000000:%02X:00.0", 0x10 + device);
	return 0;
}

static const struct gpu_current_driver driver = { thread_device, thread_bus_id };

/* -------------------------------------------------------------------------------------------------------------- machine */

static uint32_t add(struct topology *topology, struct topology_vertex vertex, enum topology_link_kind kind,
		    uint32_t upper)
{
	struct topology_link link;
	uint32_t index, at;

	assert_int_equal(topology_add_vertex(topology, &vertex, &index), 0);
	if (upper == TOPOLOGY_NONE)
		return index;
	link = topology_link_of(kind, index, upper);
	link.nominal_Bps = GBPS(24);
	assert_int_equal(topology_add_link(topology, &link, &at), 0);
	return index;
}

static void add_pairs(struct topology *topology, const uint32_t *gpus, uint64_t p2p_Bps)
{
	for (size_t a = 0; a < GPUS; a++) {
		for (size_t b = 0; b < GPUS; b++) {
			struct topology_pair pair = { .from = gpus[a], .to = gpus[b], .p2p_works = true };
			uint32_t index;

			pair.p2p = (struct topology_capacity){ .rate_Bps = p2p_Bps, .provenance = TOPOLOGY_MEASURED };
			pair.host = (struct topology_capacity){ .rate_Bps = GBPS(10), .provenance = TOPOLOGY_MEASURED };
			if (a != b)
				assert_int_equal(topology_add_pair(topology, &pair, &index), 0);
		}
	}
}

/* Each GPU behind a root port of its own. */
static void machine_build(struct topology *ret, uint64_t p2p_Bps)
{
	struct topology_vertex cpu = topology_vertex_of(TOPOLOGY_CPU, "cpu0");
	uint32_t gpus[GPUS], at;

	cpu.cpu.numa = 0;
	snprintf(cpu.cpu.architecture, sizeof(cpu.cpu.architecture), "x86_64");
	snprintf(cpu.cpu.vendor, sizeof(cpu.cpu.vendor), "AuthenticAMD");
	at = add(ret, cpu, TOPOLOGY_LINK_PCI, TOPOLOGY_NONE);
	(void)add(ret, topology_vertex_of(TOPOLOGY_MEMORY, "memory0"), TOPOLOGY_LINK_MEMORY, at);
	for (unsigned i = 0; i < GPUS; i++) {
		struct topology_vertex gpu;
		char name[16];

		snprintf(name, sizeof(name), "gpu%u", i);
		gpu = topology_vertex_of(TOPOLOGY_GPU, name);
		snprintf(gpu.bus_id, sizeof(gpu.bus_id), "0000:%02x:00.0", 0x10 + i);
		gpu.gpu.index = (int)i;
		gpu.gpu.sm = 86;
		gpus[i] = add(ret, gpu, TOPOLOGY_LINK_PCI, at);
	}
	add_pairs(ret, gpus, p2p_Bps);
}

static void gpu_file(int root, unsigned gpu, const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "sys/bus/pci/devices/0000:%02x:00.0/%s", 0x10 + gpu, name);
	tree_write(root, path, text, strlen(text));
}

static int place_open(void **state)
{
	struct place *place = calloc(1, sizeof(*place));
	int root;

	assert_non_null(place);
	snprintf(place->root, sizeof(place->root), "/dev/shm/tributary-shape-XXXXXX");
	assert_non_null(mkdtemp(place->root));
	snprintf(place->profile, sizeof(place->profile), "%s/machine.profile", place->root);
	snprintf(place->shared, sizeof(place->shared), "%s/shared", place->root);
	assert_int_equal(mkdir(place->shared, 0755), 0);
	root = open(place->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < GPUS; i++) {
		gpu_file(root, i, "class", "0x030200\n");
		gpu_file(root, i, "vendor", "0x10de\n");
	}
	close(root);
	setenv("TRIBUTARY_NET", "off", 1);
	setenv("TRIBUTARY_PROFILE", place->profile, 1);
	setenv("TRIBUTARY_SHARED_DIR", place->shared, 1);
	plugin_state_load();
	gpu_current_set_driver(&driver);
	*state = place;
	return 0;
}

static int place_close(void **state)
{
	struct place *place = *state;

	steer_reset(NULL, NULL);
	tree_remove(place->root);
	free(place);
	return 0;
}

/* A process begins on a machine where P2P has that rate, against 10 GB/s through host memory. */
static void begin(const struct place *place, uint64_t p2p_Bps)
{
	char path[STORE_PATH_BYTES];
	struct profile profile;
	struct params params;
	struct diag why;

	params_defaults(&params);
	profile_init(&profile);
	machine_build(&profile.topology, p2p_Bps);
	assert_int_equal(fingerprint_take(place->root, &profile.fingerprint), 0);
	profile.date_s = 1763700000;
	snprintf(profile.measured_by, sizeof(profile.measured_by), "test");
	assert_int_equal(store_save(&params, &profile, place->profile, path, sizeof(path), &why), 0);
	profile_fini(&profile);
	steer_reset(NULL, place->root);
	steer_environment_half(NCCL_VERSION);
}

/* ---------------------------------------------------------------------------------------------------------------- ranks */

static void read_answer(const char *variable, char text[TEXT_BYTES])
{
	const char *path = steer_get(variable);
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t bytes = fd >= 0 ? pread(fd, text, TEXT_BYTES - 1, 0) : 0;

	text[bytes > 0 ? bytes : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static void *rank_run(void *arg)
{
	struct rank *rank = arg;
	char graph[TEXT_BYTES];

	current_gpu = rank->gpu;
	(void)steer_get("NCCL_NET");
	steer_begin(rank->comm_id);
	pthread_barrier_wait(rank->barrier);
	read_answer("NCCL_TOPO_FILE", rank->answers.topology); /* for a dump */
	read_answer("NCCL_TOPO_FILE", rank->answers.again);
	pthread_barrier_wait(rank->barrier);
	read_answer("NCCL_GRAPH_FILE", graph);
	rank->answers.planned = graph[0] != '\0';
	pthread_barrier_wait(rank->barrier);
	(void)steer_get("NCCL_PROTO");
	read_answer("NCCL_TOPO_FILE", rank->answers.after); /* of a split that shares its parent's resources */
	return NULL;
}

/* A communicator of the first `count` GPUs. */
static void communicator(uint64_t comm_id, unsigned count, struct rank ranks[GPUS])
{
	pthread_barrier_t barrier;
	pthread_t threads[GPUS];

	pthread_barrier_init(&barrier, NULL, count);
	for (unsigned i = 0; i < count; i++) {
		ranks[i] = (struct rank){ .barrier = &barrier, .comm_id = comm_id, .gpu = (int)i };
		assert_int_equal(pthread_create(&threads[i], NULL, rank_run, &ranks[i]), 0);
	}
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
}

static bool joins(const char *text)
{
	assert_non_null(strstr(text, "<gpu dev=\"3\""));
	return strstr(text, "busid=\"ffff:ff:00.0\"") != NULL;
}

static void check(const struct rank *ranks, unsigned count, bool joined, bool planned)
{
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(joins(ranks[i].answers.topology), joined);
		assert_string_equal(ranks[i].answers.topology, ranks[0].answers.topology);
		assert_string_equal(ranks[i].answers.topology, ranks[i].answers.again);
		assert_int_equal(ranks[i].answers.planned, planned);
		assert_false(joins(ranks[i].answers.after));
	}
}

/* ---------------------------------------------------------------------------------------------------------------- tests */

static void launched(bool yes)
{
	static const char *const names[] = { "LOCAL_WORLD_SIZE", "WORLD_SIZE", "LOCAL_RANK" };
	static const char *const values[] = { "1", "1", "0" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (yes)
			setenv(names[i], values[i], 1);
		else
			unsetenv(names[i]);
}

/* Without a launcher nobody knows whether there are other hosts, so there is no plan, but the set of ranks is complete. */
static void all_ranks_get_it_where_all_are_known(void **state)
{
	static struct rank ranks[GPUS];

	launched(false);
	begin(*state, GBPS(20));
	communicator(0x10, GPUS, ranks);
	check(ranks, GPUS, true, false);
	/* A later communicator of fewer GPUs, of which nobody can say whether that is all of it. */
	communicator(0x11, GPUS - 1, ranks);
	check(ranks, GPUS - 1, false, false);
	communicator(0x12, GPUS, ranks);
	check(ranks, GPUS, true, false);
}

static void plans_go_with_it(void **state)
{
	static struct rank ranks[GPUS];

	launched(true);
	begin(*state, GBPS(20));
	communicator(0x18, GPUS, ranks);
	check(ranks, GPUS, true, true);
	communicator(0x19, GPUS - 1, ranks);
	check(ranks, GPUS - 1, true, true);
}

static void nobody_gets_it_where_host_memory_is_faster(void **state)
{
	static struct rank ranks[GPUS];

	launched(true);
	begin(*state, GBPS(9));
	communicator(0x20, GPUS, ranks);
	check(ranks, GPUS, false, true);
}

static void the_users_own_level_holds(void **state)
{
	static const char *const levels[][2] = { { "NCCL_P2P_LEVEL", "PXB" },
						 { "NCCL_P2P_LEVEL", "SYS" },
						 { "NCCL_P2P_DISABLE", "1" } };
	static struct rank ranks[GPUS];

	launched(true);
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		setenv(levels[i][0], levels[i][1], 1);
		begin(*state, GBPS(20));
		communicator(0x30 + i, GPUS, ranks);
		check(ranks, GPUS, false, true);
		unsetenv(levels[i][0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_ranks_get_it_where_all_are_known),
		cmocka_unit_test(plans_go_with_it),
		cmocka_unit_test(nobody_gets_it_where_host_memory_is_faster),
		cmocka_unit_test(the_users_own_level_holds),
	};

	return cmocka_run_group_tests(tests, place_open, place_close);
}
