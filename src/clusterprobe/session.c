/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator of `tributary check`: who is there, and what each says to a question. One that fails leaves the others alone. */
#include "clusterprobe/coordinator_internal.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

struct clusterprobe_session {
	struct coordinator *coordinator;
	struct clusterprobe_member *members;
	struct peer **peers; /* [member_count]; NULL: it is lost */
	void *arrays;
	size_t member_count;
	bool with_shells;  /* members are the caller's */
	char refused[160]; /* the last who had another secret: one of those who are missing, perhaps */
};

static const struct clusterprobe_options no_options = { .streams = 1 };

static void fail_member(struct clusterprobe_member *member, const char *why)
{
	if (!member->why[0])
		snprintf(member->why, sizeof(member->why), "%.220s", why[0] ? why : "no reason is known");
}

/* Of a peer that is lost before all have come. */
static void note_lost(struct coordinator *coordinator, const struct peer *peer)
{
	struct clusterprobe_session *session = coordinator->lost_arg;

	if (peer->placed)
		fail_member(&session->members[peer->rank], peer->control.channel.why);
	else if (peer->control.channel.why[0] && peer->control.channel.peer_name[0])
		snprintf(session->refused, sizeof(session->refused), "; \"%.40s\" was refused: %.80s",
			 peer->control.channel.peer_name, peer->control.channel.why);
}

static int allocate(struct clusterprobe_session *session, size_t count)
{
	/* Of those who did not come some are not named then. */
	size_t most = count < FABRIC_HOSTS_MAX ? count : FABRIC_HOSTS_MAX;
	const struct sys_array both[] = { SYS_ARRAY(session->peers, most), SYS_ARRAY(session->members, most) };

	session->arrays = sys_zalloc_arrays(both, session->with_shells ? 1 : 2);
	session->member_count = session->arrays ? most : 0;
	return session->arrays ? 0 : -ENOMEM;
}

/* ---------------------------------------------------------------------------------------------------------------- join */

static int add_shells(struct clusterprobe_session *session)
{
	struct coordinator *coordinator = session->coordinator;
	int r = coordinator_allocate(coordinator);

	for (size_t i = 0; i < session->member_count && r == 0; i++) {
		int fd = session->members[i].fd;

		if (fd < 0)
			continue;
		session->members[i].fd = -1;
		r = coordinator_add_peer(coordinator, fd);
		if (r < 0)
			break;
		coordinator->peers[coordinator->peer_count - 1].placed = true;
		coordinator->peers[coordinator->peer_count - 1].rank = (uint32_t)i;
	}
	return r;
}

/* Those who came, the first rank of each host; then the ranks that did not. */
static int list_ranks(struct clusterprobe_session *session)
{
	struct coordinator *coordinator = session->coordinator;
	size_t host_count = coordinator->host_count;
	int r = allocate(session, host_count + coordinator->setup->launch.size - coordinator->peer_count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < host_count; i++) {
		session->peers[i] = coordinator->hosts[i];
		memcpy(session->members[i].name, coordinator->hosts[i]->name, sizeof(session->members[i].name));
	}
	for (uint32_t rank = 0; rank < coordinator->setup->launch.size && host_count < session->member_count; rank++) {
		char why[CONTROL_SENTENCE_BYTES];

		if (coordinator_has_rank(coordinator, rank))
			continue;
		snprintf(session->members[host_count].name, sizeof(session->members[host_count].name), "rank-%u", rank);
		log_sentence(why, sizeof(why), "it did not come within %.0f s to %.60s port %u%s",
			     1e-9 * (double)coordinator->setup->timeout_ns, coordinator->setup->launch.address,
			     coordinator->setup->launch.port, session->refused);
		fail_member(&session->members[host_count++], why);
	}
	return 0;
}

/* Each shell is a host, whatever it calls itself. */
static void list_shells(struct clusterprobe_session *session)
{
	struct coordinator *coordinator = session->coordinator;

	for (size_t i = 0; i < coordinator->peer_count; i++)
		session->peers[coordinator->peers[i].rank] = &coordinator->peers[i];
	for (size_t i = 0; i < session->member_count; i++)
		if (!session->peers[i])
			fail_member(&session->members[i], "it says nothing");
}

