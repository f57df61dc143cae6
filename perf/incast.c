/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incast: every sending rank sends one message to its receiver at the same moment, round after round. Ranks 0 to
 * receivers - 1 receive (they are processes of one host), the others send; sender s goes to receiver s mod receivers.
 * A round starts with a byte from rank 0 over plain TCP and ends when every receiver has everything.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "common/args.h"
#include "common/clock.h"
#include "common/lane.h"
#include "common/oob.h"
#include "common/output.h"
#include "common/pattern.h"
#include "common/stats.h"
#include "common/tcploop.h"

enum { CHUNK_ROUNDS = 50, MAX_LANES = ENDPOINT_MAX_LINKS, PLUGIN = 0, FLOOR = 1, KINDS = 2 };

struct settings {
	const char *plugin, *devices, *json;
	int version, device, receivers, rounds, warmup, nap_us, spawn;
	size_t bytes;
	double line_bps, timeout_s;
	bool floor, spin;
};

struct incast {
	struct settings set;
	struct oob *oob;
	struct endpoint endpoint;
	bool used[KINDS];
	struct lane lanes[KINDS][MAX_LANES];
	int peers[MAX_LANES]; /* the rank at the other end */
	int lane_count, senders;
	char *memory;
	size_t memory_bytes;
	uint64_t round[KINDS], wrong;
	double *round_s[KINDS];
	struct output output;
};

static bool receives(const struct incast *s)
{
	return s->oob->rank < s->set.receivers;
}

static uint64_t seed(int sender, uint64_t round)
{
	return (uint64_t)sender << 40 | round;
}

static struct poller new_poller(const struct incast *s)
{
	struct poller poller;

	poller_init(&poller, (uint64_t)s->set.nap_us * 1000, s->set.spin, (uint64_t)(s->set.timeout_s * 1e9));
	return poller;
}

/* ---- a round ---- */

/* One step of every lane. Returns 1 when something moved. */
static int step_all(struct incast *s, int kind)
{
	int i, r, moved = 0;

	for (i = 0; i < s->lane_count; i++) {
		r = lane_step(&s->lanes[kind][i]);
		if (r < 0)
			return r;
		moved |= r;
	}
	return moved;
}

static bool all_done(const struct incast *s, int kind)
{
	int i;

	for (i = 0; i < s->lane_count; i++)
		if (!s->lanes[kind][i].done)
			return false;
	return true;
}

static bool all_posted(const struct incast *s, int kind)
{
	int i;

	for (i = 0; i < s->lane_count; i++)
		if (!lane_posted(&s->lanes[kind][i]))
			return false;
	return true;
}

/* Rank 0: how many of the other receivers said so by now; each sends one byte. */
static int heard(struct incast *s, bool *said)
{
	int i, count = 0;
	char byte;

	for (i = 1; i < s->set.receivers; i++) {
		if (!said[i]) {
			ssize_t n = recv(s->oob->fds[i], &byte, 1, MSG_DONTWAIT);

			if (n == 0)
				return -ECONNRESET;
			if (n < 0 && errno != EAGAIN && errno != EINTR)
				return -errno;
			said[i] = n == 1;
		}
		count += said[i];
	}
	return count;
}

static int wait_lanes(struct incast *s, int kind, bool (*until)(const struct incast *, int))
{
	struct poller poller = new_poller(s);
	int r;

	while (!until(s, kind)) {
		r = step_all(s, kind);
		if (r < 0)
			return r;
		if (r > 0)
			poller_moved(&poller);
		else if (!poller_idle(&poller))
			return -ETIMEDOUT;
	}
	return 0;
}

/* Rank 0's part between the start and the end of a round. */
static int conduct(struct incast *s, int kind, double *ret_seconds)
{
	bool said[MAX_LANES] = { false };
	struct poller poller = new_poller(s);
	uint64_t start_ns = perf_now_ns();
	int i, r, count = 0;
	char go = 'g';

	for (i = s->set.receivers; i < s->oob->size; i++) {
		r = oob_send(s->oob, i, &go, 1);
		if (r < 0)
			return r;
	}
	while (!all_done(s, kind) || count < s->set.receivers - 1) {
		r = step_all(s, kind);
		if (r >= 0)
			count = heard(s, said);
		if (r < 0 || count < 0)
			return r < 0 ? r : count;
		if (r > 0)
			poller_moved(&poller);
		else if (!poller_idle(&poller))
			return -ETIMEDOUT;
	}
	*ret_seconds = (double)(perf_now_ns() - start_ns) * 1e-9;
	return 0;
}

