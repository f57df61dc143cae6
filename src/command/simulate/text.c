/* SPDX-License-Identifier: Apache-2.0 */
/* Cases side by side, in words and as JSON. */
#include "command/simulate/simulation.h"

#include "command/answer.h"
#include "command/json.h"
#include "command/print/table.h"
#include "command/print/units.h"

#include <math.h>
#include <string.h>

/* Of a time line: more cannot be seen. */
enum { POINTS_MAX = 2000 };

static const char *const phase_words[SIMULATE_PHASE_COUNT] = {
	[SIMULATE_NO_PHASE] = "",
	[SIMULATE_SEND] = "send",
	[SIMULATE_REDUCE_SCATTER] = "reduce-scatter",
	[SIMULATE_ALL_GATHER] = "all-gather",
	[SIMULATE_REDUCE] = "reduce",
	[SIMULATE_BROADCAST] = "broadcast",
	[SIMULATE_TO_LEAF] = "to the leaf",
	[SIMULATE_TO_ROOT] = "to the root",
	[SIMULATE_FROM_ROOT] = "from the root",
	[SIMULATE_FROM_LEAF] = "from the leaf",
};

static const char *form_of(const struct simulation_case *one)
{
	if (one->worst.bound)
		return "lower bound";
	return one->worst.steps ? "step by step" : "pipelined";
}

static void print_head(const struct simulation *simulation, FILE *out)
{
	const struct simulate_fabric *fabric = &simulation->fabric;
	char size[UNITS_BYTES];

	fprintf(out, "%s: %zu %s, %u %s each", simulation->title, fabric->host_count,
		fabric->host_count == 1 ? "host" : "hosts", simulation->gpus, simulation->gpus == 1 ? "GPU" : "GPUs");
	if (fabric->rail_count > 1)
		fprintf(out, ", %zu rails", fabric->rail_count);
	if (fabric->aggregator_count)
		fprintf(out, ", %zu %s", fabric->aggregator_count,
			fabric->aggregator_count == 1 ? "aggregator" : "aggregators");
	fprintf(out, "\n%s of %s a rank", simulation_collective_name(simulation->collective),
		units_size(simulation->bytes, size));
	if (simulation->job_count > 1)
		fprintf(out, ", %zu jobs at once", simulation->job_count);
	fputs("\n\n", out);
}

/* A lower bound is no time to compare with. */
static const struct simulation_case *fastest(const struct simulation *simulation)
{
	const struct simulation_case *best = &simulation->cases[0];

	for (size_t i = 1; i < simulation->case_count; i++)
		if (best->worst.bound ||
		    (!simulation->cases[i].worst.bound && simulation->cases[i].time_s < best->time_s))
			best = &simulation->cases[i];
	return best;
}

static bool is_answered(const struct simulation *simulation)
{
	for (size_t i = 0; i < simulation->case_count; i++)
		if (!(simulation_answered_s(simulation, &simulation->cases[i]) > 0))
			return false;
	return simulation->case_count > 0;
}

static void print_times(const struct simulation *simulation, FILE *out)
{
	double best_s = fastest(simulation)->time_s;
	bool compared = simulation->case_count > 1 && best_s > 0, answered = is_answered(simulation);
	struct table table;
	FILE *rows = table_begin(&table, out);

	fprintf(rows, "\ttime\t%s%salgbw\tbusbw\tflows\tform\n", answered ? "expected\t" : "",
		compared ? "over best\t" : "");
	for (size_t i = 0; i < simulation->case_count; i++) {
		const struct simulation_case *one = &simulation->cases[i];
		char words[128], time[UNITS_BYTES], expected[UNITS_BYTES], algbw[UNITS_BYTES], busbw[UNITS_BYTES];

		simulation_case_words(simulation, one, words, sizeof(words));
		fprintf(rows, "%s\t%s", words, units_time(one->time_s, time));
		if (answered)
			fprintf(rows, "\t%s", units_time(simulation_answered_s(simulation, one), expected));
		if (compared)
			fprintf(rows, one->worst.bound ? "\t-" : "\t%.2f", one->time_s / best_s);
		fprintf(rows, "\t%s\t%s\t%zu\t%s\n", units_rate(one->worst.algbw_Bps, algbw),
			units_rate(one->worst.busbw_Bps, busbw), flow_count(one->result.network), form_of(one));
	}
	table_end(&table, rows,
		  answered   ? (compared ? "l  r  r  r  r  r  r  l" : "l  r  r  r  r  r  l")
		  : compared ? "l  r  r  r  r  r  l"
			     : "l  r  r  r  r  l");
	if (answered)
		fputs("expected: by the formula that the plugin goes by, for large sizes\n", out);
}

