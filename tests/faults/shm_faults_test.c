/* The life of the transport over shared memory, with every call that can fail failing once: see life.h. */
#include "base/params.h"
#include "life.h"
#include "support/runtime.h"

#include <errno.h>

#ifdef TRIBUTARY_FAULTS

int main(void)
{
	static struct life_fault faults[] = {
		{ SYS_FAULT_MEMORY, "memory", ENOMEM },
		{ SYS_FAULT_SOCKET, "socket", EMFILE },
		{ SYS_FAULT_BIND, "bind or listen", EADDRINUSE },
		{ SYS_FAULT_CONNECT, "connect: refused", ECONNREFUSED },
		{ SYS_FAULT_CONNECT, "connect: full", EAGAIN },
		{ SYS_FAULT_ACCEPT, "accept: descriptors", EMFILE },
		{ SYS_FAULT_ACCEPT, "accept: aborted", ECONNABORTED },
		{ SYS_FAULT_FILE, "segment", ENOMEM },
		{ SYS_FAULT_READ, "read: not this memory", EFAULT },
		{ SYS_FAULT_READ, "read: not allowed", ENOSYS },
		{ SYS_FAULT_READ, "read: gone", ESRCH },
		{ SYS_FAULT_WRITE, "hello", EPIPE },
	};
	struct params params;

	runtime_start("shm_faults_test", 280);
	params_defaults(&params);
	params.timeout_ns = 1000000000;
	return life_with_faults(&transport_shm, &params, faults, sizeof(faults) / sizeof(faults[0]));
}

#else

int main(void)
{
	return life_skipped();
}

#endif
