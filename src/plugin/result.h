/*
 * The one place where an errno value becomes NCCL's result code. Pure, any thread.
 */
#ifndef TRIBUTARY_PLUGIN_RESULT_H
#define TRIBUTARY_PLUGIN_RESULT_H

#include "nccl/types.h"

/* r: 0 or -errno. Anything else is a mistake of ours and becomes NCCL_INTERNAL_ERROR. */
enum nccl_result plugin_result(int r);

#endif
