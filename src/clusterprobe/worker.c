/* SPDX-License-Identifier: Apache-2.0 */
/* The end that does what the coordinator says. */
#include "clusterprobe/clusterprobe.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { NAP_MS = 50, REDIAL_MS = 200, PINGS = 100, GRACE_MS = 40, COUNTS_MAX = 8 };
#define COUNT_NS (200 * 1000)
#define QUESTION_NS \
	(180 * NS_PER_S) /* from one to the next, while slower hosts answer; before the first others may be missing */
/* Of a round, before rates count: connections find their rates first. */
#define START_PART 0.4

struct flow_count {
	struct clusterprobe_count count;
	uint64_t at_ns;
};

struct worker {
	const struct clusterprobe_setup *setup;
	struct diag *diag;
	struct clusterprobe_control control;
	struct clusterprobe_receiver *port;
	struct clusterprobe_message in, out;
	struct clusterprobe_address peers[FABRIC_HOSTS_MAX];
	uint8_t token[CLUSTERPROBE_TOKEN_BYTES];
	uint64_t limit_Bps;
	uint32_t streams;
	struct flow_count before[CLUSTERPROBE_TASKS_MAX];
	struct clusterprobe_sender *senders[FABRIC_FLOWS_EACH * CLUSTERPROBE_STREAMS_MAX];
	size_t sender_count;
};

static bool stopped(const struct worker *worker)
{
	return *worker->setup->stop || (worker->setup->over && atomic_load(worker->setup->over));
}

static int nap(const struct worker *worker, uint64_t until_ns)
{
	for (;;) {
		uint64_t now_ns = clock_now_ns(), left_ns = clock_elapsed_ns(now_ns, until_ns);

		if (stopped(worker))
			return -EINTR;
		if (!left_ns)
			return 0;
		poll(NULL, 0, left_ns > NAP_MS * NS_PER_MS ? NAP_MS : (int)(left_ns / NS_PER_MS) + 1);
	}
}

/* ---------------------------------------------------------------------------------------------------------------- dial */

