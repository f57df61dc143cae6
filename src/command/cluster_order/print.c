/* SPDX-License-Identifier: Apache-2.0 */
/* An order of hosts as text, as files for launchers, and as JSON. */
#include "command/cluster_order/ordering.h"

#include "command/answer.h"
#include "command/command.h"
#include "command/json.h"
#include "command/print/table.h"
#include "command/print/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UPLINKS_SHOWN = 16, HOSTS_A_LINE = 12 };

static const char *const phase_words[RANKS_PHASE_COUNT] = {
	[RANKS_TENSOR] = "tensor", [RANKS_DATA_RING] = "ring", [RANKS_DATA_TREE] = "tree", [RANKS_PIPELINE] = "pipeline"
};

static const char *const phase_titles[RANKS_PHASE_COUNT] = { "tensor groups, rings", "AllReduce, ring",
							     "AllReduce, tree", "pipeline, slowest link" };

static const char *host_name(const struct ordering *ordering, size_t place)
{
	return ordering->fabric.host_names[ordering->after.order[place]];
}

static uint32_t leaf_of(const struct ordering *ordering, size_t place)
{
	return ordering->fabric.nics[ordering->after.order[place] * ordering->fabric.rail_count].leaf;
}

static double load_of(const struct ordering *ordering, const struct ordering_side *side, int phase, uint32_t link)
{
	return side->load_B[(size_t)phase * simulate_link_count(&ordering->fabric) + link];
}

/* A root's link leads nowhere. */
static bool is_uplink(const struct ordering *ordering, uint32_t link)
{
	struct simulate_link is = simulate_link_of(&ordering->fabric, link);

	return is.kind == SIMULATE_LINK_UPLINK && ordering->fabric.switches[is.of].parent != SIMULATE_NONE;
}

/* What goes over the network at all, counted on each link. */
static double total_of(const struct ordering *ordering, const struct ordering_side *side, int phase)
{
	size_t links = simulate_link_count(&ordering->fabric);
	double sum = 0;

	for (uint32_t link = 0; link < links; link++)
		sum += load_of(ordering, side, phase, link);
	return sum;
}

static bool is_there(const struct ordering *ordering, int phase)
{
	return total_of(ordering, &ordering->before, phase) > 0 || total_of(ordering, &ordering->after, phase) > 0;
}

/* A time that is 0 says that nothing goes over the network, or over no link whose rate is known. */
static bool is_known(const struct ordering *ordering, const struct ordering_side *side, int phase)
{
	return side->time_s[phase] > 0 || total_of(ordering, side, phase) <= 0;
}

static bool crosses_anything(const struct ordering *ordering)
{
	for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++)
		if (is_there(ordering, phase))
			return true;
	return false;
}

/* ------------------------------------------------------------------------------------------------------------ answer */

static double most_load(const struct ordering *ordering, const struct ordering_side *side, int phase)
{
	size_t links = simulate_link_count(&ordering->fabric);
	double most = 0;

	for (uint32_t link = 0; link < links; link++)
		if (is_uplink(ordering, link))
			most = fmax(most, load_of(ordering, side, phase, link));
	return most;
}

/* An AllReduce is what NCCL makes of it: the better of ring and tree, before and after. */
enum { WEIGHED_TENSOR, WEIGHED_ALLREDUCE, WEIGHED_PIPELINE, WEIGHED_COUNT };

struct weighed {
	const char *word;
	double before, after; /* times, or where they are not known bytes on the busiest uplink */
	bool timed;
};

static double lesser(double ring, double tree)
{
	return tree > 0 && tree < ring ? tree : ring;
}

static double time_of(const struct ordering_side *side, int what)
{
	static const enum ranks_phase phases[] = {
		[WEIGHED_TENSOR] = RANKS_TENSOR, [WEIGHED_PIPELINE] = RANKS_PIPELINE
	};

	if (what == WEIGHED_ALLREDUCE)
		return lesser(side->time_s[RANKS_DATA_RING], side->time_s[RANKS_DATA_TREE]);
	return side->time_s[phases[what]];
}

static double bytes_of(const struct ordering *ordering, const struct ordering_side *side, int what)
{
	if (what == WEIGHED_ALLREDUCE)
		return lesser(most_load(ordering, side, RANKS_DATA_RING), most_load(ordering, side, RANKS_DATA_TREE));
	return most_load(ordering, side, what == WEIGHED_TENSOR ? RANKS_TENSOR : RANKS_PIPELINE);
}

