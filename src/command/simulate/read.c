/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `tributary simulate`: what runs on a fabric, and in which orders. */
#include "command/simulate/simulation.h"

#include "base/log.h"
#include "base/parse.h"
#include "command/command.h"
#include "command/term.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const collective_words[SIMULATE_COLLECTIVE_COUNT] = {
	[SIMULATE_ALLREDUCE] = "allreduce",         [SIMULATE_ALLGATHER] = "allgather",
	[SIMULATE_REDUCESCATTER] = "reducescatter", [SIMULATE_ALLTOALL] = "alltoall",
	[SIMULATE_PERMUTATION] = "permutation",     [SIMULATE_INCAST] = "incast",
};
static const char *const collective_names[SIMULATE_COLLECTIVE_COUNT] = {
	[SIMULATE_ALLREDUCE] = "AllReduce",         [SIMULATE_ALLGATHER] = "AllGather",
	[SIMULATE_REDUCESCATTER] = "ReduceScatter", [SIMULATE_ALLTOALL] = "AlltoAll",
	[SIMULATE_PERMUTATION] = "Permutation",     [SIMULATE_INCAST] = "Incast",
};
static const char *const algorithm_words[] = { "ring", "tree", "hierarchical", "aggregators", NULL };

const char *simulation_collective_word(enum simulate_collective collective)
{
	return collective_words[collective];
}

const char *simulation_collective_name(enum simulate_collective collective)
{
	return collective_names[collective];
}

const char *simulation_algorithm_word(enum simulate_algorithm algorithm)
{
	return algorithm_words[algorithm];
}

/* -------------------------------------------------------------------------------------------------------------- orders */

static int order_of_file(const char *path, struct simulate_fabric *fabric, struct simulation_case *one)
{
	const char *name = strrchr(path, '/');
	uint64_t slots;

	term_clean(name ? name + 1 : path, one->order_word, sizeof(one->order_word));
	return simulation_hosts_of_file(path, "an order is rank, leaf, random:SEED or a file", fabric, one->order,
					&one->host_count, &slots);
}

int simulation_order(const struct command_call *call, const char *word, struct simulate_fabric *fabric,
		     struct simulation_case *one)
{
	uint64_t seed;
	int r = 0;

	one->order = calloc(fabric->host_count + 1, sizeof(*one->order));
	if (!one->order)
		return command_failed(NULL, ENOMEM, "the order of ranks cannot be made");
	one->host_count = fabric->host_count;
	snprintf(one->order_word, sizeof(one->order_word), "%.60s", word);
	if (!strcmp(word, "rank")) {
		simulate_order_rank(fabric, one->order);
	} else if (!strcmp(word, "leaf")) {
		r = simulate_order_leaf(fabric, one->order);
	} else if (!strncmp(word, "random:", 7)) {
		if (parse_u64(word + 7, 0, UINT64_MAX, &seed) < 0)
			return command_usage_error(call->command->name,
						   "--order has \"%.100s\", expected random: and a number", word);
		simulate_order_random(fabric, seed, one->order);
	} else {
		return order_of_file(word, fabric, one);
	}
	return r < 0 ? command_failed(NULL, r, "the order of ranks cannot be made") : COMMAND_OK;
}

/* --------------------------------------------------------------------------------------------------------------- cases */

static int add_case(const struct command_call *call, struct simulation *simulation, enum simulate_algorithm algorithm,
		    const char *order)
{
	struct simulation_case *one = &simulation->cases[simulation->case_count];

	if (simulation->case_count == SIMULATION_CASES_MAX)
		return command_usage_error("simulate", "at most %d algorithms and orders can be compared",
					   SIMULATION_CASES_MAX);
	one->algorithm = algorithm;
	simulation->case_count++;
	return simulation_order(call, order, &simulation->fabric, one);
}

/* Who aggregates depends on the leaves, not on the ranks; with several jobs the order says which hosts are of which. */
static bool order_matters(const struct simulation *simulation, enum simulate_algorithm algorithm)
{
	return algorithm < SIMULATE_HIERARCHICAL || simulation->job_count > 1 ||
	       simulation->collective != SIMULATE_ALLREDUCE;
}

