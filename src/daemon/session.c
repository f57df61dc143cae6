/* Control connections: who is let in, and what is answered to whom. */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#define STRANGER_SAY_NS       (60 * NS_PER_S)
#define OUT_OF_DESCRIPTORS_NS (50 * NS_PER_MS)
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

static void free_session(struct daemon_session *session)
{
	sys_close_socket(&session->fd);
	control_channel_fini(&session->channel);
	sys_free(session);
}

void daemon_session_close(struct daemon *daemon, struct daemon_session *session)
{
	for (size_t i = 0; i < daemon->session_count; i++) {
		if (daemon->sessions[i] != session)
			continue;
		daemon->sessions[i] = daemon->sessions[--daemon->session_count];
		break;
	}
	daemon_group_end(daemon, session->group);
	free_session(session);
}

/* ----------------------------------------------------------------------------------------------------------- let in */

static size_t count_from(const struct daemon *daemon, const struct sockaddr_storage *peer)
{
	uint8_t wanted[16], at[16];
	size_t count = 0;

	daemon_address_bytes(peer, wanted);
	for (size_t i = 0; i < daemon->session_count; i++) {
		if (daemon->sessions[i]->proved)
			continue;
		daemon_address_bytes(&daemon->sessions[i]->peer, at);
		count += !memcmp(at, wanted, sizeof(at));
	}
	return count;
}

/* The oldest of those from the address that has the most: a flood from one place pushes out itself alone. */
static struct daemon_session *least_wanted(const struct daemon *daemon)
{
	struct daemon_session *found = NULL;
	size_t most = 0;

	for (size_t i = 0; i < daemon->session_count; i++) {
		struct daemon_session *session = daemon->sessions[i];
		size_t count;

		if (session->proved)
			continue;
		count = count_from(daemon, &session->peer);
		if (count < most || (count == most && found && session->since_ns >= found->since_ns))
			continue;
		most = count;
		found = session;
	}
	return found;
}

static size_t count_unproved(const struct daemon *daemon)
{
	size_t count = 0;

	for (size_t i = 0; i < daemon->session_count; i++)
		count += !daemon->sessions[i]->proved;
	return count;
}

static void make_room(struct daemon *daemon, uint64_t now_ns)
{
	struct daemon_session *session;

	if (count_unproved(daemon) < DAEMON_UNPROVED_MAX)
		return;
	session = least_wanted(daemon);
	stranger(daemon, &session->peer, "it had not proved the secret when others came", now_ns);
	daemon_session_close(daemon, session);
}

static int session_new(struct daemon *daemon, int *fd, const struct sockaddr_storage *peer, uint64_t now_ns)
{
	struct daemon_session *session = sys_zalloc(sizeof(*session));
	unsigned timeout_ms = (unsigned)(daemon->params->timeout_ns / NS_PER_MS);
	int on = 1, r;

	if (!session)
		return -ENOMEM;
	session->fd = -1;
	r = control_channel_init(&session->channel, CONTROL_SERVER, daemon->secret, daemon->name);
	if (r < 0) {
		free_session(session);
		return r;
	}
	setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(*fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
	session->fd = *fd;
	*fd = -1;
	session->peer = *peer;
	session->since_ns = session->heard_ns = session->looked_ns = session->spoke_ns = now_ns;
	daemon->sessions[daemon->session_count++] = session;
	return 0;
}

void daemon_session_accept(struct daemon *daemon, int listener, uint64_t now_ns)
{
	for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
		struct sockaddr_storage peer;
		int fd = sys_accept(listener, &peer, NULL), r;

		if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS)
			daemon->accept_paused_until_ns = now_ns + OUT_OF_DESCRIPTORS_NS;
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
		r = session_new(daemon, &fd, &peer, now_ns);
		sys_close(&fd);
		if (r < 0)
			return;
	}
}

/* ----------------------------------------------------------------------------------------------------------- answer */

static int say(struct daemon_session *session, enum control_type type, const void *payload, size_t bytes)
{
	session->spoke_ns = clock_now_ns();
	return control_channel_send(&session->channel, type, payload, bytes);
}

static int say_sentence(struct daemon_session *session, enum control_type type, const char *sentence)
{
	uint8_t payload[CONTROL_SENTENCE_BYTES];

	return say(session, type, payload, control_put_sentence(sentence, payload));
}

static int answer_request(struct daemon *daemon, struct daemon_session *session, const uint8_t *payload, size_t bytes)
{
	char sentence[CONTROL_SENTENCE_BYTES], text[DAEMON_ADDRESS_TEXT];
	uint8_t answer[CONTROL_OFFER_BYTES];
	struct control_request request;
	struct control_offer offer;
	struct daemon_group *group = NULL;
	int r = control_get_request(payload, bytes, &request);

	if (r < 0)
		return r;
	r = daemon_group_begin(daemon, session, &request, &group, &offer, sentence);
	if (r < 0) {
		log_info(LOG_NET, "group %.39s of %s is refused: %s", request.name,
			 daemon_address_text(&session->peer, text), sentence);
		return say_sentence(session, CONTROL_REFUSAL, sentence);
	}
	session->group = group;
	log_info(LOG_NET, "group %.39s of %s: %u members", group->name, daemon_address_text(&session->peer, text),
		 group->member_count);
	return say(session, CONTROL_OFFER, answer, control_put_offer(&offer, answer));
}

static int answer_go(struct daemon_session *session, const uint8_t *payload, size_t bytes)
{
	struct control_go go;
	int r = control_get_go(payload, bytes, &go);

	if (r < 0)
		return r;
	if (!session->group || session->group->told != AGGREGATE_SERVER_OFFERED)
		return -EPROTO;
	r = aggregate_server_go(session->group->server_group, go.position, go.server_count, go.handles);
	if (!r)
		session->group->told = AGGREGATE_SERVER_CONNECTING;
	return r;
}

