#include "measure/probe_tcp.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/sys.h"
#include "measure/probe_tcp_stream.h"
#include "measure/probe_window.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS_DEFAULT = 16, ECHOES = 64, ECHOES_FIRST = 8 };
/* More connections must bring more than this. */
#define GAIN 1.02

struct tcp_probe {
	struct probe probe; /* first */
	struct probe_tcp_options options;
	unsigned chosen[PROBE_TCP_GIVE + 1]; /* connections by task; 0: not known yet */
};

struct lane { /* one connection of a run */
	struct probe_tcp_stream stream;
	enum probe_tcp_task task;
	size_t flow;
	uint8_t *buffer;
	pthread_t thread;
	bool started;
	struct crew *crew;
};

struct crew { /* all of a run */
	struct lane *lanes;
	size_t lane_count;
	atomic_bool stop;
	_Atomic int failed; /* the first -errno */
};

static struct tcp_probe *probe_of(struct probe *probe)
{
	return (struct tcp_probe *)probe;
}

/* What the server does for a flow, or -ENOTSUP. */
static int task_of(const struct tcp_probe *tcp, const struct probe_flow *flow, enum probe_tcp_task *ret)
{
	if (flow->engine != PROBE_ENGINE_DEFAULT || flow->flow.way == TOPOLOGY_WAY_HOST)
		return -ENOTSUP;
	if (flow->flow.from == tcp->options.here && flow->flow.to == tcp->options.peer)
		*ret = PROBE_TCP_TAKE;
	else if (flow->flow.from == tcp->options.peer && flow->flow.to == tcp->options.here)
		*ret = PROBE_TCP_GIVE;
	else
		return -ENOTSUP;
	return 0;
}

static bool tcp_can(struct probe *probe, const struct probe_flow *flow)
{
	enum probe_tcp_task task;

	return !task_of(probe_of(probe), flow, &task);
}

/* ------------------------------------------------------------------------------------------------------------- lanes */

static int connect_to(const struct tcp_probe *tcp, struct probe_tcp_stream *stream, enum probe_tcp_task task)
{
	uint8_t hello[PROBE_TCP_HELLO_BYTES], answer[PROBE_TCP_HELLO_BYTES];
	const struct sockaddr *address = (const struct sockaddr *)&tcp->options.address;
	int r = sys_socket(address->sa_family, SOCK_STREAM, 0), on = 1, error = 0;
	socklen_t bytes = sizeof(error);

	if (r < 0)
		return r;
	stream->fd = r;
	setsockopt(stream->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	r = sys_connect(stream->fd, address, tcp->options.address_bytes);
	if (r == -EINPROGRESS) {
		r = probe_tcp_stream_wait(stream, POLLOUT);
		if (!r && getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &bytes))
			r = -errno;
		if (!r)
			r = -error;
	}
	if (r < 0)
		return r;
	probe_tcp_hello_encode(task, hello);
	r = probe_tcp_stream_send(stream, hello, sizeof(hello));
	if (!r)
		r = probe_tcp_stream_receive(stream, answer, sizeof(answer));
	if (!r && memcmp(hello, answer, sizeof(hello)))
		r = -EBADMSG;
	return r;
}

static void *run_lane(void *arg)
{
	struct lane *lane = arg;
	int none = 0, r;

	r = lane->task == PROBE_TCP_TAKE ? probe_tcp_stream_give(&lane->stream, lane->buffer)
					 : probe_tcp_stream_take(&lane->stream, lane->buffer);
	if (r < 0)
		atomic_compare_exchange_strong(&lane->crew->failed, &none, r);
	return NULL;
}

static uint64_t crew_moved(void *arg, size_t flow)
{
	const struct crew *crew = arg;
	uint64_t bytes = 0;

	for (size_t i = 0; i < crew->lane_count; i++) {
		const struct lane *lane = &crew->lanes[i];

		if (lane->flow == flow)
			bytes += lane->task == PROBE_TCP_TAKE ? probe_tcp_stream_acknowledged(&lane->stream)
							      : atomic_load(&lane->stream.received_bytes);
	}
	return bytes;
}

static int crew_failed(void *arg)
{
	struct crew *crew = arg;

	return atomic_load(&crew->failed);
}

