/* SPDX-License-Identifier: Apache-2.0 */
/* Any CPU of the architecture: what the compiler makes of the kernels without being told of an instruction set. */
#define VECTOR_BYTES 16
#include "reduce/vector.h"

#include "reduce/template.h"

const struct reduce_kernels *const reduce_kernels_scalar = &kernels;
