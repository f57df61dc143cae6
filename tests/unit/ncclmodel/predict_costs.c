/* SPDX-License-Identifier: Apache-2.0 */
#include "predict_costs.h"

struct predict_costs predict_costs_of(const struct predict_communicator *communicator,
				      enum predict_collective collective, uint64_t bytes, unsigned operations)
{
	struct predict_costs costs;

	for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++)
		for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++)
			costs.us[a][p] = (float)predict_time_grouped_us(communicator, collective,
									(enum predict_algorithm)a,
									(enum predict_protocol)p, bytes, operations);
	return costs;
}

bool predict_costs_choose(const struct predict_costs *costs, enum predict_algorithm *ret_algorithm,
			  enum predict_protocol *ret_protocol)
{
	float least = -1;

	for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++) {
		for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++) {
			if (costs->us[a][p] < 0 || (least >= 0 && costs->us[a][p] >= least))
				continue;
			least = costs->us[a][p];
			*ret_algorithm = (enum predict_algorithm)a;
			*ret_protocol = (enum predict_protocol)p;
		}
	}
	return least >= 0;
}