static struct weighed weigh(const struct ordering *ordering, int what)
{
	static const char *const words[WEIGHED_COUNT] = { [WEIGHED_TENSOR] = "AllReduce of tensor groups",
							  [WEIGHED_ALLREDUCE] = "AllReduce",
							  [WEIGHED_PIPELINE] = "the pipeline's slowest link" };
	struct weighed weighed = { .word = words[what],
				   .before = time_of(&ordering->before, what),
				   .after = time_of(&ordering->after, what) };

	weighed.timed = weighed.before > 0 && weighed.after > 0;
	if (!weighed.timed) {
		weighed.before = bytes_of(ordering, &ordering->before, what);
		weighed.after = bytes_of(ordering, &ordering->after, what);
	}
	return weighed;
}

static double ratio_of(const struct weighed *weighed)
{
	return weighed->before > 0 ? weighed->after / weighed->before : 1;
}

static void answer_gain(const struct weighed *weighed, struct answer *ret)
{
	char before[UNITS_BYTES], after[UNITS_BYTES];

	answer_add(ret, "Give the ranks to the hosts in the order below: ");
	if (weighed->timed)
		answer_add(ret, "%s should be %.2f times as fast, %s instead of %s", weighed->word,
			   1 / ratio_of(weighed), units_time(weighed->after, after),
			   units_time(weighed->before, before));
	else
		answer_add(ret, "%s puts %.2f of the bytes on the busiest uplink", weighed->word, ratio_of(weighed));
}

/* By weight: the first that gains decides, and may cost another something. */
static void ordering_answer(const struct ordering *ordering, struct answer *ret)
{
	const char *slower = NULL;

	*ret = (struct answer){ .text = "" };
	if (!crosses_anything(ordering)) {
		answer_add(ret, "No difference in any order: nothing goes over the network.");
		return;
	}
	for (int what = 0; what < WEIGHED_COUNT; what++) {
		struct weighed weighed = weigh(ordering, what);

		if (ratio_of(&weighed) >= 1.005)
			slower = weighed.word;
		else if (answer_differs(ratio_of(&weighed)) && !ret->text[0])
			answer_gain(&weighed, ret);
	}
	if (!ret->text[0])
		answer_add(ret, "No difference: the order below is no faster than the present one, so keep that.");
	else if (slower)
		answer_add(ret, ", though %s gets slower; --format prints it for the launcher.", slower);
	else
		answer_add(ret, "; --format hostfile, slurm or torchrun prints it for the launcher.");
}

/* -------------------------------------------------------------------------------------------------------------- text */

static void print_times(const struct ordering *ordering, FILE *out)
{
	bool unknown = false, worse = false;
	struct table table;
	FILE *rows = table_begin(&table, out);

	fputs("predicted\tbefore\tafter\ttimes as fast\n", rows);
	for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++) {
		double before = ordering->before.time_s[phase], after = ordering->after.time_s[phase];
		char was[UNITS_BYTES], is[UNITS_BYTES];

		if (!is_there(ordering, phase))
			continue;
		unknown = unknown || !is_known(ordering, &ordering->before, phase) ||
			  !is_known(ordering, &ordering->after, phase);
		fprintf(rows, "%s\t%s\t%s", phase_titles[phase], before > 0 ? units_time(before, was) : "-",
			after > 0 ? units_time(after, is) : "-");
		if (before > 0 && after > 0)
			fprintf(rows, "\t%.2f", before / after);
		fputc('\n', rows);
		worse = worse || after > 1.0005 * before;
	}
	table_end(&table, rows, "l  r");
	if (worse)
		fprintf(out,
			"What takes longer gives way: orders are compared by tensor, %s, pipeline, and the first that "
			"differs decides\n",
			ordering->search.tree_first ? "tree, ring" : "ring, tree");
	if (unknown)
		fputs("-: not known, as the rates of hosts are not: give --rate RATE, or rate= in the cluster file\n",
		      out);
}

/* The uplink with the most bytes of those not shown yet. */
static uint32_t busiest(const struct ordering *ordering, const bool *shown)
{
	size_t links = simulate_link_count(&ordering->fabric);
	uint32_t best = SIMULATE_NONE;
	double most = 0;

	for (uint32_t link = 0; link < links; link++) {
		double sum = 0;

		if (shown[link] || !is_uplink(ordering, link))
			continue;
		for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++)
			sum += load_of(ordering, &ordering->before, phase, link) +
			       load_of(ordering, &ordering->after, phase, link);
		if (sum > most * (1 + 1e-6)) {
			most = sum;
			best = link;
		}
	}
	return best;
}

