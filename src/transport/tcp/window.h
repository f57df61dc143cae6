/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The eager window: memory for short messages, of the same size at both ends. A message is stored at the same offset in
 * both: at the sender until it is known to have left the receiver's, at the receiver until its receive takes it. The sender
 * chooses the offset; space is freed in any order. The receiver reports what is held, not what was freed, so a report may
 * be repeated, lost, or overtaken by a later one.
 *
 * Pure: no lock, no clock, no frames.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_WINDOW_H
#define TRIBUTARY_TRANSPORT_TCP_WINDOW_H

#include "transport/tcp/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TCP_EAGER_WINDOW = TCP_WIRE_EAGER_UNITS * TCP_WIRE_EAGER_UNIT,
	TCP_WINDOW_HALVES = TCP_WIRE_EAGER_MESSAGES / 64, /* a report is one bit for each entry, in words of 64 */
};

struct tcp_window_entry {
	uint64_t sequence;
	int tag;
	unsigned first, units; /* 0 units: no message begins here */
	bool reported;         /* a report said that it is held: no receive had taken it then */
};

struct tcp_window {
	uint8_t *bytes;
	struct tcp_window_entry entries[TCP_WIRE_EAGER_MESSAGES]; /* by first unit: tcp_window_index */
	bool taken[TCP_WIRE_EAGER_UNITS];
	unsigned taken_units, reported_units, cursor;
	bool used, several_tags;             /* sender */
	int tag;                             /* the same: of the last message that wanted room */
	unsigned arrived_units, freed_units; /* receiver: came, and went though reported, since the last report */
};

static inline unsigned tcp_window_index(uint64_t unit)
{
	return (unsigned)(unit / TCP_WIRE_EAGER_LEAST);
}

int tcp_window_init(struct tcp_window *window);
void tcp_window_fini(struct tcp_window *window);
/*
 * Sender. The first unit for that message, or -EAGAIN: the receiver will send a report, at the latest when the messages with
 * that tag have been received, so try again then; -ENOBUFS: let it go by RTS.
 */
int tcp_window_find(struct tcp_window *window, size_t bytes, int tag);
/* -EPROTO: not within the window, or not free. */
int tcp_window_take(struct tcp_window *window, uint64_t unit, uint64_t bytes, int tag, uint64_t sequence);
void tcp_window_release(struct tcp_window *window, unsigned index);
/* Receiver: that message is whole. */
void tcp_window_arrived(struct tcp_window *window, unsigned index);
/* Receiver: which entries hold messages before that number. */
void tcp_window_report(struct tcp_window *window, uint64_t next_sequence, uint64_t words[TCP_WINDOW_HALVES]);
/* Such a word was sent, or came. */
void tcp_window_reported(struct tcp_window *window, unsigned half, uint64_t next_sequence, uint64_t word);
/* Receiver: something has changed since the last report. */
static inline bool tcp_window_has_changed(const struct tcp_window *window)
{
	return window->arrived_units || window->freed_units;
}
/* Both: of the units that unmatched messages left, enough have been used. */
static inline bool tcp_window_arrivals_are_news(unsigned units, unsigned left)
{
	return units && 8 * units >= 3 * left;
}
/*
 * Receiver: the sender is to have a report now. A report costs as much as a message, so it waits until 3/8 of what
 * unmatched messages left of the window has been used, or these have freed half of what is free. A sender waits only where
 * one of the two will be so whatever the other tags do (tcp_window_find).
 */
static inline bool tcp_window_is_news(const struct tcp_window *window)
{
	const unsigned free = TCP_WIRE_EAGER_UNITS - window->taken_units;

	return tcp_window_arrivals_are_news(window->arrived_units, free - window->freed_units) ||
	       (window->freed_units && 2 * window->freed_units >= free);
}

#endif
