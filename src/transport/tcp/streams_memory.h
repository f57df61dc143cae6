/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many streams jobs kept, for later ones (docs/design/streams.md): entries by own interface and
 * the peer's subnet, and the form that they have in a file. Pure. Whatever is read is harmless: an
 * entry is only what a trial tries.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_STREAMS_MEMORY_H
#define TRIBUTARY_TRANSPORT_TCP_STREAMS_MEMORY_H

#include "transport/tcp/interface.h"
#include "transport/tcp/wire.h"

enum {
	TCP_STREAMS_MEMORY_ENTRIES = 128,
	TCP_STREAMS_MEMORY_ENTRY_BYTES = IFNAMSIZ + 8 + 1 + 1 + 16 + 1 + 8,
	TCP_STREAMS_MEMORY_BYTES = 16 + TCP_STREAMS_MEMORY_ENTRIES * TCP_STREAMS_MEMORY_ENTRY_BYTES,
};

struct tcp_streams_memory_key {
	char interface[IFNAMSIZ];
	uint64_t speed_Bps;     /* 0: not known */
	uint8_t family, prefix; /* 4 or 6; bits of the peer's subnet */
	uint8_t subnet[16];     /* the other bits are 0 */
};

struct tcp_streams_memory_entry {
	struct tcp_streams_memory_key key;
	uint8_t streams;    /* 2 to 32 */
	uint64_t written_s; /* of the system's clock */
};

struct tcp_streams_memory {
	uint16_t count;
	struct tcp_streams_memory_entry
		entries[TCP_STREAMS_MEMORY_ENTRIES]; /* the oldest first, unless the file lies */
};

/* The peer's subnet is the interface's if it is in that, else a /24 or /64. */
struct tcp_streams_memory_key tcp_streams_memory_key(const struct tcp_interface *interface,
						     const struct sockaddr_storage *peer);
bool tcp_streams_memory_same(const struct tcp_streams_memory_key *a, const struct tcp_streams_memory_key *b);
/* -EBADMSG, -EPROTO: it is damaged, or another version's, and *ret is empty. */
int tcp_streams_memory_read(const uint8_t *bytes, size_t count, struct tcp_streams_memory *ret);
/* Returns the number of bytes. */
size_t tcp_streams_memory_write(const struct tcp_streams_memory *memory,
				uint8_t bytes[static TCP_STREAMS_MEMORY_BYTES]);
/* 0: there is none, or it is older than a day or from the future. */
unsigned tcp_streams_memory_find(const struct tcp_streams_memory *memory, const struct tcp_streams_memory_key *key,
				 uint64_t now_s);
/* In place of what it has for that key; streams 0 or 1: none. Drops what is too old, and the first where there is no room. */
void tcp_streams_memory_put(struct tcp_streams_memory *memory, const struct tcp_streams_memory_key *key,
			    unsigned streams, uint64_t now_s);

#endif