/* One attempt; -EAGAIN: the coordinator may come yet. */
static int dial_once(struct worker *worker, uint64_t deadline_ns)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	const struct clusterprobe_launch *launch = &worker->setup->launch;
	struct pollfd ready = { .events = POLLOUT };
	socklen_t bytes = sizeof(int);
	char port[8];
	int r, on = 1, error = 0;

	snprintf(port, sizeof(port), "%u", launch->port);
	r = getaddrinfo(launch->address, port, &hints, &found);
	if (r) {
		diag_set(
			worker->diag, 0, 0,
			"rank 0's address \"%.60s\" is not known here (%s): let MASTER_ADDR be an address or name that "
			"every host knows",
			launch->address, gai_strerror(r));
		return r == EAI_AGAIN ? -EAGAIN : -EINVAL;
	}
	r = sys_socket(found->ai_family, SOCK_STREAM, 0);
	if (r >= 0) {
		worker->control.fd = ready.fd = r;
		setsockopt(r, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		r = sys_connect(r, found->ai_addr, found->ai_addrlen);
	}
	freeaddrinfo(found);
	while (r == -EINPROGRESS && clock_now_ns() < deadline_ns && !stopped(worker))
		if (poll(&ready, 1, NAP_MS) > 0)
			r = getsockopt(ready.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0 ? -errno : -error;
	if (r < 0) {
		diag_set(worker->diag, 0, 0, "rank 0 does not answer at %.60s port %u: %s", launch->address,
			 launch->port, r == -EINPROGRESS ? "no sign of it" : strerror(-r));
		sys_close(&worker->control.fd);
		return r == -ECONNREFUSED || r == -EINPROGRESS || r == -EHOSTUNREACH || r == -ENETUNREACH ||
				       r == -ETIMEDOUT
			       ? -EAGAIN
			       : r;
	}
	return control_channel_init(&worker->control.channel, CONTROL_CLIENT, worker->setup->secret,
				    worker->setup->name);
}

static uint64_t patience_ns(const struct worker *worker)
{
	return worker->setup->timeout_ns + (worker->setup->answer ? QUESTION_NS : worker->setup->timeout_ns);
}

/*
 * Waits for the coordinator's next word (one in every round, and more while it thinks; it may be waiting for others, for as
 * long as the time-out, before it says END), or for the end of the handshake before.
 */
static int hear(struct worker *worker, uint64_t deadline_ns, bool handshake)
{
	struct control_channel *channel = &worker->control.channel;

	while (!handshake || !control_channel_proved(channel)) {
		struct pollfd ready = { worker->control.fd, 0, 0 };
		int r = handshake ? clusterprobe_control_move(&worker->control)
				  : clusterprobe_control_step(&worker->control, &worker->in);

		if (r > 0 || (handshake && control_channel_proved(channel)))
			return 0;
		if (r < 0 && handshake)
			diag_set(worker->diag, 0, 0, "rank 0 at %.60s port %u: %.120s", worker->setup->launch.address,
				 worker->setup->launch.port, channel->why);
		else if (r < 0)
			diag_set(worker->diag, 0, 0, "rank 0 went away: %s", channel->why);
		if (r < 0)
			return r;
		if (stopped(worker))
			return -EINTR;
		if (clock_now_ns() > deadline_ns) {
			if (handshake)
				diag_set(worker->diag, 0, 0, "rank 0 does not end the handshake");
			else
				diag_set(worker->diag, 0, 0, "rank 0 has been silent for %.0f s",
					 1e-9 * (double)patience_ns(worker));
			return -ETIMEDOUT;
		}
		ready.events = clusterprobe_control_events(&worker->control);
		poll(&ready, 1, NAP_MS);
	}
	return 0;
}

static int dial(struct worker *worker)
{
	uint64_t deadline_ns = clock_now_ns() + worker->setup->timeout_ns;

	worker->control.pipe = worker->setup->pipe;
	if (worker->control.pipe) {
		int r;

		worker->control.fd = worker->control.pipe->in;
		r = control_channel_init(&worker->control.channel, CONTROL_CLIENT, worker->setup->secret,
					 worker->setup->name);
		return r < 0 ? r : hear(worker, deadline_ns, true);
	}
	for (;;) {
		int r = dial_once(worker, deadline_ns);

		if (r == 0)
			return hear(worker, deadline_ns, true);
		if (r != -EAGAIN || clock_now_ns() > deadline_ns)
			return r == -EAGAIN ? -ETIMEDOUT : r;
		r = nap(worker, clock_now_ns() + REDIAL_MS * NS_PER_MS);
		if (r < 0)
			return r;
	}
}

/* ----------------------------------------------------------------------------------------------------------- messages */

static int say(struct worker *worker)
{
	int r = clusterprobe_control_say(&worker->control, &worker->out);

	if (r < 0)
		diag_set(worker->diag, 0, 0, "rank 0 went away: %s", worker->control.channel.why);
	return r;
}

/* Where the others send data. */
static int open_receiver(struct worker *worker, struct clusterprobe_address *ret)
{
	struct sockaddr_storage own = { 0 }, bound;
	socklen_t bytes = sizeof(own);
	struct clusterprobe_address reached;
	int r = getsockname(worker->control.fd, (struct sockaddr *)&own, &bytes) < 0 ? -errno : 0;

	clusterprobe_address_of(&own, &reached);
	clusterprobe_address_widen(worker->setup->launch.address, &own);
	/* The address by which the coordinator is reached, and any port: data comes there. */
	if (own.ss_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)&own)->sin6_port = 0;
	else
		((struct sockaddr_in *)(void *)&own)->sin_port = 0;
	if (r == 0)
		r = clusterprobe_receiver_open(&own, bytes, &worker->port, &bound);
	if (r < 0) {
		diag_set(worker->diag, 0, 0, "cannot listen for data: %s", strerror(-r));
		return r;
	}
	clusterprobe_address_of(&bound, ret);
	memcpy(ret->ip, reached.ip, sizeof(reached.ip));
	return 0;
}

static int say_hello(struct worker *worker)
{
	struct clusterprobe_address address = { 0 };
	int r = worker->setup->answer ? 0 : open_receiver(worker, &address);

	if (r < 0)
		return r;
	worker->out = (struct clusterprobe_message){ .kind = CLUSTERPROBE_HELLO,
						     .rank = worker->setup->launch.rank,
						     .boot = worker->setup->boot,
						     .address = address };
	memcpy(worker->out.name, worker->setup->name, sizeof(worker->out.name));
	return say(worker);
}

