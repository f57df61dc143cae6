/* The end that does what the chief says. */
#include "command/fleet/fleet.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { NAP_MS = 50, REDIAL_MS = 200, PINGS = 100, GRACE_MS = 40, COUNTS_MAX = 8 };
#define COUNT_NS   (200 * 1000)
/* Of a round, before rates count: connections find their rates first. */
#define START_PART 0.4

struct flow_count {
	struct fleet_count count;
	uint64_t at_ns;
};

struct member {
	const struct fleet_setup *setup;
	struct diag *diag;
	struct fleet_line line;
	struct fleet_port *port;
	struct fleet_message in, out;
	struct fleet_address peers[FABRIC_HOSTS_MAX];
	uint8_t token[FLEET_TOKEN_BYTES];
	uint64_t limit_Bps;
	uint32_t streams;
	struct flow_count before[FLEET_TASKS_MAX];
	struct fleet_sender *senders[FABRIC_FLOWS_EACH * FLEET_STREAMS_MAX];
	size_t sender_count;
};

static bool stopped(const struct member *member)
{
	return *member->setup->stop || (member->setup->over && atomic_load(member->setup->over));
}

static int nap(const struct member *member, uint64_t until_ns)
{
	for (;;) {
		uint64_t now_ns = clock_now_ns(), left_ns = clock_elapsed_ns(now_ns, until_ns);

		if (stopped(member))
			return -EINTR;
		if (!left_ns)
			return 0;
		poll(NULL, 0, left_ns > NAP_MS * NS_PER_MS ? NAP_MS : (int)(left_ns / NS_PER_MS) + 1);
	}
}

/* ---------------------------------------------------------------------------------------------------------------- dial */

/* One attempt; -EAGAIN: the chief may come yet. */
static int dial_once(struct member *member, uint64_t deadline_ns)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	const struct fleet_place *place = &member->setup->place;
	struct pollfd ready = { .events = POLLOUT };
	socklen_t bytes = sizeof(int);
	char port[8];
	int r, on = 1, error = 0;

	snprintf(port, sizeof(port), "%u", place->port);
	r = getaddrinfo(place->address, port, &hints, &found);
	if (r) {
		diag_set(
			member->diag, 0, 0,
			"rank 0's address \"%.60s\" is not known here (%s): let MASTER_ADDR be an address or name that "
			"every host knows",
			place->address, gai_strerror(r));
		return r == EAI_AGAIN ? -EAGAIN : -EINVAL;
	}
	r = sys_socket(found->ai_family, SOCK_STREAM, 0);
	if (r >= 0) {
		member->line.fd = ready.fd = r;
		setsockopt(r, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		r = sys_connect(r, found->ai_addr, found->ai_addrlen);
	}
	freeaddrinfo(found);
	while (r == -EINPROGRESS && clock_now_ns() < deadline_ns && !stopped(member))
		if (poll(&ready, 1, NAP_MS) > 0)
			r = getsockopt(ready.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0 ? -errno : -error;
	if (r < 0) {
		diag_set(member->diag, 0, 0, "rank 0 does not answer at %.60s port %u: %s", place->address, place->port,
			 r == -EINPROGRESS ? "no sign of it" : strerror(-r));
		sys_close(&member->line.fd);
		return r == -ECONNREFUSED || r == -EINPROGRESS || r == -EHOSTUNREACH || r == -ENETUNREACH ||
				       r == -ETIMEDOUT
			       ? -EAGAIN
			       : r;
	}
	return control_channel_init(&member->line.channel, CONTROL_CLIENT, member->setup->secret, member->setup->name);
}

static int handshake(struct member *member, uint64_t deadline_ns)
{
	while (!control_channel_proved(&member->line.channel)) {
		struct pollfd ready = { member->line.fd, fleet_line_events(&member->line), 0 };
		int r = control_channel_move(&member->line.channel, member->line.fd);

		if (r < 0) {
			diag_set(member->diag, 0, 0, "rank 0 at %.60s port %u: %.120s", member->setup->place.address,
				 member->setup->place.port, member->line.channel.why);
			return r;
		}
		if (stopped(member))
			return -EINTR;
		if (clock_now_ns() > deadline_ns) {
			diag_set(member->diag, 0, 0, "rank 0 does not end the handshake");
			return -ETIMEDOUT;
		}
		ready.events = fleet_line_events(&member->line);
		if (!control_channel_proved(&member->line.channel))
			poll(&ready, 1, NAP_MS);
	}
	return 0;
}

static int dial(struct member *member)
{
	uint64_t deadline_ns = clock_now_ns() + member->setup->timeout_ns;

	for (;;) {
		int r = dial_once(member, deadline_ns);

		if (r == 0)
			return handshake(member, deadline_ns);
		if (r != -EAGAIN || clock_now_ns() > deadline_ns)
			return r == -EAGAIN ? -ETIMEDOUT : r;
		r = nap(member, clock_now_ns() + REDIAL_MS * NS_PER_MS);
		if (r < 0)
			return r;
	}
}

/* ----------------------------------------------------------------------------------------------------------- messages */

static int say(struct member *member)
{
	int r = fleet_line_say(&member->line, &member->out);

	if (r < 0)
		diag_set(member->diag, 0, 0, "rank 0 went away: %s", member->line.channel.why);
	return r;
}

/*
 * Waits for the chief's next word: one in every round, and more while it thinks. It may be waiting for others, for as long
 * as the time-out, before it says END.
 */
static int hear(struct member *member)
{
	uint64_t deadline_ns = clock_now_ns() + 2 * member->setup->timeout_ns;

	for (;;) {
		struct pollfd ready = { member->line.fd, 0, 0 };
		int r = fleet_line_step(&member->line, &member->in);

		if (r > 0)
			return 0;
		if (r < 0) {
			diag_set(member->diag, 0, 0, "rank 0 went away: %s", member->line.channel.why);
			return r;
		}
		if (stopped(member))
			return -EINTR;
		if (clock_now_ns() > deadline_ns) {
			diag_set(member->diag, 0, 0, "rank 0 has been silent for %.0f s",
				 2e-9 * (double)member->setup->timeout_ns);
			return -ETIMEDOUT;
		}
		ready.events = fleet_line_events(&member->line);
		poll(&ready, 1, NAP_MS);
	}
}

static int say_hello(struct member *member)
{
	struct sockaddr_storage own = { 0 }, bound;
	socklen_t bytes = sizeof(own);
	struct fleet_address reached;
	int r = getsockname(member->line.fd, (struct sockaddr *)&own, &bytes) < 0 ? -errno : 0;

	fleet_address_of(&own, &reached);
	fleet_address_widen(member->setup->place.address, &own);
	/* The address by which the chief is reached, and any port: data comes there. */
	if (own.ss_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)&own)->sin6_port = 0;
	else
		((struct sockaddr_in *)(void *)&own)->sin_port = 0;
	if (r == 0)
		r = fleet_port_open(&own, bytes, &member->port, &bound);
	if (r < 0) {
		diag_set(member->diag, 0, 0, "cannot listen for data: %s", strerror(-r));
		return r;
	}
	member->out = (struct fleet_message){ .kind = FLEET_HELLO,
					      .rank = member->setup->place.rank,
					      .boot = member->setup->boot };
	memcpy(member->out.name, member->setup->name, sizeof(member->out.name));
	fleet_address_of(&bound, &member->out.address);
	memcpy(member->out.address.ip, reached.ip, sizeof(reached.ip));
	return say(member);
}

