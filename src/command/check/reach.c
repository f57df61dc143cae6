/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses of other hosts this one reaches: a TCP connection from each interface to each address, tied to it as the
 * plugin's are (transport/tcp/pin.c), and one as the system routes, which is where the plugin turns last. What is reached
 * shows that it is the host that is meant, by one byte that it sends back. Then packets as long as the interface's go out:
 * where the kernel repeats them without end while short ones pass, something on the way drops them and does not say so.
 */
#include "command/check/check.h"

#include "base/clock.h"
#include "base/sys.h"
#include "transport/tcp/route.h"
#include "transport/tcp/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
	NAP_MS = 20,
	PROBES_MAX = CHECK_PEERS_MAX * (CHECK_INTERFACES_MAX + 1) * CHECK_INTERFACES_MAX,
	PACKETS = 3,     /* full ones are sent */
	REPETITIONS = 3, /* of the same bytes, each after twice the time: 1.4 s in all */
	HEADER_BYTES = 60,
	CHUNK_BYTES = 16 << 10,
};
#define CONNECT_NS (6 * NS_PER_S)
#define ECHO_NS    (12 * NS_PER_S)
#define LOAD_NS    (12 * NS_PER_S)
/* What the way may carry where it does not carry the interface's own. */
static const unsigned packet_sizes[] = { 1500, 1280 };

enum probe_state { PROBE_CONNECT, PROBE_ECHO, PROBE_LOAD, PROBE_DONE };
struct probe {
	enum probe_state state;
	int fd, from, to; /* from: CHECK_AS_ROUTED or an own interface */
	unsigned host;
	uint8_t token[CLUSTERPROBE_TOKEN_BYTES];
	struct sockaddr_storage peer;
	socklen_t peer_bytes;
	uint64_t since_ns;        /* of the state */
	size_t left;              /* bytes of the load that are not yet with the kernel */
	unsigned packet, smaller; /* 0: the interface's own; how many sizes were tried */
	unsigned confirming;      /* packets of that size passed: do the long ones really not? 0: not that far */
	int error;                /* positive */
	unsigned passed;          /* as in check_reach's answer */
};

struct probes {
	const struct check_worker *worker;
	struct probe *at;
	size_t count;
};

/* ---------------------------------------------------------------------------------------------------------------- plan */

void check_token(const char *nonce, json_int_t host, uint8_t ret[static CLUSTERPROBE_TOKEN_BYTES])
{
	uint8_t sum[SHA256_BYTES];
	char text[160];
	struct sha256 sha;

	snprintf(text, sizeof(text), "%.127s %lld", nonce, (long long)host);
	sha256_init(&sha);
	sha256_add(&sha, text, strlen(text));
	sha256_end(&sha, sum);
	memcpy(ret, sum, CLUSTERPROBE_TOKEN_BYTES);
}

static socklen_t read_address(const char *text, uint16_t port, int scope, struct sockaddr_storage *ret)
{
	struct tcp_wire_address wire = { .family = strchr(text, ':') ? 6 : 4, .port = port };

	if (inet_pton(wire.family == 6 ? AF_INET6 : AF_INET, text, wire.bytes) != 1)
		return 0;
	return tcp_socket_address(&wire, scope > 0 ? (unsigned)scope : 0, ret);
}

static void add(struct probes *probes, const struct probe *like, const char *address, uint16_t port)
{
	const struct check_worker *worker = probes->worker;

	for (int from = CHECK_AS_ROUTED; from < (int)worker->interface_count; from++) {
		struct probe *probe = &probes->at[probes->count];
		int scope = worker->interfaces[from < 0 ? 0 : from].index;

		if (probes->count == PROBES_MAX || !worker->interface_count)
			return;
		*probe = *like;
		probe->fd = -1;
		probe->from = from;
		probe->peer_bytes = read_address(address, port, scope, &probe->peer);
		probes->count += probe->peer_bytes > 0;
	}
}

