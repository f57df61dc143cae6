/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place where an errno value becomes NCCL's result code. Any thread, no lock held: what was logged about an error
 * is written first, as the process may end of it. That takes 100 ms at most, once, where the log is blocked.
 */
#ifndef TRIBUTARY_PLUGIN_RESULT_H
#define TRIBUTARY_PLUGIN_RESULT_H

#include "nccl/types.h"

/* r: 0 or -errno. Anything else is a mistake of ours and becomes NCCL_INTERNAL_ERROR. */
enum nccl_result plugin_result(int r);

#endif