static int answer_ask(struct daemon *daemon, struct daemon_session *session, uint64_t now_ns)
{
	struct control_group_state *groups = sys_zalloc(CONTROL_GROUPS_MAX * sizeof(*groups));
	uint8_t *payload = sys_zalloc(CONTROL_PAYLOAD_MAX);
	struct control_state state;
	int r = -ENOMEM;

	if (groups && payload) {
		daemon_state(daemon, now_ns, &state, groups);
		r = say(session, CONTROL_STATE, payload, control_put_state(&state, groups, payload));
	}
	sys_free(groups);
	sys_free(payload);
	return r;
}

static int answer(struct daemon *daemon, struct daemon_session *session, uint64_t now_ns)
{
	const uint8_t *payload;
	const struct control_header *header = control_channel_frame(&session->channel, &payload);

	switch (header->type) {
	case CONTROL_REQUEST:
		return answer_request(daemon, session, payload, header->payload_bytes);
	case CONTROL_GO:
		return answer_go(session, payload, header->payload_bytes);
	case CONTROL_ASK:
		return answer_ask(daemon, session, now_ns);
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

	for (size_t i = 0; i < daemon->session_count; i++)
		count += daemon->sessions[i]->proved && !daemon->sessions[i]->group;
	return count;
}

/* Its coordinator is told once of what has become of the group. */
static int tell_group(struct daemon_session *session)
{
	struct daemon_group *group = session->group;
	struct aggregate_server_look look;
	int r = 0;

	aggregate_server_look(group->server_group, &look);
	if (look.state == group->told)
		return 0;
	if (look.state == AGGREGATE_SERVER_READY)
		r = say(session, CONTROL_READY, NULL, 0);
	else if (look.state == AGGREGATE_SERVER_FAILED)
		r = say_sentence(session, CONTROL_FAILURE, look.sentence);
	group->told = look.state;
	return r;
}

/* Time in which this process was stopped, or the whole machine, is nobody's silence. */
static uint64_t silent_for_ns(struct daemon_session *session, uint64_t now_ns, uint64_t timeout_ns)
{
	session->heard_ns = clock_heard_ns(session->heard_ns, session->looked_ns, now_ns, timeout_ns / 5);
	session->looked_ns = now_ns;
	return clock_elapsed_ns(session->heard_ns, now_ns);
}

static int keep_alive(const struct daemon *daemon, struct daemon_session *session, uint64_t now_ns)
{
	uint64_t timeout_ns = session->group ? session->group->timeout_ns : daemon->params->timeout_ns;

	if (silent_for_ns(session, now_ns, timeout_ns) > timeout_ns)
		return -ETIMEDOUT;
	if (clock_elapsed_ns(session->spoke_ns, now_ns) > control_beat_ns(timeout_ns))
		return say(session, CONTROL_HEARTBEAT, NULL, 0);
	return 0;
}

/* 1: go on; 0: it ended in good order; -errno. */
static int step(struct daemon *daemon, struct daemon_session *session, uint64_t now_ns)
{
	const uint8_t *payload;
	int r = control_channel_move(&session->channel, session->fd);

	if (!session->proved && control_channel_proved(&session->channel)) {
		session->proved = true;
		session->heard_ns = now_ns;
		if (count_idle(daemon) > DAEMON_IDLE_MAX)
			return -EBUSY;
	}
	while (control_channel_frame(&session->channel, &payload)) {
		session->heard_ns = now_ns;
		r = answer(daemon, session, now_ns);
		if (r < 0)
			return r;
		control_channel_take(&session->channel);
		r = control_channel_move(&session->channel, session->fd);
	}
	if (r < 0)
		return r;
	if (!session->proved)
		return silent_for_ns(session, now_ns, DAEMON_UNPROVED_NS) > DAEMON_UNPROVED_NS ? -ETIMEDOUT : 1;
	if (session->group)
		r = tell_group(session);
	if (!r)
		r = keep_alive(daemon, session, now_ns);
	if (!r)
		r = control_channel_move(&session->channel, session->fd);
	return r < 0 ? r : 1;
}

bool daemon_session_step(struct daemon *daemon, struct daemon_session *session, uint64_t now_ns)
{
	int r = step(daemon, session, now_ns);
	char text[DAEMON_ADDRESS_TEXT];

	if (r > 0)
		return true;
	if (!session->proved)
		stranger(daemon, &session->peer,
			 r == -ETIMEDOUT           ? "it did not prove the secret in time"
			 : session->channel.why[0] ? session->channel.why
						   : "it is gone",
			 now_ns);
	else if (session->group && r != -ESHUTDOWN)
		log_warn("the coordinator of group %s at %s is gone: %s", session->group->name,
			 daemon_address_text(&session->peer, text),
			 r == -ETIMEDOUT           ? "no sign of life"
			 : session->channel.why[0] ? session->channel.why
						   : strerror(-r));
	daemon_session_close(daemon, session);
	return false;
}

void daemon_session_drain(struct daemon *daemon, struct daemon_session *session)
{
	if (!session->group || say(session, CONTROL_DRAIN, NULL, 0) < 0 ||
	    control_channel_move(&session->channel, session->fd) < 0)
		daemon_session_close(daemon, session);
}

bool daemon_session_waits_for_group(const struct daemon_session *session)
{
	return session->group && session->group->told == AGGREGATE_SERVER_CONNECTING;
}
