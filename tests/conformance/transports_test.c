/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of transport.h over each transport's own table, with what NCCL's interface does not show: watch. */
#include "base/log.h"
#include "base/params.h"
#include "support/runtime.h"
#include "support/transport_suite.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/fake_verbs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Closed connects expire after it, for which a case waits. */
#define TIMEOUT_NS UINT64_C(5000000000)

/* Both ends of a fake device, in this process: real ones are in the virtual machine's tests. */
static int run_verbs(unsigned qps, bool lazy, const char *label, unsigned rounds)
{
	const struct fake_verbs_options options = { .devices = 2, .seed = runtime_seed(), .lazy = lazy };
	struct fake_verbs_counts counts;
	struct params params;
	int failed;

	params_defaults(&params);
	params.timeout_ns = TIMEOUT_NS;
	params.gid_index = 1;
	params.qps = qps;
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	verbs_transport_use(fake_verbs_start(&options), NULL);
	failed = transport_suite_run(&transport_verbs, &params, label, rounds);
	if (fake_verbs_stop())
		failed += runtime_complain(1, "%s: objects are left", label) != 0;
	verbs_transport_use(NULL, NULL);
	fake_verbs_counts(&counts);
	if (counts.missing_receives || counts.overflows || counts.wrong_calls)
		failed += runtime_complain(1, "%s: %u receives were missing, %u overflows, %u wrong calls", label,
					   (unsigned)counts.missing_receives, (unsigned)counts.overflows,
					   (unsigned)counts.wrong_calls) != 0;
	return failed;
}

/* This host's own devices, where it has some: the virtual machine's SoftRoCE, or real cards. */
static int run_devices(void)
{
	struct params params;
	struct diag diag = { 0 };

	params_defaults(&params);
	params.timeout_ns = 30000000000; /* a virtual machine may be slow */
	if (!transport_verbs_is_there(&params, &diag)) {
		fprintf(stderr, "skipped: verbs over real devices: %s\n", diag.text);
		return 0;
	}
	return transport_suite_run(&transport_verbs, &params, "verbs, real device", TRANSPORT_SUITE_ROUNDS / 4);
}

int main(void)
{
	struct params params;
	int failed = 0;

	runtime_start("transports_test", 160);
	runtime_watch_stalls();
	params_defaults(&params);
	params.timeout_ns = TIMEOUT_NS;
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	failed += transport_suite_run(&transport_tcp, &params, "tcp", TRANSPORT_SUITE_ROUNDS / 2);
	runtime_draw_streams(0, &params.streams, &params.movers);
	failed += transport_suite_run(&transport_tcp, &params, "tcp, streams and movers drawn", TRANSPORT_SUITE_ROUNDS / 4);
	failed += run_verbs(1, false, "verbs", TRANSPORT_SUITE_ROUNDS / 2);
	failed += run_verbs(4, true, "verbs, four queues", TRANSPORT_SUITE_ROUNDS / 2);
	failed += run_devices();
	return failed != 0;
}