static int check(struct incast *s, int kind)
{
	int i;

	for (i = 0; i < s->lane_count; i++) {
		struct lane *lane = &s->lanes[kind][i];
		int64_t at = pattern_check(lane->data, lane->bytes, seed(s->peers[i], s->round[kind]));

		if (at < 0)
			continue;
		s->wrong++;
		fprintf(stderr, "round %llu, from rank %d: wrong from byte %lld on\n",
			(unsigned long long)s->round[kind], s->peers[i], (long long)at);
	}
	return 0;
}

static int receive_round(struct incast *s, int kind, double *ret_seconds)
{
	bool first = s->oob->rank == 0;
	char byte = 'r';
	int i, r;

	for (i = 0; i < s->lane_count; i++)
		lane_begin(&s->lanes[kind][i], s->memory + (size_t)i * s->set.bytes, s->set.bytes);
	r = wait_lanes(s, kind, all_posted);
	for (i = 1; first && r == 0 && i < s->set.receivers; i++)
		r = oob_receive(s->oob, i, &byte, 1); /* that one is ready, too */
	if (!first && r == 0)
		r = oob_send(s->oob, 0, &byte, 1);
	if (r < 0)
		return r;
	if (first) {
		r = conduct(s, kind, ret_seconds);
	} else {
		r = wait_lanes(s, kind, all_done);
		if (r == 0)
			r = oob_send(s->oob, 0, &byte, 1);
	}
	return r < 0 ? r : check(s, kind);
}

static int send_round(struct incast *s, int kind)
{
	char byte;
	int r;

	pattern_fill(s->memory, s->set.bytes, seed(s->oob->rank, s->round[kind]));
	r = oob_receive(s->oob, 0, &byte, 1);
	if (r < 0)
		return r;
	lane_begin(&s->lanes[kind][0], s->memory, s->set.bytes);
	return wait_lanes(s, kind, all_done);
}

static int rounds(struct incast *s, int kind, int count, double *ret_seconds)
{
	double seconds = 0;
	int i, r = 0;

	for (i = 0; i < count && r == 0; i++) {
		r = receives(s) ? receive_round(s, kind, &seconds) : send_round(s, kind);
		s->round[kind]++;
		if (ret_seconds)
			ret_seconds[i] = seconds;
	}
	return r;
}

/* The two take turns, so that whatever else the machine does meets both. */
static int all_rounds(struct incast *s)
{
	int at, kind, r = 0;

	for (kind = 0; kind < KINDS && r == 0; kind++)
		if (s->used[kind])
			r = rounds(s, kind, s->set.warmup, NULL);
	for (at = 0; at < s->set.rounds && r == 0; at += CHUNK_ROUNDS) {
		int count = s->set.rounds - at < CHUNK_ROUNDS ? s->set.rounds - at : CHUNK_ROUNDS;

		if (s->oob->rank == 0)
			output_progress("rounds", (size_t)at, (size_t)s->set.rounds);
		for (kind = 0; kind < KINDS && r == 0; kind++)
			if (s->used[kind])
				r = rounds(s, kind, count, s->round_s[kind] + at);
	}
	return r;
}

/* ---- what came of it ---- */

