/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the fabric's measurement share (fabric.h): everything that was measured, and the parts that hosts are
 * put in for now. Inner header.
 */
#ifndef TRIBUTARY_CLUSTERPROBE_FABRIC_INTERNAL_H
#define TRIBUTARY_CLUSTERPROBE_FABRIC_INTERNAL_H

#include "clusterprobe/fabric.h"

enum { FABRIC_TOP = 4, FABRIC_MODEL_HOSTS = 16, FABRIC_SCRATCH = 8 };

/* Why a round was run. */
enum fabric_purpose {
	FABRIC_PAIRS, /* one to one */
	FABRIC_FILL,  /* one to one, and as many as can be between parts: to fill their uplinks */
	FABRIC_CROWD, /* many from each host to other parts, and some single flows that are looked at */
	FABRIC_EXAM,  /* one part fills its uplink; the first flow is looked at */
	FABRIC_UP,    /* one part to all others, several flows from each host */
	FABRIC_DOWN,
};

struct fabric_sample {
	struct fabric_flow flow;
	float rate_Bps;
};
struct fabric_round {
	size_t first, count; /* samples */
	size_t single;       /* the first so many are the only ones of their hosts, out of one and into the other */
	enum fabric_purpose purpose;
};

/* What crosses the border of a part, one way. */
struct fabric_crossing {
	size_t flows, slow; /* of the round at hand */
	double rate_Bps;
	double square_Bps; /* rates squared, summed */
	double most_Bps;   /* of all one-to-one rounds */
};

struct fabric_work {
	struct fabric_probe *probe;
	struct diag *diag;
	size_t n; /* hosts */
	uint64_t random;
	struct fabric_sample *samples;
	struct fabric_round *rounds;
	size_t sample_count, round_count, expected;
	void *arrays;       /* all that follow */
	double *nic_Bps[2]; /* [n] out, in: the most that a host moved */
	double *top;        /* [2 n × FABRIC_TOP] of each NIC, the best rounds, the best first */
	unsigned *seen;     /* [2 n] rounds */
	uint16_t *part;     /* [n] */
	size_t part_count;  /* numbered by their first hosts */
	double *evidence;   /* [n × n], symmetric: above 0 against one leaf, below 0 for it; natural logarithms */
	double *between;    /* [n × n] scratch: evidence between parts */
	uint16_t *order;    /* [2 n] scratch */
	double *margin;     /* [n] how much better a host is where it is than in *other, the next best part, */
	uint16_t *other;    /* [n] by the model; of few hosts only */
	double *scratch;    /* [FABRIC_SCRATCH × n] */
	struct fabric_flow *flows;           /* [n × FABRIC_FLOWS_EACH]: of the round to be run */
	double *rates;                       /* of the round that ran */
	struct fabric_crossing *crossing[2]; /* [n] of each part, out and in */
};

static inline double fabric_nic(const struct fabric_work *work, struct fabric_flow flow)
{
	double out = work->nic_Bps[0][flow.from], in = work->nic_Bps[1][flow.to];

	return out < in ? out : in;
}
static inline struct fabric_direction *fabric_direction_of(const struct fabric *fabric, size_t leaf, bool down)
{
	return down ? &fabric->leaves[leaf].down : &fabric->leaves[leaf].up;
}
static inline bool fabric_one_to_one(const struct fabric_round *round)
{
	return round->purpose == FABRIC_PAIRS || round->purpose == FABRIC_FILL;
}

/* fabric_work.c. Tables for the n hosts: -ENOMEM; fabric_work_fini is due then, too. */
int fabric_work_init(struct fabric_work *work);
void fabric_work_fini(struct fabric_work *work);
uint64_t fabric_random(struct fabric_work *work, uint64_t below);
void fabric_shuffle(struct fabric_work *work, uint16_t *items, size_t count);
/* Runs work->flows, the first `count`, and keeps what came. What the probe says. */
int fabric_run(struct fabric_work *work, size_t count, size_t single, enum fabric_purpose purpose);
/* The few largest values so far, the first one first. */
void fabric_keep_top(double *top, size_t count, double value);
/* The value that this part of them is not above. Sorts them. */
double fabric_quantile(double *values, size_t count, double part);
/* Parts get the numbers of their first hosts' order. */
void fabric_number(struct fabric_work *work);

/* fabric_evidence.c: of all one-to-one rounds, with the parts as they are. */
void fabric_evidence(struct fabric_work *work);

/* fabric_partition.c: parts that the evidence speaks for. *ret_changed: they are others now. */
int fabric_partition(struct fabric_work *work, bool *ret_changed);
/* Halves of each part (numbers 2 p and 2 p + 1) between which an uplink is most likely, if there is one. */
void fabric_halves(struct fabric_work *work, uint16_t *ret_half);

/* fabric_model.c: better parts, where there are few hosts: from those that there are, from `before` and some random ones. */
int fabric_model_refine(struct fabric_work *work, const uint16_t *before, bool first);

/* How much the evidence prefers the part that a host is in to the next best, *ret_other. */
double fabric_margin(const struct fabric_work *work, size_t host, double *sum, uint16_t *ret_other);

/* fabric_plan.c: flows of a round into work->flows; how many. */
size_t fabric_plan_shift(struct fabric_work *work, const uint16_t *order, size_t shift);
/* Flows lead to other parts where they can, but for one from and one to a host of each part. */
size_t fabric_plan_fill(struct fabric_work *work);
/* Each part among its own. orders: of the hosts of each part. */
size_t fabric_plan_inside(struct fabric_work *work, const uint16_t *order, size_t shift);
/* Between the two halves of each part. */
size_t fabric_plan_halves(struct fabric_work *work, const uint16_t *half);
/* Uplinks crowded by several flows of each host, and single flows between doubtful pairs. *ret_single: how many. */
size_t fabric_plan_crowd(struct fabric_work *work, size_t *ret_single);
/*
 * From one part (or, with `other` another one, two) to all others, or back: so many flows (at least 1) of each of its hosts; where the others would have
 * more than FABRIC_FLOWS_EACH, fewer, or of fewer hosts.
 */
size_t fabric_plan_uplink(struct fabric_work *work, uint16_t part, uint16_t other, bool down, size_t turn, size_t each);

/* fabric_exam.c: asks where doubtful hosts are, with what the uplinks carry as found. */
int fabric_examine(struct fabric_work *work, const struct fabric *found, bool *ret_moved);

/* fabric_conclude.c */
int fabric_conclude(struct fabric_work *work, struct fabric *ret);

#endif
