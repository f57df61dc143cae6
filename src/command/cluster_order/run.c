/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the order, and what both orders cost. */
#include "command/cluster_order/ordering.h"

#include "base/log.h"
#include "command/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int predict(const struct ordering *ordering, struct ordering_side *side, enum ranks_phase phase)
{
	struct diag diag = { 0 };
	int r;

	side->time_s[phase] = ordering->known ? side->costs[phase].worst_s * ordering->bytes : 0;
	if (side->time_s[phase] <= 0 || !ranks_can_simulate(&ordering->layout, phase))
		return COMMAND_OK;
	r = ranks_time(&ordering->fabric, &ordering->layout, side->order, phase, ordering->bytes, SIMULATE_AUTO,
		       &side->time_s[phase], &diag);
	return r < 0 ? command_failed(&diag, r, "the order cannot be simulated") : COMMAND_OK;
}

static int side_init(const struct ordering *ordering, struct ordering_side *side)
{
	side->order = calloc(ordering->used, sizeof(*side->order));
	side->load_B = calloc(RANKS_PHASE_COUNT * simulate_link_count(&ordering->fabric), sizeof(*side->load_B));
	return side->order && side->load_B ? 0 : -ENOMEM;
}

int ordering_run(struct ordering *ordering)
{
	struct ordering_side *const sides[] = { &ordering->before, &ordering->after };
	int status = COMMAND_OK, r = side_init(ordering, &ordering->before);

	if (r == 0)
		r = side_init(ordering, &ordering->after);
	if (r == 0) {
		memcpy(ordering->before.order, ordering->hosts, ordering->used * sizeof(*ordering->hosts));
		ordering->search.given = ordering->before.order;
		ordering->search.bytes = ordering->known ? ordering->bytes : 0;
		r = ranks_order(&ordering->fabric, &ordering->layout, ordering->hosts, ordering->host_count,
				&ordering->search, ordering->after.order);
	}
	for (int i = 0; r == 0 && i < 2; i++)
		r = ranks_costs(&ordering->fabric, &ordering->layout, sides[i]->order, sides[i]->costs,
				sides[i]->load_B);
	if (r < 0)
		return command_failed(NULL, r, "the hosts cannot be ordered");
	for (int i = 0; i < 2; i++)
		for (int phase = 0; status == COMMAND_OK && phase < RANKS_PHASE_COUNT; phase++)
			status = predict(ordering, sides[i], (enum ranks_phase)phase);
	return status;
}
