/* SPDX-License-Identifier: Apache-2.0 */
#include "conversation.h"

#include "base/clock.h"
#include "base/params.h"
#include "support/random.h"
#include "support/runtime.h"

#include <dirent.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

enum { WINDOW = CONVERSATION_WINDOW, BYTES_MOST = 300000, MESSAGES = 300, CUTS = 6 };

static struct params params;

static struct transport *opened_with(unsigned streams, uint64_t timeout_ns)
{
	struct params_source source = params_from_environment();
	struct transport *transport = NULL;

	params_load(&source, NULL, NULL, &params);
	if (streams != CONVERSATION_DRAWN)
		params.streams = streams;
	if (timeout_ns)
		params.timeout_ns = timeout_ns;
	assert_int_equal(transport_tcp.open(&params, &transport), 0);
	return transport;
}

struct transport *conversation_transport(unsigned streams)
{
	return opened_with(streams, 0);
}

/*
 * What ends before this time-out has not waited for it, and what waits for a thread that has no core is not ended by it: the
 * test's own patience is shorter.
 */
struct transport *conversation_transport_for_an_hour(unsigned streams)
{
	return opened_with(streams, 3600 * NS_PER_S);
}

/* Both ends of every TCP connection of this process, as a firewall that resets them would. */
unsigned conversation_cut_all(void)
{
	DIR *list = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned cut = 0;

	assert_non_null(list);
	while ((entry = readdir(list)) != NULL) {
		int fd = (int)strtol(entry->d_name, NULL, 10);
		struct sockaddr_storage peer;
		socklen_t bytes = sizeof(peer);

		if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.ss_family == AF_INET)
			cut += shutdown(fd, SHUT_RDWR) == 0;
	}
	closedir(list);
	return cut;
}

static size_t next_bytes(uint64_t *random)
{
	/* As many short ones, which go unasked, as long ones. */
	return random_below(random, 2) ? random_below(random, 3000) : random_below(random, BYTES_MOST);
}

static void post(struct conversation *s)
{
	const struct transport_ops *ops = s->link.ops;
	void *registration = NULL;
	int tag = 3;

	if (s->posted < MESSAGES && s->posted - s->received < WINDOW) {
		unsigned at = s->posted % WINDOW;
		void *data = s->in[at];
		size_t most = BYTES_MOST;

		memset(s->in[at], 0, 16);
		assert_int_equal(ops->receive(s->link.receiver, 1, &data, &most, &tag, &registration, &s->receives[at]),
				 0);
		s->posted += s->receives[at] != NULL;
	}
	if (s->sent < MESSAGES && s->sent - s->received < WINDOW && s->sent - s->sent_done < WINDOW) {
		unsigned at = s->sent % WINDOW;

		if (!s->bytes[at]) {
			s->bytes[at] = 1 + next_bytes(&s->random);
			pattern_fill(s->out[at], s->bytes[at], s->sent);
		}
		assert_int_equal(ops->send(s->link.sender, s->out[at], s->bytes[at], tag, NULL, &s->sends[at]), 0);
		s->sent += s->sends[at] != NULL;
	}
}

static void test_oldest(struct conversation *s)
{
	size_t sizes[TRANSPORT_MAX_RECVS];
	bool done = false;

	if (s->sent_done < s->sent) {
		assert_int_equal(s->link.ops->test(s->sends[s->sent_done % WINDOW], &done, NULL), 0);
		s->sent_done += done;
	}
	done = false;
	if (s->received < s->posted) {
		unsigned at = s->received % WINDOW;

		assert_int_equal(s->link.ops->test(s->receives[at], &done, sizes), 0);
		if (done) {
			assert_int_equal(sizes[0], s->bytes[at]);
			assert_true(pattern_wrong_at(s->in[at], sizes[0], s->received) == SIZE_MAX);
			s->bytes[at] = 0;
			s->received++;
		}
	}
}

void conversation_with_cuts(unsigned streams, unsigned (*each)(struct conversation *))
{
	struct transport *transport = conversation_transport_for_an_hour(streams);
	struct conversation *s = calloc(1, sizeof(*s));
	uint64_t deadline_ns = runtime_deadline_ns(60000);
	unsigned cuts = 0, changes = 0, cut_at;

	assert_non_null(s);
	s->random = runtime_seed() + streams;
	for (unsigned i = 0; i < WINDOW; i++) {
		s->out[i] = malloc(BYTES_MOST + 1);
		s->in[i] = malloc(BYTES_MOST + 1);
	}
	assert_int_equal(link_open(&transport_tcp, transport, 0, &s->link), 0);
	cut_at = (unsigned)random_below(&s->random, MESSAGES / CUTS);
	while (s->received < MESSAGES || s->sent_done < MESSAGES) {
		post(s);
		for (uint64_t i = random_below(&s->random, 5); i > 0; i--)
			test_oldest(s);
		if (cuts < CUTS && s->received >= cut_at) {
			bool cut = conversation_cut_all() > 0; /* they may not be back from the last time */

			cuts += cut;
			cut_at += cut ? (unsigned)random_below(&s->random, MESSAGES / CUTS) : 0;
		}
		if (each)
			changes += each(s);
		if (runtime_past(deadline_ns))
			fail_msg("stops after %u messages, %u cuts and %u changes", s->received, cuts, changes);
		test_oldest(s);
	}
	assert_int_equal(cuts, CUTS);
	assert_true(!each || changes); /* how many is a matter of time */
	link_close(&s->link);
	transport_tcp.close(transport);
	for (unsigned i = 0; i < WINDOW; i++) {
		free(s->out[i]);
		free(s->in[i]);
	}
	free(s);
}
