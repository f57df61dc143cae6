/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tributary simulate` works with: a fabric, the cases that are compared (an algorithm and an order of ranks each),
 * what became of each, and how it is printed and drawn. One thread.
 */
#ifndef TRIBUTARY_COMMAND_SIMULATE_SIMULATION_H
#define TRIBUTARY_COMMAND_SIMULATE_SIMULATION_H

#include "aggregate/gain.h"
#include "command/simulate/machine.h"
#include "simulate/job.h"

#include <jansson.h>
#include <stdio.h>

struct cluster_rates;
struct command_call;

enum { SIMULATION_CASES_MAX = 32, SIMULATION_BUSIEST = 6, SIMULATION_ORDER_BYTES = 64, SIMULATION_ITEM_BYTES = 256 };

enum simulation_kind {
	SIMULATION_NICS,
	SIMULATION_UPLINKS,
	SIMULATION_AGGREGATORS,
	SIMULATION_INSIDE,
	SIMULATION_KINDS
};

struct simulation_case {
	enum simulate_algorithm algorithm;
	char order_word[SIMULATION_ORDER_BYTES]; /* "" where it does not matter */
	uint32_t *order;                         /* hosts */
	size_t host_count;
	struct simulate_result result;        /* of all jobs, in the order of their hosts */
	double time_s;                        /* of the last job */
	struct simulate_outcome worst;        /* that job; bound: of any of them */
	uint32_t busiest[SIMULATION_BUSIEST]; /* the links with the highest load */
	size_t busiest_count;
	double most_bytes[SIMULATION_KINDS]; /* on the busiest link of each kind */
	struct gain gain, leaf_gain;         /* simulate_gain(), in the case's order and by leaf */
};

struct simulation {
	struct simulate_fabric fabric;
	struct simulate_settings settings;
	enum simulate_collective collective;
	double bytes;
	unsigned gpus;
	size_t job_count;
	char title[200];
	struct simulation_case cases[SIMULATION_CASES_MAX];
	size_t case_count;
};

/* Fills in fabric, cases (without results) and all else from the command line. Says what is wrong; an exit status. */
int simulation_read(const struct command_call *call, struct simulation *ret);
/* watched: what the busiest links carry over time is kept too. Says what went wrong; an exit status. */
int simulation_run(struct simulation *simulation, bool watched);
void simulation_fini(struct simulation *simulation);
/*
 * The fabric alone, from the options of a call that has them: cluster, fabric, rate, aggregators, degrade, payload, from,
 * profile, graph. *ret is all zero before; simulate_fabric_fini accepts it whatever comes of it. An exit status. A cluster
 * of which no host's rate is known is refused.
 */
int simulation_network(const struct command_call *call, struct simulate_fabric *ret); /* without those of a machine */
int simulation_fabric(const struct command_call *call, unsigned gpus, enum simulation_channels whose,
		      struct simulate_fabric *ret);

/*
 * As it is, by the file (NULL: none; file_word is its name in complaints) or the options fabric and rate of the call; rates
 * may be unknown. An exit status.
 */
int simulation_base(const struct command_call *call, const char *file, const char *file_word,
		    struct simulate_fabric *ret, struct cluster_rates *ret_rates);
/* The next item of a list with commas, cut off where it is too long. False: no more. */
bool simulation_next_item(const char **rest, char item[static SIMULATION_ITEM_BYTES]);

/*
 * Hosts in the way of lists, "node[1-8],x3", or hosts files, with their domains or without: the fabric calls them as these do
 * from then on. ret has room for all. An exit status.
 */
int simulation_hosts_of_list(const char *list, struct simulate_fabric *fabric, uint32_t *ret, size_t *ret_count);
/* hint: of file_load. ret_slots: ranks that the first of its lines that says any gives a host; 0: none does. */
int simulation_hosts_of_file(const char *path, const char *hint, struct simulate_fabric *fabric, uint32_t *ret,
			     size_t *ret_count, uint64_t *ret_slots);
/* One of --order's words, or a file: fills in order, order_word and host_count. */
int simulation_order(const struct command_call *call, const char *word, struct simulate_fabric *fabric,
		     struct simulation_case *one);

/* --size; --latency. Say what is wrong; an exit status. */
int simulation_size(const struct command_call *call, double *ret_bytes);
int simulation_settings(const struct command_call *call, struct simulate_settings *ret);

/* One AllReduce by the options size, algo and order, on the fabric that is there. An exit status. */
int simulation_case(const struct command_call *call, struct simulation *simulation);

/* By aggregate/gain.h, beside what is simulated; 0: it says nothing of such a case. */
double simulation_answered_s(const struct simulation *simulation, const struct simulation_case *one);
/* Of all that a link could have carried in the case's time; 0 where nothing bounds it. */
double simulation_load(const struct simulation_case *one, uint32_t link);
const char *simulation_algorithm_word(enum simulate_algorithm algorithm);
/* As JSON and the command line have it; as sentences do, "AllReduce". */
const char *simulation_collective_word(enum simulate_collective collective);
const char *simulation_collective_name(enum simulate_collective collective);
/* "ring, order leaf" */
void simulation_case_words(const struct simulation *simulation, const struct simulation_case *one, char *text,
			   size_t text_bytes);

struct answer;
void simulation_answer(const struct simulation *simulation, struct answer *ret);
void simulation_print(const struct simulation *simulation, FILE *out);
json_t *simulation_json(const struct simulation *simulation);

#endif
