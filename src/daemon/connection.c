/* SPDX-License-Identifier: Apache-2.0 */
/* Control connections: who is let in, and what is answered to whom. */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#define STRANGER_SAY_NS (60 * NS_PER_S)
enum { ACCEPTS_AT_ONCE = 128 };

static void stranger(struct daemon *daemon, const struct sockaddr_storage *peer, const char *what, uint64_t now_ns)
{
	char text[DAEMON_ADDRESS_TEXT];

	daemon->strangers++;
	if (daemon->stranger_said_ns && clock_elapsed_ns(daemon->stranger_said_ns, now_ns) < STRANGER_SAY_NS)
		return;
	daemon->stranger_said_ns = now_ns;
	log_warn("turned away %s: %s (%llu so far; said once a minute)", daemon_address_text(peer, text), what,
		 (unsigned long long)daemon->strangers);
}

static void free_connection(struct daemon_connection *connection)
{
	sys_close_socket(&connection->fd);
	control_channel_fini(&connection->channel);
	sys_free(connection);
}

void daemon_connection_close(struct daemon *daemon, struct daemon_connection *connection)
{
	for (size_t i = 0; i < daemon->connection_count; i++) {
		if (daemon->connections[i] != connection)
			continue;
		daemon->connections[i] = daemon->connections[--daemon->connection_count];
		break;
	}
	daemon_group_end(daemon, connection->group);
	free_connection(connection);
}

/* ----------------------------------------------------------------------------------------------------------- let in */

static size_t count_from(const struct daemon *daemon, const struct sockaddr_storage *peer)
{
	uint8_t wanted[16], at[16];
	size_t count = 0;

	daemon_address_bytes(peer, wanted);
	for (size_t i = 0; i < daemon->connection_count; i++) {
		if (daemon->connections[i]->proved)
			continue;
		daemon_address_bytes(&daemon->connections[i]->peer, at);
		count += !memcmp(at, wanted, sizeof(at));
	}
	return count;
}

/* The oldest of those from the address that has the most: a flood from one place pushes out itself alone. */
static struct daemon_connection *least_wanted(const struct daemon *daemon)
{
	struct daemon_connection *found = NULL;
	size_t most = 0;

	for (size_t i = 0; i < daemon->connection_count; i++) {
		struct daemon_connection *connection = daemon->connections[i];
		size_t count;

		if (connection->proved)
			continue;
		count = count_from(daemon, &connection->peer);
		if (count < most || (count == most && found && connection->since_ns >= found->since_ns))
			continue;
		most = count;
		found = connection;
	}
	return found;
}

static size_t count_unproved(const struct daemon *daemon)
{
	size_t count = 0;

	for (size_t i = 0; i < daemon->connection_count; i++)
		count += !daemon->connections[i]->proved;
	return count;
}

static void make_room(struct daemon *daemon, uint64_t now_ns)
{
	struct daemon_connection *connection;

	if (count_unproved(daemon) < DAEMON_UNPROVED_MAX)
		return;
	connection = least_wanted(daemon);
	stranger(daemon, &connection->peer, "it had not proved the secret when others came", now_ns);
	daemon_connection_close(daemon, connection);
}

static int connection_new(struct daemon *daemon, int *fd, const struct sockaddr_storage *peer, uint64_t now_ns)
{
	struct daemon_connection *connection = sys_zalloc(sizeof(*connection));
	unsigned timeout_ms = (unsigned)(daemon->params->timeout_ns / NS_PER_MS);
	int on = 1, r;

	if (!connection)
		return -ENOMEM;
	connection->fd = -1;
	r = control_channel_init(&connection->channel, CONTROL_SERVER, daemon->secret, daemon->name);
	if (r < 0) {
		free_connection(connection);
		return r;
	}
	setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(*fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
	connection->fd = *fd;
	*fd = -1;
	connection->peer = *peer;
	connection->since_ns = connection->heard_ns = connection->looked_ns = connection->spoke_ns = now_ns;
	daemon->connections[daemon->connection_count++] = connection;
	return 0;
}

void daemon_connection_accept(struct daemon *daemon, int listener, uint64_t now_ns)
{
	for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
		struct sockaddr_storage peer;
		int fd = sys_accept(listener, &peer, NULL), r;

		if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS)
			daemon->accept_paused_until_ns = now_ns + DAEMON_OUT_OF_DESCRIPTORS_NS;
		if (fd == -EINTR || fd == -ECONNABORTED)
			continue;
		if (fd < 0)
			return;
		if (!daemon_allow_has(&daemon->options->allow, &peer)) {
			stranger(daemon, &peer, "its network is not in --allow", now_ns);
			sys_close(&fd);
			continue;
		}
		make_room(daemon, now_ns);
		r = connection_new(daemon, &fd, &peer, now_ns);
		sys_close(&fd);
		if (r < 0)
			return;
	}
}

