/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/plugin/steer/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/params.h"
#include "base/process.h"
#include "profile/store_places.h"
#include "support/tree.h"
#include "unit/plugin/steer/host_process.h"

enum { WAIT_MS = 90000 };

/* ---------------------------------------------------------------------------------------------------------- the machine */

const struct machine_spec host_spec = {
	.name = "host",
	.gpus = 8,
	.nics = 2,
	.sockets = 2,
	.switches = 2,
	.p2p = MACHINE_P2P_ALL,
	.gpu_rate = 240,
	.uplink_rate = 220,
	.socket_rate = 160,
	.memory_rate = 1000,
	.nic_rate = 120,
	.wire_rate = 60,
};

static void name_vertices(struct topology *topology)
{
	unsigned nic = 0;

	for (size_t i = 0; i < topology->vertex_count; i++) {
		struct topology_vertex *vertex = &topology->vertices[i];

		if (vertex->kind == TOPOLOGY_GPU) {
			snprintf(vertex->bus_id, sizeof(vertex->bus_id), "0000:%02x:00.0", 0x10 + vertex->gpu.index);
			vertex->gpu.sm = 86;
		} else if (vertex->kind == TOPOLOGY_NIC) {
			snprintf(vertex->bus_id, sizeof(vertex->bus_id), "0000:%02x:00.0", 0x40 + nic);
			snprintf(vertex->nic.interface, sizeof(vertex->nic.interface), "fake%u", nic++);
			vertex->nic.latency_ns = 1500;
		} else if (vertex->kind == TOPOLOGY_SWITCH) {
			snprintf(vertex->bus_id, sizeof(vertex->bus_id), "0000:%02x:00.0", 0x80 + (unsigned)i);
		} else if (vertex->kind == TOPOLOGY_CPU) {
			vertex->cpu.numa = vertex->name[3] - '0';
			snprintf(vertex->cpu.architecture, sizeof(vertex->cpu.architecture), "x86_64");
			snprintf(vertex->cpu.vendor, sizeof(vertex->cpu.vendor), "AuthenticAMD");
			vertex->cpu.family = 25;
			vertex->cpu.model = 1;
		}
	}
}

void host_machine(const struct machine_spec *spec, struct topology *ret)
{
	machine_spec_build(spec, 1, ret);
	name_vertices(ret);
}

/* sliced: the GPU in MIG mode; -1: none. */
static void profile_make(const struct host *host, int sliced)
{
	char path[STORE_PATH_BYTES];
	struct profile profile;
	struct params params;
	struct diag why;

	params_defaults(&params);
	profile_init(&profile);
	host_machine(&host_spec, &profile.topology);
	for (size_t i = 0; i < profile.topology.vertex_count; i++)
		if (profile.topology.vertices[i].kind == TOPOLOGY_GPU &&
		    profile.topology.vertices[i].gpu.index == sliced)
			profile.topology.vertices[i].gpu.mig = 0;
	assert_int_equal(fingerprint_take(host->root, &profile.fingerprint), 0);
	profile.date_s = 1763700000;
	snprintf(profile.measured_by, sizeof(profile.measured_by), "test");
	assert_int_equal(store_save(&params, &profile, host->profile, path, sizeof(path), &why), 0);
	profile_fini(&profile);
}

void host_slice(struct host *host, int gpu)
{
	profile_make(host, gpu);
}

