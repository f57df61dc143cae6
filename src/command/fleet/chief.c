/* Rank 0: who is there, what each does next, and what came of it. */
#include "command/fleet/fleet.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { STRANGERS_MAX = 64, NAP_MS = 50, BACKLOG = 1024, SHIFTS_MAX = 6, FAREWELL_MS = 1000, MISSING_MAX = 8 };
#define STRANGER_NS (5 * NS_PER_S)
#define HERE_NS     NS_PER_S

struct guest {
	struct fleet_line line;
	uint64_t since_ns;
	bool here; /* has said HELLO */
	uint32_t rank;
	uint64_t boot;
	char name[FLEET_NAME_BYTES];
	struct fleet_address address;
};

struct chief {
	struct fabric_probe probe; /* first */
	const struct fleet_setup *setup;
	const struct fleet_options *options;
	struct diag *diag;
	int listener;
	struct guest *guests; /* [size + STRANGERS_MAX] */
	size_t guest_count, here_count;
	struct guest **hosts; /* [host_count], by rank */
	size_t host_count;
	bool *awaited; /* [host_count]: of the round at hand */
	struct pollfd *polls;
	struct fleet_message in, out;
	uint8_t token[FLEET_TOKEN_BYTES];
	uint32_t round;
	struct fleet_herald herald; /* while rounds are run; hushed in each */
	pthread_t member;
	bool has_member;
	int member_result; /* once it has ended */
	atomic_bool over, member_ended;
	struct fleet_setup member_setup;
	struct diag member_diag;
	bool loopback;                /* is where rank 0 is said to be */
	struct fleet_address reached; /* this host, as the first one of another came to it */
	bool is_reached;
};

static int stopped(struct chief *chief)
{
	if (!*chief->setup->stop)
		return 0;
	diag_set(chief->diag, 0, 0, "interrupted");
	return -EINTR;
}

static void *run_member(void *arg)
{
	struct chief *chief = arg;

	chief->member_result = fleet_member_run(&chief->member_setup, &chief->member_diag);
	atomic_store(&chief->member_ended, true);
	return NULL;
}

/* This host's own part, which nobody tells to end before all have come. */
static int member_failed(struct chief *chief)
{
	/* An interrupted one is the chief's to notice, too. */
	if (!atomic_load(&chief->member_ended) || chief->member_result == -EINTR)
		return 0;
	diag_set(chief->diag, 0, 0, "%s",
		 chief->member_diag.text[0] ? chief->member_diag.text : strerror(-chief->member_result));
	return chief->member_result;
}

/* ----------------------------------------------------------------------------------------------------------- meeting */

static int listen_here(struct chief *chief)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found = NULL;
	const struct fleet_place *place = &chief->setup->place;
	struct sockaddr_storage address = { 0 };
	char port[8];
	int r, on = 1;

	snprintf(port, sizeof(port), "%u", place->port);
	r = getaddrinfo(place->address, port, &hints, &found);
	if (r) {
		diag_set(chief->diag, 0, 0, "MASTER_ADDR \"%.60s\" is not known: %s", place->address, gai_strerror(r));
		return -EINVAL;
	}
	memcpy(&address, found->ai_addr, found->ai_addrlen);
	chief->loopback = fleet_address_widen(place->address, &address);
	r = sys_socket(found->ai_family, SOCK_STREAM, 0);
	if (r >= 0) {
		chief->listener = r;
		setsockopt(r, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		r = sys_bind(chief->listener, (struct sockaddr *)&address, found->ai_addrlen);
	}
	if (r >= 0)
		r = sys_listen(chief->listener, BACKLOG);
	freeaddrinfo(found);
	if (r < 0)
		diag_set(chief->diag, 0, 0, "rank 0 cannot listen at %.60s port %u: %s%s", place->address, place->port,
			 strerror(-r),
			 r == -EADDRNOTAVAIL ? ": MASTER_ADDR must be an address of this host"
			 : r == -EADDRINUSE  ? ": set MASTER_PORT to a free one"
					     : "");
	return r;
}

static void drop_guest(struct chief *chief, struct guest *guest)
{
	fleet_line_fini(&guest->line);
	*guest = chief->guests[--chief->guest_count];
}

