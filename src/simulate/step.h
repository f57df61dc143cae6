/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One training step as two streams, in the way of published performance models: what computes runs in the order in which it
 * is issued, and so does what communicates; either waits for what it needs of the other. Pure.
 */
#ifndef TRIBUTARY_SIMULATE_STEP_H
#define TRIBUTARY_SIMULATE_STEP_H

#include <stdbool.h>
#include <stddef.h>

enum step_parallel {
	STEP_NONE,  /* nothing is shared, or the layer has nothing to train */
	STEP_DDP,   /* gradients: AllReduce, each layer's when it is there */
	STEP_FSDP,  /* parameters: AllGather before a layer's forward and backward; gradients: ReduceScatter */
	STEP_TENSOR /* activations: AllReduce, which the next layer waits for; gradients as with DDP */
};
/* So many equal layers after each other, on one device; times of each. */
struct step_layers {
	size_t count;
	enum step_parallel parallel;
	bool beside; /* does not need what the lookups give: computes while that is exchanged */
	double forward_s, backward_s;
	double gather_s, scatter_s; /* parameters, gradients: FSDP */
	double reduce_s;            /* gradients: DDP, tensor parallel */
	double activations_s;       /* both ways: tensor parallel */
};
/* Embeddings that are spread over all devices: looked up, and exchanged with all others. */
struct step_lookups {
	double forward_s, backward_s;
	double exchange_s; /* AllToAll, each way; 0: there is none */
};
struct step_times {
	double step_s;
	double compute_s, communication_s; /* sums */
	double exposed_s;                  /* nothing computes, as it waits */
	double bubble_s;                   /* nor because a stage of a pipeline has nothing to do; not in exposed_s */
};

/* Layers in the order of their forward pass; those beside the lookups come first. */
struct step_times step_estimate(const struct step_lookups *lookups, const struct step_layers *layers, size_t count);

/*
 * The layers cut in stages, each on devices of its own, and the batch in micro-batches, one forward and one backward by
 * turns (1F1B): at most so many micro-batches are at a stage as there are stages from it on. Sends overlap with
 * computing; gradients are summed as the last micro-batch goes back through the layers.
 */
enum { STEP_STAGES_MAX = 1024, STEP_MICRO_BATCHES_MAX = 16384 };
struct step_stage {
	const struct step_layers
		*layers; /* in the order of their forward pass; times are a micro-batch's, sums' the step's */
	size_t count;
};
struct step_pipeline {
	size_t stages, micro_batches;
	const struct step_stage *each; /* [stages] */
	double send_s;                 /* activations, or their gradients, of one micro-batch to the next stage */
};
/*
 * compute_s: of the stage that computes most; bubble_s: by how much the step would be longer than that if nothing took any
 * time on the network; exposed_s: the rest. -EINVAL: none, or too many; -ENOMEM.
 */
int step_pipeline(const struct step_pipeline *pipeline, struct step_times *ret);

/*
 * The published model's rates (MAD-Max, ISCA 2024), per device, without latency: between hosts AllReduce goes at the blend
 * of both, AllToAll at that between hosts, AllGather and ReduceScatter at twice the AllReduce's.
 */
struct step_system {
	size_t devices, hosts;
	double link_Bps, link_utilisation; /* of a device inside its host, both directions together */
	double port_Bps, port_utilisation; /* of its host's ports, likewise, over its devices */
	double ports;
	double intra_share; /* of an AllReduce: p in p × inside + (1 − p) × between */
};
double step_intra_Bps(const struct step_system *system);
double step_blend_Bps(const struct step_system *system);
double step_exchange_Bps(const struct step_system *system);

#endif