/* ----------------------------------------------------------------------------------------------------------- answer */

static int say(struct daemon_connection *connection, enum control_type type, const void *payload, size_t bytes)
{
	connection->spoke_ns = clock_now_ns();
	return control_channel_send(&connection->channel, type, payload, bytes);
}

static int say_sentence(struct daemon_connection *connection, enum control_type type, const char *sentence)
{
	uint8_t payload[CONTROL_SENTENCE_BYTES];
	char text[CONTROL_SENTENCE_BYTES];

	log_sentence(text, sizeof(text), "%s", sentence);
	control_wire_sentence(CODEC_TO(payload), text);
	return say(connection, type, payload, sizeof(payload));
}

static int answer_request(struct daemon *daemon, struct daemon_connection *connection, const uint8_t *payload,
			  size_t bytes)
{
	char sentence[CONTROL_SENTENCE_BYTES], text[DAEMON_ADDRESS_TEXT];
	uint8_t answer[CONTROL_OFFER_BYTES];
	struct control_request request;
	struct control_offer offer;
	struct daemon_group *group = NULL;
	int r = control_wire_request(CODEC_FROM(payload, bytes), &request);

	if (r < 0)
		return r;
	r = daemon_group_begin(daemon, connection, &request, &group, &offer, sentence);
	if (r < 0) {
		log_info(LOG_NET, "group %.39s of %s is refused: %s", request.name,
			 daemon_address_text(&connection->peer, text), sentence);
		return say_sentence(connection, CONTROL_REFUSAL, sentence);
	}
	connection->group = group;
	log_info(LOG_NET, "group %.39s of %s: %u members", group->name, daemon_address_text(&connection->peer, text),
		 group->member_count);
	control_wire_offer(CODEC_TO(answer), &offer);
	return say(connection, CONTROL_OFFER, answer, sizeof(answer));
}

static int answer_go(struct daemon_connection *connection, const uint8_t *payload, size_t bytes)
{
	struct control_go go;
	int r = control_wire_go(CODEC_FROM(payload, bytes), &go);

	if (r < 0)
		return r;
	if (!connection->group || connection->group->told != AGGREGATOR_OFFERED)
		return -EPROTO;
	r = aggregator_go(connection->group->aggregator_group, go.position, go.aggregator_count, go.handles);
	if (!r)
		connection->group->told = AGGREGATOR_CONNECTING;
	return r;
}

static int answer_ask(struct daemon *daemon, struct daemon_connection *connection, uint64_t now_ns)
{
	struct control_group_state *groups = sys_zalloc(CONTROL_GROUPS_MAX * sizeof(*groups));
	uint8_t *payload = sys_zalloc(CONTROL_PAYLOAD_MAX);
	struct control_state state;
	int r = -ENOMEM;

	if (groups && payload) {
		daemon_state(daemon, now_ns, &state, groups);
		control_wire_state(CODEC_TO(payload), &state, groups);
		r = say(connection, CONTROL_STATE, payload,
			CONTROL_STATE_BYTES + (size_t)state.group_count * CONTROL_GROUP_BYTES);
	}
	sys_free(groups);
	sys_free(payload);
	return r;
}

static int answer(struct daemon *daemon, struct daemon_connection *connection, uint64_t now_ns)
{
	const uint8_t *payload;
	const struct control_header *header = control_channel_frame(&connection->channel, &payload);

	switch (header->type) {
	case CONTROL_REQUEST:
		return answer_request(daemon, connection, payload, header->payload_bytes);
	case CONTROL_GO:
		return answer_go(connection, payload, header->payload_bytes);
	case CONTROL_ASK:
		return answer_ask(daemon, connection, now_ns);
	case CONTROL_LEAVE:
		return -ESHUTDOWN;
	case CONTROL_HEARTBEAT:
		return 0;
	default:
		return -EPROTO;
	}
}

/* ------------------------------------------------------------------------------------------------------------- step */

