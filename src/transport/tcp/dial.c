/* SPDX-License-Identifier: Apache-2.0 */
/* How one stream is dialled: a small state table, one step a call, nothing blocks. */
#include "transport/tcp/dial.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define DIAL_RETRY_NS (50 * NS_PER_MS)
enum { DIAL_REFUSED_MAX = 20 }; /* a second of refusals: nobody listens there any more, or a firewall says so */

void tcp_dial_set_up(struct tcp_transport *transport, struct tcp_dial *dial, const struct tcp_wire_address *peer,
		     int interface, uint64_t now_ns)
{
	const unsigned scope = interface < 0 ? 0 : (unsigned)transport->interfaces[interface].index;

	dial->state = TCP_DIAL_START;
	dial->fd = -1;
	dial->peer_bytes = tcp_socket_address(peer, scope, &dial->peer);
	dial->interface = interface;
	dial->port = peer->port;
	dial->tied_port = peer->tied_port;
	dial->pin = interface < 0 ? TCP_PIN_NONE : TCP_PIN_BOTH;
	dial->may_unpin = true;
	dial->gave_up = false;
	dial->next_pin_ns = now_ns + params_replace_ns(transport->params->timeout_ns) / TCP_PIN_TRIES;
	dial->retry_at_ns = dial->refused = 0;
}

/* Puts the socket off and tries again a little later. Some refusals are only a full backlog. */
static int dial_again(struct tcp_transport *transport, struct tcp_dial *dial, int error, uint64_t now_ns)
{
	const uint64_t replace_ns = params_replace_ns(transport->params->timeout_ns);
	bool other_pin;

	sys_close_socket(&dial->fd);
	if (dial->state >= TCP_DIAL_HELLO) {
		dial->hello.epoch++; /* the other side may have taken the last one: only its answer was lost */
		dial->next_pin_ns = now_ns + replace_ns / TCP_PIN_TRIES; /* this way leads there */
	}
	dial->failed_in = dial->state;
	dial->last_error = error;
	dial->state = TCP_DIAL_START;
	other_pin = tcp_pin_give_up(dial, error, replace_ns, now_ns);
	if (dial->once && !other_pin)
		return error;
	dial->retry_at_ns = now_ns + (dial->once ? 0 : DIAL_RETRY_NS);
	if (other_pin)
		return 0;
	if (error == -ECONNREFUSED && ++dial->refused >= DIAL_REFUSED_MAX)
		return error;
	return 0;
}

static int dial_start(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	int r;

	if (now_ns < dial->retry_at_ns)
		return 0;
	dial->fd = sys_socket(dial->peer.ss_family, SOCK_STREAM, 0);
	if (dial->fd < 0)
		return dial->fd;
	tcp_socket_tune(dial->fd, dial->peer.ss_family, transport->timeout_ns, dial->traffic_class);
	tcp_mtu_dial(transport, dial);
	tcp_pin_dial(transport, dial);
	r = sys_connect(dial->fd, (const struct sockaddr *)&dial->peer, dial->peer_bytes);
	if (r < 0 && r != -EINPROGRESS)
		return dial_again(transport, dial, r, now_ns);
	dial->state = TCP_DIAL_CONNECT;
	return 0;
}

static int dial_connect(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	int r;

	r = sys_connect(dial->fd, (const struct sockaddr *)&dial->peer, dial->peer_bytes);
	if (r == -EALREADY || r == -EINPROGRESS)
		return 0;
	if (r < 0 && r != -EISCONN)
		return dial_again(transport, dial, r, now_ns);
	dial->count = 0;
	dial->state = TCP_DIAL_CHALLENGE;
	dial->challenge_by_ns = now_ns + params_replace_ns(transport->params->timeout_ns);
	return 0;
}

/* What is not Tributary's, or another version of it. */
static int misfit(struct tcp_dial *dial, uint16_t version)
{
	sys_close_socket(&dial->fd);
	dial->failed_in = dial->state;
	dial->version = version;
	return dial->last_error = -EPROTO;
}

/* 1: all of it is here. */
static int take(struct tcp_transport *transport, struct tcp_dial *dial, size_t bytes, uint64_t now_ns)
{
	ssize_t got = sys_recv(dial->fd, dial->bytes + dial->count, bytes - dial->count, 0);

	if (got == -EAGAIN || got == -EINTR)
		return 0;
	if (got <= 0) /* pushed out of a crowded accept queue, most likely */
		return dial_again(transport, dial, got ? (int)got : -ECONNRESET, now_ns);
	dial->count += (size_t)got;
	return dial->count == bytes;
}

static int dial_challenge(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	struct codec *codec = CODEC_FROM(dial->bytes, TCP_WIRE_CHALLENGE_BYTES);
	struct tcp_wire_challenge challenge;
	int r = take(transport, dial, TCP_WIRE_CHALLENGE_BYTES, now_ns);

	if (r <= 0)
		return r;
	r = tcp_wire_challenge(codec, &challenge);
	if (r < 0)
		return misfit(dial, r == -EPROTO ? codec->version : 0);
	memcpy(dial->nonces.accepting, challenge.nonce, TCP_WIRE_NONCE_BYTES);
	dial->state = TCP_DIAL_CHALLENGED;
	return 0;
}

