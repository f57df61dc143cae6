/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paths: opens through an NCCL plugin the connections that NCCL opens between hosts, one each way for every channel and
 * neighbour, channel k on device k of either end (modulo their number), and sends what the lines on rank 0's standard input
 * say. The counters of the interfaces then show which path each connection takes (tests/networks).
 *
 *     send CHANNEL FROM TO         one message over one connection
 *     flow MESSAGES GAP_MS         so many over every connection at once, one every GAP_MS where nothing holds it up
 *
 * Each rank prints JSON lines: its devices, how long the connections took, each line that was done, and in a flow each time
 * at which a connection brought nothing for STALL_NS, or the machine kept the rank back for HELD_NS. Every byte is checked. Exit status 1: something failed, or was wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/args.h"
#include "common/clock.h"
#include "common/lane.h"
#include "common/oob.h"
#include "common/output.h"
#include "common/pattern.h"

#define STALL_NS UINT64_C(300000000)
#define HELD_NS  UINT64_C(50000000)

enum { DEVICES_MAX = 32, NAP_NS = 200000, COMM_ID = 0x7061746873 };
enum verb { VERB_END, VERB_SEND, VERB_FLOW };

struct command {
	int32_t verb;
	int32_t values[3]; /* SEND: channel, from, to; FLOW: messages, gap in ms */
};

struct connection {
	struct lane lane;
	int channel, peer;
	uint64_t number;           /* messages so far */
	uint64_t due_ns, moved_ns; /* of a flow: the next message, the last one */
	char *memory;
};

struct settings {
	const char *plugin, *bootstrap;
	bool ring, spin;
	int channels;
	size_t bytes;
	double timeout_s;
};

struct paths {
	struct settings set;
	int own_network; /* namespace of the connections, while the ranks find each other in that of --bootstrap; or -1 */
	struct oob *oob;
	struct endpoint devices[DEVICES_MAX]; /* share the first one's plugin and context */
	int device_count, channels;
	struct connection *connections;
	int count;
	uint64_t wrong; /* messages */
	uint64_t flows; /* so far: each begins a new series of numbers */
	struct output output;
};

/* ---- messages ---- */

static uint64_t seed_of(const struct paths *p, const struct connection *c)
{
	uint64_t from = (uint64_t)(c->lane.out ? p->oob->rank : c->peer);
	uint64_t to = (uint64_t)(c->lane.out ? c->peer : p->oob->rank);

	return from << 56 | to << 48 | (uint64_t)c->channel << 40 | c->number;
}

static void begin(struct paths *p, struct connection *c)
{
	if (c->lane.out)
		pattern_fill(c->memory, p->set.bytes, seed_of(p, c));
	else
		memset(c->memory, 0, p->set.bytes);
	lane_begin(&c->lane, c->memory, p->set.bytes);
}

/* 1: something moved. The message that is done has been checked. */
static int step(struct paths *p, struct connection *c)
{
	int r = lane_step(&c->lane);

	if (r <= 0 || !c->lane.done)
		return r;
	if (!c->lane.out && pattern_check(c->memory, p->set.bytes, seed_of(p, c)) >= 0) {
		fprintf(stderr, "paths: rank %d: message %llu of channel %d from rank %d is wrong\n", p->oob->rank,
			(unsigned long long)c->number, c->channel, c->peer);
		p->wrong++;
	}
	c->number++;
	return 1;
}

static int send_one(struct paths *p, const struct command *command)
{
	int from = command->values[1], to = command->values[2], i, r = 0;
	struct poller poller;

	poller_init(&poller, NAP_NS, false, (uint64_t)(p->set.timeout_s * 1e9));
	for (i = 0; i < p->count && r >= 0; i++) {
		struct connection *c = &p->connections[i];
		bool is_mine = c->lane.out ? p->oob->rank == from && c->peer == to
					   : p->oob->rank == to && c->peer == from;

		if (!is_mine || c->channel != command->values[0])
			continue;
		for (begin(p, c); !c->lane.done && r >= 0;) {
			r = step(p, c);
			if (r > 0)
				poller_moved(&poller);
			else if (r == 0 && !poller_idle(&poller))
				r = -ETIMEDOUT;
		}
	}
	return r < 0 ? r : 0;
}

