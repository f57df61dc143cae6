/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/result.h"

#include "base/log.h"

#include <errno.h>

enum {
	GREATEST_ERRNO = 4095, /* the kernel's own limit */
	DRAIN_MS = 100,
};

enum nccl_result plugin_result(int r)
{
	if (r < 0)
		(void)log_drain(DRAIN_MS);
	if (r > 0 || r < -GREATEST_ERRNO)
		return NCCL_INTERNAL_ERROR;
	switch (-r) {
	case 0:
		return NCCL_SUCCESS;
	case EREMOTEIO: /* the peer is gone */
		return NCCL_REMOTE_ERROR;
	case EINVAL:
		return NCCL_INVALID_ARGUMENT;
	case EPROTO:   /* the peers do not agree on protocol or settings */
	case EMSGSIZE: /* a message longer than its receive */
	case ECHILD:   /* a forked child that uses its parent's plugin */
		return NCCL_INVALID_USAGE;
	case EOPNOTSUPP: /* a slot that NCCL has no reason to call, given the properties it was told */
		return NCCL_INTERNAL_ERROR;
	default:
		return NCCL_SYSTEM_ERROR;
	}
}