static void crew_end(struct crew *crew)
{
	atomic_store(&crew->stop, true);
	for (size_t i = 0; i < crew->lane_count; i++) {
		struct lane *lane = &crew->lanes[i];

		if (lane->started)
			pthread_join(lane->thread, NULL);
		sys_close(&lane->stream.fd);
		free(lane->buffer);
	}
	free(crew->lanes);
}

/* `connections` of each flow; all are connected before the first byte of any flow is sent. */
static int crew_begin(const struct tcp_probe *tcp, struct crew *crew, const enum probe_tcp_task *tasks,
		      const unsigned *connections, size_t count)
{
	size_t total = 0;
	int r;

	for (size_t i = 0; i < count; i++)
		total += connections[i];
	crew->lanes = calloc(total ? total : 1, sizeof(*crew->lanes));
	if (!crew->lanes)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		for (unsigned k = 0; k < connections[i]; k++) {
			struct lane *lane = &crew->lanes[crew->lane_count++];

			*lane = (struct lane){ .task = tasks[i], .flow = i, .crew = crew };
			lane->stream.fd = -1;
			lane->stream.stop = &crew->stop;
			lane->stream.interrupt = tcp->probe.stop;
			lane->buffer = calloc(1, PROBE_TCP_CHUNK_BYTES);
			r = lane->buffer ? connect_to(tcp, &lane->stream, tasks[i]) : -ENOMEM;
			if (!r && probe_stopped(&tcp->probe))
				r = -EINTR;
			if (r < 0)
				return r;
		}
	}
	for (size_t i = 0; i < crew->lane_count; i++) {
		r = sys_thread_start(run_lane, &crew->lanes[i], "lane", &crew->lanes[i].thread);
		if (r < 0)
			return r;
		crew->lanes[i].started = true;
	}
	return 0;
}

static int crew_measure(struct tcp_probe *tcp, const enum probe_tcp_task *tasks, const unsigned *connections,
			size_t count, uint64_t duration_ns, struct probe_rates *ret)
{
	struct crew crew = { .lanes = NULL };
	uint64_t *before = calloc(count ? count : 1, sizeof(*before));
	struct probe_window window = { &tcp->probe, crew_moved, crew_failed, &crew, count, before };
	int r = before ? crew_begin(tcp, &crew, tasks, connections, count) : -ENOMEM;

	if (!r)
		r = probe_window_measure(&window, duration_ns, ret);
	crew_end(&crew);
	free(before);
	return r;
}

/* The fewest connections with which a single flow of this direction gets what any number gets. */
static int connections_choose(struct tcp_probe *tcp, enum probe_tcp_task task, uint64_t duration_ns)
{
	unsigned most = tcp->options.connections_max ? tcp->options.connections_max : CONNECTIONS_DEFAULT, best = 1;
	double best_Bps = 0;

	if (tcp->chosen[task])
		return 0;
	for (unsigned connections = 1; most > 1 && connections <= most; connections *= 2) {
		double rate_Bps = 0;
		struct probe_rates rates = { &rate_Bps, 0 };
		int r = crew_measure(tcp, &task, &connections, 1, duration_ns / 2, &rates);

		if (r < 0)
			return r;
		if (rate_Bps > best_Bps * GAIN) {
			best_Bps = rate_Bps;
			best = connections;
		}
	}
	tcp->chosen[task] = best;
	return 0;
}

/* --------------------------------------------------------------------------------------------------------------- ops */

static int explain(int r, struct diag *diag)
{
	switch (r) {
	case 0:
		return 0;
	case -EINTR:
	case -ECANCELED:
		diag_set(diag, 0, 0, "stopped");
		return -EINTR;
	case -ENOMEM:
		diag_set(diag, 0, 0, "no memory");
		return r;
	case -EBADMSG:
		diag_set(diag, 0, 0, "the peer answers, but it is no `tributary measure --listen` of this version");
		return -EIO;
	case -ECONNRESET:
		diag_set(diag, 0, 0, "the peer closed the connection");
		return -EIO;
	default:
		diag_set(diag, 0, 0, "the peer: %s", strerror(-r));
		return -EIO;
	}
}

static int tcp_run(struct probe *probe, const struct probe_flow *flows, size_t count, uint64_t duration_ns,
		   struct probe_rates *ret, struct diag *diag)
{
	struct tcp_probe *tcp = probe_of(probe);
	enum probe_tcp_task *tasks = calloc(count ? count : 1, sizeof(*tasks));
	unsigned *connections = calloc(count ? count : 1, sizeof(*connections));
	int r = tasks && connections ? 0 : -ENOMEM;
	size_t i;

