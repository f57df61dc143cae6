/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/step.h"

#include <math.h>

struct streams {
	double compute_end_s, network_end_s;
	struct step_times times;
};

static double compute(struct streams *streams, double time_s, double after_s)
{
	streams->compute_end_s = fmax(streams->compute_end_s, after_s) + time_s;
	streams->times.compute_s += time_s;
	return streams->compute_end_s;
}

/* 0: nothing is sent, and nobody waits. */
static double communicate(struct streams *streams, double time_s, double after_s)
{
	if (time_s <= 0)
		return after_s;
	streams->network_end_s = fmax(streams->network_end_s, after_s) + time_s;
	streams->times.communication_s += time_s;
	return streams->network_end_s;
}

/* One layer in one direction. The next one's parameters are fetched while it computes. */
struct pass {
	bool backward;
	double needed_s;   /* what it takes as its input is there */
	double gathered_s; /* its parameters */
};

static double gather(struct streams *streams, const struct step_layers *layers, double after_s)
{
	return layers && layers->parallel == STEP_FSDP ? communicate(streams, layers->gather_s, after_s) : 0;
}

static void run_layer(struct streams *streams, struct pass *pass, const struct step_layers *layers,
		      const struct step_layers *next)
{
	double time_s = pass->backward ? layers->backward_s : layers->forward_s;
	double end_s = compute(streams, time_s, fmax(pass->needed_s, pass->gathered_s));

	pass->gathered_s = gather(streams, next, end_s - time_s);
	pass->needed_s = 0;
	if (layers->parallel == STEP_TENSOR)
		pass->needed_s = communicate(streams, layers->activations_s, end_s);
	if (!pass->backward)
		return;
	if (layers->parallel == STEP_FSDP)
		communicate(streams, layers->scatter_s, end_s);
	else if (layers->parallel != STEP_NONE)
		communicate(streams, layers->reduce_s, end_s);
}

/* The layers of one place of the array; next: the place after it in this direction, or NULL. */
static void run_place(struct streams *streams, struct pass *pass, const struct step_layers *layers,
		      const struct step_layers *next)
{
	for (size_t i = 0; i < layers->count; i++)
		run_layer(streams, pass, layers, i + 1 < layers->count ? layers : next);
}

static void go_forward(struct streams *streams, const struct step_lookups *lookups, const struct step_layers *layers,
		       size_t count)
{
	double looked_up_s = compute(streams, lookups->forward_s, 0);
	double exchanged_s = communicate(streams, lookups->exchange_s, looked_up_s);
	struct pass pass = { .backward = false };
	bool beside = true;

	for (size_t i = 0; i < count; i++) {
		if (!i)
			pass.gathered_s = gather(streams, layers, 0);
		if (beside && !layers[i].beside) {
			pass.needed_s = fmax(pass.needed_s, exchanged_s);
			beside = false;
		}
		run_place(streams, &pass, &layers[i], i + 1 < count ? &layers[i + 1] : NULL);
	}
}

static void go_backward(struct streams *streams, const struct step_lookups *lookups, const struct step_layers *layers,
			size_t count)
{
	/* The last activations, too. */
	double ready_s = fmax(streams->compute_end_s, streams->network_end_s), exchanged_s = 0;
	struct pass pass = { .backward = true, .needed_s = ready_s };
	bool beside = false;

	for (size_t i = count; i-- > 0;) {
		if (i + 1 == count)
			pass.gathered_s = gather(streams, &layers[i], ready_s);
		if (!beside && layers[i].beside) {
			exchanged_s = communicate(streams, lookups->exchange_s, streams->compute_end_s);
			beside = true;
		}
		run_place(streams, &pass, &layers[i], i ? &layers[i - 1] : NULL);
	}
	if (!beside)
		exchanged_s = communicate(streams, lookups->exchange_s, streams->compute_end_s);
	compute(streams, lookups->backward_s, exchanged_s);
}

struct step_times step_estimate(const struct step_lookups *lookups, const struct step_layers *layers, size_t count)
{
	struct streams streams = { .compute_end_s = 0 };

	go_forward(&streams, lookups, layers, count);
	go_backward(&streams, lookups, layers, count);
	streams.times.step_s = fmax(streams.compute_end_s, streams.network_end_s);
	streams.times.exposed_s = streams.times.step_s - streams.times.compute_s;
	return streams.times;
}

/* ------------------------------------------------------------------------------------------------ the published rates */

double step_intra_Bps(const struct step_system *system)
{
	return system->link_Bps * system->link_utilisation / 2;
}

static double step_inter_Bps(const struct step_system *system)
{
	double devices = (double)system->devices / (double)system->hosts;

	return system->ports * system->port_Bps * system->port_utilisation / 2 / devices;
}

double step_blend_Bps(const struct step_system *system)
{
	if (system->hosts < 2)
		return step_intra_Bps(system);
	return system->intra_share * step_intra_Bps(system) + (1 - system->intra_share) * step_inter_Bps(system);
}

double step_exchange_Bps(const struct step_system *system)
{
	return system->hosts < 2 ? step_intra_Bps(system) : step_inter_Bps(system);
}
