/*
 * Random programs over the contract, compared with its reference model (support/contract_program.h), on each transport's
 * own table: shared memory with one copy and with two, the fake RDMA device with one queue pair and with four, TCP.
 *
 * TRIBUTARY_TEST_LONG=1: a million operations for each. TRIBUTARY_TEST_FILTER: only the movers whose name begins so.
 */
#include "base/log.h"
#include "base/params.h"
#include "support/contract_program.h"
#include "transport/shm/shm.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/fake_verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_NS UINT64_C(30000000000) /* a busy machine is no dead peer */

/* Connections are broken by the hundred, on purpose. */
static void quiet(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)fmt;
}

static uint64_t operations_of(uint64_t in_short)
{
	return runtime_long() ? 500000 : in_short;
}

static bool is_wanted(const char *label)
{
	const char *filter = runtime_setting("TEST_FILTER");

	return !filter || !strncmp(label, filter, strlen(filter));
}

static unsigned run(const struct transport_ops *ops, const struct params *params, const char *label, uint64_t in_short,
		    struct contract_counts *counts)
{
	struct contract_mover mover = { .label = label, .ops = ops };
	struct transport_properties properties;
	uint64_t began_ns = runtime_now_ns();
	unsigned failed;

	if (!is_wanted(label))
		return 0;
	if (ops->open(params, &mover.transport) < 0 ||
	    ops->device_properties(mover.transport, 0, &properties) < 0)
		return !!runtime_complain(1, "%s: the transport cannot be opened", label);
	mover.max_recvs = (unsigned)properties.max_recvs;
	failed = contract_programs_run(&mover, operations_of(in_short), counts);
	ops->close(mover.transport);
	fprintf(stderr, "%s: %.1f s\n", label, (double)(runtime_now_ns() - began_ns) / 1e9);
	return failed;
}

static unsigned run_verbs(unsigned qps, bool lazy, bool pace, const char *label, struct contract_counts *counts)
{
	const struct fake_verbs_options options = { .devices = 2, .seed = contract_first_seed(), .lazy = lazy };
	struct fake_verbs_counts device;
	struct params params;
	unsigned failed;

	params_defaults(&params);
	params.timeout_ns = TIMEOUT_NS;
	params.gid_index = 1;
	params.qps = qps;
	params.pace = pace;
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	verbs_transport_use(fake_verbs_start(&options), NULL);
	failed = run(&transport_verbs, &params, label, 6000, counts);
	if (fake_verbs_stop())
		failed += !!runtime_complain(1, "%s: objects are left", label);
	verbs_transport_use(NULL, NULL);
	fake_verbs_counts(&device);
	if (device.missing_receives || device.overflows || device.wrong_calls)
		failed += !!runtime_complain(1, "%s: the device refused something", label);
	return failed;
}

int main(void)
{
	struct contract_counts shm = { 0 }, verbs = { 0 };
	struct params params;
	unsigned failed = 0;

	runtime_start("programs_transports_test", 200);
	log_set_sink(quiet);
	params_defaults(&params);
	params.timeout_ns = TIMEOUT_NS;
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	failed += run(&transport_shm, &params, "shm", 20000, &shm);
	shm_set_pull(false);
	failed += run(&transport_shm, &params, "shm, two copies", 20000, &shm);
	contract_counts_print("shm", &shm);
	failed += run_verbs(1, false, true, "verbs", &verbs);
	failed += run_verbs(4, true, false, "verbs, four queues", &verbs);
	contract_counts_print("verbs", &verbs);
	return failed != 0;
}
