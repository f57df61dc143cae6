/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a real nccl.h is on the machine, its public enums are the ones that include/nccl/ declares. The plugin
 * interfaces themselves are not in that header: their layout is asserted where it is declared, and tests/abi/ compares the
 * profiler's.
 */
#include <stdio.h>

#include "nccl/types.h"

#if defined(__has_include)
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>) /* which nccl.h includes */
#define HAVE_REAL_NCCL 1
#endif
#endif

enum { EXIT_SKIPPED = 77 };

#ifdef HAVE_REAL_NCCL

#include <nccl.h>

#define SAME(real, ours)                        \
	{                                       \
#real, (int)(real), (int)(ours) \
	}

static const struct {
	const char *name;
	int real, ours;
} values[] = {
	SAME(ncclSuccess, NCCL_SUCCESS),
	SAME(ncclUnhandledCudaError, NCCL_UNHANDLED_CUDA_ERROR),
	SAME(ncclSystemError, NCCL_SYSTEM_ERROR),
	SAME(ncclInternalError, NCCL_INTERNAL_ERROR),
	SAME(ncclInvalidArgument, NCCL_INVALID_ARGUMENT),
	SAME(ncclInvalidUsage, NCCL_INVALID_USAGE),
	SAME(ncclRemoteError, NCCL_REMOTE_ERROR),
	SAME(ncclInProgress, NCCL_IN_PROGRESS),
	SAME(ncclSum, NCCL_SUM),
	SAME(ncclProd, NCCL_PROD),
	SAME(ncclMax, NCCL_MAX),
	SAME(ncclMin, NCCL_MIN),
	SAME(ncclAvg, NCCL_AVG),
	SAME(ncclInt8, NCCL_INT8),
	SAME(ncclUint8, NCCL_UINT8),
	SAME(ncclInt32, NCCL_INT32),
	SAME(ncclUint32, NCCL_UINT32),
	SAME(ncclInt64, NCCL_INT64),
	SAME(ncclUint64, NCCL_UINT64),
	SAME(ncclFloat16, NCCL_FLOAT16),
	SAME(ncclFloat32, NCCL_FLOAT32),
	SAME(ncclFloat64, NCCL_FLOAT64),
	SAME(ncclBfloat16, NCCL_BFLOAT16),
#if NCCL_VERSION_CODE >= 22400
	SAME(ncclFloat8e4m3, NCCL_FLOAT8E4M3),
	SAME(ncclFloat8e5m2, NCCL_FLOAT8E5M2),
#endif
};

int main(void)
{
	int status = 0;

	_Static_assert(sizeof(ncclResult_t) == sizeof(enum nccl_result), "size of a result");
	_Static_assert(sizeof(ncclRedOp_t) == sizeof(enum nccl_redop), "size of an operation");
	_Static_assert(sizeof(ncclDataType_t) == sizeof(enum nccl_datatype), "size of a type");
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		if (values[i].real == values[i].ours)
			continue;
		fprintf(stderr, "%s is %d in nccl.h and %d here\n", values[i].name, values[i].real, values[i].ours);
		status = 1;
	}
	return status;
}

#else

int main(void)
{
	printf("skipped: no nccl.h with its CUDA headers in the include path\n");
	return EXIT_SKIPPED;
}

#endif