static void print_uplinks(const struct ordering *ordering, FILE *out)
{
	size_t links = simulate_link_count(&ordering->fabric);
	bool *shown = calloc(links + 1, sizeof(*shown)), there[RANKS_PHASE_COUNT];
	struct table table;
	FILE *rows;

	if (!shown)
		return;
	if (busiest(ordering, shown) == SIMULATE_NONE) {
		fputs("\nNothing crosses an uplink.\n", out);
		free(shown);
		return;
	}
	fputc('\n', out);
	rows = table_begin(&table, out);
	fputs("bytes on uplinks, x S", rows);
	for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++) {
		there[phase] = is_there(ordering, phase);
		if (there[phase])
			fprintf(rows, "\t\t%s", phase_words[phase]);
	}
	fputc('\n', rows);
	for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++)
		if (there[phase])
			fputs("\tbefore\tafter", rows);
	fputc('\n', rows);
	for (int i = 0; i < UPLINKS_SHOWN; i++) {
		uint32_t link = busiest(ordering, shown);
		char text[2 * SIMULATE_NAME_BYTES];

		if (link == SIMULATE_NONE)
			break;
		shown[link] = true;
		simulate_link_name(&ordering->fabric, link, text, sizeof(text));
		fputs(text, rows);
		for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++)
			if (there[phase])
				fprintf(rows, "\t%.2f\t%.2f", load_of(ordering, &ordering->before, phase, link),
					load_of(ordering, &ordering->after, phase, link));
		fputc('\n', rows);
	}
	table_end(&table, rows, "l  r");
	if (busiest(ordering, shown) != SIMULATE_NONE)
		fputs("(and others, with fewer)\n", out);
	free(shown);
}

static void print_text(const struct ordering *ordering, FILE *out)
{
	const struct ranks_layout *layout = &ordering->layout;
	char size[UNITS_BYTES];
	struct answer first;

	ordering_answer(ordering, &first);
	answer_print(&first, out);
	fprintf(out, "%s: %zu of %zu %s, %u %s each", ordering->title, ordering->used, ordering->fabric.host_count,
		ordering->fabric.host_count == 1 ? "host" : "hosts", layout->gpus, layout->gpus == 1 ? "GPU" : "GPUs");
	if (layout->tensor > 1 || layout->pipeline > 1)
		fprintf(out, "; tensor %u, pipeline %u, data %u", layout->tensor, layout->pipeline, layout->data);
	fprintf(out, "; S = %s\n\n", units_size(ordering->bytes, size));
	if (crosses_anything(ordering)) {
		print_times(ordering, out);
		print_uplinks(ordering, out);
	} else {
		fputs("No group is on several hosts: nothing goes over the network, in whatever order.\n", out);
	}
	fputs("\norder\n", out);
	for (size_t i = 0, in_line = 0; i < ordering->used; i++) {
		bool begins = !i || leaf_of(ordering, i) != leaf_of(ordering, i - 1);

		if (begins)
			fprintf(out, "%s  %s:", i ? "\n" : "", ordering->fabric.switches[leaf_of(ordering, i)].name);
		in_line = begins ? 0 : in_line + 1;
		if (in_line == HOSTS_A_LINE) {
			fputs("\n   ", out);
			in_line = 0;
		}
		fprintf(out, " %s", host_name(ordering, i));
	}
	fputc('\n', out);
}

/* For a launcher: a host a line, a rank a line, or the numbers that torchrun wants on each host. */
static void print_file(const struct ordering *ordering, const char *format, FILE *out)
{
	unsigned gpus = ordering->layout.gpus;

	if (!strcmp(format, "torchrun"))
		fprintf(out,
			"# torchrun --nnodes=%zu --nproc_per_node=%u --master_addr=%s --node_rank=NODE_RANK\n"
			"# NODE_RANK HOST RANKS\n",
			ordering->used, gpus, host_name(ordering, 0));
	for (size_t i = 0; i < ordering->used; i++) {
		if (!strcmp(format, "torchrun"))
			fprintf(out, "%zu %s %zu-%zu\n", i, host_name(ordering, i), i * gpus, (i + 1) * gpus - 1);
		else if (!strcmp(format, "hostfile"))
			fprintf(out, "%s slots=%u\n", host_name(ordering, i), gpus);
		for (unsigned gpu = 0; gpu < gpus && !strcmp(format, "slurm"); gpu++)
			fprintf(out, "%s\n", host_name(ordering, i));
	}
}

