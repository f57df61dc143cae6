/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tributary estimate` works with: a model's layers, the system's devices, how communication is predicted, and what
 * became of each case. One thread.
 */
#ifndef TRIBUTARY_COMMAND_ESTIMATE_ESTIMATION_H
#define TRIBUTARY_COMMAND_ESTIMATE_ESTIMATION_H

#include "simulate/job.h"
#include "simulate/step.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct command_call;

enum { ESTIMATION_LAYERS_MAX = 64, ESTIMATION_CASES_MAX = 8, ESTIMATION_NAME_BYTES = 64 };

/* Equal layers, on one device. */
struct estimation_layers {
	char name[ESTIMATION_NAME_BYTES];
	size_t count;
	enum step_parallel parallel;
	bool beside;
	double parameter_bytes;      /* of one layer, whole */
	double forward_flop, flop_s; /* of a device's batch by one layer; what the device does in a second */
	double activation_bytes;     /* of a device's batch: what tensor-parallel devices sum, each way */
	double output_bytes;         /* of a device's batch: what the next layer is given */
};
struct estimation_model {
	char name[ESTIMATION_NAME_BYTES];
	struct estimation_layers layers[ESTIMATION_LAYERS_MAX];
	size_t layer_count;
	double lookup_bytes;             /* that a device reads of its tables */
	double exchange_bytes;           /* that a device has after the exchange */
	double published_exchange_bytes; /* as the published model counts them */
	size_t tensor;                   /* devices that share a tensor-parallel layer; 1: none is */
	size_t stages, micro_batches;    /* of a pipeline; 1 stage: there is none */
};
struct estimation_system {
	struct step_system rates;
	double f32_flops, f16_flops; /* utilisation is in them */
	double memory_Bps;
};
struct estimation_case {
	const char *name, *why;
	bool bound; /* communication, and so the step, takes at least so long */
	struct step_times times;
};
struct estimation {
	struct estimation_system system;
	struct estimation_model model;
	bool published;
	struct simulate_fabric fabric; /* unless published */
	struct simulate_settings settings;
	double extra_Bps; /* of the one more aggregator a leaf; 0: none */
	struct estimation_case cases[ESTIMATION_CASES_MAX];
	size_t case_count;
};

/* Each says on stderr what is wrong, and returns an exit status. */
int estimation_read_system(const char *path, struct estimation_system *ret);
int estimation_read_model(const struct command_call *call, const char *path, const struct estimation_system *system,
			  struct estimation_model *ret);
/* The cases: the published formulas, or on the fabric. */
int estimation_run(const struct command_call *call, struct estimation *estimation);
void estimation_print(const struct estimation *estimation, FILE *out);
json_t *estimation_json(const struct estimation *estimation);

#endif