/* -------------------------------------------------------------------------------------------------------------- rounds */

static int start_senders(struct worker *worker)
{
	size_t sends = 0;

	for (size_t i = 0; i < worker->in.task_count; i++)
		sends += worker->in.tasks[i].peer != CLUSTERPROBE_IDLE;
	for (size_t i = 0; i < worker->in.task_count; i++) {
		const struct clusterprobe_task *task = &worker->in.tasks[i];
		struct clusterprobe_sending what = { .preamble = { .flow = task->flow, .round = worker->in.round },
						     .stop = worker->setup->stop };

		if (task->peer == CLUSTERPROBE_IDLE)
			continue;
		if (task->peer >= FABRIC_HOSTS_MAX)
			return -EBADMSG;
		what.to = worker->peers[task->peer];
		what.limit_Bps = worker->limit_Bps / (sends * worker->streams);
		memcpy(what.preamble.token, worker->token, sizeof(what.preamble.token));
		for (uint32_t k = 0; k < worker->streams; k++) {
			int r = worker->sender_count < FABRIC_FLOWS_EACH * CLUSTERPROBE_STREAMS_MAX
					? clusterprobe_sender_start(&what, &worker->senders[worker->sender_count])
					: -EBADMSG;

			if (r < 0)
				return r;
			worker->sender_count++;
		}
	}
	return 0;
}

static int end_senders(struct worker *worker)
{
	int r = 0;

	while (worker->sender_count > 0) {
		int one = clusterprobe_sender_end(worker->senders[--worker->sender_count]);

		r = one < 0 && one != -ECONNRESET && one != -EPIPE ? one : r;
	}
	return r;
}

/*
 * What came of a flow, and when they were counted. On a busy host the thread may lose its core between the two, for as long as
 * a tenth of the round: the count that took least time is the one.
 */
static struct flow_count count_flow(struct worker *worker, uint16_t flow)
{
	struct flow_count best = { 0 };
	uint64_t least_ns = UINT64_MAX;

	for (unsigned i = 0; i < COUNTS_MAX && least_ns > COUNT_NS; i++) {
		uint64_t before_ns = clock_now_ns();
		struct clusterprobe_count count;
		uint64_t taken_ns;

		clusterprobe_receiver_count(worker->port, worker->in.round, flow, &count);
		taken_ns = clock_elapsed_ns(before_ns, clock_now_ns());
		if (taken_ns >= least_ns)
			continue;
		least_ns = taken_ns;
		best = (struct flow_count){ count, before_ns + taken_ns / 2 };
	}
	return best;
}

/* Rates of the middle of the round, as they come in here. */
static int run_round(struct worker *worker)
{
	uint64_t start_ns = clock_now_ns(), length_ns = worker->in.duration_ms * NS_PER_MS;
	int r = start_senders(worker), sent;

	if (r == 0)
		r = nap(worker, start_ns + (uint64_t)(START_PART * (double)length_ns));
	for (size_t i = 0; i < worker->in.task_count && r == 0; i++)
		if (worker->in.tasks[i].peer == CLUSTERPROBE_IDLE)
			worker->before[i] = count_flow(worker, worker->in.tasks[i].flow);
	if (r == 0)
		r = nap(worker, start_ns + length_ns);
	worker->out = (struct clusterprobe_message){ .kind = CLUSTERPROBE_RATES, .round = worker->in.round };
	for (size_t i = 0; i < worker->in.task_count && r == 0; i++) {
		uint16_t flow = worker->in.tasks[i].flow;
		struct flow_count after;
		uint64_t taken, over_ns;

		if (worker->in.tasks[i].peer != CLUSTERPROBE_IDLE)
			continue;
		after = count_flow(worker, flow);
		taken = clusterprobe_receiver_moved(&worker->before[i].count, &after.count);
		over_ns = clock_elapsed_ns(worker->before[i].at_ns, after.at_ns);
		worker->out.tasks[worker->out.task_count++] = (struct clusterprobe_task){
			flow, CLUSTERPROBE_IDLE, over_ns ? (uint64_t)((double)taken * 1e9 / (double)over_ns) : 0
		};
	}
	/* Others may have begun a little later. */
	if (r == 0)
		r = nap(worker, start_ns + length_ns + GRACE_MS * NS_PER_MS);
	sent = end_senders(worker);
	return r < 0 ? r : sent;
}