static int add_cases(const struct command_call *call, struct simulation *simulation)
{
	bool rings_alone = simulation->collective == SIMULATE_ALLGATHER ||
			   simulation->collective == SIMULATE_REDUCESCATTER;
	const char *algorithms = command_value(call, "algo");
	const char *orders = command_value(call, "order");
	char word[SIMULATION_ITEM_BYTES], order[SIMULATION_ITEM_BYTES];

	if (!command_given(call, "algo") && rings_alone)
		algorithms = "ring";
	else if (!command_given(call, "algo") && simulation->fabric.aggregator_count)
		algorithms = "ring,tree,hierarchical,aggregators";
	for (const char *rest = algorithms; simulation_next_item(&rest, word);) {
		size_t algorithm = 0;

		if (parse_choice(word, algorithm_words, &algorithm) < 0)
			return command_usage_error(
				"simulate", "--algo has \"%s\", expected ring, tree, hierarchical or aggregators",
				word);
		for (const char *at = orders; simulation_next_item(&at, order);) {
			struct simulation_case *one = &simulation->cases[simulation->case_count];
			bool matters = order_matters(simulation, (enum simulate_algorithm)algorithm);
			int status;

			/* Where it does not matter the first one will do, unless it names some hosts only. */
			status = add_case(call, simulation, (enum simulate_algorithm)algorithm, order);
			if (status != COMMAND_OK)
				return status;
			if (matters)
				continue;
			if (one->host_count == simulation->fabric.host_count)
				one->order_word[0] = '\0';
			break;
		}
		if (simulation->collective >= SIMULATE_ALLTOALL)
			break; /* there is one way only */
	}
	return simulation->case_count ? COMMAND_OK
				      : command_usage_error("simulate", "--algo and --order need at least one word");
}

int simulation_case(const struct command_call *call, struct simulation *simulation)
{
	size_t algorithm = 0;
	int status = simulation_size(call, &simulation->bytes);

	if (status != COMMAND_OK)
		return status;
	if (parse_choice(command_value(call, "algo"), algorithm_words, &algorithm) < 0)
		return command_wrong_value(call, "algo", "ring, tree, hierarchical or aggregators");
	return add_case(call, simulation, (enum simulate_algorithm)algorithm, command_value(call, "order"));
}

int simulation_size(const struct command_call *call, double *ret_bytes)
{
	uint64_t bytes;

	if (parse_size(command_value(call, "size"), 1, UINT64_C(1) << 50, &bytes) < 0)
		return command_wrong_value(call, "size", "bytes, as 64M or 1G (powers of 1024) or 64MB");
	*ret_bytes = (double)bytes;
	return COMMAND_OK;
}

int simulation_settings(const struct command_call *call, struct simulate_settings *ret)
{
	uint64_t latency_ns;

	if (parse_seconds(command_value(call, "latency"), 0, 1000000000, &latency_ns) < 0)
		return command_wrong_value(call, "latency", "seconds up to 1, as 0.00001");
	*ret = simulate_defaults();
	ret->latency_s = (double)latency_ns / 1e9;
	return COMMAND_OK;
}

static int read_numbers(const struct command_call *call, struct simulation *simulation)
{
	static const char *const details[] = { "auto", "steps", "pipelined", NULL };
	int status = simulation_size(call, &simulation->bytes);
	uint64_t gpus = 0, jobs = 0;
	size_t detail = 0;

	while (strcmp(collective_words[simulation->collective], command_value(call, "collective")) != 0)
		simulation->collective = (enum simulate_collective)(simulation->collective + 1);
	if (status == COMMAND_OK)
		status = simulation_settings(call, &simulation->settings);
	if (status == COMMAND_OK)
		status = command_number(call, "gpus", 1, 64, &gpus);
	if (status == COMMAND_OK)
		status = command_number(call, "jobs", 1, 1024, &jobs);
	simulation->gpus = (unsigned)gpus;
	simulation->job_count = jobs;
	(void)parse_choice(command_value(call, "detail"), details, &detail); /* the parser knows the words */
	simulation->settings.detail = (enum simulate_detail)detail;
	return status;
}

static void name(const struct command_call *call, struct simulation *simulation)
{
	const char *file = command_value(call, "cluster"), *slash = file ? strrchr(file, '/') : NULL;

	snprintf(simulation->title, sizeof(simulation->title), "%.190s",
		 !file ? command_value(call, "fabric") : (slash ? slash + 1 : file));
}

int simulation_read(const struct command_call *call, struct simulation *ret)
{
	int status;

	memset(ret, 0, sizeof(*ret));
	status = read_numbers(call, ret);
	if (status == COMMAND_OK)
		status = simulation_fabric(call, ret->gpus,
					   command_given(call, "graph") ? SIMULATION_GIVEN : SIMULATION_PLANNED,
					   &ret->fabric);
	if (status == COMMAND_OK)
		status = add_cases(call, ret);
	if (status == COMMAND_OK)
		name(call, ret);
	else
		simulation_fini(ret);
	return status;
}

void simulation_fini(struct simulation *simulation)
{
	for (size_t i = 0; i < simulation->case_count; i++) {
		simulate_result_fini(&simulation->cases[i].result);
		free(simulation->cases[i].order);
	}
	simulate_fabric_fini(&simulation->fabric);
}
