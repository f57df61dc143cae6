/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the RDMA transport over the fake, with every call of the system that can fail failing once: see life.h. What
 * fails of libibverbs is in tests/unit/transport/verbs/calls_test.c.
 */
#include "base/params.h"
#include "life.h"
#include "support/runtime.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/fake_verbs.h"

#include <errno.h>
#include <stdio.h>

#ifdef TRIBUTARY_FAULTS

int main(void)
{
	static struct life_fault faults[] = {
		{ SYS_FAULT_MEMORY, "memory", ENOMEM },
		{ SYS_FAULT_SOCKET, "socket", EMFILE },
		{ SYS_FAULT_BIND, "bind or listen", EADDRINUSE },
		{ SYS_FAULT_CONNECT, "connect: refused", ECONNREFUSED },
		{ SYS_FAULT_ACCEPT, "accept: descriptors", EMFILE },
		{ SYS_FAULT_ACCEPT, "accept: aborted", ECONNABORTED },
		{ SYS_FAULT_READ, "read: reset", ECONNRESET },
		{ SYS_FAULT_WRITE, "write: reset", ECONNRESET },
		{ SYS_FAULT_THREAD, "thread", EAGAIN },
	};
	const struct fake_verbs_options options = { .devices = 1, .seed = 1 };
	struct params params;
	int failed;

	runtime_start("verbs_faults_test", 280);
	params_defaults(&params);
	params.timeout_ns = 1000000000;
	params.gid_index = 1;
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	verbs_transport_use(fake_verbs_start(&options), NULL);
	failed = life_with_faults(&transport_verbs, &params, faults, sizeof(faults) / sizeof(faults[0]));
	if (fake_verbs_stop())
		failed += runtime_complain(1, "objects are left") != 0;
	return failed;
}

#else

int main(void)
{
	return life_skipped();
}

#endif
