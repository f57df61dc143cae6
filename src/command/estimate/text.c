/* SPDX-License-Identifier: Apache-2.0 */
/* The cases side by side, in words and as JSON. */
#include "command/estimate/estimation.h"

#include "command/answer.h"
#include "command/json.h"
#include "command/print/table.h"
#include "command/print/units.h"

static double exposed_of_communication(const struct step_times *times)
{
	return times->communication_s > 0 ? times->exposed_s / times->communication_s : 0;
}

/* Of a step now, and what would make it shorter by most. */
static void answer(const struct estimation *estimation, struct answer *ret)
{
	const struct estimation_case *now = &estimation->cases[0], *best = now;
	char time[UNITS_BYTES];
	double gain;

	for (size_t i = 1; i < estimation->case_count; i++)
		if (estimation->cases[i].times.step_s < best->times.step_s)
			best = &estimation->cases[i];
	gain = 1 - best->times.step_s / now->times.step_s;
	*ret = (struct answer){ .text = "" };
	answer_add(ret, "A step takes %s, %.1f %% of it waiting for the network", units_time(now->times.step_s, time),
		   100 * now->times.exposed_s / now->times.step_s);
	if (answer_differs(1 - gain))
		answer_add(ret, "; of what can be changed \"%s\" (%s) helps most: %s%.1f %% shorter.", best->name,
			   best->why, best->bound ? "at most " : "", 100 * gain);
	else
		answer_add(ret, ", and nothing that can be changed makes it shorter.");
}

void estimation_print(const struct estimation *estimation, FILE *out)
{
	const struct step_system *rates = &estimation->system.rates;
	bool bound = false;
	struct answer first;
	struct table table;
	FILE *rows;

	answer(estimation, &first);
	answer_print(&first, out);
	fprintf(out, "%s: %zu devices on %zu %s", estimation->model.name, rates->devices, rates->hosts,
		rates->hosts == 1 ? "host" : "hosts");
	if (estimation->model.stages > 1)
		fprintf(out, ", %zu stages, %zu micro-batches", estimation->model.stages,
			estimation->model.micro_batches);
	fputs("\n\n", out);
	rows = table_begin(&table, out);
	fprintf(rows, "ms\tstep\tcompute\tcommunication\texposed\tof comm.\tof step%s\n",
		estimation->model.stages > 1 ? "\tbubble" : "");
	for (size_t i = 0; i < estimation->case_count; i++) {
		const struct estimation_case *one = &estimation->cases[i];
		const struct step_times *times = &one->times;

		bound |= one->bound;
		fprintf(rows, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f %%\t%.2f %%", one->name, times->step_s * 1e3,
			times->compute_s * 1e3, times->communication_s * 1e3, times->exposed_s * 1e3,
			100 * exposed_of_communication(times), 100 * times->exposed_s / times->step_s);
		if (estimation->model.stages > 1)
			fprintf(rows, "\t%.2f", times->bubble_s * 1e3);
		if (i)
			fprintf(rows, "\t%+.1f %%", 100 * (times->step_s / estimation->cases[0].times.step_s - 1));
		fputs(one->bound ? "  lower bound\n" : "\n", rows);
	}
	table_end(&table, rows, "l  r");
	if (bound)
		fputs("\nLower bound: for so many hosts aggregation is known by the slowest link alone.\n", out);
}

json_t *estimation_json(const struct estimation *estimation)
{
	const struct step_system *rates = &estimation->system.rates;
	json_t *cases = json_array();
	struct answer first;

	answer(estimation, &first);
	for (size_t i = 0; i < estimation->case_count; i++) {
		const struct estimation_case *one = &estimation->cases[i];
		const struct step_times *times = &one->times;

		json_array_append_new(cases, json_pack("{ss ss sb sf sf sf sf sf sf sf}", "name", one->name, "changes",
						       one->why, "lower_bound", one->bound, "step_s", times->step_s,
						       "compute_s", times->compute_s, "communication_s",
						       times->communication_s, "exposed_s", times->exposed_s,
						       "exposed_of_communication", exposed_of_communication(times),
						       "exposed_of_step", times->exposed_s / times->step_s, "bubble_s",
						       times->bubble_s));
	}
	return json_pack("{so so sI sI sI sI sb so}", "answer", answer_json(&first), "name",
			 json_text(estimation->model.name), "devices", (json_int_t)rates->devices, "hosts",
			 (json_int_t)rates->hosts, "stages", (json_int_t)estimation->model.stages, "micro_batches",
			 (json_int_t)estimation->model.micro_batches, "published", estimation->published, "cases",
			 cases);
}
