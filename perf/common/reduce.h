/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of the AllReduce benchmarks, and data whose sum is known for every element. Pure; any thread. */
#ifndef TRIBUTARY_PERF_REDUCE_H
#define TRIBUTARY_PERF_REDUCE_H

#include <stddef.h>
#include <stdint.h>

/* to = a + b, plain C. */
void reduce_add(float *to, const float *a, const float *b, size_t count);

/* Pages of zero, until the process ends; NULL. */
float *reduce_memory(size_t bytes);
/* Small whole numbers that depend on place and rank, so that every order of addition gives the same float. */
void reduce_fill(float *to, size_t count, int rank);
/* How many elements are not the sum over `size` ranks of those from `first` on. */
uint64_t reduce_wrong(const float *data, size_t first, size_t count, int size);
/* How many are not what that rank has from `first` on. */
uint64_t reduce_wrong_moved(const float *data, size_t first, size_t count, int rank);

#endif