/* [{"host": number, "at": [[address, port], ...]}, ...] */
static void plan(struct probes *probes, const char *nonce, const json_t *peers)
{
	for (size_t i = 0; i < json_array_size(peers) && i < CHECK_PEERS_MAX; i++) {
		const json_t *peer = json_array_get(peers, i), *at = json_object_get(peer, "at");
		struct probe like = { .host = (unsigned)json_integer_value(json_object_get(peer, "host")) };

		check_token(nonce, like.host, like.token);
		for (size_t j = 0; j < json_array_size(at) && j < CHECK_INTERFACES_MAX; j++) {
			const json_t *one = json_array_get(at, j);
			const char *address = json_string_value(json_array_get(one, 0));
			json_int_t port = json_integer_value(json_array_get(one, 1));

			like.to = (int)j;
			if (address && port > 0 && port <= UINT16_MAX) /* 0: it could not listen */
				add(probes, &like, address, (uint16_t)port);
		}
	}
}

/* --------------------------------------------------------------------------------------------------------------- probe */

static void done(struct probe *probe, int error)
{
	sys_close(&probe->fd);
	probe->error = -error;
	probe->state = PROBE_DONE;
}

static void enter(struct probe *probe, enum probe_state state)
{
	probe->state = state;
	probe->since_ns = clock_now_ns();
}

/* As transport/tcp/pin.c ties the plugin's. -ENETUNREACH: no route leads through the interface. */
static int tie(const struct probe *probe, const struct tcp_interface *interface)
{
	int index, r;

	if (interface->address.ss_family != probe->peer.ss_family)
		return -ENETUNREACH;
	if (interface->index <= 0 || interface->address_only ||
	    (!tcp_route_find(&probe->peer, &interface->address, 0, &index) && index == interface->index))
		return tcp_route_bind_address(probe->fd, &interface->address);
	r = tcp_route_find(&probe->peer, &interface->address, interface->index, &index);
	if (r == -ENETUNREACH)
		return r;
	r = tcp_route_bind_device(probe->fd, interface);
	return r < 0 ? r : tcp_route_bind_address(probe->fd, &interface->address);
}

static void start(struct probes *probes, struct probe *probe)
{
	int mss = probe->packet ? (int)probe->packet - HEADER_BYTES : 0, r = 0;

	probe->fd = sys_socket(probe->peer.ss_family, SOCK_STREAM, 0);
	if (probe->fd < 0) {
		done(probe, probe->fd);
		return;
	}
	if (mss)
		setsockopt(probe->fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss));
	if (probe->from >= 0)
		r = tie(probe, &probes->worker->interfaces[probe->from]);
	if (r == 0)
		r = sys_connect(probe->fd, (const struct sockaddr *)&probe->peer, probe->peer_bytes);
	if (r < 0 && r != -EINPROGRESS)
		done(probe, r);
	else
		enter(probe, PROBE_CONNECT);
}

