/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0: who is there, what each does next, and what came of it. */
#include "clusterprobe/coordinator_internal.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { SHIFTS_MAX = 6, FAREWELL_MS = 1000, KEEPALIVE_NAP_MS = 20 };
#define HERE_NS NS_PER_S

static void *run_worker(void *arg)
{
	struct coordinator *coordinator = arg;

	coordinator->worker_result = clusterprobe_worker_run(&coordinator->worker_setup, &coordinator->worker_diag);
	atomic_store(&coordinator->worker_ended, true);
	return NULL;
}

/* ----------------------------------------------------------------------------------------------------------- messages */

static int lost(struct coordinator *coordinator, const struct peer *peer)
{
	diag_set(coordinator->diag, 0, 0, "host \"%s\" (rank %u) went away: %.120s", peer->name, peer->rank,
		 peer->control.channel.why[0] ? peer->control.channel.why : "no reason is known");
	return -EREMOTEIO;
}

static int tell(struct coordinator *coordinator, struct peer *peer)
{
	return clusterprobe_control_say(&peer->control, &coordinator->out) < 0 ? lost(coordinator, peer) : 0;
}

/* The first rank of each host measures; the others may go. */
int coordinator_appoint(struct coordinator *coordinator)
{
	for (size_t i = 0; i < coordinator->peer_count; i++) {
		struct peer *peer = &coordinator->peers[i];
		bool first = true;
		int r;

		for (size_t j = 0; j < coordinator->host_count; j++) {
			const struct peer *host = coordinator->hosts[j];

			if (strcmp(host->name, peer->name) != 0)
				continue;
			first = false;
			if (host->boot == peer->boot || !host->boot || !peer->boot)
				continue;
			diag_set(coordinator->diag, 0, 0,
				 "two hosts call themselves \"%s\" (ranks %u and %u): give each a name of its own",
				 host->name, host->rank, peer->rank);
			return -EINVAL;
		}
		coordinator->out = (struct clusterprobe_message){ .kind = CLUSTERPROBE_WELCOME,
								  .index = first ? (uint16_t)coordinator->host_count
										 : CLUSTERPROBE_IDLE,
								  .streams = coordinator->options->streams,
								  .limit_Bps = coordinator->options->limit_Bps };
		memcpy(coordinator->out.token, coordinator->token, sizeof(coordinator->out.token));
		if (first && coordinator->host_count == FABRIC_HOSTS_MAX) {
			diag_set(coordinator->diag, 0, 0, "more than %d hosts: measure a part of them",
				 FABRIC_HOSTS_MAX);
			return -E2BIG;
		}
		if (first)
			coordinator->hosts[coordinator->host_count++] = peer;
		r = tell(coordinator, peer);
		if (r < 0 && first && !coordinator->lost)
			return r;
	}
	if (coordinator->host_count >= 2 || coordinator->lost)
		return 0;
	diag_set(coordinator->diag, 0, 0, "all %zu ranks are on host \"%s\": start one on each of at least two hosts",
		 coordinator->peer_count, coordinator->peers[0].name);
	return -EINVAL;
}

