/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP transport's life, streams and movers drawn, with every call that can fail failing once: see life.h. */
#include "base/params.h"
#include "life.h"
#include "support/runtime.h"

#include <errno.h>
#include <stdio.h>

#ifdef TRIBUTARY_FAULTS

int main(void)
{
	static struct life_fault faults[] = {
		{ SYS_FAULT_MEMORY, "memory", ENOMEM },
		{ SYS_FAULT_THREAD, "thread", EAGAIN },
		{ SYS_FAULT_SOCKET, "socket", EMFILE },
		{ SYS_FAULT_BIND, "bind or listen", EADDRINUSE },
		{ SYS_FAULT_CONNECT, "connect: refused", ECONNREFUSED },
		{ SYS_FAULT_CONNECT, "connect: no route", ENETUNREACH },
		{ SYS_FAULT_ACCEPT, "accept: descriptors", EMFILE },
		{ SYS_FAULT_ACCEPT, "accept: aborted", ECONNABORTED },
		{ SYS_FAULT_READ, "read: reset", ECONNRESET },
		{ SYS_FAULT_READ, "read: timed out", ETIMEDOUT },
		{ SYS_FAULT_WRITE, "write: reset", ECONNRESET },
		{ SYS_FAULT_WRITE, "write: pipe", EPIPE },
	};
	struct params params;

	runtime_start("tcp_faults_test", 280);
	params_defaults(&params);
	params.net = NET_CHOICE_TCP;
	params.timeout_ns = 1000000000;
	runtime_draw_streams(0, &params.streams, &params.movers);
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	return life_with_faults(&transport_tcp, &params, faults, sizeof(faults) / sizeof(faults[0]));
}

#else

int main(void)
{
	return life_skipped();
}

#endif
