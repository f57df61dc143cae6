/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay: carries Ethernet frames between two interfaces with a delay, and loses a share of them. The test-bed's uplinks
 * with `delay` or `loss` have one, as not every kernel has netem.
 *
 * One thread. All frames have the same delay, so each direction is a queue in the order of arrival. Frames must be
 * complete: no device may be left to cut them or to fill in checksums. Which frames are lost depends on their number in
 * the direction alone. The program prints a line when it is ready, and runs until it is killed.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/random.h"
#include "common/args.h"
#include "common/clock.h"

enum { WAYS = 2, FRAMES = 8192, BATCH = 64, SOCKET_BYTES = 32 << 20, FRAME_HEADER_BYTES = 18 /* with a VLAN tag */ };

/* In the file of --counters, one for each way: read by the test-bed at any time. */
struct counters {
	uint64_t lost;   /* as asked */
	uint64_t missed; /* since this program was too slow */
};

/* From one interface to the other. The frames on their way are those from `first` on, modulo FRAMES. */
struct way {
	int from_fd, to_fd;
	unsigned char *frames;
	size_t frame_bytes;
	size_t bytes[FRAMES];
	uint64_t due_ns[FRAMES];
	unsigned first, count;
	uint64_t random;
	struct counters *counters;
};

struct settings {
	const char *a, *b;
	double delay_s, loss;
	int mtu, counters_fd;
};

static int open_interface(const char *name)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET,
				       .sll_protocol = htons(ETH_P_ALL),
				       .sll_ifindex = (int)if_nametoindex(name) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), bytes = SOCKET_BYTES;

	/* Until it is bound, nothing comes. Without the right to a larger buffer long bursts may be missed, which is counted. */
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (fd < 0 || !address.sll_ifindex || bind(fd, (struct sockaddr *)&address, sizeof(address))) {
		fprintf(stderr, "relay: %s: %s\n", name, strerror(errno));
		return -1;
	}
	return fd;
}

/* Up to BATCH frames that have come. */
static void take(struct way *w, uint64_t delay_ns, double loss)
{
	struct tpacket_stats stats;
	socklen_t stats_bytes = sizeof(stats);
	int i;

	for (i = 0; i < BATCH && w->count < FRAMES; i++) {
		unsigned at = (w->first + w->count) % FRAMES;
		ssize_t n = recv(w->from_fd, w->frames + at * w->frame_bytes, w->frame_bytes, MSG_TRUNC);

		if (n < 0)
			break; /* nothing left, or the interface is down */
		if ((double)random_next(&w->random) < loss * 0x1p64) {
			w->counters->lost++;
		} else if ((size_t)n > w->frame_bytes) {
			w->counters->missed++;
		} else {
			w->bytes[at] = (size_t)n;
			w->due_ns[at] = perf_now_ns() + delay_ns;
			w->count++;
		}
	}
	if (i && !getsockopt(w->from_fd, SOL_PACKET, PACKET_STATISTICS, &stats, &stats_bytes))
		w->counters->missed += stats.tp_drops;
}

/* Up to BATCH frames that are due. What the other interface refuses, as when it is down, is gone. */
static void give(struct way *w)
{
	uint64_t now_ns = perf_now_ns();
	int i;

	for (i = 0; i < BATCH && w->count && w->due_ns[w->first] <= now_ns; i++) {
		(void)send(w->to_fd, w->frames + w->first * w->frame_bytes, w->bytes[w->first], 0);
		w->first = (w->first + 1) % FRAMES;
		w->count--;
	}
}

/* Until a frame comes, or one is due. */
static void await(const struct way *ways)
{
	struct pollfd fds[WAYS];
	uint64_t now_ns = perf_now_ns(), due_ns = UINT64_MAX;
	struct timespec timeout = { 0 };
	int i;

	for (i = 0; i < WAYS; i++) {
		const struct way *w = &ways[i];

		fds[i] = (struct pollfd){ .fd = w->count < FRAMES ? w->from_fd : -1, .events = POLLIN };
		if (w->count && w->due_ns[w->first] < due_ns)
			due_ns = w->due_ns[w->first];
	}
	if (due_ns != UINT64_MAX && due_ns > now_ns) {
		timeout.tv_sec = (time_t)((due_ns - now_ns) / 1000000000u);
		timeout.tv_nsec = (long)((due_ns - now_ns) % 1000000000u);
	}
	(void)ppoll(fds, WAYS, due_ns == UINT64_MAX ? NULL : &timeout, NULL);
}

static int prepare(struct way *ways, const struct settings *set)
{
	int fds[WAYS] = { open_interface(set->a), open_interface(set->b) }, i;
	struct counters *counters = mmap(NULL, WAYS * sizeof(*counters), PROT_READ | PROT_WRITE, MAP_SHARED,
					 set->counters_fd, 0);

	if (fds[0] < 0 || fds[1] < 0)
		return -1;
	for (i = 0; i < WAYS; i++) {
		struct way *w = &ways[i];

		*w = (struct way){
			.from_fd = fds[i], .to_fd = fds[1 - i], .random = (uint64_t)i, .counters = &counters[i]
		};
		w->frame_bytes = (size_t)set->mtu + FRAME_HEADER_BYTES;
		w->frames = malloc(FRAMES * w->frame_bytes);
		if (counters == MAP_FAILED || !w->frames) {
			fprintf(stderr, "relay: no memory, or --counters is no file of %zu bytes\n",
				WAYS * sizeof(*counters));
			return -1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct way ways[WAYS];
	struct settings set = { .mtu = 1500, .counters_fd = -1 };
	const struct args_option options[] = {
		{ "a", ARGS_TEXT, &set.a, "an interface" },
		{ "b", ARGS_TEXT, &set.b, "another one" },
		{ "delay", ARGS_NUMBER, &set.delay_s, "seconds, each way (0)" },
		{ "loss", ARGS_NUMBER, &set.loss, "share of the frames, each way, from 0 to 1 (0)" },
		{ "mtu", ARGS_INT, &set.mtu, "of both (1500)" },
		{ "counters", ARGS_INT, &set.counters_fd,
		  "descriptor of a file of 32 bytes, for lost and missed frames" },
		{ NULL, ARGS_FLAG, NULL, NULL },
	};
	struct sched_param first = { .sched_priority = 1 };
	uint64_t delay_ns;
	int r = args_parse(argc, argv, "Carries frames between two interfaces, with delay and loss.", options), i;

	if (r)
		return r < 0 ? 2 : 0;
	if (!set.a || !set.b || set.counters_fd < 0) {
		fprintf(stderr, "relay: give --a, --b and --counters\n");
		return 2;
	}
	if (prepare(ways, &set) < 0)
		return 1;
	/* Processes that poll have both cores: without the right to go before them a frame may wait for milliseconds. */
	(void)sched_setscheduler(0, SCHED_FIFO, &first);
	(void)prctl(PR_SET_TIMERSLACK, 1);
	delay_ns = (uint64_t)(set.delay_s * 1e9);
	puts("ready");
	fflush(stdout);
	for (;;) {
		for (i = 0; i < WAYS; i++) {
			take(&ways[i], delay_ns, set.loss);
			give(&ways[i]);
		}
		await(ways);
	}
}