/* -------------------------------------------------------------------------------------------------------------- rounds */

static int start_senders(struct member *member)
{
	size_t sends = 0;

	for (size_t i = 0; i < member->in.task_count; i++)
		sends += member->in.tasks[i].peer != FLEET_IDLE;
	for (size_t i = 0; i < member->in.task_count; i++) {
		const struct fleet_task *task = &member->in.tasks[i];
		struct fleet_sending what = { .knock = { .flow = task->flow, .round = member->in.round },
					      .stop = member->setup->stop };

		if (task->peer == FLEET_IDLE)
			continue;
		if (task->peer >= FABRIC_HOSTS_MAX)
			return -EBADMSG;
		what.to = &member->peers[task->peer];
		what.limit_Bps = member->limit_Bps / (sends * member->streams);
		memcpy(what.knock.token, member->token, sizeof(what.knock.token));
		for (uint32_t k = 0; k < member->streams; k++) {
			int r = member->sender_count < FABRIC_FLOWS_EACH * FLEET_STREAMS_MAX
					? fleet_sender_start(&what, &member->senders[member->sender_count])
					: -EBADMSG;

			if (r < 0)
				return r;
			member->sender_count++;
		}
	}
	return 0;
}

static int end_senders(struct member *member)
{
	int r = 0;

	while (member->sender_count > 0) {
		int one = fleet_sender_end(member->senders[--member->sender_count]);

		r = one < 0 && one != -ECONNRESET && one != -EPIPE ? one : r;
	}
	return r;
}

/*
 * What came of a flow, and when they were counted. On a busy host the thread may lose its core between the two, for as long as
 * a tenth of the round: the count that took least time is the one.
 */
static struct flow_count count_flow(struct member *member, uint16_t flow)
{
	struct flow_count best = { 0 };
	uint64_t least_ns = UINT64_MAX;