	for (i = 0; !r && i < count; i++) {
		r = task_of(tcp, &flows[i], &tasks[i]);
		if (r < 0)
			diag_set(diag, 0, 0, "flow %zu is not between this host and the peer", i);
	}
	if (r == -ENOTSUP)
		goto out;
	for (i = 0; !r && i < count; i++) {
		r = connections_choose(tcp, tasks[i], duration_ns);
		connections[i] = tcp->chosen[tasks[i]];
	}
	if (!r)
		r = crew_measure(tcp, tasks, connections, count, duration_ns, ret);
	r = explain(r, diag);
out:
	free(connections);
	free(tasks);
	return r;
}

/* Half the time of a small message there and back, the shortest of several. */
static int tcp_latency(struct probe *probe, const struct probe_flow *flow, uint64_t *ret_ns, struct diag *diag)
{
	struct tcp_probe *tcp = probe_of(probe);
	atomic_bool never = false;
	struct probe_tcp_stream stream = { .fd = -1, .stop = &never, .interrupt = probe->stop };
	uint64_t least_ns = UINT64_MAX;
	enum probe_tcp_task task;
	int r = task_of(tcp, flow, &task);

	if (r < 0) {
		diag_set(diag, 0, 0, "not a flow between this host and the peer");
		return r;
	}
	r = connect_to(tcp, &stream, PROBE_TCP_ECHO);
	for (unsigned i = 0; !r && i < ECHOES; i++) {
		uint8_t message[PROBE_TCP_HELLO_BYTES] = { 0 };
		uint64_t start_ns = clock_now_ns(), ns;

		r = probe_stopped(probe) ? -EINTR : probe_tcp_stream_send(&stream, message, sizeof(message));
		if (!r)
			r = probe_tcp_stream_receive(&stream, message, sizeof(message));
		ns = clock_elapsed_ns(start_ns, clock_now_ns());
		if (i >= ECHOES_FIRST && ns < least_ns)
			least_ns = ns;
	}
	sys_close(&stream.fd);
	if (!r)
		*ret_ns = least_ns / 2;
	return explain(r, diag);
}

static void tcp_close(struct probe *probe)
{
	free(probe_of(probe));
}

static const struct probe_ops tcp_ops = { "tcp", tcp_can, tcp_run, tcp_latency, tcp_close };

int probe_tcp_open(const struct topology *topology, const _Atomic bool *stop, const struct probe_tcp_options *options,
		   struct probe **ret, struct diag *diag)
{
	struct tcp_probe *tcp;

	if (options->here >= topology->vertex_count || options->peer >= topology->vertex_count ||
	    options->here == options->peer) {
		diag_set(diag, 0, 0, "this host and the peer must be two vertices of the graph");
		return -EINVAL;
	}
	tcp = calloc(1, sizeof(*tcp));
	if (!tcp) {
		diag_set(diag, 0, 0, "no memory for the probe");
		return -ENOMEM;
	}
	tcp->probe = (struct probe){ &tcp_ops, topology, stop };
	tcp->options = *options;
	*ret = &tcp->probe;
	return 0;
}

int probe_tcp_parse_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_bytes)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN];
	bool brackets = text[0] == '[';
	size_t bytes;
	uint64_t port;

	if (!colon || parse_u64(colon + 1, 1, UINT16_MAX, &port) < 0)
		return -EINVAL;
	bytes = (size_t)(colon - text);
	if (brackets && (bytes < 2 || text[bytes - 1] != ']'))
		return -EINVAL;
	if (brackets) {
		text++;
		bytes -= 2;
	}
	if (bytes >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, bytes);
	host[bytes] = '\0';
	if ((brackets ? inet_pton(AF_INET6, host, &v6.sin6_addr) : inet_pton(AF_INET, host, &v4.sin_addr)) != 1)
		return -EINVAL;
	memset(ret, 0, sizeof(*ret));
	if (brackets) {
		v6.sin6_port = htons((uint16_t)port);
		memcpy(ret, &v6, sizeof(v6));
		*ret_bytes = sizeof(v6);
	} else {
		v4.sin_port = htons((uint16_t)port);
		memcpy(ret, &v4, sizeof(v4));
		*ret_bytes = sizeof(v4);
	}
	return 0;
}