static int run_ping(struct worker *worker)
{
	struct clusterprobe_sending what = { .preamble = { .echo = true, .round = worker->in.round },
					     .stop = worker->setup->stop };

	if (worker->in.peer >= FABRIC_HOSTS_MAX)
		return -EBADMSG;
	what.to = worker->peers[worker->in.peer];
	memcpy(what.preamble.token, worker->token, sizeof(what.preamble.token));
	worker->out = (struct clusterprobe_message){ .kind = CLUSTERPROBE_LATENCIES,
						     .round = worker->in.round,
						     .peer = worker->in.peer };
	return clusterprobe_ping(&what, PINGS, &worker->out.median_ns, &worker->out.least_ns);
}

static int answer(struct worker *worker)
{
	int bytes;

	worker->out = (struct clusterprobe_message){ .kind = CLUSTERPROBE_ANSWER, .round = worker->in.round };
	bytes = worker->setup->answer(worker->setup->answer_arg, worker->in.text, worker->out.text);
	worker->out.text_bytes = bytes < 0 ? 0 : (uint16_t)bytes;
	return bytes < 0 ? bytes : 0;
}

/* What fails here is the coordinator's to know: it says so to all. */
static int report(struct worker *worker, int error, const char *what)
{
	if (error == -EINTR)
		return error;
	if (error < 0) {
		worker->out = (struct clusterprobe_message){ .kind = CLUSTERPROBE_TROUBLE };
		snprintf(worker->out.sentence, sizeof(worker->out.sentence), "%s: %s", what, strerror(-error));
	}
	return say(worker);
}

/* 1: it is over. */
static int obey(struct worker *worker)
{
	enum clusterprobe_kind kind = worker->in.kind;
	bool measures = kind == CLUSTERPROBE_PEERS || kind == CLUSTERPROBE_ROUND || kind == CLUSTERPROBE_PING;

	if (worker->setup->answer ? measures : kind == CLUSTERPROBE_ASK)
		kind = CLUSTERPROBE_NONE; /* of the other command */
	switch (kind) {
	case CLUSTERPROBE_WELCOME:
		if (worker->in.index == CLUSTERPROBE_IDLE)
			return 1;
		memcpy(worker->token, worker->in.token, sizeof(worker->token));
		worker->limit_Bps = worker->in.limit_Bps;
		worker->streams = worker->in.streams && worker->in.streams <= CLUSTERPROBE_STREAMS_MAX
					  ? worker->in.streams
					  : 1;
		if (worker->port)
			clusterprobe_receiver_admit(worker->port, worker->token);
		return 0;
	case CLUSTERPROBE_HERE:
		return 0;
	case CLUSTERPROBE_PEERS:
		memcpy(&worker->peers[worker->in.first], worker->in.peers,
		       worker->in.peer_count * sizeof(*worker->peers));
		return 0;
	case CLUSTERPROBE_ROUND:
		return report(worker, run_round(worker), "data cannot be sent");
	case CLUSTERPROBE_PING:
		return report(worker, run_ping(worker), "a host cannot be reached");
	case CLUSTERPROBE_ASK:
		return report(worker, answer(worker), "a question cannot be answered");
	case CLUSTERPROBE_END:
		if (!worker->in.sentence[0])
			return 1;
		diag_set(worker->diag, 0, 0, "rank 0 ended it: %s", worker->in.sentence);
		return -ECANCELED;
	default:
		diag_set(worker->diag, 0, 0, "rank 0 breaks the protocol");
		return -EBADMSG;
	}
}

int clusterprobe_worker_run(const struct clusterprobe_setup *setup, struct diag *diag)
{
	struct worker *worker = sys_zalloc(sizeof(*worker));
	int r;

	if (!worker)
		return -ENOMEM;
	worker->setup = setup;
	worker->diag = diag;
	worker->control.fd = -1;
	worker->streams = 1;
	r = dial(worker);
	if (r == 0)
		r = say_hello(worker);
	while (r == 0) {
		r = hear(worker, clock_now_ns() + patience_ns(worker), false);
		if (r == 0)
			r = obey(worker);
	}
	end_senders(worker);
	clusterprobe_control_fini(&worker->control);
	clusterprobe_receiver_close(worker->port);
	sys_free(worker);
	return r > 0 ? 0 : r;
}
