/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_rdma.h"

#include "base/clock.h"
#include "base/params.h"
#include "base/sys.h"
#include "measure/probe_numa.h"
#include "measure/probe_rdma_memory.h"
#include "measure/probe_window.h"
#include "transport/verbs/pair.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
	BUFFER_BYTES = 16 << 20, /* of the host's cache a part, as with a ring of a collective */
	MESSAGE_BYTES = 256 << 10,
	DEPTH = 16, /* messages on the way in one flow: 4 MiB, 300 µs of 100 Gbit/s */
	POLL_AT_ONCE = 8,
	PATTERN = 0xa5,
};

#define TIMEOUT_NS NS_PER_S /* a device that has found no way for so long does not find one */

struct rdma_probe {
	struct probe probe; /* first */
	const struct verbs_api *api;
	struct params params;
	struct verbs_devices devices;
	size_t buffer_bytes;
	struct probe_cuda *cuda;         /* not owned; NULL: no memory of GPUs */
	bool takes_gpu[VERBS_CARDS_MAX]; /* this card registers memory of every GPU */
};

/* What a flow asks for. */
struct plan {
	const struct verbs_port *from, *to; /* from reads */
	struct probe_rdma_place source, sink;
};

/* A flow at work: `sender` is a queue of the port that reads, `receiver` of the one that writes. */
struct stream {
	const struct verbs_port *from, *to; /* from reads */
	struct ibv_cq *sender_cq, *receiver_cq;
	struct ibv_qp *sender, *receiver;
	struct probe_rdma_memory source, sink;
	uint64_t posted, seen; /* messages */
	_Atomic uint64_t moved_bytes;
};

struct team {
	struct rdma_probe *rdma;
	struct stream *streams;
	size_t count;
	pthread_t thread;
	bool started;
	atomic_bool stop;
	_Atomic int error;
	_Atomic int status; /* what a device said with it */
};

static struct rdma_probe *probe_of(struct probe *probe)
{
	return (struct rdma_probe *)probe;
}

/* ----------------------------------------------------------------------------------------------------------- resolve */

/* As the graph names them: "nic:mlx5_0", "nic:mlx5_0:2". */
static const struct verbs_port *port_of(const struct rdma_probe *rdma, uint32_t vertex)
{
	const struct topology *topology = rdma->probe.topology;

	if (vertex >= topology->vertex_count || topology->vertices[vertex].kind != TOPOLOGY_NIC ||
	    !topology->vertices[vertex].nic.rdma)
		return NULL;
	for (unsigned i = 0; i < rdma->devices.port_count; i++) {
		const struct verbs_port *port = &rdma->devices.ports[i];
		char name[sizeof(port->card->name) + 16];

		snprintf(name, sizeof(name), port->number > 1 ? "nic:%s:%u" : "nic:%s", port->card->name,
			 (unsigned)port->number);
		if (!strcmp(name, topology->vertices[vertex].name))
			return port;
	}
	return NULL;
}

static bool place_in_host(const struct rdma_probe *rdma, uint32_t vertex, struct probe_rdma_place *ret)
{
	const struct topology *topology = rdma->probe.topology;

	if (vertex >= topology->vertex_count || topology->vertices[vertex].kind != TOPOLOGY_MEMORY ||
	    !probe_numa_exists(topology->vertices[vertex].cpu.numa))
		return false;
	*ret = (struct probe_rdma_place){ .gpu = -1, .node = topology->vertices[vertex].cpu.numa };
	return true;
}

static bool takes_gpus(const struct rdma_probe *rdma, const struct verbs_port *port)
{
	for (unsigned i = 0; i < rdma->devices.card_count; i++)
		if (rdma->devices.cards[i] == port->card)
			return rdma->takes_gpu[i];
	return false;
}

static bool place_in_gpu(const struct rdma_probe *rdma, const struct verbs_port *port, uint32_t vertex,
			 struct probe_rdma_place *ret)
{
	int gpu = rdma->cuda && takes_gpus(rdma, port) ? probe_cuda_gpu_of(rdma->cuda, vertex) : -1;