static void step_connect(struct probe *probe)
{
	struct clusterprobe_preamble preamble = { .echo = true };
	uint8_t bytes[CLUSTERPROBE_PREAMBLE_BYTES + 1] = { 0 };
	int r = sys_connect(probe->fd, (const struct sockaddr *)&probe->peer, probe->peer_bytes), on = 1;

	/* Asked again, it says what became of it. */
	if (r == -EALREADY && clock_elapsed_ns(probe->since_ns, clock_now_ns()) <= CONNECT_NS)
		return;
	if (r < 0 && r != -EISCONN) {
		done(probe, r == -EALREADY ? -ETIMEDOUT : r);
		return;
	}
	setsockopt(probe->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	memcpy(preamble.token, probe->token, sizeof(preamble.token));
	clusterprobe_preamble_codec(CODEC_TO(bytes), &preamble);
	/* An empty buffer takes so few. */
	if (sys_send(probe->fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
		enter(probe, PROBE_ECHO);
	else
		done(probe, -ECONNRESET);
}

static void step_echo(const struct probes *probes, struct probe *probe)
{
	uint8_t byte;
	ssize_t got = sys_recv(probe->fd, &byte, 1, 0);

	if (got == 1 && probe->from < 0) {
		done(probe, 0);
	} else if (got == 1) {
		unsigned mtu_bytes = probes->worker->interfaces[probe->from].mtu_bytes;

		probe->left = (size_t)PACKETS * (probe->packet ? probe->packet : mtu_bytes);
		enter(probe, PROBE_LOAD);
	} else if ((got != -EAGAIN && got != -EINTR) || clock_elapsed_ns(probe->since_ns, clock_now_ns()) > ECHO_NS) {
		done(probe, -EPROTO); /* it hangs up on a token that is not its own */
	}
}

static void load_again(struct probes *probes, struct probe *probe, unsigned packet)
{
	probe->packet = packet;
	sys_close(&probe->fd);
	start(probes, probe);
}

/* Short packets pass and these do not: are there others that do? */
static void try_smaller(struct probes *probes, struct probe *probe)
{
	const size_t sizes = sizeof(packet_sizes) / sizeof(packet_sizes[0]);
	unsigned now = probe->packet ? probe->packet : probes->worker->interfaces[probe->from].mtu_bytes;

	while (probe->smaller < sizes && packet_sizes[probe->smaller] >= now)
		probe->smaller++;
	if (probe->confirming || probe->smaller == sizes) {
		probe->passed = probe->confirming ? probe->confirming : 1;
		done(probe, 0);
	} else {
		load_again(probes, probe, packet_sizes[probe->smaller++]);
	}
}

static void step_load(struct probes *probes, struct probe *probe)
{
	static const uint8_t zeros[CHUNK_BYTES];
	uint8_t echo[CHUNK_BYTES];
	struct tcp_info info;
	socklen_t bytes = sizeof(info);
	int unacknowledged = 0;

	while (probe->left) {
		ssize_t sent = sys_send(probe->fd, zeros, probe->left < CHUNK_BYTES ? probe->left : CHUNK_BYTES);

		if (sent <= 0)
			break;
		probe->left -= (size_t)sent;
	}
	while (sys_recv(probe->fd, echo, sizeof(echo), 0) > 0)
		;
	memset(&info, 0, sizeof(info));
	if (ioctl(probe->fd, SIOCOUTQ, &unacknowledged) < 0 ||
	    getsockopt(probe->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0)
		unacknowledged = 0;
	/* Where nothing comes for a while, the other end hangs up. */
	if (info.tcpi_retransmits >= REPETITIONS || info.tcpi_state != TCP_ESTABLISHED) {
		try_smaller(probes, probe);
	} else if (!probe->left && !unacknowledged && probe->packet) {
		/* It may have been a full queue: the long ones once more. */
		probe->confirming = probe->packet;
		load_again(probes, probe, 0);
	} else if ((!probe->left && !unacknowledged) || clock_elapsed_ns(probe->since_ns, clock_now_ns()) > LOAD_NS) {
		done(probe, 0); /* or it is slow, which is not in question */
	}
}

/* --------------------------------------------------------------------------------------------------------------- whole */

static void run(struct probes *probes)
{
	for (size_t i = 0; i < probes->count; i++)
		start(probes, &probes->at[i]);
	for (size_t waiting = 1; waiting && !*probes->worker->stop;) {
		waiting = 0;
		for (size_t i = 0; i < probes->count; i++) {
			struct probe *probe = &probes->at[i];

			if (probe->state == PROBE_CONNECT)
				step_connect(probe);
			else if (probe->state == PROBE_ECHO)
				step_echo(probes, probe);
			else if (probe->state == PROBE_LOAD)
				step_load(probes, probe);
			waiting += probe->state != PROBE_DONE;
		}
		/* That bytes were acknowledged is no event to wait for. */
		if (waiting)
			poll(NULL, 0, NAP_MS);
	}
}

json_t *check_reach(const struct check_worker *worker, const char *nonce, const json_t *peers)
{
	struct probes probes = { .worker = worker, .at = sys_zalloc(PROBES_MAX * sizeof(*probes.at)) };
	json_t *list = probes.at ? json_array() : NULL;

	if (list)
		plan(&probes, nonce, peers);
	run(&probes);
	for (size_t i = 0; i < probes.count; i++) {
		struct probe *probe = &probes.at[i];

		json_array_append_new(list, json_pack("[i, i, i, i, i]", (int)probe->host, probe->from, probe->to,
						      probe->error, (int)probe->passed));
		sys_close(&probe->fd);
	}
	sys_free(probes.at);
	return list;
}
