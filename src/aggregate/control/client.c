/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/control/client.h"

#include "aggregate/control/lookup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REDIAL_NS (200 * NS_PER_MS)
enum { PEER_BYTES = 160 };

struct control_client {
	struct control_client_setup setup;
	struct control_lookup *lookup; /* until the address is known */
	struct sockaddr_storage address;
	socklen_t address_bytes;
	struct control_channel channel;
	int fd;
	bool connected, said_proved, lost;
	char why[CONTROL_SENTENCE_BYTES];
	char peer[PEER_BYTES];
	uint64_t deadline_ns, dial_at_ns, heard_ns, looked_ns, spoke_ns;
	/* Asked before there was somebody to ask. */
	uint8_t *request;
	size_t request_bytes;
	bool ask;
};

static enum control_event lose(struct control_client *client, struct control_answer *answer, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static enum control_event lose(struct control_client *client, struct control_answer *answer, const char *fmt, ...)
{
	va_list args;

	if (!client->lost) {
		va_start(args, fmt);
		log_sentence_v(client->why, sizeof(client->why), fmt, args);
		va_end(args);
		client->lost = true;
		sys_close_socket(&client->fd);
		control_channel_fini(&client->channel);
	}
	log_sentence(answer->sentence, sizeof(answer->sentence), "aggregator %s: %s", client->peer, client->why);
	return CONTROL_EVENT_LOST;
}

/* ------------------------------------------------------------------------------------------------------------- dial */

static int begin(struct control_client *client)
{
	control_channel_fini(&client->channel);
	client->connected = false;
	return control_channel_init(&client->channel, CONTROL_CLIENT, client->setup.secret, client->setup.name);
}

int control_client_open(const struct control_client_setup *setup, struct control_client **ret)
{
	int saved_errno = errno, r;
	struct control_client *client = sys_zalloc(sizeof(*client));

	if (!client)
		return -ENOMEM;
	client->fd = -1;
	client->setup = *setup;
	snprintf(client->peer, sizeof(client->peer), strchr(setup->address, ':') ? "[%.100s]:%u" : "%.100s:%u",
		 setup->address, setup->port);
	r = control_lookup_start(setup->address, setup->port, &client->lookup);
	if (r == 0)
		r = begin(client);
	errno = saved_errno;
	if (r < 0) {
		control_client_close(client);
		return r;
	}
	client->deadline_ns = clock_now_ns() + setup->timeout_ns;
	*ret = client;
	return 0;
}

void control_client_close(struct control_client *client)
{
	if (!client)
		return;
	if (client->fd >= 0 && control_channel_proved(&client->channel)) {
		(void)control_channel_send(&client->channel, CONTROL_LEAVE, NULL, 0);
		(void)control_channel_move(&client->channel, client->fd);
	}
	control_lookup_end(client->lookup);
	sys_close_socket(&client->fd);
	control_channel_fini(&client->channel);
	sys_free(client->request);
	sys_free(client);
}

static int dial(struct control_client *client)
{
	unsigned timeout_ms = (unsigned)(client->setup.timeout_ns / NS_PER_MS);
	int on = 1, r;

	client->fd = sys_socket(client->address.ss_family, SOCK_STREAM, 0);
	if (client->fd < 0)
		return client->fd;
	setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(client->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
	r = sys_connect(client->fd, (struct sockaddr *)&client->address, client->address_bytes);
	return r == -EINPROGRESS ? 0 : r;
}

/* 1: it stands; 0: not yet; -errno. */
static int dialled(struct control_client *client)
{
	struct pollfd poll_fd = { .fd = client->fd, .events = POLLOUT };
	socklen_t bytes = sizeof(int);
	int error = 0;

	if (poll(&poll_fd, 1, 0) <= 0 || !poll_fd.revents)
		return 0;
	if (getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
		error = errno;
	return error ? -error : 1;
}

/* The service may be starting, or be full of strangers: once more, until the time is over. */
static void again(struct control_client *client, uint64_t now_ns, const char *why)
{
	log_sentence(client->why, sizeof(client->why), "%s", why);
	sys_close_socket(&client->fd);
	client->dial_at_ns = now_ns + REDIAL_NS;
}

/* 0: it is known, or will be. */
static int know_address(struct control_client *client)
{
	const char *why;
	int r = control_lookup_result(client->lookup, &client->address, &client->address_bytes, &why);

	if (r < 0)
		log_sentence(client->why, sizeof(client->why), "its address is not known: %s", why);
	else if (r == 0)
		snprintf(client->why, sizeof(client->why), "its name is still being looked up");
	else
		client->why[0] = '\0';
	if (r) {
		control_lookup_end(client->lookup);
		client->lookup = NULL;
	}
	return r < 0 ? r : 0;
}

static enum control_event dial_step(struct control_client *client, struct control_answer *answer, uint64_t now_ns)
{
	int r;

	if (client->lookup && know_address(client) < 0)
		return lose(client, answer, "%s", client->why);
	if (now_ns >= client->deadline_ns)
		return lose(client, answer, "it does not answer (%s)", client->why[0] ? client->why : "no sign");
	if (client->lookup)
		return CONTROL_EVENT_NONE;
	if (client->fd < 0) {
		if (now_ns < client->dial_at_ns)
			return CONTROL_EVENT_NONE;
		r = begin(client);
		if (r < 0)
			return lose(client, answer, "%s", strerror(-r));
		r = dial(client);
	} else {
		r = dialled(client);
	}
	if (r < 0)
		again(client, now_ns, strerror(-r));
	client->connected = client->fd >= 0 && r > 0;
	return CONTROL_EVENT_NONE;
}

/* ------------------------------------------------------------------------------------------------------------- talk */

static int say(struct control_client *client, enum control_type type, const void *payload, size_t bytes)
{
	int r = control_channel_send(&client->channel, type, payload, bytes);

	if (!r)
		client->spoke_ns = clock_now_ns();
	return r;
}

static enum control_event proved(struct control_client *client, struct control_answer *answer, uint64_t now_ns)
{
	size_t length = strlen(client->peer);
	int r = 0;

	client->said_proved = true;
	client->heard_ns = client->looked_ns = client->spoke_ns = now_ns;
	client->why[0] = '\0';
	if (client->channel.peer_name[0])
		snprintf(client->peer + length, sizeof(client->peer) - length, " (%.39s)", client->channel.peer_name);
	if (client->request)
		r = say(client, CONTROL_REQUEST, client->request, client->request_bytes);
	if (!r && client->ask)
		r = say(client, CONTROL_ASK, NULL, 0);
	sys_free(client->request);
	client->request = NULL;
	client->ask = false;
	if (r < 0)
		return lose(client, answer, "%s", strerror(-r));
	return CONTROL_EVENT_PROVED;
}

/* What a frame means; _COUNT: it breaks the protocol. */
static enum control_event event_of(const struct control_header *header, const uint8_t *payload,
				   struct control_answer *answer)
{
	int r = 0;
	enum control_event event = CONTROL_EVENT_COUNT;

	switch (header->type) {
	case CONTROL_OFFER:
		r = control_wire_offer(CODEC_FROM(payload, header->payload_bytes), &answer->offer);
		event = CONTROL_EVENT_OFFER;
		break;
	case CONTROL_REFUSAL:
		r = control_wire_sentence(CODEC_FROM(payload, header->payload_bytes), answer->sentence);
		event = CONTROL_EVENT_REFUSAL;
		break;
	case CONTROL_FAILURE:
		r = control_wire_sentence(CODEC_FROM(payload, header->payload_bytes), answer->sentence);
		event = CONTROL_EVENT_FAILURE;
		break;
	case CONTROL_STATE:
		r = control_wire_state(CODEC_FROM(payload, header->payload_bytes), &answer->state, answer->groups);
		event = CONTROL_EVENT_STATE;
		break;
	case CONTROL_READY:
		event = CONTROL_EVENT_READY;
		break;
	case CONTROL_DRAIN:
		event = CONTROL_EVENT_DRAIN;
		break;
	case CONTROL_HEARTBEAT:
		event = CONTROL_EVENT_NONE;
		break;
	default:
		break;
	}
	return r < 0 ? CONTROL_EVENT_COUNT : event;
}

static enum control_event take_frame(struct control_client *client, struct control_answer *answer, uint64_t now_ns)
{
	const struct control_header *header;
	const uint8_t *payload;
	enum control_event event;

	header = control_channel_frame(&client->channel, &payload);
	if (!header)
		return CONTROL_EVENT_NONE;
	client->heard_ns = now_ns;
	event = event_of(header, payload, answer);
	control_channel_take(&client->channel);
	if (event == CONTROL_EVENT_COUNT)
		return lose(client, answer, "it breaks the protocol");
	if (event == CONTROL_EVENT_REFUSAL || event == CONTROL_EVENT_FAILURE)
		log_sentence(answer->sentence, sizeof(answer->sentence), "aggregator %s: %s", client->peer,
			     answer->sentence);
	return event;
}

/* A heartbeat when it is due; -EREMOTEIO: the other side has been silent for too long. */
static int keep_alive(struct control_client *client, uint64_t now_ns)
{
	uint64_t beat_ns = control_beat_ns(client->setup.timeout_ns);

	client->heard_ns = clock_heard_ns(client->heard_ns, client->looked_ns, now_ns, beat_ns);
	client->looked_ns = now_ns;
	if (clock_elapsed_ns(client->heard_ns, now_ns) > client->setup.timeout_ns)
		return -EREMOTEIO;
	if (clock_elapsed_ns(client->spoke_ns, now_ns) < beat_ns)
		return 0;
	/* Full: it has enough to read. */
	(void)say(client, CONTROL_HEARTBEAT, NULL, 0);
	return 0;
}

static enum control_event broken(struct control_client *client, struct control_answer *answer, int error,
				 uint64_t now_ns)
{
	if (client->said_proved || (error != -EPIPE && error != -ECONNRESET))
		return lose(client, answer, "%s", client->channel.why);
	/* Closed before it knew us: strangers may have pushed us out. */
	client->connected = false;
	again(client, now_ns, client->channel.why);
	return CONTROL_EVENT_NONE;
}

static enum control_event talk(struct control_client *client, struct control_answer *answer, uint64_t now_ns)
{
	const uint8_t *payload;
	int r;

	for (;;) {
		enum control_event event;

		r = control_channel_move(&client->channel, client->fd);
		if (control_channel_proved(&client->channel) && !client->said_proved)
			return proved(client, answer, now_ns);
		if (!control_channel_frame(&client->channel, &payload))
			break;
		event = take_frame(client, answer, now_ns);
		if (event != CONTROL_EVENT_NONE)
			return event;
	}
	if (r < 0)
		return broken(client, answer, r, now_ns);
	if (!client->said_proved && now_ns >= client->deadline_ns)
		return lose(client, answer, "it does not end the handshake");
	if (client->said_proved && keep_alive(client, now_ns) < 0)
		return lose(client, answer, "it has been silent for too long");
	return CONTROL_EVENT_NONE;
}

enum control_event control_client_step(struct control_client *client, struct control_answer *answer)
{
	uint64_t now_ns = clock_now_ns();
	enum control_event event = CONTROL_EVENT_NONE;
	int saved_errno = errno;

	if (client->lost)
		return lose(client, answer, "it is gone");
	if (!client->connected)
		event = dial_step(client, answer, now_ns);
	if (client->connected && event == CONTROL_EVENT_NONE)
		event = talk(client, answer, now_ns);
	/* What the event made us say (the request behind the proof) does not wait for the next step. */
	if (client->connected && !client->lost && event != CONTROL_EVENT_NONE)
		(void)control_channel_move(&client->channel, client->fd);
	errno = saved_errno;
	return event;
}

const char *control_client_peer(const struct control_client *client)
{
	return client->peer;
}

int control_client_request(struct control_client *client, struct control_request *request)
{
	int r = 0;

	if (client->request)
		return -EBUSY;
	client->request_bytes = CONTROL_REQUEST_BYTES + (size_t)request->member_count * TRANSPORT_HANDLE_BYTES;
	client->request = sys_zalloc(client->request_bytes);
	if (!client->request)
		return -ENOMEM;
	control_wire_request(CODEC_TO(client->request), request);
	if (client->said_proved) {
		r = say(client, CONTROL_REQUEST, client->request, client->request_bytes);
		sys_free(client->request);
		client->request = NULL;
	}
	return r;
}

int control_client_ask(struct control_client *client)
{
	if (client->said_proved)
		return say(client, CONTROL_ASK, NULL, 0);
	if (client->ask)
		return -EBUSY;
	client->ask = true;
	return 0;
}

int control_client_go(struct control_client *client, struct control_go *go)
{
	uint8_t payload[CONTROL_GO_BYTES + CONTROL_AGGREGATORS_MAX * TRANSPORT_HANDLE_BYTES];

	control_wire_go(CODEC_TO(payload), go);
	return say(client, CONTROL_GO, payload,
		   CONTROL_GO_BYTES + (size_t)go->aggregator_count * TRANSPORT_HANDLE_BYTES);
}
