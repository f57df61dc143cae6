/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of many sizes over one connection of real sockets, both ends in this process, all checked; tests cut it meanwhile. */
#ifndef TESTS_UNIT_TRANSPORT_TCP_CONVERSATION_H
#define TESTS_UNIT_TRANSPORT_TCP_CONVERSATION_H

#include "support/link.h"

enum { CONVERSATION_WINDOW = 8, CONVERSATION_DRAWN = 1000 /* streams: as the environment says */ };

struct conversation {
	struct link link;
	uint64_t random;
	uint8_t *out[CONVERSATION_WINDOW], *in[CONVERSATION_WINDOW];
	size_t bytes[CONVERSATION_WINDOW];
	struct transport_request *sends[CONVERSATION_WINDOW], *receives[CONVERSATION_WINDOW];
	unsigned sent, posted, sent_done, received;
};

/* Its parameters are the environment's, and so many streams. The second: with a time-out of an hour, so nothing waits for it. */
struct transport *conversation_transport(unsigned streams);
struct transport *conversation_transport_for_an_hour(unsigned streams);
/* Both ends of every TCP connection of this process, as a firewall that resets them would. Returns how many. */
unsigned conversation_cut_all(void);
/* All streams at once, again and again: nothing is lost, nothing comes twice. each: NULL, or called between, returns changes. */
void conversation_with_cuts(unsigned streams, unsigned (*each)(struct conversation *conversation));

#endif
