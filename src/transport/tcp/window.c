/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/window.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

int tcp_window_init(struct tcp_window *window)
{
	window->bytes = sys_zalloc(TCP_EAGER_WINDOW);
	return window->bytes ? 0 : -ENOMEM;
}

void tcp_window_fini(struct tcp_window *window)
{
	sys_free(window->bytes);
	window->bytes = NULL;
}

static unsigned held_by(const struct tcp_window *window, int tag)
{
	unsigned units = 0;

	for (unsigned i = 0; i < TCP_WIRE_EAGER_MESSAGES; i++)
		units += window->entries[i].tag == tag ? window->entries[i].units : 0;
	return units;
}

/* When several tags use the window, one holds at most fifteen times what it leaves free, so that the others find room. */
enum { HELD_TO_LEFT = 15 };

static bool tag_may_take(const struct tcp_window *window, unsigned units, int tag)
{
	const unsigned after = window->taken_units + units;
	unsigned most, held;

	if (after > TCP_WIRE_EAGER_UNITS)
		return false;
	most = HELD_TO_LEFT * (TCP_WIRE_EAGER_UNITS - after);
	if (!window->several_tags || after <= most)
		return true;
	held = held_by(window, tag);
	return !held || held + units <= most;
}

/*
 * Whether the receiver will report without being asked: once all that was sent has arrived, or once the messages with this
 * tag that it held have been received.
 */
static bool report_will_come(const struct tcp_window *window, int tag)
{
	const unsigned left = TCP_WIRE_EAGER_UNITS - window->reported_units;
	unsigned held = 0;

	if (tcp_window_arrivals_are_news(window->taken_units - window->reported_units, left))
		return true;
	for (unsigned i = 0; i < TCP_WIRE_EAGER_MESSAGES; i++) {
		const struct tcp_window_entry *entry = &window->entries[i];

		held += entry->reported && entry->tag == tag ? entry->units : 0;
	}
	/* What it frees then is half of what is free then. */
	return held && held >= left;
}

int tcp_window_find(struct tcp_window *window, size_t bytes, int tag)
{
	const unsigned units = tcp_wire_eager_units(bytes);
	unsigned at = window->cursor;

	window->several_tags |= window->used && tag != window->tag;
	window->used = true;
	window->tag = tag;
	for (unsigned turns = 0; turns < 2 && tag_may_take(window, units, tag);) {
		const bool *taken;

		if (at + units > TCP_WIRE_EAGER_UNITS) { /* never around the corner */
			at = 0;
			turns++;
		}
		taken = memrchr(window->taken + at, true, units);
		if (!taken)
			return (int)at;
		at = (unsigned)(taken - window->taken) + 1;
	}
	return report_will_come(window, tag) ? -EAGAIN : -ENOBUFS;
}

int tcp_window_take(struct tcp_window *window, uint64_t unit, uint64_t bytes, int tag, uint64_t sequence)
{
	const uint64_t units = tcp_wire_eager_units(bytes < TCP_EAGER_WINDOW ? bytes : TCP_EAGER_WINDOW);

	if (unit >= TCP_WIRE_EAGER_UNITS || units > TCP_WIRE_EAGER_UNITS - unit ||
	    memchr(window->taken + unit, 1, units))
		return -EPROTO;
	memset(window->taken + unit, 1, units);
	window->entries[tcp_window_index(unit)] = (struct tcp_window_entry){
		.sequence = sequence, .tag = tag, .first = (unsigned)unit, .units = (unsigned)units
	};
	window->taken_units += (unsigned)units;
	window->cursor = (unsigned)(unit + units) % TCP_WIRE_EAGER_UNITS;
	return 0;
}

void tcp_window_release(struct tcp_window *window, unsigned index)
{
	struct tcp_window_entry *entry = &window->entries[index];

	memset(window->taken + entry->first, false, entry->units);
	window->taken_units -= entry->units;
	if (entry->reported) {
		window->reported_units -= entry->units;
		window->freed_units += entry->units;
	}
	entry->units = 0;
}

void tcp_window_arrived(struct tcp_window *window, unsigned index)
{
	window->arrived_units += window->entries[index].units;
}

static void mark_reported(struct tcp_window *window, struct tcp_window_entry *entry)
{
	if (!entry->reported)
		window->reported_units += entry->units;
	entry->reported = true;
}

void tcp_window_report(struct tcp_window *window, uint64_t next_sequence, uint64_t words[TCP_WINDOW_HALVES])
{
	memset(words, 0, TCP_WINDOW_HALVES * sizeof(*words));
	for (unsigned i = 0; i < TCP_WIRE_EAGER_MESSAGES; i++)
		if (window->entries[i].units && window->entries[i].sequence < next_sequence)
			words[i / 64] |= 1ULL << i % 64;
}

void tcp_window_reported(struct tcp_window *window, unsigned half, uint64_t next_sequence, uint64_t word)
{
	for (unsigned i = half * 64; i < half * 64 + 64; i++) {
		struct tcp_window_entry *entry = &window->entries[i];

		/* A message that was not there when the report was made may have taken the place of one that was. */
		if (!entry->units || entry->sequence >= next_sequence)
			continue;
		if (word >> i % 64 & 1)
			mark_reported(window, entry);
		else
			tcp_window_release(window, i);
	}
}
