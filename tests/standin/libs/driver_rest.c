/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the driver that exist and do nothing. Weak: what driver.c defines is taken instead. */
#include "gpu/cuda.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define STUB(member, symbol, arguments)                                    \
	__attribute__((weak, visibility("default"))) int symbol arguments; \
	int symbol arguments                                               \
	{                                                                  \
		return GPU_CUDA_NOT_SUPPORTED;                             \
	}
GPU_CUDA_SYMBOLS(STUB)