static void print_kind(struct incast *s, int kind)
{
	const char *name = kind == PLUGIN ? netplugin_name(s->endpoint.plugin) : "plain TCP";
	const double *t = s->round_s[kind];
	size_t n = (size_t)s->set.rounds, i;
	double ideal_s = (double)s->senders * (double)s->set.bytes * 8 / (0.957 * s->set.line_bps);
	struct stats_interval median = stats_bootstrap(t, n), p99 = stats_bootstrap_quantile(t, n, 0.99);
	struct output *o = &s->output;
	int late = 0;

	for (i = 0; i < n; i++)
		late += t[i] > 0.1;
	output_cell(o, -14, "%.14s", name);
	output_cell(o, 8, "%.2f", median.median * 1e3);
	output_cell(o, 8, "%.2f", p99.median * 1e3);
	output_cell(o, 8, "%.2f", stats_max(t, n) * 1e3);
	output_cell(o, 8, "%d", late);
	output_cell(o, 22, "%.3f [%.3f, %.3f]", median.median / ideal_s, median.low / ideal_s, median.high / ideal_s);
	output_cell(o, 22, "%.3f [%.3f, %.3f]", p99.median / ideal_s, p99.low / ideal_s, p99.high / ideal_s);
	output_end(o);
	output_json_begin(o, "incast");
	output_json_text(o, "name", name);
	output_json_number(o, "senders", s->senders);
	output_json_number(o, "receivers", s->set.receivers);
	output_json_number(o, "bytes", (double)s->set.bytes);
	output_json_number(o, "rounds", (double)n);
	output_json_number(o, "ideal_s", ideal_s);
	output_json_number(o, "median_s", median.median);
	output_json_number(o, "p99_s", p99.median);
	output_json_number(o, "max_s", stats_max(t, n));
	output_json_number(o, "over_100ms", late);
	output_json_number(o, "median_over_ideal", median.median / ideal_s);
	output_json_number(o, "median_over_ideal_low", median.low / ideal_s);
	output_json_number(o, "median_over_ideal_high", median.high / ideal_s);
	output_json_number(o, "p99_over_ideal", p99.median / ideal_s);
	output_json_number(o, "p99_over_ideal_low", p99.low / ideal_s);
	output_json_number(o, "p99_over_ideal_high", p99.high / ideal_s);
	output_json_numbers(o, "rounds_s", t, n);
	output_json_end(o);
}

static void print_all(struct incast *s)
{
	struct output *o = &s->output;
	int kind;

	output_note(o, "# %d senders to %d receiving processes, %s each, %d rounds, line %.3f Gbit/s, nap %d us",
		    s->senders, s->set.receivers, output_size(s->set.bytes), s->set.rounds, s->set.line_bps * 1e-9,
		    s->set.nap_us);
	output_note(o, "%-14s %8s %8s %8s %8s %22s %22s", "what", "med ms", "p99 ms", "max ms", ">100 ms",
		    "median/ideal [95 %]", "p99/ideal [95 %]");
	for (kind = 0; kind < KINDS; kind++)
		if (s->used[kind])
			print_kind(s, kind);
}

/* Everybody's wrong messages, at rank 0 and all. */
static int gather_wrong(struct incast *s)
{
	uint64_t *all = calloc((size_t)s->oob->size, sizeof(*all)), mine = s->wrong;
	int i, r = all ? oob_allgather(s->oob, &mine, sizeof(mine), all) : -ENOMEM;

	for (s->wrong = 0, i = 0; r == 0 && i < s->oob->size; i++)
		s->wrong += all[i];
	free(all);
	return r;
}

/* ---- set-up ---- */

static int find_peers(struct incast *s)
{
	int i, k = s->set.receivers;

	s->senders = s->oob->size - k;
	if (k < 1 || s->senders < 1 || k > MAX_LANES || (s->senders + k - 1) / k > MAX_LANES) {
		fprintf(stderr, "incast: %d receivers among %d ranks\n", k, s->oob->size);
		return -EINVAL;
	}
	if (!receives(s)) {
		s->peers[s->lane_count++] = (s->oob->rank - k) % k;
		return 0;
	}
	for (i = k; i < s->oob->size; i++)
		if ((i - k) % k == s->oob->rank)
			s->peers[s->lane_count++] = i;
	return 0;
}

static int open_plugin(struct incast *s)
{
	struct endpoint_options options = { .plugin = s->set.plugin,
					    .version = s->set.version,
					    .device = s->set.device,
					    .devices = s->set.devices,
					    .timeout_s = s->set.timeout_s };
	void *sends[MAX_LANES] = { NULL }, *receive_comms[MAX_LANES] = { NULL };
	bool in = receives(s);
	int i, r = endpoint_open(&options, 0x696e63617374ULL, &s->endpoint);

	if (r < 0)
		return r;
	s->used[PLUGIN] = true;
	r = endpoint_link(&s->endpoint, s->oob, in ? 0 : 1, s->peers, in ? s->lane_count : 0, s->peers, sends,
			  receive_comms);
	for (i = 0; i < s->lane_count && r == 0; i++)
		r = lane_open_plugin(&s->lanes[PLUGIN][i], &s->endpoint, in ? receive_comms[i] : sends[i], !in,
				     s->memory, s->memory_bytes);
	return r;
}

static int open_floor(struct incast *s)
{
	int sender, fd, r, at = 0;

	for (sender = s->set.receivers; sender < s->oob->size; sender++) {
		r = tcploop_pair(s->oob, (sender - s->set.receivers) % s->set.receivers, sender, &fd);
		if (r < 0)
			return r;
		if (fd >= 0)
			lane_open_tcp(&s->lanes[FLOOR][at++], fd, !receives(s));
	}
	s->used[FLOOR] = true;
	return 0;
}

