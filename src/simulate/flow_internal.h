/* SPDX-License-Identifier: Apache-2.0 */
/* What flow.c (time) and flow_rates.c (rates) share. */
#ifndef TRIBUTARY_SIMULATE_FLOW_INTERNAL_H
#define TRIBUTARY_SIMULATE_FLOW_INTERNAL_H

#include "simulate/flow.h"

#include <stdbool.h>

#define FLOW_NONE UINT32_MAX

/*
 * Where a crossing is listed at its link: the flows that this link holds back, the other ones, and those whose rates are
 * being worked out.
 */
enum flow_list { FLOW_HELD, FLOW_PASSING, FLOW_OPEN, FLOW_LIST_COUNT };

enum flow_state { FLOW_WAITING, FLOW_DUE, FLOW_RUNNING, FLOW_DONE };

struct flow_step { /* one link of one flow */
	uint32_t link, flow;
	uint32_t next, previous; /* in the link's list */
	float weight;
	uint8_t list;
};

struct flow_one {
	uint32_t first_step, step_count; /* over links that bound something; the others are behind them */
	uint32_t free_count;
	uint32_t first_after; /* who waits for it */
	uint32_t waits;       /* flows that it waits for */
	uint32_t place;       /* in the heap, or FLOW_NONE */
	uint8_t state;
	bool open;  /* its rate is being worked out */
	bool fixed; /* and has been, in this round */
	uint8_t mark;
	double bytes, left_bytes;
	double rate_Bps, rate_before_Bps;
	double updated_s; /* left_bytes is of then */
	double start_s, end_s;
	double key_s; /* when it starts or ends: the heap's order */
};

struct flow_after {
	uint32_t flow, next;
	double lag_s;
};

struct flow_line { /* a link */
	double capacity_Bps;
	double used_Bps;        /* by flows whose rates are fixed */
	double open_weight;     /* of flows whose rates are not */
	double level_Bps;       /* rate of the flows that it holds back */
	double before_Bps;      /* its level before this event; -1: it held nobody back */
	double round_Bps;       /* highest rate that this round gave to a flow on it */
	double round_level_Bps; /* rate of those that it holds back since this round; -1: nobody */
	double bytes, busy_s, busy_since_s;
	uint32_t lists[FLOW_LIST_COUNT];
	uint32_t settled, round_held; /* flows that it holds back: not open, and since this round */
	uint32_t active;
	uint32_t watch; /* of network->watches, or FLOW_NONE */
	bool touched;   /* is in network->touched */
};

struct flow_watch {
	uint32_t link;
	struct flow_point *points;
	size_t count;
};

struct flow_level { /* of the heap of links */
	double level_Bps;
	uint32_t link;
};

struct flow_network {
	struct flow_line *lines;
	size_t line_count;
	struct flow_one *flows;
	size_t flow_count;
	struct flow_step *steps;
	size_t step_count;
	struct flow_after *afters;
	size_t after_count;
	struct flow_watch *watches;
	size_t watch_count;
	void *arrays;   /* the block of heap, open, touched, levels */
	uint32_t *heap; /* flows that are due or running */
	size_t heap_count;
	uint32_t *open; /* flows whose rates are being worked out */
	size_t open_count;
	uint32_t *touched; /* links of these */
	size_t touched_count;
	struct flow_level *levels;
	size_t level_count;
	double now_s, end_s;
	double at_once; /* relative */
	bool running;
	uint8_t mark; /* of the next flows */
	struct flow_work work;
};

/* Puts a starting flow on its links, open. */
void flow_enter(struct flow_network *network, uint32_t flow);
/* Takes an ending flow off them; whom that helps is opened. */
void flow_leave(struct flow_network *network, uint32_t flow);
/* Fair rates for all open flows, and for whoever these concern. The open flows are left listed in network->open. */
void flow_share(struct flow_network *network);

#endif