void ordering_print(const struct ordering *ordering, const char *format, FILE *out)
{
	if (!strcmp(format, "text"))
		print_text(ordering, out);
	else
		print_file(ordering, format, out);
}

/* -------------------------------------------------------------------------------------------------------------- JSON */

static json_t *side_json(const struct ordering *ordering, const struct ordering_side *side)
{
	json_t *order = json_array(), *phases = json_object();

	for (size_t i = 0; i < ordering->used; i++)
		json_array_append_new(order, json_text(ordering->fabric.host_names[side->order[i]]));
	for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++) {
		bool known = is_known(ordering, side, phase);

		json_object_set_new(
			phases, phase_words[phase],
			json_pack("{so so sf}", "time_s", known ? json_real(side->time_s[phase]) : json_null(),
				  "slowest_link_s",
				  known ? json_real(side->costs[phase].worst_s * ordering->bytes) : json_null(),
				  "uplink_bytes", side->costs[phase].crossings * ordering->bytes));
	}
	return json_pack("{so so}", "hosts", order, "phases", phases);
}

static json_t *bytes_json(const struct ordering *ordering, const struct ordering_side *side, uint32_t link)
{
	json_t *value = json_object();

	for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++)
		json_object_set_new(value, phase_words[phase],
				    json_real(load_of(ordering, side, phase, link) * ordering->bytes));
	return value;
}

static json_t *uplinks_json(const struct ordering *ordering)
{
	size_t links = simulate_link_count(&ordering->fabric);
	json_t *list = json_array();

	for (uint32_t link = 0; link < links; link++) {
		char text[2 * SIMULATE_NAME_BYTES];

		if (!is_uplink(ordering, link))
			continue;
		simulate_link_name(&ordering->fabric, link, text, sizeof(text));
		json_array_append_new(list, json_pack("{so so so}", "name", json_text(text), "before",
						      bytes_json(ordering, &ordering->before, link), "after",
						      bytes_json(ordering, &ordering->after, link)));
	}
	return list;
}

static json_t *rate_json(double rate_Bps)
{
	return json_known(isfinite(rate_Bps) && rate_Bps > 0 ? (uint64_t)rate_Bps : 0);
}

static json_t *switches_json(const struct simulate_fabric *fabric)
{
	json_t *list = json_array();

	for (size_t i = 0; i < fabric->switch_count; i++) {
		const struct simulate_switch *one = &fabric->switches[i];
		bool is_root = one->parent == SIMULATE_NONE;

		json_array_append_new(
			list,
			json_pack("{so so so so}", "name", json_text(one->name), "parent",
				  is_root ? json_null() : json_text(fabric->switches[one->parent].name), "up_rate_Bps",
				  is_root ? json_null() : rate_json(one->capacity_Bps[SIMULATE_UP]), "down_rate_Bps",
				  is_root ? json_null() : rate_json(one->capacity_Bps[SIMULATE_DOWN])));
	}
	return list;
}

/* That may have ranks. */
static json_t *hosts_json(const struct ordering *ordering)
{
	const struct simulate_fabric *fabric = &ordering->fabric;
	json_t *list = json_array();

	for (size_t i = 0; i < ordering->host_count; i++) {
		uint32_t host = ordering->hosts[i];

		json_array_append_new(
			list,
			json_pack("{so so}", "name", json_text(fabric->host_names[host]), "leaf",
				  json_text(fabric->switches[fabric->nics[host * fabric->rail_count].leaf].name)));
	}
	return list;
}

json_t *ordering_json(const struct ordering *ordering)
{
	const struct ranks_layout *layout = &ordering->layout;
	struct answer first;

	ordering_answer(ordering, &first);
	return json_pack("{so so si si si si sf so so so so so}", "answer", answer_json(&first), "name",
			 json_text(ordering->title), "gpus", (int)layout->gpus, "tensor", (int)layout->tensor,
			 "pipeline", (int)layout->pipeline, "data", (int)layout->data, "bytes", ordering->bytes,
			 "before", side_json(ordering, &ordering->before), "after",
			 side_json(ordering, &ordering->after), "uplinks", uplinks_json(ordering), "switches",
			 switches_json(&ordering->fabric), "hosts", hosts_json(ordering));
}