int clusterprobe_session_open(const struct clusterprobe_setup *setup, struct clusterprobe_member *shells,
			      size_t shell_count, struct clusterprobe_session **ret, struct diag *diag)
{
	struct clusterprobe_session *session = sys_zalloc(sizeof(*session));
	struct coordinator *coordinator = sys_zalloc(sizeof(*coordinator));
	int r;

	if (!session || !coordinator) {
		sys_free(session);
		sys_free(coordinator);
		return -ENOMEM;
	}
	session->coordinator = coordinator;
	session->with_shells = shells != NULL;
	session->members = shells;
	coordinator->setup = setup;
	coordinator->options = &no_options;
	coordinator->diag = diag;
	coordinator->listener = -1;
	coordinator->lost = note_lost;
	coordinator->lost_arg = session;
	r = shells ? allocate(session, shell_count) : 0;
	if (r == 0)
		r = shells ? add_shells(session) : coordinator_start(coordinator);
	if (r == 0)
		r = coordinator_wait_for_workers(coordinator);
	if (r == 0 && shells)
		list_shells(session);
	else if (r == 0)
		r = coordinator_appoint(coordinator);
	if (r == 0 && !shells)
		r = list_ranks(session);
	if (r == 0)
		*ret = session;
	else
		clusterprobe_session_close(session);
	return r;
}

/* ----------------------------------------------------------------------------------------------------------- questions */

struct clusterprobe_member *clusterprobe_session_members(struct clusterprobe_session *session, size_t *ret_count)
{
	*ret_count = session->member_count;
	return session->members;
}

static void lose(struct clusterprobe_session *session, size_t i, const char *why)
{
	struct peer *peer = session->peers[i];

	fail_member(&session->members[i], why);
	clusterprobe_control_fini(&peer->control);
	peer->control = (struct clusterprobe_control){ .fd = -1 };
	session->peers[i] = NULL;
	session->coordinator->awaited[i] = false;
}

static void put_question(struct clusterprobe_session *session, size_t i)
{
	struct coordinator *coordinator = session->coordinator;
	struct clusterprobe_member *member = &session->members[i];
	size_t bytes = member->question ? strlen(member->question) : 0;

	sys_free(member->answer);
	member->answer = NULL;
	coordinator->awaited[i] = false;
	if (!session->peers[i] || !member->question)
		return;
	if (bytes > CLUSTERPROBE_TEXT_BYTES) {
		lose(session, i, "the question is too long");
		return;
	}
	coordinator->out.kind = CLUSTERPROBE_ASK;
	coordinator->out.round = coordinator->round;
	coordinator->out.text_bytes = (uint16_t)bytes;
	memcpy(coordinator->out.text, member->question, bytes);
	coordinator->awaited[i] = true;
	member->sent_ns = clock_now_ns();
	if (clusterprobe_control_say(&session->peers[i]->control, &coordinator->out) < 0)
		lose(session, i, session->peers[i]->control.channel.why);
}

static void take_answer(struct clusterprobe_session *session, size_t i)
{
	struct coordinator *coordinator = session->coordinator;
	const struct clusterprobe_message *in = &coordinator->in;
	struct clusterprobe_member *member = &session->members[i];
	int r = clusterprobe_control_step(&session->peers[i]->control, &coordinator->in);

	if (r < 0)
		lose(session, i, session->peers[i]->control.channel.why);
	else if (r > 0 && in->kind == CLUSTERPROBE_TROUBLE)
		lose(session, i, in->sentence);
	else if (r > 0 &&
		 (in->kind != CLUSTERPROBE_ANSWER || in->round != coordinator->round || !coordinator->awaited[i]))
		lose(session, i, "it breaks the protocol");
	else if (r > 0 && !(member->answer = sys_zalloc(in->text_bytes + 1U)))
		lose(session, i, "no memory for what it says");
	if (r <= 0 || !session->peers[i])
		return;
	memcpy(member->answer, in->text, in->text_bytes);
	member->came_ns = clock_now_ns();
	coordinator->awaited[i] = false;
}

int clusterprobe_session_ask(struct clusterprobe_session *session, uint64_t timeout_ns)
{
	struct coordinator *coordinator = session->coordinator;
	uint64_t deadline_ns = clock_now_ns() + timeout_ns;
	size_t waiting = 1;

	coordinator->round++;
	for (size_t i = 0; i < session->member_count; i++)
		put_question(session, i);
	while (waiting) {
		nfds_t count = 0;
		int r = coordinator_stopped(coordinator);

		if (r < 0)
			return r;
		waiting = 0;
		for (size_t i = 0; i < session->member_count; i++) {
			if (session->peers[i])
				take_answer(session, i);
			if (!coordinator->awaited[i] || !session->peers[i])
				continue;
			waiting++;
			if (clock_now_ns() > deadline_ns)
				lose(session, i, "it stopped answering");
			else
				coordinator->polls[count++] =
					(struct pollfd){ session->peers[i]->control.fd,
							 clusterprobe_control_events(&session->peers[i]->control), 0 };
		}
		if (count)
			poll(coordinator->polls, count, COORDINATOR_POLL_MS);
	}
	return 0;
}

void clusterprobe_session_close(struct clusterprobe_session *session)
{
	if (!session)
		return;
	coordinator_end(session->coordinator, 0);
	for (size_t i = 0; i < session->member_count; i++) {
		sys_free(session->members[i].answer);
		session->members[i].answer = NULL;
	}
	sys_free(session->arrays);
	sys_free(session);
}