/* On the busiest link of each kind, over the bytes of a rank: what the times come from. */
static void print_loads(const struct simulation *simulation, FILE *out)
{
	struct table table;
	FILE *rows = table_begin(&table, out);

	fputs("\nBytes on the busiest link of each kind, over those of a rank:\n"
	      "\tNIC\tuplink\taggregator\tinside\n",
	      rows);
	for (size_t i = 0; i < simulation->case_count; i++) {
		const struct simulation_case *one = &simulation->cases[i];
		char words[128];

		simulation_case_words(simulation, one, words, sizeof(words));
		fputs(words, rows);
		for (int kind = 0; kind < SIMULATION_KINDS; kind++)
			fprintf(rows, one->most_bytes[kind] > 0 ? "\t%.4g" : "\t-",
				one->most_bytes[kind] / simulation->bytes);
		fputc('\n', rows);
	}
	table_end(&table, rows, "l  r");
}

static void print_busiest(const struct simulation *simulation, FILE *out)
{
	fputs("\nFullest links (bytes over what they could have carried in that time):\n", out);
	for (size_t i = 0; i < simulation->case_count; i++) {
		const struct simulation_case *one = &simulation->cases[i];
		char words[128];

		simulation_case_words(simulation, one, words, sizeof(words));
		fprintf(out, "  %s:", words);
		for (size_t j = 0; j < one->busiest_count && j < 4; j++) {
			char name[SIMULATE_NAME_BYTES + 64];

			simulate_link_name(&simulation->fabric, one->busiest[j], name, sizeof(name));
			fprintf(out, "%s %s %.1f %%", j ? "," : "", name, 100 * simulation_load(one, one->busiest[j]));
		}
		fputs(one->busiest_count ? "\n" : " none is known to bound anything\n", out);
	}
}

void simulation_print(const struct simulation *simulation, FILE *out)
{
	struct answer first;

	simulation_answer(simulation, &first);
	answer_print(&first, out);
	print_head(simulation, out);
	print_times(simulation, out);
	print_loads(simulation, out);
	print_busiest(simulation, out);
}

/* --------------------------------------------------------------------------------------------------------------- JSON */