/* ---- a flow over all connections ---- */

static void print_stall(struct paths *p, const struct connection *c, uint64_t now_ns)
{
	struct output *o = &p->output;

	output_json_begin(o, "stall");
	output_json_number(o, "channel", c->channel);
	output_json_number(o, "from", c->peer);
	output_json_number(o, "to", p->oob->rank);
	output_json_number(o, "began_s", (double)c->moved_ns * 1e-9);
	output_json_number(o, "ended_s", (double)now_ns * 1e-9);
	output_json_end(o);
}

static int flow_step(struct paths *p, struct connection *c, uint64_t messages, uint64_t gap_ns)
{
	uint64_t now_ns = perf_now_ns();
	int r;

	if (c->lane.done && c->number < messages && now_ns >= c->due_ns) {
		begin(p, c);
		c->due_ns += c->lane.out ? gap_ns : 0;
	}
	r = step(p, c);
	if (r > 0 && c->lane.done && !c->lane.out) {
		if (now_ns - c->moved_ns > STALL_NS + gap_ns)
			print_stall(p, c, now_ns);
		c->moved_ns = now_ns;
	}
	return r;
}

static void print_held(struct paths *p, uint64_t before_ns, uint64_t now_ns)
{
	if (now_ns - before_ns < HELD_NS)
		return;
	output_json_begin(&p->output, "held");
	output_json_number(&p->output, "began_s", (double)before_ns * 1e-9);
	output_json_number(&p->output, "ended_s", (double)now_ns * 1e-9);
	output_json_end(&p->output);
}

static int flow(struct paths *p, const struct command *command)
{
	uint64_t gap_ns = (uint64_t)command->values[1] * 1000000, now_ns = perf_now_ns();
	uint64_t first = ++p->flows << 24, messages = first + (uint64_t)command->values[0];
	struct poller poller;
	int i, r = 0, moved, open = 1;

	/* Between two messages nothing moves, either. */
	poller_init(&poller, NAP_NS, p->set.spin, (uint64_t)(p->set.timeout_s * 1e9) + gap_ns);
	for (i = 0; i < p->count; i++) {
		p->connections[i].number = first;
		p->connections[i].due_ns = p->connections[i].moved_ns = now_ns;
	}
	while (r >= 0 && open) {
		print_held(p, now_ns, perf_now_ns());
		now_ns = perf_now_ns();
		for (i = 0, moved = 0, open = 0; i < p->count && r >= 0; i++) {
			struct connection *c = &p->connections[i];

			open += !c->lane.done || c->number < messages;
			r = flow_step(p, c, messages, gap_ns);
			moved |= r > 0;
		}
		if (moved)
			poller_moved(&poller);
		else if (r >= 0 && !poller_idle(&poller))
			r = -ETIMEDOUT;
	}
	return r < 0 ? r : 0;
}

/* ---- the lines of standard input ---- */

static int read_command(struct command *command)
{
	char line[128];
	int *v = command->values;

	memset(command, 0, sizeof(*command));
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	if (sscanf(line, "send %d %d %d", &v[0], &v[1], &v[2]) == 3)
		command->verb = VERB_SEND;
	else if (sscanf(line, "flow %d %d", &v[0], &v[1]) == 2 && v[0] > 0 && v[1] >= 0)
		command->verb = VERB_FLOW;
	else
		fprintf(stderr, "paths: not a line of --help: %s", line);
	return command->verb == VERB_END ? -EINVAL : 0;
}