static int dial_challenged(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	int r;

	(void)transport, (void)now_ns;
	if (dial->held)
		return 0;
	r = tcp_socket_random(dial->nonces.connecting, TCP_WIRE_NONCE_BYTES);
	if (r < 0)
		return r;
	memcpy(dial->hello.nonce, dial->nonces.connecting, TCP_WIRE_NONCE_BYTES);
	tcp_wire_hello(CODEC_TO(dial->bytes), &dial->hello);
	tcp_wire_prove(TCP_WIRE_CONNECTING, dial->secret, &dial->nonces, dial->bytes, TCP_WIRE_HELLO_BYTES);
	dial->count = 0;
	dial->state = TCP_DIAL_HELLO;
	return 0;
}

static int dial_hello(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	ssize_t r = sys_send(dial->fd, dial->bytes + dial->count, TCP_WIRE_HELLO_BYTES - dial->count);

	if (r == -EAGAIN || r == -EINTR)
		return 0;
	if (r < 0)
		return dial_again(transport, dial, (int)r, now_ns);
	dial->count += (size_t)r;
	if (dial->count < TCP_WIRE_HELLO_BYTES)
		return 0;
	dial->count = 0;
	dial->state = TCP_DIAL_WELCOME;
	return 0;
}

static int dial_welcome(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	struct codec *codec = CODEC_FROM(dial->bytes, TCP_WIRE_WELCOME_BYTES);
	int r = take(transport, dial, TCP_WIRE_WELCOME_BYTES, now_ns);

	if (r <= 0)
		return r;
	r = tcp_wire_welcome(codec, &dial->welcome);
	if (r == -EPROTO || (r == 0 && dial->welcome.status == TCP_WELCOME_VERSION))
		return misfit(dial, codec->version);
	if (r < 0)
		return misfit(dial, 0);
	dial->failed_in = dial->state;
	if (dial->welcome.status == TCP_WELCOME_SECRET)
		return dial->last_error = -ECONNREFUSED; /* its listener is gone */
	if (!tcp_wire_is_proven(TCP_WIRE_ACCEPTING, dial->secret, &dial->nonces, dial->bytes, TCP_WIRE_WELCOME_BYTES))
		return misfit(dial, 0);
	if (dial->welcome.status != TCP_WELCOME_OK)
		return dial->last_error = -EBUSY;
	if (dial->welcome.connection_id != dial->hello.connection_id || !dial->welcome.rail_count)
		return misfit(dial, 0);
	dial->state = TCP_DIAL_READY;
	tcp_pin_ready(transport, dial);
	return 0;
}

static int dial_ready(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	(void)transport, (void)dial, (void)now_ns;
	return 0;
}

static int (*const dial_steps[TCP_DIAL_STATE_COUNT])(struct tcp_transport *transport, struct tcp_dial *dial,
						     uint64_t now_ns) = {
	[TCP_DIAL_START] = dial_start,         [TCP_DIAL_CONNECT] = dial_connect,
	[TCP_DIAL_CHALLENGE] = dial_challenge, [TCP_DIAL_CHALLENGED] = dial_challenged,
	[TCP_DIAL_HELLO] = dial_hello,         [TCP_DIAL_WELCOME] = dial_welcome,
	[TCP_DIAL_READY] = dial_ready,
};

enum tcp_reach tcp_dial_reach(const struct tcp_dial *dial)
{
	if (dial->last_error == -EPROTO)
		return dial->version ? TCP_REACH_VERSION : TCP_REACH_FOREIGN;
	if (dial->failed_in == TCP_DIAL_WELCOME && dial->welcome.status == TCP_WELCOME_SECRET)
		return TCP_REACH_SECRET;
	return tcp_reach_of(dial->last_error, dial->failed_in >= TCP_DIAL_CHALLENGE);
}

int tcp_dial_step(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	enum tcp_dial_state before;
	int r;

	do { /* on to the first state that has to wait */
		before = dial->state;
		r = dial_steps[dial->state](transport, dial, now_ns);
	} while (r == 0 && dial->state > before);
	if (r == 0 && dial->state != TCP_DIAL_READY && now_ns > dial->deadline_ns) {
		dial->failed_in = dial->state;
		if (!dial->last_error || dial->state >= TCP_DIAL_CHALLENGE)
			dial->last_error = -ETIMEDOUT;
		r = -ETIMEDOUT;
	}
	/* Not while a greeting waits: the way leads there, and a process that is held up is no fault of its. */
	if (r == 0 && dial->state == TCP_DIAL_CONNECT && now_ns > dial->next_pin_ns && dial->pin != TCP_PIN_NONE)
		r = dial_again(transport, dial, -ETIMEDOUT, now_ns);
	/* The peer has sent no nonce and may have dropped the socket. (In a race, race.c dials anew.) */
	if (r == 0 && dial->state == TCP_DIAL_CHALLENGE && !dial->once && now_ns > dial->challenge_by_ns) {
		sys_close_socket(&dial->fd);
		dial->state = TCP_DIAL_START;
		dial->retry_at_ns = now_ns;
	}
	return r;
}
