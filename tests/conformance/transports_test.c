/* The contract of transport.h over each transport's own table, with what NCCL's interface does not show: watch. */
#include "base/params.h"
#include "support/runtime.h"
#include "support/transport_suite.h"
#include "transport/shm/shm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

int main(void)
{
	struct params params;
	int failed = 0;

	runtime_start("transports_test", 110);
	params_defaults(&params);
	params.timeout_ns = 3000000000;
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	failed += transport_suite_run(&transport_tcp, &params, "tcp", TRANSPORT_SUITE_ROUNDS / 2);
	params.threads = 2;
	failed += transport_suite_run(&transport_tcp, &params, "tcp, engine threads", TRANSPORT_SUITE_ROUNDS / 4);
	params.threads = 0;
	params.streams = 3;
	failed += transport_suite_run(&transport_tcp, &params, "tcp, three streams", TRANSPORT_SUITE_ROUNDS / 4);
	params_defaults(&params);
	params.timeout_ns = 3000000000;
	failed += transport_suite_run(&transport_shm, &params, "shm", TRANSPORT_SUITE_ROUNDS / 2);
	shm_set_pull(false);
	failed += transport_suite_run(&transport_shm, &params, "shm, two copies", TRANSPORT_SUITE_ROUNDS / 2);
	return failed != 0;
}
