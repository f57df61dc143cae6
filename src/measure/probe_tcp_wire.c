#include "measure/probe_tcp_wire.h"

#include <errno.h>
#include <string.h>

/* "TRBM", version, task, zeros. */
static const uint8_t magic[4] = { 'T', 'R', 'B', 'M' };
enum { VERSION_AT = 4, TASK_AT = 5, ZEROS_AT = 6, VERSION = 1 };

void probe_tcp_hello_encode(enum probe_tcp_task task, uint8_t ret[static PROBE_TCP_HELLO_BYTES])
{
	memset(ret, 0, PROBE_TCP_HELLO_BYTES);
	memcpy(ret, magic, sizeof(magic));
	ret[VERSION_AT] = VERSION;
	ret[TASK_AT] = (uint8_t)task;
}

int probe_tcp_hello_decode(const uint8_t bytes[static PROBE_TCP_HELLO_BYTES], enum probe_tcp_task *ret)
{
	if (memcmp(bytes, magic, sizeof(magic)))
		return -EBADMSG;
	if (bytes[VERSION_AT] != VERSION)
		return -EPROTO;
	if (bytes[TASK_AT] < PROBE_TCP_TAKE || bytes[TASK_AT] > PROBE_TCP_ECHO || bytes[ZEROS_AT] ||
	    bytes[ZEROS_AT + 1])
		return -EBADMSG;
	*ret = (enum probe_tcp_task)bytes[TASK_AT];
	return 0;
}