	for (unsigned i = 0; i < COUNTS_MAX && least_ns > COUNT_NS; i++) {
		uint64_t before_ns = clock_now_ns();
		struct fleet_count count;
		uint64_t taken_ns;

		fleet_port_count(member->port, member->in.round, flow, &count);
		taken_ns = clock_elapsed_ns(before_ns, clock_now_ns());
		if (taken_ns >= least_ns)
			continue;
		least_ns = taken_ns;
		best = (struct flow_count){ count, before_ns + taken_ns / 2 };
	}
	return best;
}

/* Rates of the middle of the round, as they come in here. */
static int run_round(struct member *member)
{
	uint64_t start_ns = clock_now_ns(), length_ns = member->in.duration_ms * NS_PER_MS;
	int r = start_senders(member), sent;

	if (r == 0)
		r = nap(member, start_ns + (uint64_t)(START_PART * (double)length_ns));
	for (size_t i = 0; i < member->in.task_count && r == 0; i++)
		if (member->in.tasks[i].peer == FLEET_IDLE)
			member->before[i] = count_flow(member, member->in.tasks[i].flow);
	if (r == 0)
		r = nap(member, start_ns + length_ns);
	member->out = (struct fleet_message){ .kind = FLEET_RATES, .round = member->in.round };
	for (size_t i = 0; i < member->in.task_count && r == 0; i++) {
		uint16_t flow = member->in.tasks[i].flow;
		struct flow_count after;
		uint64_t taken, over_ns;

		if (member->in.tasks[i].peer != FLEET_IDLE)
			continue;
		after = count_flow(member, flow);
		taken = fleet_port_moved(&member->before[i].count, &after.count);
		over_ns = clock_elapsed_ns(member->before[i].at_ns, after.at_ns);
		member->out.tasks[member->out.task_count++] = (struct fleet_task){
			flow, FLEET_IDLE, over_ns ? (uint64_t)((double)taken * 1e9 / (double)over_ns) : 0
		};
	}
	/* Others may have begun a little later. */
	if (r == 0)
		r = nap(member, start_ns + length_ns + GRACE_MS * NS_PER_MS);
	sent = end_senders(member);
	return r < 0 ? r : sent;
}

static int run_ping(struct member *member)
{
	struct fleet_sending what = { .knock = { .echo = true, .round = member->in.round },
				      .stop = member->setup->stop };

	if (member->in.peer >= FABRIC_HOSTS_MAX)
		return -EBADMSG;
	what.to = &member->peers[member->in.peer];
	memcpy(what.knock.token, member->token, sizeof(what.knock.token));
	member->out =
		(struct fleet_message){ .kind = FLEET_LATENCIES, .round = member->in.round, .peer = member->in.peer };
	return fleet_ping(&what, PINGS, &member->out.median_ns, &member->out.least_ns);
}

/* What fails here is the chief's to know: it says so to all. */
static int report(struct member *member, int error, const char *what)
{
	if (error == -EINTR)
		return error;
	if (error < 0) {
		member->out = (struct fleet_message){ .kind = FLEET_TROUBLE };
		snprintf(member->out.sentence, sizeof(member->out.sentence), "%s: %s", what, strerror(-error));
	}
	return say(member);
}

/* 1: it is over. */
static int obey(struct member *member)
{
	switch (member->in.kind) {
	case FLEET_WELCOME:
		if (member->in.index == FLEET_IDLE)
			return 1;
		memcpy(member->token, member->in.token, sizeof(member->token));
		member->limit_Bps = member->in.limit_Bps;
		member->streams = member->in.streams && member->in.streams <= FLEET_STREAMS_MAX ? member->in.streams
												: 1;
		fleet_port_admit(member->port, member->token);
		return 0;
	case FLEET_HERE:
		return 0;
	case FLEET_PEERS:
		memcpy(&member->peers[member->in.first], member->in.peers,
		       member->in.peer_count * sizeof(*member->peers));
		return 0;
	case FLEET_ROUND:
		return report(member, run_round(member), "data cannot be sent");
	case FLEET_PING:
		return report(member, run_ping(member), "a host cannot be reached");
	case FLEET_END:
		if (!member->in.sentence[0])
			return 1;
		diag_set(member->diag, 0, 0, "rank 0 ended it: %s", member->in.sentence);
		return -ECANCELED;
	default:
		diag_set(member->diag, 0, 0, "rank 0 breaks the protocol");
		return -EBADMSG;
	}
}

int fleet_member_run(const struct fleet_setup *setup, struct diag *diag)
{
	struct member *member = sys_zalloc(sizeof(*member));
	int r;

	if (!member)
		return -ENOMEM;
	member->setup = setup;
	member->diag = diag;
	member->line.fd = -1;
	member->streams = 1;
	r = dial(member);
	if (r == 0)
		r = say_hello(member);
	while (r == 0) {
		r = hear(member);
		if (r == 0)
			r = obey(member);
	}
	end_senders(member);
	fleet_line_fini(&member->line);
	fleet_port_close(member->port);
	sys_free(member);
	return r > 0 ? 0 : r;
}
