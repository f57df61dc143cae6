/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs over the contract, compared with its reference model (support/contract_program.h), on each transport's
 * own table: the fake RDMA device, and TCP.
 *
 * TRIBUTARY_TEST_LONG=1: a million operations for each. TRIBUTARY_TEST_FILTER: only the movers whose name begins so.
 */
#include "base/log.h"
#include "base/params.h"
#include "support/contract_program.h"
#include "support/log_lines.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/fake_verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_NS UINT64_C(10000000000) /* an eighth of it, for a new queue pair, is less than a stall */

/* Connections are broken by the hundred, on purpose. */
static uint64_t operations_of(uint64_t in_short)
{
	return runtime_long() ? 500000 : in_short;
}

static bool is_wanted(const char *label)
{
	const char *filter = runtime_setting("TEST_FILTER");

	return !filter || !strncmp(label, filter, strlen(filter));
}

struct variant {
	const char *label;
	uint64_t operations;        /* in the short form */
	unsigned qps, most_regions; /* of verbs */
	bool lazy, pace;
	bool draws; /* TCP: streams and movers; or one, and none */
	void (*disturb)(uint64_t *random);
};

static unsigned run(const struct transport_ops *ops, const struct params *params, const struct variant *variant,
		    struct contract_counts *counts)
{
	static unsigned movers;
	struct contract_mover mover = { .label = variant->label,
					.ops = ops,
					.first_seed = contract_first_seed(movers++),
					.disturb = variant->disturb };
	unsigned failed;

	if (!is_wanted(mover.label))
		return 0;
	if (ops->open(params, &mover.transport) < 0)
		return !!runtime_complain(1, "%s: the transport cannot be opened", mover.label);
	mover.max_recvs = TRANSPORT_MAX_RECVS; /* TCP takes groups, too, although it wants NCCL to use none */
	failed = contract_programs_run(&mover, operations_of(variant->operations), counts);
	ops->close(mover.transport);
	return failed;
}

/* A queue pair of one end or the other is lost, in each of the ways that another one makes good. */
static void lose_a_queue(uint64_t *random)
{
	static const enum fake_verbs_loss ways[] = { FAKE_VERBS_ARRIVES_NOT, FAKE_VERBS_ARRIVES_HALF,
						     FAKE_VERBS_ARRIVES_WHOLE };

	fake_verbs_lose(0, ways[random_below(random, sizeof(ways) / sizeof(ways[0]))]);
}

static const struct variant verbs_variants[] = {
	{ .label = "verbs", .operations = 60000, .qps = 1, .pace = true },
	{ .label = "verbs, four queues", .operations = 60000, .qps = 4, .lazy = true },
	{ .label = "verbs, copied", .operations = 20000, .qps = 1, .pace = true, .most_regions = 4 },
	{ .label = "verbs, queues are lost", .operations = 20000, .qps = 2, .pace = true, .disturb = lose_a_queue },
	{ 0 },
};

static unsigned run_verbs(const struct variant *variant, struct contract_counts *counts)
{
	const struct fake_verbs_options options = { .devices = 1,
						    .seed = contract_first_seed(0),
						    .lazy = variant->lazy,
						    .most_regions = variant->most_regions };
	struct fake_verbs_counts device;
	struct params params;
	unsigned failed;

	params_defaults(&params);
	params.timeout_ns = TIMEOUT_NS;
	params.gid_index = 1;
	params.qps = variant->qps;
	params.pace = variant->pace;
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	verbs_transport_use(fake_verbs_start(&options), NULL);
	failed = run(&transport_verbs, &params, variant, counts);
	if (fake_verbs_stop())
		failed += !!runtime_complain(1, "%s: objects are left", variant->label);
	verbs_transport_use(NULL, NULL);
	fake_verbs_counts(&device);
	if (variant->disturb && is_wanted(variant->label) && !device.failed_queues)
		failed += !!runtime_complain(1, "%s: none was", variant->label);
	if (device.missing_receives || device.overflows || device.wrong_calls)
		failed += !!runtime_complain(1, "%s: the device refused something", variant->label);
	return failed;
}

static const struct variant tcp_variants[] = {
	{ .label = "tcp", .operations = 30000 },
	{ .label = "tcp, streams and movers drawn", .operations = 10000, .draws = true },
	{ 0 },
};

static unsigned run_tcp(const struct variant *variant, struct contract_counts *counts)
{
	struct params params;

	params_defaults(&params);
	params.timeout_ns = TIMEOUT_NS;
	params.streams = 1;
	if (variant->draws)
		runtime_draw_streams(0, &params.streams, &params.movers);
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	return run(&transport_tcp, &params, variant, counts);
}

int main(void)
{
	struct contract_counts verbs = { 0 }, tcp = { 0 };
	unsigned failed = 0;

	runtime_start("programs_transports_test", 200);
	log_set_sink(log_lines_ignore);
	for (const struct variant *variant = verbs_variants; variant->label; variant++)
		failed += run_verbs(variant, &verbs);
	contract_counts_print("verbs", &verbs);
	for (const struct variant *variant = tcp_variants; variant->label; variant++)
		failed += run_tcp(variant, &tcp);
	contract_counts_print("tcp, inner interface", &tcp);
	return failed != 0;
}
