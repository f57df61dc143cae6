/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of costs as NCCL fills them, for the tests of the tuner. */
#ifndef TRIBUTARY_TESTS_UNIT_PLAN_PREDICT_COSTS_H
#define TRIBUTARY_TESTS_UNIT_PLAN_PREDICT_COSTS_H

#include "tributary/predict.h"

struct predict_costs {
	float us[PREDICT_ALGORITHM_COUNT][PREDICT_PROTOCOL_COUNT]; /* -1: not allowed */
};

struct predict_costs predict_costs_of(const struct predict_communicator *communicator,
				      enum predict_collective collective, uint64_t bytes, unsigned operations);
/* What NCCL takes: the first of the cheapest. False: nothing is allowed. */
bool predict_costs_choose(const struct predict_costs *costs, enum predict_algorithm *ret_algorithm,
			  enum predict_protocol *ret_protocol);

#endif