static int do_commands(struct paths *p)
{
	struct command command = { .verb = VERB_END };
	int r;

	for (;;) {
		r = p->oob->rank == 0 ? read_command(&command) : 0;
		if (r == 0)
			r = oob_broadcast(p->oob, &command, sizeof(command));
		if (r < 0 || command.verb == VERB_END)
			return r;
		r = command.verb == VERB_SEND ? send_one(p, &command) : flow(p, &command);
		fflush(stdout); /* whoever reads that rank 0 is done finds what the others told */
		if (r == 0)
			r = oob_barrier(p->oob);
		if (r < 0)
			return r;
		output_json_begin(&p->output, "done");
		output_json_number(&p->output, "wrong", (double)p->wrong);
		output_json_end(&p->output);
		fflush(stdout);
	}
}

/* ---- set-up ---- */

static int open_devices(struct paths *p)
{
	struct endpoint_options options = { .plugin = p->set.plugin, .timeout_s = p->set.timeout_s };
	int i, r = endpoint_open(&options, COMM_ID, &p->devices[0]), count = 0;

	if (r == 0 && netplugin_devices(p->devices[0].plugin, &count) != NCCL_SUCCESS)
		r = -EIO;
	p->device_count = count > DEVICES_MAX ? DEVICES_MAX : count;
	for (i = 0; i < p->device_count && r == 0; i++) {
		struct endpoint *device = &p->devices[i];

		*device = p->devices[0];
		device->device = i;
		r = netplugin_properties(device->plugin, i, &device->properties);
		if (r != NCCL_SUCCESS)
			return endpoint_failed(device, "getProperties", r);
		output_json_begin(&p->output, "device");
		output_json_text(&p->output, "name", device->properties.name);
		output_json_number(&p->output, "speed_Mbps", device->properties.speed_Mbps);
		output_json_end(&p->output);
	}
	return r;
}

static int agree_on_channels(struct paths *p)
{
	int *all = calloc((size_t)p->oob->size, sizeof(*all)), i, r;

	if (!all)
		return -ENOMEM;
	r = oob_allgather(p->oob, &p->device_count, sizeof(p->device_count), all);
	p->channels = p->set.channels;
	for (i = 0; i < p->oob->size && !p->set.channels; i++)
		p->channels = all[i] > p->channels ? all[i] : p->channels;
	free(all);
	return r;
}

static int neighbours_of(const struct paths *p, int *ret)
{
	int size = p->oob->size, rank = p->oob->rank, count = 0, i;

	for (i = 1; i < size && count < ENDPOINT_MAX_LINKS; i++)
		if (!p->set.ring || i == 1 || i == size - 1)
			ret[count++] = (rank + i) % size;
	return count;
}

static int open_lane(struct paths *p, struct endpoint *device, void *comm, int channel, int peer, bool out)
{
	struct connection *c = &p->connections[p->count];

	c->memory = calloc(1, p->set.bytes);
	if (!c->memory)
		return -ENOMEM;
	c->channel = channel;
	c->peer = peer;
	p->count++;
	return lane_open_plugin(&c->lane, device, comm, out, c->memory, p->set.bytes);
}

static int open_channel(struct paths *p, int channel, int count, const int *peers)
{
	struct endpoint *device = &p->devices[channel % p->device_count];
	void *out[ENDPOINT_MAX_LINKS], *in[ENDPOINT_MAX_LINKS];
	int i, r = endpoint_link(device, p->oob, count, peers, count, peers, out, in);

	for (i = 0; i < count && r == 0; i++) {
		r = open_lane(p, device, out[i], channel, peers[i], true);
		if (r == 0)
			r = open_lane(p, device, in[i], channel, peers[i], false);
	}
	return r;
}