static json_t *real_or_null(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *link_name(const struct simulation *simulation, uint32_t link)
{
	char name[SIMULATE_NAME_BYTES + 64];

	simulate_link_name(&simulation->fabric, link, name, sizeof(name));
	return json_text(name);
}

static json_t *links_json(const struct simulation *simulation, const struct simulation_case *one)
{
	static const char *const kinds[] = { [SIMULATE_LINK_NIC] = "nic",
					     [SIMULATE_LINK_UPLINK] = "uplink",
					     [SIMULATE_LINK_AGGREGATOR] = "aggregator",
					     [SIMULATE_LINK_ROW] = "inside" };
	size_t links = simulate_link_count(&simulation->fabric);
	json_t *list = json_array();

	for (uint32_t i = 0; i < links; i++) {
		struct flow_link link = flow_link(one->result.network, i);

		if (link.bytes <= 0)
			continue;
		json_array_append_new(list,
				      json_pack("{so ss so sf sf sf}", "name", link_name(simulation, i), "kind",
						kinds[simulate_link_of(&simulation->fabric, i).kind], "capacity_Bps",
						real_or_null(link.capacity_Bps), "bytes", link.bytes, "busy_s",
						link.busy_s, "load", simulation_load(one, i)));
	}
	return list;
}

static json_t *busiest_json(const struct simulation *simulation, const struct simulation_case *one)
{
	json_t *list = json_array();

	for (size_t i = 0; i < one->busiest_count; i++)
		json_array_append_new(list, link_name(simulation, one->busiest[i]));
	return list;
}

/* What the busiest links carry from each point of time on, where it was kept. */
static json_t *timeline_json(const struct simulation *simulation, const struct simulation_case *one)
{
	json_t *list = json_array();

	for (size_t i = 0; i < one->busiest_count; i++) {
		size_t count;
		const struct flow_point *points = flow_watched(one->result.network, one->busiest[i], &count);
		json_t *kept = json_array();

		for (size_t j = 0; j < count; j += count / POINTS_MAX + 1)
			json_array_append_new(kept, json_pack("[ff]", points[j].time_s, points[j].rate_Bps));
		if (count)
			json_array_append_new(list, json_pack("{so so}", "link", link_name(simulation, one->busiest[i]),
							      "points", kept));
		else
			json_decref(kept);
	}
	return list;
}

/* The first is all of the phase, the others what the fullest links carry of it. */
static json_t *span_json(const struct simulate_span *span, const char *key, json_t *value)
{
	return json_pack("{so sf sf sf sI}", key, value, "start_s", span->start_s, "end_s", span->end_s, "bytes",
			 span->bytes, "messages", (json_int_t)span->messages);
}

static json_t *job_phases_json(const struct simulation *simulation, const struct simulation_case *one, size_t job)
{
	struct simulate_span all[SIMULATE_PHASE_COUNT], on[SIMULATION_BUSIEST][SIMULATE_PHASE_COUNT];
	json_t *list = json_array();

	simulate_phases(&one->result, job, SIMULATE_NONE, all);
	for (size_t i = 0; i < one->busiest_count; i++)
		simulate_phases(&one->result, job, one->busiest[i], on[i]);
	for (int phase = 0; phase < SIMULATE_PHASE_COUNT; phase++) {
		json_t *links = json_array(), *made;

		for (size_t i = 0; i < one->busiest_count; i++)
			if (on[i][phase].messages)
				json_array_append_new(links, span_json(&on[i][phase], "link",
								       link_name(simulation, one->busiest[i])));
		made = span_json(&all[phase], "phase", json_string(phase_words[phase]));
		json_object_set_new(made, "links", links);
		if (all[phase].messages)
			json_array_append(list, made);
		json_decref(made);
	}
	return list;
}

static json_t *switches_json(const struct simulation *simulation)
{
	const struct simulate_fabric *fabric = &simulation->fabric;
	json_t *list = json_array();

	for (size_t i = 0; i < fabric->switch_count; i++) {
		const struct simulate_switch *one = &fabric->switches[i];
		json_t *parent = one->parent == SIMULATE_NONE ? json_null()
							      : json_text(fabric->switches[one->parent].name);

		json_array_append_new(
			list, json_pack("{so so so so}", "name", json_text(one->name), "parent", parent, "up",
					link_name(simulation, simulate_switch_link(fabric, i, SIMULATE_UP)), "down",
					link_name(simulation, simulate_switch_link(fabric, i, SIMULATE_DOWN))));
	}
	return list;
}

static json_t *nics_json(const struct simulation *simulation)
{
	const struct simulate_fabric *fabric = &simulation->fabric;
	json_t *list = json_array();

	for (size_t i = 0; i < fabric->host_count * fabric->rail_count; i++) {
		size_t host = i / fabric->rail_count, rail = i % fabric->rail_count;

		json_array_append_new(
			list, json_pack("{so so so so}", "host", json_text(fabric->host_names[host]), "switch",
					json_text(fabric->switches[fabric->nics[i].leaf].name), "out",
					link_name(simulation, simulate_nic_link(fabric, host, rail, SIMULATE_UP)), "in",
					link_name(simulation, simulate_nic_link(fabric, host, rail, SIMULATE_DOWN))));
	}
	return list;
}

static json_t *aggregators_json(const struct simulation *simulation)
{
	const struct simulate_fabric *fabric = &simulation->fabric;
	json_t *list = json_array();

	for (size_t i = 0; i < fabric->aggregator_count; i++)
		json_array_append_new(
			list,
			json_pack("{so so so}", "switch", json_text(fabric->switches[fabric->aggregators[i].leaf].name),
				  "out", link_name(simulation, simulate_aggregator_link(fabric, i, SIMULATE_UP)), "in",
				  link_name(simulation, simulate_aggregator_link(fabric, i, SIMULATE_DOWN))));
	return list;
}

static json_t *jobs_json(const struct simulation *simulation, const struct simulation_case *one)
{
	json_t *list = json_array();

	for (size_t i = 0; i < one->result.outcome_count; i++) {
		const struct simulate_outcome *job = &one->result.outcomes[i];

		json_array_append_new(list,
				      json_pack("{sf so so so}", "time_s", job->time_s, "algbw_Bps",
						real_or_null(job->algbw_Bps), "busbw_Bps", real_or_null(job->busbw_Bps),
						"phases", job_phases_json(simulation, one, i)));
	}
	return list;
}

static json_t *case_json(const struct simulation *simulation, const struct simulation_case *one)
{
	struct flow_work work = flow_work(one->result.network);
	double answered_s = simulation_answered_s(simulation, one);
	bool has_gain = one->algorithm >= SIMULATE_HIERARCHICAL && one->leaf_gain.permille;

	return json_pack("{ss so ss sf so so so so sI sI so so so so}", "algorithm",
			 simulation->collective >= SIMULATE_ALLTOALL ? "" : simulation_algorithm_word(one->algorithm),
			 "order", json_known_text(one->order_word), "form",
			 one->worst.bound   ? "lower-bound"
			 : one->worst.steps ? "steps"
					    : "pipelined",
			 "time_s", one->time_s, "expected_s", answered_s > 0 ? json_real(answered_s) : json_null(),
			 "gain", has_gain ? json_real(one->leaf_gain.permille / 1e3) : json_null(), "algbw_Bps",
			 real_or_null(one->worst.algbw_Bps), "busbw_Bps", real_or_null(one->worst.busbw_Bps), "flows",
			 (json_int_t)flow_count(one->result.network), "events", (json_int_t)work.events, "jobs",
			 jobs_json(simulation, one), "busiest", busiest_json(simulation, one), "links",
			 links_json(simulation, one), "timeline", timeline_json(simulation, one));
}

json_t *simulation_json(const struct simulation *simulation)
{
	json_t *cases = json_array();
	struct answer first;

	simulation_answer(simulation, &first);
	for (size_t i = 0; i < simulation->case_count; i++)
		json_array_append_new(cases, case_json(simulation, &simulation->cases[i]));
	return json_pack("{so so sI sI sI sI sI ss sf sf so so so so}", "answer", answer_json(&first), "name",
			 json_text(simulation->title), "hosts", (json_int_t)simulation->fabric.host_count, "rails",
			 (json_int_t)simulation->fabric.rail_count, "gpus", (json_int_t)simulation->gpus, "aggregators",
			 (json_int_t)simulation->fabric.aggregator_count, "uplinks_without_rate",
			 (json_int_t)simulate_fabric_unknown_uplinks(&simulation->fabric), "collective",
			 simulation_collective_word(simulation->collective), "bytes", simulation->bytes, "latency_s",
			 simulation->settings.latency_s, "switches", switches_json(simulation), "nics",
			 nics_json(simulation), "aggregator_nics", aggregators_json(simulation), "cases", cases);
}
