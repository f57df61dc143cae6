/* Random runs of the stand-in: jobs, hosts, communicators, faults and kills, all from a seed. */
#ifndef TESTS_STANDIN_SCHEDULE_H
#define TESTS_STANDIN_SCHEDULE_H

#include "play.h"

enum { SCHEDULE_HOST_0, SCHEDULE_HOST_1, SCHEDULE_SMALL, SCHEDULE_PLACES };
extern const struct board_place schedule_places[SCHEDULE_PLACES];

struct schedule_worlds {
	const struct world *usual[3];
	const struct world *foreign; /* whose profile describes other GPUs */
};

struct schedule_counts {
	unsigned due;    /* communicators of which nothing stood in the way of a plan */
	unsigned missed; /* and that had none */
};

/* One schedule. Failures are in play->counts. */
void schedule_run(struct play *play, const struct schedule_worlds *worlds, uint64_t seed,
		  struct schedule_counts *counts);

#endif
