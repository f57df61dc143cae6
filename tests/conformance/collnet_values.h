/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers to reduce whose result is exact in every type and in every order of operations, so that any difference is an
 * error and none is rounding: small integers to add, ones and twos to multiply (up to 15 members). Pure.
 */
#ifndef TESTS_CONFORMANCE_COLLNET_VALUES_H
#define TESTS_CONFORMANCE_COLLNET_VALUES_H

#include <stddef.h>
#include <stdint.h>

enum { COLLNET_TYPES = 10, COLLNET_OPERATIONS = 4 }; /* enum nccl_datatype without fp8, nccl_redop without average */

size_t collnet_type_bytes(int type);
/* Elements `first` and following of member `rank`'s data. */
void collnet_values_fill(void *data, int type, int operation, unsigned rank, uint64_t seed, size_t first, size_t count);
/* Index of the first element that is not the reduction over `members`, or SIZE_MAX. */
size_t collnet_values_wrong_at(const void *data, int type, int operation, unsigned members, uint64_t seed, size_t first,
			       size_t count);

#endif