static int introduce(struct coordinator *coordinator)
{
	for (size_t first = 0; first < coordinator->host_count; first += CLUSTERPROBE_PEERS_MAX) {
		coordinator->out = (struct clusterprobe_message){ .kind = CLUSTERPROBE_PEERS,
								  .first = (uint16_t)first };
		for (size_t i = first;
		     i < coordinator->host_count && coordinator->out.peer_count < CLUSTERPROBE_PEERS_MAX; i++)
			coordinator->out.peers[coordinator->out.peer_count++] =
				coordinator_address_of(coordinator, coordinator->hosts[i]);
		for (size_t i = 0; i < coordinator->host_count; i++) {
			int r = tell(coordinator, coordinator->hosts[i]);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* A report of a host that is awaited: 1; of another: 0. */
typedef int (*take_fn)(struct coordinator *coordinator, size_t host, void *arg);

static int take_from(struct coordinator *coordinator, size_t host, take_fn take, void *arg)
{
	struct peer *peer = coordinator->hosts[host];
	int r = clusterprobe_control_step(&peer->control, &coordinator->in);

	if (r <= 0)
		return r < 0 ? lost(coordinator, peer) : 0;
	if (coordinator->in.kind == CLUSTERPROBE_TROUBLE) {
		diag_set(coordinator->diag, 0, 0, "host \"%s\": %.150s", peer->name, coordinator->in.sentence);
		return -EREMOTEIO;
	}
	if (coordinator->in.round != coordinator->round || !coordinator->awaited[host] ||
	    take(coordinator, host, arg) < 0) {
		diag_set(coordinator->diag, 0, 0, "host \"%s\" breaks the protocol", peer->name);
		return -EBADMSG;
	}
	coordinator->awaited[host] = false;
	return 1;
}

static int collect(struct coordinator *coordinator, uint64_t length_ns, take_fn take, void *arg)
{
	uint64_t deadline_ns = clock_now_ns() + length_ns + coordinator->setup->timeout_ns;

	for (;;) {
		size_t waiting = 0, last = 0, count = 0;
		int r = coordinator_stopped(coordinator);

		for (size_t i = 0; i < coordinator->host_count && r >= 0; i++) {
			struct peer *peer = coordinator->hosts[i];

			/* One that nothing is awaited of may still go away. */
			r = take_from(coordinator, i, take, arg);
			if (coordinator->awaited[i]) {
				waiting++;
				last = i;
			}
			coordinator->polls[count++] = (struct pollfd){ peer->control.fd,
								       clusterprobe_control_events(&peer->control), 0 };
		}
		if (r < 0)
			return r;
		if (!waiting)
			return 0;
		if (clock_now_ns() > deadline_ns) {
			diag_set(coordinator->diag, 0, 0, "host \"%s\" (rank %u) has not answered for %.0f s",
				 coordinator->hosts[last]->name, coordinator->hosts[last]->rank,
				 1e-9 * (double)coordinator->setup->timeout_ns);
			return -ETIMEDOUT;
		}
		poll(coordinator->polls, count, COORDINATOR_POLL_MS);
	}
}

/* -------------------------------------------------------------------------------------------------------------- rounds */

struct round {
	const struct fabric_flow *flows;
	size_t count;
	double *ret_Bps;
};

static int take_rates(struct coordinator *coordinator, size_t host, void *arg)
{
	struct round *round = arg;

	if (coordinator->in.kind != CLUSTERPROBE_RATES)
		return -EBADMSG;
	for (size_t i = 0; i < coordinator->in.task_count; i++) {
		const struct clusterprobe_task *task = &coordinator->in.tasks[i];

		if (task->flow >= round->count || round->flows[task->flow].to != host)
			return -EBADMSG;
		round->ret_Bps[task->flow] = (double)task->rate_Bps;
	}
	return 0;
}

static int run_round(struct coordinator *coordinator, const struct fabric_flow *flows, size_t count, double *ret_Bps)
{
	struct round round = { flows, count, ret_Bps };
	int r;

	coordinator->round++;
	memset(ret_Bps, 0, count * sizeof(*ret_Bps));
	coordinator->out.kind = CLUSTERPROBE_ROUND;
	coordinator->out.round = coordinator->round;
	coordinator->out.duration_ms = coordinator->options->round_ms;
	for (size_t host = 0; host < coordinator->host_count; host++) {
		struct clusterprobe_message *out = &coordinator->out;

		out->task_count = 0;
		for (size_t i = 0; i < count; i++)
			if ((flows[i].from == host || flows[i].to == host) && out->task_count < CLUSTERPROBE_TASKS_MAX)
				out->tasks[out->task_count++] = (struct clusterprobe_task){
					(uint16_t)i, flows[i].from == host ? flows[i].to : CLUSTERPROBE_IDLE, 0
				};
		coordinator->awaited[host] = out->task_count > 0;
		r = coordinator->awaited[host] ? tell(coordinator, coordinator->hosts[host]) : 0;
		if (r < 0)
			return r;
	}
	/*
	 * Idle hosts too, after those that should begin together: each hears in every round that the coordinator is there, and
	 * the coordinator, which awaits an answer without rates, that they are. A host may be idle for longer than the time-out.
	 */
	coordinator->out.task_count = 0;
	for (size_t host = 0; host < coordinator->host_count; host++) {
		if (coordinator->awaited[host])
			continue;
		coordinator->awaited[host] = true;
		r = tell(coordinator, coordinator->hosts[host]);
		if (r < 0)
			return r;
	}
	return collect(coordinator, coordinator->options->round_ms * NS_PER_MS, take_rates, &round);
}

static int run(struct fabric_probe *probe, const struct fabric_flow *flows, size_t count, size_t number, size_t of,
	       double *ret_Bps, struct diag *diag)
{
	struct coordinator *coordinator = (struct coordinator *)(void *)probe;
	int r;

	(void)diag; /* the coordinator's own, as fabric_measure was called */
	if (coordinator->options->progress)
		coordinator->options->progress(number, of, coordinator->options->progress_arg);
	pthread_mutex_lock(&coordinator->keepalive.lock);
	r = run_round(coordinator, flows, count, ret_Bps);
	atomic_store(&coordinator->keepalive.last_ns, clock_now_ns());
	pthread_mutex_unlock(&coordinator->keepalive.lock);
	return r;
}

static const struct fabric_probe_ops ops = { .run = run };

/* Who has gone is noticed in the next round. */
static void *say_here(void *arg)
{
	struct coordinator *coordinator = arg;

	while (!atomic_load(&coordinator->keepalive.over)) {
		poll(NULL, 0, KEEPALIVE_NAP_MS);
		if (clock_elapsed_ns(atomic_load(&coordinator->keepalive.last_ns), clock_now_ns()) <
			    coordinator->keepalive.every_ns ||
		    pthread_mutex_trylock(&coordinator->keepalive.lock) != 0)
			continue;
		coordinator->out.kind = CLUSTERPROBE_HERE;
		for (size_t host = 0; host < coordinator->host_count; host++)
			(void)clusterprobe_control_say(&coordinator->hosts[host]->control, &coordinator->out);
		atomic_store(&coordinator->keepalive.last_ns, clock_now_ns());
		pthread_mutex_unlock(&coordinator->keepalive.lock);
	}
	return NULL;
}

/* What is made of the rounds of many hosts takes longer than some time-outs. */
static int measure_fabric(struct coordinator *coordinator, struct fabric *ret)
{
	uint64_t timeout_ns = coordinator->setup->timeout_ns;
	int r;

	coordinator->keepalive.every_ns = timeout_ns / 4 < HERE_NS ? timeout_ns / 4 : HERE_NS;
	atomic_store(&coordinator->keepalive.last_ns, clock_now_ns());
	pthread_mutex_init(&coordinator->keepalive.lock, NULL);
	r = sys_thread_start(say_here, coordinator, "keepalive", &coordinator->keepalive.thread);
	if (r == 0) {
		r = fabric_measure(&coordinator->probe, coordinator->host_count, coordinator->options->seed, ret,
				   coordinator->diag);
		atomic_store(&coordinator->keepalive.over, true);
		pthread_join(coordinator->keepalive.thread, NULL);
	}
	pthread_mutex_destroy(&coordinator->keepalive.lock);
	return r;
}

static int take_latency(struct coordinator *coordinator, size_t host, void *arg)
{
	struct clusterprobe_result *result = arg;

	if (coordinator->in.kind != CLUSTERPROBE_LATENCIES || coordinator->in.peer >= coordinator->host_count)
		return -EBADMSG;
	result->latencies[result->latency_count++] = (struct clusterprobe_latency){
		(uint16_t)host, coordinator->in.peer, coordinator->in.median_ns, coordinator->in.least_ns
	};
	return 0;
}

/* Each host and a few others, one after the other: before anything is full. */
static int measure_latency(struct coordinator *coordinator, struct clusterprobe_result *result)
{
	size_t n = coordinator->host_count, shifts = n - 1 < SHIFTS_MAX ? n - 1 : SHIFTS_MAX;

	result->latencies = sys_zalloc(n * shifts * sizeof(*result->latencies));
	if (!result->latencies)
		return -ENOMEM;
	for (size_t k = 1; k <= shifts; k++) {
		/* Spread over all distances. */
		size_t shift = 1 + (k - 1) * (n - 1) / shifts;
		int r = 0;

		coordinator->round++;
		for (size_t i = 0; i < n && r == 0; i++) {
			coordinator->out.kind = CLUSTERPROBE_PING;
			coordinator->out.round = coordinator->round;
			coordinator->out.peer = (uint16_t)((i + shift) % n);
			coordinator->out.median_ns = coordinator->out.least_ns = 0;
			coordinator->awaited[i] = true;
			r = tell(coordinator, coordinator->hosts[i]);
		}
		if (r == 0)
			r = collect(coordinator, 0, take_latency, result);
		if (r < 0)
			return r;
	}
	return 0;
}

/* By turns, between two hosts that are not slow, in one leaf if there are two. */
static int measure_flows(struct coordinator *coordinator, const struct fabric *fabric, struct clusterprobe_flows *ret)
{
	enum { TURNS = 3 };
	struct clusterprobe_flows found = { .to = 1, .count = FABRIC_FLOWS_EACH };
	struct fabric_flow flows[FABRIC_FLOWS_EACH];
	double rates[FABRIC_FLOWS_EACH];
	bool chosen = false;

	for (size_t i = 0; i < fabric->host_count && !chosen; i++)
		for (size_t k = i + 1; k < fabric->host_count && !chosen; k++) {
			const struct fabric_host *from = &fabric->hosts[i], *to = &fabric->hosts[k];

			chosen = from->leaf == to->leaf && !from->slow && !to->slow;
			if (chosen)
				found.from = (uint16_t)i, found.to = (uint16_t)k;
		}
	for (size_t i = 0; i < FABRIC_FLOWS_EACH; i++)
		flows[i] = (struct fabric_flow){ found.from, found.to };
	for (unsigned turn = 0; turn < 2 * TURNS; turn++) {
		const size_t count = turn % 2 ? FABRIC_FLOWS_EACH : 1;
		double *most_Bps = turn % 2 ? &found.all_Bps : &found.one_Bps, sum_Bps = 0;
		int r = run_round(coordinator, flows, count, rates);

		if (r < 0)
			return r;
		for (size_t i = 0; i < count; i++)
			sum_Bps += rates[i];
		*most_Bps = fmax(*most_Bps, sum_Bps); /* what is less is others' traffic */
	}
	*ret = found;
	return 0;
}

/* ---------------------------------------------------------------------------------------------------------------- end */

/* Says END to all, and waits a little until it is out. */
static void farewell(struct coordinator *coordinator, int error)
{
	uint64_t until_ns = clock_now_ns() + FAREWELL_MS * NS_PER_MS;
	bool pending = true;

	coordinator->out = (struct clusterprobe_message){ .kind = CLUSTERPROBE_END };
	if (error < 0)
		snprintf(coordinator->out.sentence, sizeof(coordinator->out.sentence), "%.220s",
			 coordinator->diag->text[0] ? coordinator->diag->text : strerror(-error));
	for (size_t i = 0; i < coordinator->peer_count; i++)
		if (control_channel_proved(&coordinator->peers[i].control.channel))
			(void)clusterprobe_control_say(&coordinator->peers[i].control, &coordinator->out);
	while (pending && clock_now_ns() < until_ns) {
		pending = false;
		for (size_t i = 0; i < coordinator->peer_count; i++) {
			const uint8_t *at;

			if (control_channel_move(&coordinator->peers[i].control.channel,
						 coordinator->peers[i].control.fd) == 0)
				pending |= control_channel_pending(&coordinator->peers[i].control.channel, &at) > 0;
		}
		if (pending)
			poll(NULL, 0, 10);
	}
}

void coordinator_end(struct coordinator *coordinator, int error)
{
	farewell(coordinator, error);
	atomic_store(&coordinator->over, true);
	if (coordinator->has_worker)
		pthread_join(coordinator->worker, NULL);
	for (size_t i = 0; i < coordinator->peer_count; i++)
		clusterprobe_control_fini(&coordinator->peers[i].control);
	sys_close(&coordinator->listener);
	sys_free(coordinator->arrays);
	sys_free(coordinator);
}

static int name_hosts(const struct coordinator *coordinator, struct clusterprobe_result *result)
{
	result->host_count = coordinator->host_count;
	result->names = sys_zalloc(coordinator->host_count * sizeof(*result->names));
	if (!result->names)
		return -ENOMEM;
	for (size_t i = 0; i < coordinator->host_count; i++)
		memcpy(result->names[i], coordinator->hosts[i]->name, sizeof(*result->names));
	return 0;
}

int coordinator_allocate(struct coordinator *coordinator)
{
	size_t size = coordinator->setup->launch.size, room = size + COORDINATOR_UNAUTHENTICATED_MAX;
	const struct sys_array arrays[] = { SYS_ARRAY(coordinator->peers, room),
					    SYS_ARRAY(coordinator->hosts, FABRIC_HOSTS_MAX),
					    SYS_ARRAY(coordinator->awaited, FABRIC_HOSTS_MAX),
					    SYS_ARRAY(coordinator->polls, room + 1) };

	coordinator->arrays = sys_zalloc_arrays(arrays, sizeof(arrays) / sizeof(arrays[0]));
	return coordinator->arrays ? 0 : -ENOMEM;
}

int coordinator_start(struct coordinator *coordinator)
{
	int r = coordinator_allocate(coordinator);

	if (r < 0)
		return r;
	if (getrandom(coordinator->token, sizeof(coordinator->token), 0) != (ssize_t)sizeof(coordinator->token))
		return -EIO;
	r = coordinator_listen(coordinator);
	if (r < 0)
		return r;
	coordinator->worker_setup = *coordinator->setup;
	coordinator->worker_setup.over = &coordinator->over;
	r = sys_thread_start(run_worker, coordinator, "worker", &coordinator->worker);
	coordinator->has_worker = r == 0;
	return r;
}

int clusterprobe_coordinator_run(const struct clusterprobe_setup *setup, const struct clusterprobe_options *options,
				 struct clusterprobe_result *ret, struct diag *diag)
{
	struct coordinator *coordinator = sys_zalloc(sizeof(*coordinator));
	struct clusterprobe_result result = { 0 };
	uint64_t start_ns;
	int r;

	if (!coordinator)
		return -ENOMEM;
	coordinator->probe.ops = &ops;
	coordinator->setup = setup;
	coordinator->options = options;
	coordinator->diag = diag;
	coordinator->listener = -1;
	r = coordinator_start(coordinator);
	if (r == 0)
		r = coordinator_wait_for_workers(coordinator);
	start_ns = clock_now_ns();
	if (r == 0)
		r = coordinator_appoint(coordinator);
	if (r == 0)
		r = introduce(coordinator);
	if (r == 0)
		r = name_hosts(coordinator, &result);
	if (r == 0)
		r = measure_latency(coordinator, &result);
	if (r == 0)
		r = measure_fabric(coordinator, &result.fabric);
	if (r == 0 && options->streams == 1)
		r = measure_flows(coordinator, &result.fabric, &result.flows);
	coordinator_end(coordinator, r);
	result.seconds = 1e-9 * (double)clock_elapsed_ns(start_ns, clock_now_ns());
	if (r == 0)
		*ret = result;
	else
		clusterprobe_result_fini(&result);
	return r;
}

void clusterprobe_result_fini(struct clusterprobe_result *result)
{
	fabric_fini(&result->fabric);
	sys_free(result->names);
	sys_free(result->latencies);
	*result = (struct clusterprobe_result){ 0 };
}