static int connect_all(struct paths *p)
{
	int peers[ENDPOINT_MAX_LINKS], count = neighbours_of(p, peers), channel, r;
	uint64_t start_ns;

	if (count < 1)
		return -EINVAL;
	p->connections = calloc(2 * (size_t)count * (size_t)p->channels, sizeof(*p->connections));
	if (!p->connections)
		return -ENOMEM;
	r = oob_barrier(p->oob);
	start_ns = perf_now_ns();
	for (channel = 0; channel < p->channels && r == 0; channel++)
		r = open_channel(p, channel, count, peers);
	if (r < 0)
		return r;
	output_json_begin(&p->output, "connected");
	output_json_number(&p->output, "seconds", (double)(perf_now_ns() - start_ns) * 1e-9);
	output_json_number(&p->output, "channels", p->channels);
	output_json_end(&p->output);
	fflush(stdout);
	return oob_barrier(p->oob);
}

static void close_all(struct paths *p)
{
	int i;

	for (i = 0; i < p->count; i++) {
		lane_close(&p->connections[i].lane);
		free(p->connections[i].memory);
	}
	free(p->connections);
	endpoint_close(&p->devices[0]);
}

static int run_all(struct oob *oob, void *arg)
{
	struct paths *p = arg;
	int r = p->own_network >= 0 && setns(p->own_network, CLONE_NEWNET) < 0 ? -errno : 0;

	p->oob = oob;
	if (r == 0)
		r = output_open(&p->output, "-");
	if (r == 0)
		r = open_devices(p);
	if (r == 0)
		r = agree_on_channels(p);
	if (r == 0)
		r = connect_all(p);
	if (r == 0)
		r = do_commands(p);
	close_all(p);
	output_close(&p->output);
	return r < 0 ? r : p->wrong > 0;
}

static int enter_bootstrap(struct paths *p)
{
	int there = open(p->set.bootstrap, O_RDONLY | O_CLOEXEC), r = 0;

	p->own_network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (there < 0 || p->own_network < 0 || setns(there, CLONE_NEWNET) < 0) {
		r = -errno;
		fprintf(stderr, "paths: --bootstrap %s: %s\n", p->set.bootstrap, strerror(-r));
	}
	if (there >= 0)
		close(there);
	return r;
}

static int parse(int argc, char **argv, struct settings *set)
{
	const struct args_option options[] = {
		{ "plugin", ARGS_TEXT, &set->plugin, "path, or NAME for libnccl-net-NAME.so" },
		{ "bootstrap", ARGS_TEXT, &set->bootstrap,
		  "network namespace (a file) in which the ranks find each other, and nothing else happens" },
		{ "ring", ARGS_FLAG, &set->ring, "neighbours are the next rank and the one before, not all" },
		{ "spin", ARGS_FLAG, &set->spin, "ask without a rest whether a flow moves" },
		{ "channels", ARGS_INT, &set->channels, "how many (as the rank with the most devices has)" },
		{ "bytes", ARGS_SIZE, &set->bytes, "of a message (512K)" },
		{ "timeout", ARGS_NUMBER, &set->timeout_s, "seconds without any progress before giving up (30)" },
		{ NULL, ARGS_FLAG, NULL, NULL },
	};
	int r = args_parse(
		argc, argv,
		"Connections as NCCL opens them, over RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. Lines on rank 0's "
		"standard input: `send CHANNEL FROM TO`, `flow MESSAGES GAP_MS`.",
		options);

	if (r == 0 && (!set->plugin || !set->bytes)) {
		fprintf(stderr, "paths: give --plugin; --bytes is 1 or more\n");
		return -EINVAL;
	}
	return r;
}

int main(int argc, char **argv)
{
	static struct paths p = { .set = { .bytes = 512 << 10, .timeout_s = 30 }, .own_network = -1 };
	int r = parse(argc, argv, &p.set);

	if (r)
		return r < 0 ? 2 : 0;
	if (p.set.bootstrap && enter_bootstrap(&p) < 0)
		return 1;
	return oob_run(0, p.set.timeout_s, run_all, &p);
}