static size_t count_idle(const struct daemon *daemon)
{
	size_t count = 0;

	for (size_t i = 0; i < daemon->connection_count; i++)
		count += daemon->connections[i]->proved && !daemon->connections[i]->group;
	return count;
}

/* Its coordinator is told once of what has become of the group. */
static int tell_group(struct daemon_connection *connection)
{
	struct daemon_group *group = connection->group;
	struct aggregator_status status;
	int r = 0;

	aggregator_status(group->aggregator_group, &status);
	if (status.state == group->told)
		return 0;
	if (status.state == AGGREGATOR_READY)
		r = say(connection, CONTROL_READY, NULL, 0);
	else if (status.state == AGGREGATOR_FAILED)
		r = say_sentence(connection, CONTROL_FAILURE, status.sentence);
	group->told = status.state;
	return r;
}

/* Time in which this process was stopped, or the whole machine, is nobody's silence. */
static uint64_t silent_for_ns(struct daemon_connection *connection, uint64_t now_ns, uint64_t timeout_ns)
{
	connection->heard_ns = clock_heard_ns(connection->heard_ns, connection->looked_ns, now_ns, timeout_ns / 5);
	connection->looked_ns = now_ns;
	return clock_elapsed_ns(connection->heard_ns, now_ns);
}

static int keep_alive(const struct daemon *daemon, struct daemon_connection *connection, uint64_t now_ns)
{
	uint64_t timeout_ns = connection->group ? connection->group->timeout_ns : daemon->params->timeout_ns;

	if (silent_for_ns(connection, now_ns, timeout_ns) > timeout_ns)
		return -ETIMEDOUT;
	if (clock_elapsed_ns(connection->spoke_ns, now_ns) > control_beat_ns(timeout_ns))
		return say(connection, CONTROL_HEARTBEAT, NULL, 0);
	return 0;
}

/* 1: go on; 0: it ended in good order; -errno. */
static int step(struct daemon *daemon, struct daemon_connection *connection, uint64_t now_ns)
{
	const uint8_t *payload;
	int r = control_channel_move(&connection->channel, connection->fd);

	if (!connection->proved && control_channel_proved(&connection->channel)) {
		connection->proved = true;
		connection->heard_ns = now_ns;
		if (count_idle(daemon) > DAEMON_IDLE_MAX)
			return -EBUSY;
	}
	while (control_channel_frame(&connection->channel, &payload)) {
		connection->heard_ns = now_ns;
		r = answer(daemon, connection, now_ns);
		if (r < 0)
			return r;
		control_channel_take(&connection->channel);
		r = control_channel_move(&connection->channel, connection->fd);
	}
	if (r < 0)
		return r;
	if (!connection->proved)
		return silent_for_ns(connection, now_ns, DAEMON_UNPROVED_NS) > DAEMON_UNPROVED_NS ? -ETIMEDOUT : 1;
	if (connection->group)
		r = tell_group(connection);
	if (!r)
		r = keep_alive(daemon, connection, now_ns);
	if (!r)
		r = control_channel_move(&connection->channel, connection->fd);
	return r < 0 ? r : 1;
}

bool daemon_connection_step(struct daemon *daemon, struct daemon_connection *connection, uint64_t now_ns)
{
	int r = step(daemon, connection, now_ns);
	char text[DAEMON_ADDRESS_TEXT];

	if (r > 0)
		return true;
	if (!connection->proved)
		stranger(daemon, &connection->peer,
			 r == -ETIMEDOUT              ? "it did not prove the secret in time"
			 : connection->channel.why[0] ? connection->channel.why
						      : "it is gone",
			 now_ns);
	else if (connection->group && r != -ESHUTDOWN)
		log_warn("the coordinator of group %s at %s is gone: %s", connection->group->name,
			 daemon_address_text(&connection->peer, text),
			 r == -ETIMEDOUT              ? "no sign of life"
			 : connection->channel.why[0] ? connection->channel.why
						      : strerror(-r));
	daemon_connection_close(daemon, connection);
	return false;
}

void daemon_connection_drain(struct daemon *daemon, struct daemon_connection *connection)
{
	if (!connection->group || say(connection, CONTROL_DRAIN, NULL, 0) < 0 ||
	    control_channel_move(&connection->channel, connection->fd) < 0)
		daemon_connection_close(daemon, connection);
}

bool daemon_connection_waits_for_group(const struct daemon_connection *connection)
{
	return connection->group && connection->group->told == AGGREGATOR_CONNECTING;
}