static int open_all(struct incast *s)
{
	int kind, r = find_peers(s);

	if (r < 0)
		return r;
	s->memory_bytes = s->set.bytes * (size_t)s->lane_count;
	s->memory = mmap(NULL, s->memory_bytes ? s->memory_bytes : 1, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->memory == MAP_FAILED)
		return -ENOMEM;
	memset(s->memory, 0, s->memory_bytes);
	for (kind = 0; kind < KINDS; kind++) {
		s->round_s[kind] = calloc((size_t)s->set.rounds, sizeof(double));
		if (!s->round_s[kind])
			return -ENOMEM;
	}
	if (s->set.plugin)
		r = open_plugin(s);
	if (r == 0 && s->set.floor)
		r = open_floor(s);
	return r;
}

static void close_all(struct incast *s)
{
	int kind, i;

	for (kind = 0; kind < KINDS; kind++) {
		for (i = 0; s->used[kind] && i < s->lane_count; i++)
			lane_close(&s->lanes[kind][i]);
		free(s->round_s[kind]);
	}
	endpoint_close(&s->endpoint);
	output_close(&s->output);
}

static int parse(int argc, char **argv, struct settings *set)
{
	const struct args_option options[] = {
		{ "plugin", ARGS_TEXT, &set->plugin, "path, or NAME for libnccl-net-NAME.so" },
		{ "version", ARGS_INT, &set->version, "interface version 6 to 12 (newest)" },
		{ "floor", ARGS_FLAG, &set->floor, "plain TCP, in turns with the plugin" },
		{ "device", ARGS_INT, &set->device, "device number (0)" },
		{ "devices", ARGS_TEXT, &set->devices, "join these into one virtual device: 0,1" },
		{ "receivers", ARGS_INT, &set->receivers, "receiving processes: ranks 0 to K-1, on one host (1)" },
		{ "bytes", ARGS_SIZE, &set->bytes, "of each message (512K)" },
		{ "rounds", ARGS_INT, &set->rounds, "how many (1000)" },
		{ "warmup", ARGS_INT, &set->warmup, "rounds before, not counted (20)" },
		{ "line-rate", ARGS_RATE, &set->line_bps, "of the receiver's port, for the ideal round (1Gbit/s)" },
		{ "nap-us", ARGS_INT, &set->nap_us, "sleep after a round in which nothing moved (0: yield)" },
		{ "spin", ARGS_FLAG, &set->spin, "neither sleep nor yield" },
		{ "timeout", ARGS_NUMBER, &set->timeout_s, "seconds without any progress before giving up (30)" },
		{ "json", ARGS_TEXT, &set->json, "write JSON lines to this file (- in place of the table)" },
		{ "spawn", ARGS_INT, &set->spawn, "start so many ranks here, over loopback" },
		{ NULL, ARGS_FLAG, NULL, NULL },
	};
	int r = args_parse(argc, argv,
			   "Many ranks send to one host at once (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT).",
			   options);

	if (r == 0 && ((!set->plugin && !set->floor) || set->rounds < 1 || set->bytes < 1 || set->line_bps <= 0)) {
		fprintf(stderr, "incast: give --plugin, --floor or both, --rounds and --bytes of 1 or more\n");
		return -EINVAL;
	}
	return r;
}

static int run_all(struct oob *oob, void *arg)
{
	struct incast *s = arg;
	int r = output_open(&s->output, oob->rank == 0 ? s->set.json : NULL);

	s->oob = oob;
	if (r == 0)
		r = open_all(s);
	if (r == 0)
		r = all_rounds(s);
	if (r == 0)
		r = gather_wrong(s);
	output_progress_clear();
	if (r == 0 && oob->rank == 0)
		print_all(s);
	close_all(s);
	return r < 0 ? r : s->wrong > 0;
}

int main(int argc, char **argv)
{
	static struct incast s = {
		.set = { .receivers = 1,
			 .rounds = 1000,
			 .warmup = 20,
			 .bytes = 512 << 10,
			 .line_bps = 1e9,
			 .timeout_s = 30 },
	};
	int r = parse(argc, argv, &s.set);

	return r ? (r < 0 ? 2 : 0) : oob_run(s.set.spawn, s.set.timeout_s, run_all, &s);
}