/* -EMFILE, -ENFILE: nobody else can come, and who waits at the door keeps the listener ready. */
static int take_guests(struct chief *chief)
{
	struct pollfd door = { chief->listener, POLLIN, 0 };

	for (;;) {
		size_t room = chief->setup->place.size + STRANGERS_MAX;
		struct sockaddr_storage address;
		socklen_t bytes = sizeof(address);
		struct guest *guest = &chief->guests[chief->guest_count];
		int fd = sys_accept(chief->listener, &address, &bytes), on = 1;

		/* So it is without anybody, too. */
		if ((fd == -EMFILE || fd == -ENFILE) && poll(&door, 1, 0) == 1) {
			diag_set(chief->diag, 0, 0,
				 "no descriptor is left for the next of %u ranks: raise the limit (ulimit -n)",
				 chief->setup->place.size);
			return fd;
		}
		if (fd < 0)
			return 0;
		if (chief->guest_count == room) {
			sys_close(&fd);
			continue;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		*guest = (struct guest){ .line.fd = fd, .since_ns = clock_now_ns() };
		if (control_channel_init(&guest->line.channel, CONTROL_SERVER, chief->setup->secret,
					 chief->setup->name) < 0)
			fleet_line_fini(&guest->line);
		else
			chief->guest_count++;
	}
}

/* Whoever is on this host comes by its loopback address where its name means that; others say which address it has. */
static void note_own_address(struct chief *chief, const struct guest *guest)
{
	struct sockaddr_storage own = { 0 };
	struct fleet_address address;
	socklen_t bytes = sizeof(own);

	if (chief->is_reached || getsockname(guest->line.fd, (struct sockaddr *)&own, &bytes) < 0)
		return;
	fleet_address_of(&own, &address);
	chief->is_reached = !fleet_address_is_loopback(&address);
	chief->reached = address;
}

static struct fleet_address address_of(const struct chief *chief, const struct guest *guest)
{
	struct fleet_address address = guest->address;

	if (chief->is_reached && fleet_address_is_loopback(&address))
		memcpy(address.ip, chief->reached.ip, sizeof(address.ip));
	return address;
}

/* -EPROTO: two say that they are the same. */
static int greet(struct chief *chief, struct guest *guest)
{
	if (chief->in.kind != FLEET_HELLO || chief->in.rank >= chief->setup->place.size)
		return -EBADMSG;
	for (size_t i = 0; i < chief->guest_count; i++)
		if (chief->guests[i].here && chief->guests[i].rank == chief->in.rank) {
			diag_set(chief->diag, 0, 0,
				 "\"%s\" and \"%s\" both say that they are rank %u: is the launcher's environment "
				 "mixed?",
				 chief->guests[i].name, chief->in.name, chief->in.rank);
			return -EPROTO;
		}
	guest->here = true;
	guest->rank = chief->in.rank;
	guest->boot = chief->in.boot;
	guest->address = chief->in.address;
	memcpy(guest->name, chief->in.name, sizeof(guest->name));
	note_own_address(chief, guest);
	chief->here_count++;
	return 0;
}

static int step_guests(struct chief *chief)
{
	for (size_t i = chief->guest_count; i-- > 0;) {
		struct guest *guest = &chief->guests[i];
		int r = fleet_line_step(&guest->line, &chief->in);

		/* One of this run, as it has the secret. */
		if (r == -EPROTO && !guest->here && control_channel_proved(&guest->line.channel))
			diag_set(chief->diag, 0, 0, "\"%s\": %.120s", guest->line.channel.peer_name,
				 guest->line.channel.why);
		if (r > 0 && !guest->here)
			r = greet(chief, guest);
		if (r == -EPROTO && chief->diag->text[0])
			return r;
		if (r < 0 && guest->here) {
			diag_set(chief->diag, 0, 0, "rank %u on \"%s\" went away: %.120s", guest->rank, guest->name,
				 guest->line.channel.why);
			return -EREMOTEIO;
		}
		if (r < 0 || (!guest->here && clock_elapsed_ns(guest->since_ns, clock_now_ns()) > STRANGER_NS))
			drop_guest(chief, guest);
	}
	return 0;
}

static void wait_for_any(struct chief *chief, bool listener)
{
	size_t count = 0;

	for (size_t i = 0; i < chief->guest_count; i++)
		chief->polls[count++] = (struct pollfd){ chief->guests[i].line.fd,
							 fleet_line_events(&chief->guests[i].line), 0 };
	if (listener)
		chief->polls[count++] = (struct pollfd){ chief->listener, POLLIN, 0 };
	poll(chief->polls, count, NAP_MS);
}

static int compare_guests(const void *a, const void *b)
{
	const struct guest *first = a, *second = b;

	return (first->rank > second->rank) - (first->rank < second->rank);
}

static void name_missing(struct chief *chief)
{
	char why[160] = "have they the same MASTER_ADDR and secret, and may they reach it?", list[120] = "";
	size_t missing = 0;

	for (uint32_t rank = 0; rank < chief->setup->place.size; rank++) {
		bool here = false;

		for (size_t i = 0; i < chief->guest_count; i++)
			here |= chief->guests[i].here && chief->guests[i].rank == rank;
		if (!here && missing++ < MISSING_MAX)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%u", list[0] ? ", " : "", rank);
	}
	if (chief->loopback)
		snprintf(why, sizeof(why),
			 "MASTER_ADDR \"%.60s\" is a loopback address on this host: give an address of its network",
			 chief->setup->place.address);
	diag_set(chief->diag, 0, 0, "%zu of %u ranks did not come within %.0f s (%s%s): %s", missing,
		 chief->setup->place.size, 1e-9 * (double)chief->setup->timeout_ns, list,
		 missing > MISSING_MAX ? ", ..." : "", why);
}

static int meet(struct chief *chief)
{
	uint64_t deadline_ns = clock_now_ns() + chief->setup->timeout_ns;

	while (chief->here_count < chief->setup->place.size) {
		int r = stopped(chief);

		if (r == 0)
			r = member_failed(chief);
		if (r == 0)
			r = step_guests(chief);
		if (r < 0)
			return r;
		if (clock_now_ns() > deadline_ns) {
			name_missing(chief);
			return -ETIMEDOUT;
		}
		if (chief->here_count < chief->setup->place.size)
			wait_for_any(chief, true);
		r = take_guests(chief);
		if (r < 0)
			return r;
	}
	for (size_t i = chief->guest_count; i-- > 0;)
		if (!chief->guests[i].here)
			drop_guest(chief, &chief->guests[i]);
	qsort(chief->guests, chief->guest_count, sizeof(*chief->guests), compare_guests);
	return 0;
}

/* ----------------------------------------------------------------------------------------------------------- messages */

static int lost(struct chief *chief, const struct guest *guest)
{
	diag_set(chief->diag, 0, 0, "host \"%s\" (rank %u) went away: %.120s", guest->name, guest->rank,
		 guest->line.channel.why[0] ? guest->line.channel.why : "no reason is known");
	return -EREMOTEIO;
}

static int tell(struct chief *chief, struct guest *guest)
{
	return fleet_line_say(&guest->line, &chief->out) < 0 ? lost(chief, guest) : 0;
}

/* The first rank of each host measures; the others may go. */
static int appoint(struct chief *chief)
{
	for (size_t i = 0; i < chief->guest_count; i++) {
		struct guest *guest = &chief->guests[i];
		bool first = true;
		int r;

		for (size_t j = 0; j < chief->host_count; j++) {
			const struct guest *host = chief->hosts[j];

			if (strcmp(host->name, guest->name) != 0)
				continue;
			first = false;
			if (host->boot == guest->boot || !host->boot || !guest->boot)
				continue;
			diag_set(chief->diag, 0, 0,
				 "two hosts call themselves \"%s\" (ranks %u and %u): give each a name of its own",
				 host->name, host->rank, guest->rank);
			return -EINVAL;
		}
		chief->out = (struct fleet_message){ .kind = FLEET_WELCOME,
						     .index = first ? (uint16_t)chief->host_count : FLEET_IDLE,
						     .streams = chief->options->streams,
						     .limit_Bps = chief->options->limit_Bps };
		memcpy(chief->out.token, chief->token, sizeof(chief->out.token));
		if (first && chief->host_count == FABRIC_HOSTS_MAX) {
			diag_set(chief->diag, 0, 0, "more than %d hosts: measure a part of them", FABRIC_HOSTS_MAX);
			return -E2BIG;
		}
		if (first)
			chief->hosts[chief->host_count++] = guest;
		r = tell(chief, guest);
		if (r < 0 && first)
			return r;
	}
	if (chief->host_count >= 2)
		return 0;
	diag_set(chief->diag, 0, 0, "all %zu ranks are on host \"%s\": start one on each of at least two hosts",
		 chief->guest_count, chief->guests[0].name);
	return -EINVAL;
}

static int introduce(struct chief *chief)
{
	for (size_t first = 0; first < chief->host_count; first += FLEET_PEERS_MAX) {
		chief->out = (struct fleet_message){ .kind = FLEET_PEERS, .first = (uint16_t)first };
		for (size_t i = first; i < chief->host_count && chief->out.peer_count < FLEET_PEERS_MAX; i++)
			chief->out.peers[chief->out.peer_count++] = address_of(chief, chief->hosts[i]);
		for (size_t i = 0; i < chief->host_count; i++) {
			int r = tell(chief, chief->hosts[i]);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* A report of a host that is awaited: 1; of another: 0. */
typedef int (*take_fn)(struct chief *chief, size_t host, void *arg);

static int take_from(struct chief *chief, size_t host, take_fn take, void *arg)
{
	struct guest *guest = chief->hosts[host];
	int r = fleet_line_step(&guest->line, &chief->in);

	if (r <= 0)
		return r < 0 ? lost(chief, guest) : 0;
	if (chief->in.kind == FLEET_TROUBLE) {
		diag_set(chief->diag, 0, 0, "host \"%s\": %.150s", guest->name, chief->in.sentence);
		return -EREMOTEIO;
	}
	if (chief->in.round != chief->round || !chief->awaited[host] || take(chief, host, arg) < 0) {
		diag_set(chief->diag, 0, 0, "host \"%s\" breaks the protocol", guest->name);
		return -EBADMSG;
	}
	chief->awaited[host] = false;
	return 1;
}

static int collect(struct chief *chief, uint64_t length_ns, take_fn take, void *arg)
{
	uint64_t deadline_ns = clock_now_ns() + length_ns + chief->setup->timeout_ns;

	for (;;) {
		size_t waiting = 0, last = 0, count = 0;
		int r = stopped(chief);

		for (size_t i = 0; i < chief->host_count && r >= 0; i++) {
			struct guest *guest = chief->hosts[i];

			/* One that nothing is awaited of may still go away. */
			r = take_from(chief, i, take, arg);
			if (chief->awaited[i]) {
				waiting++;
				last = i;
			}
			chief->polls[count++] = (struct pollfd){ guest->line.fd, fleet_line_events(&guest->line), 0 };
		}
		if (r < 0)
			return r;
		if (!waiting)
			return 0;
		if (clock_now_ns() > deadline_ns) {
			diag_set(chief->diag, 0, 0, "host \"%s\" (rank %u) has not answered for %.0f s",
				 chief->hosts[last]->name, chief->hosts[last]->rank,
				 1e-9 * (double)chief->setup->timeout_ns);
			return -ETIMEDOUT;
		}
		poll(chief->polls, count, NAP_MS);
	}
}

/* -------------------------------------------------------------------------------------------------------------- rounds */

struct round {
	const struct fabric_flow *flows;
	size_t count;
	double *ret_Bps;
};

static int take_rates(struct chief *chief, size_t host, void *arg)
{
	struct round *round = arg;

	if (chief->in.kind != FLEET_RATES)
		return -EBADMSG;
	for (size_t i = 0; i < chief->in.task_count; i++) {
		const struct fleet_task *task = &chief->in.tasks[i];

		if (task->flow >= round->count || round->flows[task->flow].to != host)
			return -EBADMSG;
		round->ret_Bps[task->flow] = (double)task->rate_Bps;
	}
	return 0;
}

static int run_round(struct chief *chief, const struct fabric_flow *flows, size_t count, double *ret_Bps)
{
	struct round round = { flows, count, ret_Bps };
	int r;

	chief->round++;
	memset(ret_Bps, 0, count * sizeof(*ret_Bps));
	chief->out.kind = FLEET_ROUND;
	chief->out.round = chief->round;
	chief->out.duration_ms = chief->options->round_ms;
	for (size_t host = 0; host < chief->host_count; host++) {
		struct fleet_message *out = &chief->out;

		out->task_count = 0;
		for (size_t i = 0; i < count; i++)
			if ((flows[i].from == host || flows[i].to == host) && out->task_count < FLEET_TASKS_MAX)
				out->tasks[out->task_count++] = (struct fleet_task){
					(uint16_t)i, flows[i].from == host ? flows[i].to : FLEET_IDLE, 0
				};
		chief->awaited[host] = out->task_count > 0;
		r = chief->awaited[host] ? tell(chief, chief->hosts[host]) : 0;
		if (r < 0)
			return r;
	}
	/*
	 * Idle hosts too, after those that should begin together: each hears in every round that the chief is there, and
	 * the chief, which awaits an answer without rates, that they are. A host may be idle for longer than the time-out.
	 */
	chief->out.task_count = 0;
	for (size_t host = 0; host < chief->host_count; host++) {
		if (chief->awaited[host])
			continue;
		chief->awaited[host] = true;
		r = tell(chief, chief->hosts[host]);
		if (r < 0)
			return r;
	}
	return collect(chief, chief->options->round_ms * NS_PER_MS, take_rates, &round);
}

static int run(struct fabric_probe *probe, const struct fabric_flow *flows, size_t count, size_t number, size_t of,
	       double *ret_Bps, struct diag *diag)
{
	struct chief *chief = (struct chief *)(void *)probe;
	int r;

	(void)diag; /* the chief's own, as fabric_measure was called */
	if (chief->options->progress)
		chief->options->progress(number, of, chief->options->progress_arg);
	fleet_herald_hush(&chief->herald);
	r = run_round(chief, flows, count, ret_Bps);
	fleet_herald_resume(&chief->herald);
	return r;
}

static const struct fabric_probe_ops ops = { .run = run };

/* In the herald's thread. Who has gone is noticed in the next round. */
static void say_here(void *arg)
{
	struct chief *chief = arg;

	chief->out.kind = FLEET_HERE;
	for (size_t host = 0; host < chief->host_count; host++)
		(void)fleet_line_say(&chief->hosts[host]->line, &chief->out);
}

/* What is made of the rounds of many hosts takes longer than some time-outs. */
static int measure_fabric(struct chief *chief, struct fabric *ret)
{
	uint64_t every_ns = chief->setup->timeout_ns / 4 < HERE_NS ? chief->setup->timeout_ns / 4 : HERE_NS;
	int r = fleet_herald_start(&chief->herald, every_ns, say_here, chief);

	if (r < 0)
		return r;
	r = fabric_measure(&chief->probe, chief->host_count, chief->options->seed, ret, chief->diag);
	fleet_herald_end(&chief->herald);
	return r;
}

static int take_latency(struct chief *chief, size_t host, void *arg)
{
	struct fleet_result *result = arg;

	if (chief->in.kind != FLEET_LATENCIES || chief->in.peer >= chief->host_count)
		return -EBADMSG;
	result->latencies[result->latency_count++] = (struct fleet_latency){ (uint16_t)host, chief->in.peer,
									     chief->in.median_ns, chief->in.least_ns };
	return 0;
}

/* Each host and a few others, one after the other: before anything is full. */
static int measure_latency(struct chief *chief, struct fleet_result *result)
{
	size_t n = chief->host_count, shifts = n - 1 < SHIFTS_MAX ? n - 1 : SHIFTS_MAX;

	result->latencies = sys_zalloc(n * shifts * sizeof(*result->latencies));
	if (!result->latencies)
		return -ENOMEM;
	for (size_t k = 1; k <= shifts; k++) {
		/* Spread over all distances. */
		size_t shift = 1 + (k - 1) * (n - 1) / shifts;
		int r = 0;

		chief->round++;
		for (size_t i = 0; i < n && r == 0; i++) {
			chief->out.kind = FLEET_PING;
			chief->out.round = chief->round;
			chief->out.peer = (uint16_t)((i + shift) % n);
			chief->out.median_ns = chief->out.least_ns = 0;
			chief->awaited[i] = true;
			r = tell(chief, chief->hosts[i]);
		}
		if (r == 0)
			r = collect(chief, 0, take_latency, result);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---------------------------------------------------------------------------------------------------------------- end */

/* Says END to all, and waits a little until it is out. */
static void farewell(struct chief *chief, int error)
{
	uint64_t until_ns = clock_now_ns() + FAREWELL_MS * NS_PER_MS;
	bool pending = true;

	chief->out = (struct fleet_message){ .kind = FLEET_END };
	if (error < 0)
		snprintf(chief->out.sentence, sizeof(chief->out.sentence), "%.220s",
			 chief->diag->text[0] ? chief->diag->text : strerror(-error));
	for (size_t i = 0; i < chief->guest_count; i++)
		if (control_channel_proved(&chief->guests[i].line.channel))
			(void)fleet_line_say(&chief->guests[i].line, &chief->out);
	while (pending && clock_now_ns() < until_ns) {
		pending = false;
		for (size_t i = 0; i < chief->guest_count; i++) {
			const uint8_t *at;

			if (control_channel_move(&chief->guests[i].line.channel, chief->guests[i].line.fd) == 0)
				pending |= control_channel_pending(&chief->guests[i].line.channel, &at) > 0;
		}
		if (pending)
			poll(NULL, 0, 10);
	}
}

static void fini(struct chief *chief)
{
	atomic_store(&chief->over, true);
	if (chief->has_member)
		pthread_join(chief->member, NULL);
	for (size_t i = 0; i < chief->guest_count; i++)
		fleet_line_fini(&chief->guests[i].line);
	sys_close(&chief->listener);
	sys_free(chief->guests);
	sys_free(chief->hosts);
	sys_free(chief->awaited);
	sys_free(chief->polls);
	sys_free(chief);
}

static int name_hosts(const struct chief *chief, struct fleet_result *result)
{
	result->host_count = chief->host_count;
	result->names = sys_zalloc(chief->host_count * sizeof(*result->names));
	if (!result->names)
		return -ENOMEM;
	for (size_t i = 0; i < chief->host_count; i++)
		memcpy(result->names[i], chief->hosts[i]->name, sizeof(*result->names));
	return 0;
}

static int start(struct chief *chief)
{
	size_t size = chief->setup->place.size, room = size + STRANGERS_MAX;
	int r;

	chief->guests = sys_zalloc(room * sizeof(*chief->guests));
	chief->hosts = sys_zalloc(FABRIC_HOSTS_MAX * sizeof(struct guest *));
	chief->awaited = sys_zalloc(FABRIC_HOSTS_MAX * sizeof(*chief->awaited));
	chief->polls = sys_zalloc((room + 1) * sizeof(*chief->polls));
	if (!chief->guests || !chief->hosts || !chief->awaited || !chief->polls)
		return -ENOMEM;
	if (getrandom(chief->token, sizeof(chief->token), 0) != (ssize_t)sizeof(chief->token))
		return -EIO;
	r = listen_here(chief);
	if (r < 0)
		return r;
	chief->member_setup = *chief->setup;
	chief->member_setup.over = &chief->over;
	r = sys_thread_start(run_member, chief, "member", &chief->member);
	chief->has_member = r == 0;
	return r;
}

int fleet_chief_run(const struct fleet_setup *setup, const struct fleet_options *options, struct fleet_result *ret,
		    struct diag *diag)
{
	struct chief *chief = sys_zalloc(sizeof(*chief));
	struct fleet_result result = { 0 };
	uint64_t start_ns;
	int r;

	if (!chief)
		return -ENOMEM;
	chief->probe.ops = &ops;
	chief->setup = setup;
	chief->options = options;
	chief->diag = diag;
	chief->listener = -1;
	r = start(chief);
	if (r == 0)
		r = meet(chief);
	start_ns = clock_now_ns();
	if (r == 0)
		r = appoint(chief);
	if (r == 0)
		r = introduce(chief);
	if (r == 0)
		r = name_hosts(chief, &result);
	if (r == 0)
		r = measure_latency(chief, &result);
	if (r == 0)
		r = measure_fabric(chief, &result.fabric);
	farewell(chief, r);
	fini(chief);
	result.seconds = 1e-9 * (double)clock_elapsed_ns(start_ns, clock_now_ns());
	if (r == 0)
		*ret = result;
	else
		fleet_result_fini(&result);
	return r;
}

void fleet_result_fini(struct fleet_result *result)
{
	fabric_fini(&result->fabric);
	sys_free(result->names);
	sys_free(result->latencies);
	*result = (struct fleet_result){ 0 };
}
