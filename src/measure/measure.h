/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures a machine: plans few sets of simultaneous flows that load each link to its limit, runs them on probes, and
 * infers what each link carries. docs/design/measuring.md says how. Command only; one thread.
 */
#ifndef TRIBUTARY_MEASURE_MEASURE_H
#define TRIBUTARY_MEASURE_MEASURE_H

#include "measure/probe.h"

struct measure_options {
	uint64_t budget_ns; /* for the whole; 0: 60 s */
	bool quick;         /* 10 s, and only what the planner needs most */
	/* Called between repetitions: done of about total, which may still grow; what: what runs now. NULL: none. */
	/* total: an estimate that grows where more runs are needed; done < total. */
	void (*progress)(void *arg, size_t done, size_t total, const char *what);
	void *progress_arg;
	const _Atomic bool *stop; /* what is known so far is kept when it is set; NULL: never */
	int64_t date_s;           /* of the measurement, put into every capacity */
};

enum measure_finding_kind {
	MEASURE_DISTURBED,     /* repetitions contradict each other after all repeats: not used */
	MEASURE_CONTRADICTION, /* two experiments cannot both be right: named, neither believed alone */
	MEASURE_NOT_MEASURABLE,
	MEASURE_FINDING_KIND_COUNT
};

struct measure_finding {
	enum measure_finding_kind kind;
	char subject[TOPOLOGY_NAME_BYTES * 2]; /* a directed link, a pair, an experiment */
	char text[400];
};

struct measure_report {
	size_t experiment_count, run_count, repeat_count;
	uint64_t time_ns;
	bool stopped, out_of_time;
	struct measure_finding *findings; /* malloc'ed */
	size_t finding_count;
};

/*
 * Writes capacities, limits and pairs into *topology: measured ones, and lower bounds for links that nothing could load.
 * What no probe can reach keeps what it had. Errors: -ENOMEM, -EINVAL (no probe). An empty machine is no error.
 */
int measure_run(struct topology *topology, struct probe *const *probes, size_t probe_count,
		const struct measure_options *options, struct measure_report *ret);
void measure_report_fini(struct measure_report *report);

#endif