/* As sysfs shows them: what the proof by the whole machine counts. */
static void gpus_make(const struct host *host)
{
	int root = open(host->root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(root >= 0);
	for (unsigned gpu = 0; gpu < HOST_RANKS; gpu++) {
		char path[128];

		snprintf(path, sizeof(path), "sys/bus/pci/devices/0000:%02x:00.0/class", 0x10 + gpu);
		tree_write(root, path, "0x030200\n", strlen("0x030200\n"));
		memcpy(strrchr(path, '/'), "/vendor", sizeof("/vendor"));
		tree_write(root, path, "0x10de\n", strlen("0x10de\n"));
	}
	close(root);
}

int host_open(void **state)
{
	struct host *host = calloc(1, sizeof(*host));

	assert_non_null(host);
	snprintf(host->root, sizeof(host->root), "/dev/shm/tributary-host-XXXXXX");
	assert_non_null(mkdtemp(host->root));
	snprintf(host->shared, sizeof(host->shared), "%s/shared", host->root);
	snprintf(host->profile, sizeof(host->profile), "%s/machine.profile", host->root);
	snprintf(host->dump, sizeof(host->dump), "%s/dump", host->root);
	assert_int_equal(mkdir(host->shared, 0755), 0);
	assert_int_equal(mkdir(host->dump, 0755), 0);
	gpus_make(host);
	profile_make(host, -1);
	*state = host;
	return 0;
}

int host_close(void **state)
{
	struct host *host = *state;

	for (unsigned i = 0; i < HOST_RANKS; i++)
		if (host->ranks[i].pid)
			host_kill(host, i);
	tree_remove(host->root);
	free(host);
	return 0;
}

/* ----------------------------------------------------------------------------------------------------------- in the test */

void host_start(struct host *host, unsigned rank, int gpu, unsigned local_size, unsigned world_size,
		const char *environment)
{
	struct host_rank *at = &host->ranks[rank];
	struct host_thread threads[HOST_THREADS];
	char text[2048];

	assert_int_equal(at->pid, 0);
	snprintf(text, sizeof(text),
		 "TRIBUTARY_NET=tcp\nTRIBUTARY_PROFILE=%s\nTRIBUTARY_SHARED_DIR=%s\nTRIBUTARY_DUMP_DIR=%s\n"
		 "TRIBUTARY_STATE_DIR=%s/"
		 "state\nLOCAL_RANK=%u\nLOCAL_WORLD_SIZE=%u\nWORLD_SIZE=%u\nTORCHELASTIC_RUN_ID=%s\n%s",
		 host->profile, host->shared, host->dump, host->root, rank, local_size, world_size, host->root,
		 environment ? environment : "");
	for (size_t i = 0; i < HOST_THREADS; i++) {
		int down[2], up[2];

		assert_int_equal(pipe2(down, O_CLOEXEC), 0);
		assert_int_equal(pipe2(up, O_CLOEXEC), 0);
		threads[i] = (struct host_thread){ down[0], up[1], gpu };
		at->orders[i] = down[1];
		at->replies[i] = up[0];
	}
	at->pid = fork();
	assert_true(at->pid >= 0);
	if (!at->pid) {
		for (unsigned other = 0; other < HOST_RANKS; other++)
			for (size_t i = 0; i < HOST_THREADS && (host->ranks[other].pid || other == rank); i++) {
				close(host->ranks[other].orders[i]);
				close(host->ranks[other].replies[i]);
			}
		host_process_main(host, threads, text);
	}
	for (size_t i = 0; i < HOST_THREADS; i++) {
		close(threads[i].orders);
		close(threads[i].replies);
	}
}

void host_start_all(struct host *host, unsigned count, const char *environment)
{
	for (unsigned i = 0; i < count; i++)
		host_start(host, i, (int)i, count, count, environment);
}

static void rank_ended(struct host_rank *at)
{
	assert_int_equal(waitpid(at->pid, NULL, 0), at->pid);
	for (size_t i = 0; i < HOST_THREADS; i++) {
		close(at->orders[i]);
		close(at->replies[i]);
	}
	memset(at, 0, sizeof(*at));
}

void host_kill(struct host *host, unsigned rank)
{
	kill(host->ranks[rank].pid, SIGKILL);
	rank_ended(&host->ranks[rank]);
}

void host_exit(struct host *host, unsigned rank)
{
	if (!host_process_can_exit)
		skip();
	host_send(host, rank, 0, HOST_EXIT, 0);
	rank_ended(&host->ranks[rank]);
}

void host_send(struct host *host, unsigned rank, unsigned thread, enum host_order order, int64_t arg)
{
	struct host_command text = { .order = order, .arg = arg };

	assert_true(host_process_write(host->ranks[rank].orders[thread], &text, sizeof(text)));
}

bool host_is_waiting(struct host *host, unsigned rank, unsigned thread, int ms)
{
	struct pollfd reply = { .fd = host->ranks[rank].replies[thread], .events = POLLIN };

	return poll(&reply, 1, ms) == 0;
}

int host_wait(struct host *host, unsigned rank, unsigned thread)
{
	assert_false(host_is_waiting(host, rank, thread, WAIT_MS));
	assert_true(host_process_read(host->ranks[rank].replies[thread], &host->reply, sizeof(host->reply)));
	return host->reply.result;
}

int host_do(struct host *host, unsigned rank, unsigned thread, enum host_order order, int64_t arg)
{
	host_send(host, rank, thread, order, arg);
	return host_wait(host, rank, thread);
}

const char *host_ask(struct host *host, unsigned rank, unsigned thread, const char *name)
{
	struct host_command order = { .order = HOST_ASK };

	snprintf(order.name, sizeof(order.name), "%s", name);
	assert_true(host_process_write(host->ranks[rank].orders[thread], &order, sizeof(order)));
	return host_wait(host, rank, thread) ? host->reply.text : NULL;
}

void host_begin(struct host *host, unsigned ranks, int64_t comm)
{
	for (unsigned i = 0; i < HOST_RANKS; i++)
		if (ranks & 1u << i)
			assert_int_equal(host_do(host, i, 0, HOST_INIT, comm), 0);
	for (unsigned i = 0; i < HOST_RANKS; i++)
		if (ranks & 1u << i)
			(void)host_do(host, i, 0, HOST_TOPOLOGY, 0);
}

unsigned host_gpus(const char *text)
{
	const char *channel = strstr(text, "<channel>");
	unsigned first = 0;

	while (channel) {
		const char *end = strstr(channel, "</channel>"), *gpu = channel;
		unsigned gpus = 0;

		assert_non_null(end);
		while ((gpu = strstr(gpu, "<gpu dev=\"")) && gpu < end) {
			unsigned bit = 1u << strtoul(gpu + strlen("<gpu dev=\""), NULL, 16);

			assert_false(gpus & bit);
			gpus |= bit;
			gpu++;
		}
		assert_true(gpus);
		assert_true(!first || first == gpus);
		first = gpus;
		channel = strstr(end, "<channel>");
	}
	return first;
}

unsigned host_graphs(struct host *host, unsigned ranks)
{
	static char first[HOST_TEXT_BYTES];
	int first_result = 1;

	for (unsigned i = 0; i < HOST_RANKS; i++)
		if (ranks & 1u << i)
			host_send(host, i, 0, HOST_GRAPH, 0);
	for (unsigned i = 0; i < HOST_RANKS; i++) {
		if (!(ranks & 1u << i))
			continue;
		(void)host_wait(host, i, 0);
		if (first_result == 1)
			memcpy(first, host->reply.text, sizeof(first));
		first_result = first_result == 1 ? host->reply.result : first_result;
		assert_int_equal(host->reply.result, first_result);
		assert_string_equal(host->reply.text, first);
	}
	if (first_result != 0)
		assert_int_equal(first_result, -ENODATA);
	return first_result ? 0 : host_gpus(first);
}

void host_end(struct host *host, unsigned ranks, int64_t comm, int published)
{
	for (unsigned i = 0; i < HOST_RANKS; i++) {
		if (!(ranks & 1u << i))
			continue;
		(void)host_ask(host, i, 0, "NCCL_PROTO");
		assert_int_equal(host_do(host, i, 0, HOST_TUNER, comm), published);
	}
}

unsigned host_initialise(struct host *host, unsigned ranks, int64_t comm)
{
	unsigned gpus;

	host_begin(host, ranks, comm);
	gpus = host_graphs(host, ranks);
	host_end(host, ranks, comm, gpus != 0);
	return gpus;
}

void host_expect_none(struct host *host, unsigned ranks, int64_t comm, const char *why)
{
	host_begin(host, ranks, comm);
	for (unsigned i = 0; i < HOST_RANKS; i++) {
		if (!(ranks & 1u << i))
			continue;
		assert_int_equal(host_do(host, i, 0, HOST_GRAPH, 0), -ENODATA);
		if (!strstr(host->reply.info, why))
			fail_msg("\"%s\" does not say \"%s\"", host->reply.info, why);
	}
	host_end(host, ranks, comm, 0);
}

void host_registry(struct host *host, char path[static 160])
{
	snprintf(path, 160, "%s/tributary-%u", host->shared, (unsigned)process_user());
}

unsigned host_count(struct host *host, const char *prefix)
{
	char path[160];

	host_registry(host, path);
	return tree_count(path, prefix);
}