	*ret = (struct probe_rdma_place){ .gpu = gpu, .node = -1 };
	return gpu >= 0;
}

/* From port to port through a memory, or between a GPU and a memory through a port. */
static bool plan_of(const struct rdma_probe *rdma, const struct probe_flow *flow, struct plan *ret)
{
	const struct topology *topology = rdma->probe.topology;
	uint32_t via = flow->flow.via == TOPOLOGY_NONE ? topology_memory_of(topology, flow->flow.from) : flow->flow.via;
	struct plan plan = { .from = port_of(rdma, via) };

	if (flow->flow.way != TOPOLOGY_WAY_HOST || flow->engine != PROBE_ENGINE_DEFAULT)
		return false;
	if (plan.from) {
		plan.to = plan.from;
		if (!(place_in_gpu(rdma, plan.from, flow->flow.from, &plan.source) &&
		      place_in_host(rdma, flow->flow.to, &plan.sink)) &&
		    !(place_in_host(rdma, flow->flow.from, &plan.source) &&
		      place_in_gpu(rdma, plan.from, flow->flow.to, &plan.sink)))
			return false;
	} else {
		plan.from = port_of(rdma, flow->flow.to);
		plan.to = port_of(rdma, flow->flow.from);
		if (!plan.from || !plan.to || plan.from->ethernet != plan.to->ethernet ||
		    !place_in_host(rdma, via, &plan.source))
			return false;
		plan.sink = plan.source;
	}
	*ret = plan;
	return true;
}

static bool rdma_can(struct probe *probe, const struct probe_flow *flow)
{
	struct plan plan;

	return plan_of(probe_of(probe), flow, &plan);
}

/* ----------------------------------------------------------------------------------------------------------- streams */

