/* The cases side by side, in words and as JSON. */
#include "command/estimate/estimation.h"

#include "command/json.h"
#include "command/print/table.h"

static double exposed_of_communication(const struct step_times *times)
{
	return times->communication_s > 0 ? times->exposed_s / times->communication_s : 0;
}

void estimation_print(const struct estimation *estimation, FILE *out)
{
	const struct step_system *rates = &estimation->system.rates;
	bool bound = false;
	struct table table;
	FILE *rows;

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
	return json_pack("{so sI sI sI sI sb so}", "name", json_text(estimation->model.name), "devices",
			 (json_int_t)rates->devices, "hosts", (json_int_t)rates->hosts, "stages",
			 (json_int_t)estimation->model.stages, "micro_batches",
			 (json_int_t)estimation->model.micro_batches, "published", estimation->published, "cases",
			 cases);
}
