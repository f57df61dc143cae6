/* SPDX-License-Identifier: Apache-2.0 */
/* The cases side by side, in words and as JSON. */
#include "command/estimate/estimation.h"

#include "command/answer.h"
#include "command/json.h"
#include "command/print/table.h"
#include "command/print/units.h"

#include <string.h>

enum { REMEDY_BYTES = 64 };

static double exposed_of_communication(const struct step_times *times)
{
	return times->communication_s > 0 ? times->exposed_s / times->communication_s : 0;
}

/* What a case changes, in words; those that cost nothing come first among the cases. */
static const char *remedy_of(const struct estimation *estimation, const struct estimation_case *one,
			     char text[static REMEDY_BYTES])
{
	char rate[UNITS_BYTES];

	static const struct {
		const char *changes, *remedy;
	} remedies[] = { { "", "the plugin's channels" },
			 { "order", "ranks leaf by leaf (`tributary cluster order`)" },
			 { "aggregation", "aggregation (TRIBUTARY_CLUSTER)" } };

	if (!strcmp(one->why, "aggregator")) {
		snprintf(text, REMEDY_BYTES, "one more aggregator of %s a leaf",
			 units_bits(estimation->extra_Bps, rate));
		return text;
	}
	for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++)
		if (!strcmp(remedies[i].changes, one->why))
			return remedies[i].remedy;
	return one->name;
}

/* Of a step now, and what makes it shorter: each remedy by what it adds to those before it. A lower bound is no remedy's time. */
static void answer(const struct estimation *estimation, struct answer *ret)
{
	const struct step_times *now = &estimation->cases[0].times;
	double best_s = now->step_s;
	char time[UNITS_BYTES], remedy[REMEDY_BYTES];

	*ret = (struct answer){ .text = "" };
	answer_add(ret, "A step takes %s, %.1f %% of it waiting for the network", units_time(now->step_s, time),
		   100 * now->exposed_s / now->step_s);
	for (size_t i = 1; i < estimation->case_count; i++) {
		const struct estimation_case *one = &estimation->cases[i];

		if (one->bound || !(one->times.step_s < best_s) || !answer_differs(one->times.step_s / best_s))
			continue;
		answer_add(ret,
			   best_s < now->step_s ? "; with %s, too, another %.1f %% less" : "; with %s %.1f %% less",
			   remedy_of(estimation, one, remedy), 100 * (1 - one->times.step_s / best_s));
		best_s = one->times.step_s;
	}
	answer_add(ret, best_s < now->step_s ? "." : ", and nothing that can be changed makes it shorter.");
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