static int queue_open(const struct verbs_api *api, const struct verbs_port *port, struct ibv_cq **ret_cq,
		      struct ibv_qp **ret_qp, struct diag *diag)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	int r = 0;

	errno = 0;
	*ret_cq = api->create_cq(port->card->context, 2 * DEPTH, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = *ret_cq;
	if (*ret_cq)
		*ret_qp = api->create_qp(port->card->pd, &attr);
	if (!*ret_qp)
		r = errno ? -errno : -ENOMEM;
	if (r == 0)
		r = verbs_pair_init(api, port, *ret_qp, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (r < 0)
		diag_set(diag, 0, 0, "%s gives no queue: %s", port->name, strerror(-r));
	return r < 0 ? -EIO : 0;
}

static int connect_to(const struct rdma_probe *rdma, const struct verbs_port *port, struct ibv_qp *qp,
		      const struct verbs_port *peer_port, const struct ibv_qp *peer, struct diag *diag)
{
	const struct params *params = &rdma->params;
	const struct verbs_pair_options options = {
		.timeout_ns = TIMEOUT_NS,
		.service_level = params->service_level > 0 ? (uint8_t)params->service_level : 0,
		.traffic_class = params->traffic_class > 0 ? (uint8_t)params->traffic_class : 0,
	};
	const struct verbs_wire_queue to = { .number = peer->qp_num };
	struct verbs_wire_rail at;
	int r;

	verbs_pair_rail(peer_port, &at);
	r = verbs_pair_connect(rdma->api, port, qp, 0, &to, &at, &options);
	if (r < 0)
		diag_set(diag, 0, 0, "%s does not reach %s: %s", port->name, peer_port->name, strerror(-r));
	return r < 0 ? (r == -ENOMEM ? -EIO : -ENOTSUP) : 0;
}

static int stream_open(struct rdma_probe *rdma, const struct plan *plan, struct stream *stream, struct diag *diag)
{
	const struct verbs_api *api = rdma->api;
	size_t bytes = rdma->buffer_bytes;
	int r;

	stream->from = plan->from;
	stream->to = plan->to;
	r = probe_rdma_memory_open(rdma->cuda, stream->from->card, plan->source, bytes, &stream->source, diag);
	if (r == 0)
		r = probe_rdma_memory_open(rdma->cuda, stream->to->card, plan->sink, bytes, &stream->sink, diag);
	if (r == 0)
		r = queue_open(api, stream->from, &stream->sender_cq, &stream->sender, diag);
	if (r == 0)
		r = queue_open(api, stream->to, &stream->receiver_cq, &stream->receiver, diag);
	if (r == 0)
		r = connect_to(rdma, stream->to, stream->receiver, stream->from, stream->sender, diag);
	if (r == 0)
		r = connect_to(rdma, stream->from, stream->sender, stream->to, stream->receiver, diag);
	if (r == 0)
		r = probe_rdma_memory_fill(&stream->source, PATTERN, diag);
	/* A GPU's has what an earlier run left there. */
	if (r == 0 && probe_rdma_memory_is_gpu(&stream->sink))
		r = probe_rdma_memory_fill(&stream->sink, 0, diag);
	return r;
}

static void stream_close(struct rdma_probe *rdma, struct stream *stream)
{
	const struct verbs_api *api = rdma->api;

	if (stream->sender)
		api->destroy_qp(stream->sender);
	if (stream->receiver)
		api->destroy_qp(stream->receiver);
	if (stream->sender_cq)
		api->destroy_cq(stream->sender_cq);
	if (stream->receiver_cq)
		api->destroy_cq(stream->receiver_cq);
	probe_rdma_memory_close(&stream->source);
	probe_rdma_memory_close(&stream->sink);
}

/* -------------------------------------------------------------------------------------------------------------- moving */

/* What a message reads and writes; or, with IBV_WR_RDMA_READ, so much of the sink back into the source. */
static int post(const struct rdma_probe *rdma, struct stream *stream, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	uint64_t offset = stream->posted * MESSAGE_BYTES % rdma->buffer_bytes;
	struct ibv_sge sge = { stream->source.address + offset, bytes, stream->source.registered->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	int r;

	wr.wr.rdma.remote_addr = stream->sink.address + offset;
	wr.wr.rdma.rkey = stream->sink.registered->mr->rkey;
	r = verbs_error(rdma->api->post_send(stream->sender, &wr, &bad));
	stream->posted += r == 0;
	return r;
}

/* How many have come; their number, or -ENOTSUP, -EIO. */
static int take(struct team *team, struct stream *stream)
{
	struct ibv_wc completions[POLL_AT_ONCE];
	int count = team->rdma->api->poll_cq(stream->sender_cq, POLL_AT_ONCE, completions);

	if (count < 0)
		return -EIO;
	for (int i = 0; i < count; i++) {
		if (completions[i].status != IBV_WC_SUCCESS) {
			atomic_store(&team->status, (int)completions[i].status);
			return completions[i].status == IBV_WC_RETRY_EXC_ERR ? -ENOTSUP : -EIO;
		}
		stream->seen++;
	}
	return count;
}

/* What has come, and as much again. */
static int turn(struct team *team, struct stream *stream, bool *ret_ready)
{
	int count = take(team, stream), r = 0;

	if (count < 0)
		return count;
	*ret_ready |= count > 0;
	atomic_store_explicit(&stream->moved_bytes, stream->seen * MESSAGE_BYTES, memory_order_relaxed);
	while (r == 0 && stream->posted - stream->seen < DEPTH)
		r = post(team->rdma, stream, IBV_WR_RDMA_WRITE, MESSAGE_BYTES);
	return r;
}

static void *work(void *arg)
{
	struct team *team = arg;
	int r = 0;

	while (r == 0 && !atomic_load_explicit(&team->stop, memory_order_relaxed)) {
		bool ready = false;

		for (size_t i = 0; i < team->count && r == 0; i++)
			r = turn(team, &team->streams[i], &ready);
		if (!ready)
			sched_yield(); /* a device made of software needs the core, too */
	}
	atomic_store(&team->error, r);
	return NULL;
}

static uint64_t moved(void *arg, size_t flow)
{
	return atomic_load_explicit(&((struct team *)arg)->streams[flow].moved_bytes, memory_order_relaxed);
}

static int failed(void *arg)
{
	return atomic_load(&((struct team *)arg)->error);
}

static int drain(struct team *team, struct stream *stream)
{
	uint64_t start_ns = clock_now_ns();
	int count = 0;

	while (count >= 0 && stream->seen < stream->posted) {
		count = take(team, stream);
		if (!count && clock_elapsed_ns(start_ns, clock_now_ns()) > TIMEOUT_NS)
			return -ETIMEDOUT;
		if (!count)
			sched_yield();
	}
	return count < 0 ? count : 0;
}

/*
 * Nothing is on its way any more. What a card has written to a GPU is where the GPU sees it when a read by that card has come
 * back (verbs/loopback.c has it so, too): a byte is read into where it came from.
 */
static int settle(struct team *team, struct stream *stream, struct diag *diag)
{
	int r = drain(team, stream);

	if (r == 0 && probe_rdma_memory_is_gpu(&stream->sink)) {
		r = post(team->rdma, stream, IBV_WR_RDMA_READ, 1);
		if (r == 0)
			r = drain(team, stream);
	}
	if (r < 0)
		diag_set(diag, 0, 0, "what %s sends %s does not come to an end", stream->from->name, stream->to->name);
	return r < 0 ? -EIO : 0;
}

/* The device says that it has moved so much. */
static int check(struct team *team, struct stream *stream, struct diag *diag)
{
	uint64_t bytes = atomic_load(&stream->moved_bytes);
	bool right = false;
	int r = settle(team, stream, diag);

	if (bytes > team->rdma->buffer_bytes)
		bytes = team->rdma->buffer_bytes;
	if (r == 0)
		r = probe_rdma_memory_holds(&stream->sink, PATTERN, (size_t)bytes, &right, diag);
	if (r < 0 || right)
		return r;
	diag_set(diag, 0, 0, "what %s wrote is not what %s read", stream->to->name, stream->from->name);
	return -EIO;
}

static int measure(struct team *team, uint64_t duration_ns, struct probe_rates *ret, struct diag *diag)
{
	struct probe_window window = {
		.probe = &team->rdma->probe, .moved = moved, .failed = failed, .arg = team, .flow_count = team->count
	};
	int r, status;

	r = sys_thread_start(work, team, "tributary-rdma", &team->thread);
	team->started = r == 0;
	if (r == 0)
		r = probe_window_measure(&window, duration_ns, ret);
	atomic_store(&team->stop, true);
	if (team->started)
		pthread_join(team->thread, NULL);
	status = atomic_load(&team->status);
	if (r == -ENOTSUP)
		diag_set(diag, 0, 0, "no way leads from one of these ports to the other");
	else if (r == -ETIMEDOUT)
		diag_set(diag, 0, 0, "an RDMA device moves nothing");
	else if (r < 0 && r != -EINTR)
		diag_set(diag, 0, 0, "an RDMA device fails: %s",
			 status ? team->rdma->api->wc_status_str((enum ibv_wc_status)status) : strerror(-r));
	return r < 0 && r != -EINTR && r != -ENOTSUP ? -EIO : r;
}

static int streams_open(struct team *team, const struct probe_flow *flows, size_t count, struct diag *diag)
{
	struct rdma_probe *rdma = team->rdma;
	int r = 0;

	for (; team->count < count && r == 0; team->count++) {
		struct plan plan;

		if (plan_of(rdma, &flows[team->count], &plan)) {
			r = stream_open(rdma, &plan, &team->streams[team->count], diag);
			continue;
		}
		diag_set(diag, 0, 0, "the RDMA devices cannot move this flow");
		r = -ENOTSUP;
	}
	return r;
}

static int rdma_run(struct probe *probe, const struct probe_flow *flows, size_t count, uint64_t duration_ns,
		    struct probe_rates *ret, struct diag *diag)
{
	struct rdma_probe *rdma = probe_of(probe);
	struct team team = { .rdma = rdma, .streams = sys_zalloc(count * sizeof(*team.streams)) };
	int r;

	if (!team.streams)
		return -ENOMEM;
	r = streams_open(&team, flows, count, diag);
	if (r == 0)
		r = measure(&team, duration_ns, ret, diag);
	for (size_t i = 0; i < count && r == 0; i++)
		r = check(&team, &team.streams[i], diag);
	for (size_t i = 0; i < count; i++)
		stream_close(rdma, &team.streams[i]);
	if (rdma->cuda)
		probe_cuda_gpu_leave(rdma->cuda);
	sys_free(team.streams);
	return r;
}

static void rdma_close(struct probe *probe)
{
	struct rdma_probe *rdma = probe_of(probe);

	verbs_devices_close(&rdma->devices);
	sys_free(rdma);
}

static const struct probe_ops rdma_ops = { .name = "rdma", .can = rdma_can, .run = rdma_run, .close = rdma_close };

static bool any_port(const struct rdma_probe *rdma)
{
	for (uint32_t i = 0; i < rdma->probe.topology->vertex_count; i++)
		if (port_of(rdma, i))
			return true;
	return false;
}

/* Each card for each GPU: one that says it can may be refused. Why not, of the first that cannot. */
static void try_gpus(struct rdma_probe *rdma, struct diag *ret_why)
{
	for (unsigned i = 0; i < rdma->devices.card_count; i++) {
		struct diag why = { .text = "" };
		int r = 0;

		for (int gpu = 0; r == 0 && (size_t)gpu < rdma->cuda->gpu_count; gpu++) {
			struct probe_rdma_memory memory = { .card = NULL };

			r = probe_rdma_memory_open(rdma->cuda, rdma->devices.cards[i],
						   (struct probe_rdma_place){ gpu, -1 }, rdma->buffer_bytes, &memory,
						   &why);
			probe_rdma_memory_close(&memory);
		}
		rdma->takes_gpu[i] = r == 0;
		if (r < 0 && !ret_why->text[0])
			diag_set(ret_why, 0, 0, "%s", why.text[0] ? why.text : strerror(-r));
	}
	probe_cuda_gpu_leave(rdma->cuda);
}

/* The buffers are the CUDA probe's, which shall not be the smaller ones. */
static void take_gpus(struct rdma_probe *rdma, const struct probe_rdma_options *options)
{
	struct diag why = { .text = "" };

	rdma->cuda = (struct probe_cuda *)options->cuda;
	if (rdma->cuda && rdma->cuda->buffer_bytes < rdma->buffer_bytes) {
		diag_set(&why, 0, 0, "the CUDA probe has buffers of %zu bytes", rdma->cuda->buffer_bytes);
		rdma->cuda = NULL;
	}
	if (rdma->cuda)
		try_gpus(rdma, &why);
	if (options->ret_no_gpu)
		*options->ret_no_gpu = why;
}

int probe_rdma_open(const struct topology *topology, const _Atomic bool *stop, const struct probe_rdma_options *options,
		    struct probe **ret, struct diag *diag)
{
	static const struct probe_rdma_options none;
	struct rdma_probe *rdma = sys_zalloc(sizeof(*rdma));
	int r = 0;

	if (!rdma)
		return -ENOMEM;
	options = options ? options : &none;
	rdma->probe = (struct probe){ .ops = &rdma_ops, .topology = topology, .stop = stop };
	if (options->params)
		rdma->params = *options->params;
	else
		params_defaults(&rdma->params);
	rdma->buffer_bytes = options->buffer_bytes ? options->buffer_bytes : BUFFER_BYTES;
	rdma->api = options->api ? options->api : verbs_api_open(diag);
	if (!rdma->api)
		r = -ENODEV;
	if (r == 0)
		r = verbs_devices_open(rdma->api, options->sysfs_root ? options->sysfs_root : "/sys", &rdma->params,
				       &rdma->devices, diag);
	if (r == 0 && !any_port(rdma)) {
		if (rdma->devices.port_count)
			diag_set(diag, 0, 0, "no RDMA device is in the graph of this machine");
		r = -ENODEV;
	}
	if (r < 0) {
		rdma_close(&rdma->probe);
		return r;
	}
	take_gpus(rdma, options);
	*ret = &rdma->probe;
	return 0;
}
