/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary explain`: what NCCL by itself would make of the machine, beside what Tributary makes of it. */
#include "command/command.h"

#include "command/answer.h"
#include "command/file.h"
#include "command/json.h"
#include "command/plan/flows.h"
#include "command/print/table.h"
#include "command/print/units.h"
#include "command/show/page.h"
#include "command/source.h"

#include <stdlib.h>
#include <string.h>

enum { LOADS_SHOWN = 3, PAIRS_SHOWN = 8, COLUMNS = 100, SIZES = 10 };

static const uint64_t sizes[SIZES] = { 8,       1 << 10, 8 << 10,  64 << 10,  256 << 10,
				       1 << 20, 4 << 20, 16 << 20, 128 << 20, 1 << 30 };
static const char collectives[] = "broadcast|reduce|allgather|reducescatter|allreduce"; /* as enum predict_collective */

/* One size: what is chosen, and how long it really takes. */
struct chosen {
	bool known;
	struct predict_choice choice;
};

struct explained {
	const struct source *source;
	struct channels ours, nccl;
	bool exact; /* nccl is a dump */
	struct channels_splits splits;
	bool measured; /* some link's rate is; else what "really" moves is by nominal rates */
	enum predict_collective collective;
	struct channels_collnet collnet; /* Tributary's */
	struct chosen by_size[SIZES][2]; /* NCCL, Tributary */
};

/* ------------------------------------------------------------------------------------------------------------ pairs */

static void print_row(FILE *out, const char *label, const char *nccl, const char *ours, const char *more)
{
	fprintf(out, "  %s\t%s\t%s\t%s\n", label, nccl, ours, more);
}

/* A pair of GPUs that NCCL joins by P2P with the plugin, and by host memory without it. */
struct gained {
	const struct topology_pair *pair;
	enum topology_class path_class;
};

/* The next one at or after *at, by the order of the graph's pairs. False: no more. */
static bool next_gained(const struct explained *explained, size_t *at, struct gained *ret)
{
	const struct topology *topology = explained->ours.topology;
	const struct plan_request *ours = &explained->ours.request, *nccl = &explained->nccl.request;

	for (; *at < topology->pair_count; (*at)++) {
		const struct topology_pair *pair = &topology->pairs[*at];
		bool from = false, to = false;

		for (size_t i = 0; i < ours->gpu_count; i++) {
			from = from || ours->gpus[i] == pair->from;
			to = to || ours->gpus[i] == pair->to;
		}
		if (!from || !to || plan_way(topology, ours, pair->from, pair->to) != TOPOLOGY_WAY_DIRECT ||
		    plan_way(topology, nccl, pair->from, pair->to) == TOPOLOGY_WAY_DIRECT)
			continue;
		*ret = (struct gained){ pair, topology_class_of(topology, pair->from, pair->to) };
		(*at)++;
		return true;
	}
	return false;
}

static void print_gained(const struct explained *explained, const struct term *term, FILE *out)
{
	const struct topology_vertex *vertices = explained->ours.topology->vertices;
	struct gained gained;
	size_t at = 0, count = 0;

	while (next_gained(explained, &at, &gained)) {
		char host[24], p2p[24], label[2 * TOPOLOGY_NAME_BYTES + 16], more[32];
		const struct topology_pair *pair = gained.pair;

		if (!count++)
			fprintf(out, "\n%spairs of GPUs, GB/s%s\tNCCL: host memory\tTributary: P2P\n",
				term_on(term, TERM_BOLD), term_off(term));
		if (count > PAIRS_SHOWN)
			continue;
		snprintf(label, sizeof(label), "%s > %s %s", vertices[pair->from].name, vertices[pair->to].name,
			 topology_class_word(gained.path_class));
		units_GBps(pair->host.rate_Bps, host);
		units_GBps(pair->p2p.rate_Bps, p2p);
		snprintf(more, sizeof(more), "%.2f times as much",
			 (double)pair->p2p.rate_Bps / (double)pair->host.rate_Bps);
		print_row(out, label, host, p2p, more);
	}
	if (count > PAIRS_SHOWN)
		fprintf(out, "  and %zu more (--json)\n", count - PAIRS_SHOWN);
}

static json_t *gained_json(const struct explained *explained)
{
	const struct topology_vertex *vertices = explained->ours.topology->vertices;
	json_t *list = json_array();
	struct gained gained;
	size_t at = 0;

	while (next_gained(explained, &at, &gained))
		json_array_append_new(list,
				      json_pack("{so so ss sI sI}", "from", json_text(vertices[gained.pair->from].name),
						"to", json_text(vertices[gained.pair->to].name), "class",
						topology_class_word(gained.path_class), "p2p_Bps",
						(json_int_t)gained.pair->p2p.rate_Bps, "host_Bps",
						(json_int_t)gained.pair->host.rate_Bps));
	return list;
}

/* ---------------------------------------------------------------------------------------------------------- predict */

/* NCCL chooses by what it believes; what it has chosen takes as long as the links make it. */
static struct chosen choose(const struct predict_communicator *believed, const struct predict_communicator *real,
			    enum predict_collective collective, uint64_t bytes)
{
	struct chosen chosen = { .known = predict_best(believed, collective, bytes, &chosen.choice) == 0 };
	struct predict_choice *choice = &chosen.choice;

	if (!chosen.known)
		return chosen;
	choice->time_us = predict_time_us(real, collective, choice->algorithm, choice->protocol, bytes);
	chosen.known = choice->time_us > 0;
	choice->algbw_GBps = chosen.known ? (double)bytes / choice->time_us / 1e3 : 0;
	choice->busbw_GBps = choice->algbw_GBps * predict_bus_factor(collective, real->rank_count);
	return chosen;
}

/* With the plugin's tuner. */
static struct chosen choose_ours(const struct predict_tuner *tuner, enum predict_collective collective, uint64_t bytes)
{
	struct channels_tuned tuned;
	struct chosen chosen;

	channels_tune(tuner, collective, bytes, &tuned);
	chosen = (struct chosen){ .known = tuned.tuned_us > 0 };
	if (!chosen.known)
		return chosen;
	chosen.choice = (struct predict_choice){
		.algorithm = (enum predict_algorithm)tuned.tuned.algorithm,
		.protocol = (enum predict_protocol)tuned.tuned.protocol,
		.time_us = tuned.tuned_us,
		.algbw_GBps = (double)bytes / tuned.tuned_us / 1e3,
	};
	chosen.choice.busbw_GBps = chosen.choice.algbw_GBps * predict_bus_factor(collective, tuner->truth.rank_count);
	return chosen;
}

static void predict(struct explained *explained)
{
	struct predict_communicator believed, real;
	struct predict_tuner tuner;

	channels_tuner(&explained->ours, explained->ours.request.hosts, &explained->collnet, &tuner);
	channels_predict(&explained->nccl, true, &believed);
	channels_predict(&explained->nccl, false, &real);
	real.links_decide = tuner.truth.links_decide;
	for (size_t i = 0; i < SIZES; i++) {
		explained->by_size[i][0] = choose(&believed, &real, explained->collective, sizes[i]);
		explained->by_size[i][1] = choose_ours(&tuner, explained->collective, sizes[i]);
	}
}

/* NCCL's time over Tributary's; 1 where they cannot be compared. */
static double gain_of(const struct explained *explained, size_t size)
{
	const struct chosen *nccl = &explained->by_size[size][0], *ours = &explained->by_size[size][1];

	return nccl->known && ours->known ? nccl->choice.time_us / ours->choice.time_us : 1;
}

/* ----------------------------------------------------------------------------------------------------------- answer */

/* The sizes at which most is gained, most is lost, and the last that can be compared. */
struct compared {
	size_t best, worst, last;
	struct answer_balance balance;
	bool any, takes_collnet;
};

static struct compared compare(const struct explained *explained)
{
	struct compared compared = { .any = false };

	for (size_t i = 0; i < SIZES; i++) {
		if (!explained->by_size[i][0].known || !explained->by_size[i][1].known)
			continue;
		if (!compared.any)
			compared.best = compared.worst = i;
		compared.any = true;
		if (gain_of(explained, i) > gain_of(explained, compared.best))
			compared.best = i;
		if (gain_of(explained, i) < gain_of(explained, compared.worst))
			compared.worst = i;
		answer_weigh(&compared.balance, gain_of(explained, i));
		compared.takes_collnet |= explained->by_size[i][1].choice.algorithm == PREDICT_COLLNET_CHAIN;
		compared.last = i;
	}
	return compared;
}

static void answer_rates(const struct explained *explained, size_t size, struct answer *ret)
{
	double gain = gain_of(explained, size);
	const struct predict_choice *nccl = &explained->by_size[size][0].choice;
	const struct predict_choice *ours = &explained->by_size[size][1].choice;
	char bytes[UNITS_BYTES], rates[2][UNITS_BYTES];

	units_GBps((uint64_t)(nccl->busbw_GBps * 1e9), rates[0]);
	units_GBps((uint64_t)(ours->busbw_GBps * 1e9), rates[1]);
	answer_add(ret, "%s of %s should %s %.2f times as %s with Tributary's channels: ",
		   predict_collective_word(explained->collective), units_size((double)sizes[size], bytes),
		   gain < 1 ? "take" : "run", gain < 1 ? 1 / gain : gain, gain < 1 ? "long" : "fast");
	if (strcmp(rates[0], rates[1]) != 0)
		answer_add(ret, "busbw %s GB/s instead of NCCL's %s", rates[1], rates[0]);
	else
		answer_add(ret, "%s instead of NCCL's %s", units_time(ours->time_us / 1e6, rates[1]),
			   units_time(nccl->time_us / 1e6, rates[0]));
}

static void answer_sizes(const struct explained *explained, const struct compared *compared, struct answer *ret)
{
	bool best_differs = answer_differs(gain_of(explained, compared->best));
	bool worst_is_slower = gain_of(explained, compared->worst) < 0.995;
	bool last_differs = answer_differs(gain_of(explained, compared->last));
	size_t size = last_differs ? compared->last : best_differs ? compared->best : compared->worst;
	char bytes[UNITS_BYTES], rate[UNITS_BYTES], other[UNITS_BYTES];

	units_size((double)sizes[compared->last], bytes);
	if (!last_differs && !best_differs && !worst_is_slower) {
		units_GBps((uint64_t)(explained->by_size[compared->last][1].choice.busbw_GBps * 1e9), rate);
		answer_add(ret,
			   "No difference: %s is as fast with NCCL's own channels at every size, busbw %s GB/s at %s",
			   predict_collective_word(explained->collective), rate, bytes);
		return;
	}
	if (!last_differs)
		answer_add(ret, "No difference at %s; ", bytes);
	answer_rates(explained, size, ret);
	if (!worst_is_slower)
		answer_add(ret, ", and no size is slower");
	else if (compared->worst != size)
		answer_add(ret, ", but %s takes %.2f times as long, %s instead of %s",
			   units_size((double)sizes[compared->worst], bytes), 1 / gain_of(explained, compared->worst),
			   units_time(explained->by_size[compared->worst][1].choice.time_us / 1e6, rate),
			   units_time(explained->by_size[compared->worst][0].choice.time_us / 1e6, other));
	if (best_differs && compared->best != size && gain_of(explained, size) < 1)
		answer_add(ret, ", but %s runs %.2f times as fast", units_size((double)sizes[compared->best], bytes),
			   gain_of(explained, compared->best));
}

/* What is said first, and what is to be done. */
static void answer(const struct explained *explained, struct answer *ret)
{
	struct compared compared = compare(explained);

	*ret = (struct answer){ .text = "" };
	if (!compared.any) {
		answer_add(ret, "There is no answer: NCCL's cost model has nothing to choose from at any size.");
		return;
	}
	answer_sizes(explained, &compared, ret);
	if (!explained->measured)
		answer_add(ret, "; these are nominal rates: `tributary measure` finds what the links really carry.");
	else if (answer_loses(&compared.balance))
		answer_add(ret, ": set TRIBUTARY_STEER=topology, which leaves the channels to NCCL.");
	else if (explained->splits.ours.text[0] && answer_differs(gain_of(explained, compared.best)))
		answer_add(ret, "; %s%sset NCCL_NET_DISABLE_INTRA=1, or the channels stay NCCL's: %s.",
			   compared.takes_collnet ? channels_to_set(&explained->collnet, true) : "",
			   compared.takes_collnet ? "; " : "", explained->splits.ours.text);
	else
		answer_add(ret, "; %s.", channels_to_set(&explained->collnet, compared.takes_collnet));
	if (!explained->exact && explained->splits.nccl.text[0])
		answer_add(
			ret,
			" NCCL's channels are those with NCCL_NET_DISABLE_INTRA=1; those without it are not estimated: %s.",
			explained->splits.nccl.text);
}

/* ------------------------------------------------------------------------------------------------------------- text */

static void total_words(const struct channels_graph *graph, uint64_t each_Bps, char *text, size_t text_bytes)
{
	if (each_Bps >= PLAN_UNBOUNDED_BPS)
		snprintf(text, text_bytes, "unlimited");
	else
		units_GBps(each_Bps * channels_count(graph), text);
}

static void print_rates(const struct explained *explained, enum plan_pattern pattern, FILE *out)
{
	const struct channels_graph *nccl = &explained->nccl.graphs[pattern], *ours = &explained->ours.graphs[pattern];
	double gain = (double)channels_total_Bps(ours) / (double)channels_total_Bps(nccl);
	double bound = (double)ours->plan.bound_Bps;
	char left[40], right[40], label[48], more[64] = "";

	snprintf(left, sizeof(left), "%zu", channels_count(nccl));
	snprintf(right, sizeof(right), "%zu", channels_count(ours));
	print_row(out, "channels", left, right, "");
	total_words(nccl, nccl->plan.rate_Bps, left, sizeof(left));
	total_words(ours, ours->plan.rate_Bps, right, sizeof(right));
	print_row(out, "believed, GB/s", left, right, nccl->fallback ? "NCCL finds no channels: GPUs in order" : "");
	total_words(nccl, nccl->rate_Bps, left, sizeof(left));
	total_words(ours, ours->rate_Bps, right, sizeof(right));
	if (ours->rate_Bps < PLAN_UNBOUNDED_BPS && answer_differs(gain))
		snprintf(more, sizeof(more), "%.2f times as much", gain);
	print_row(out, explained->measured ? "really, GB/s" : "by nominal rates, GB/s", left, right, more);
	if (ours->rate_Bps >= PLAN_UNBOUNDED_BPS || bound <= 0)
		return;
	snprintf(left, sizeof(left), "%.1f %%", 100 * (double)channels_total_Bps(nccl) / bound);
	snprintf(right, sizeof(right), "%.1f %%",
		 channels_is_optimal(ours) ? 100 : 100 * (double)channels_total_Bps(ours) / bound);
	units_GBps(ours->plan.bound_Bps, more);
	snprintf(label, sizeof(label), "of the bound, %s", more);
	print_row(out, label, left, right, "");
}

static void print_full(const char *whose, const struct channels *channels, enum plan_pattern pattern, bool utf8,
		       FILE *out)
{
	const struct channels_graph *graph = &channels->graphs[pattern];
	char text[LOADS_SHOWN * 4 * TOPOLOGY_NAME_BYTES];
	size_t at;

	if (graph->rate_Bps >= PLAN_UNBOUNDED_BPS)
		return;
	at = (size_t)snprintf(text, sizeof(text), "%s busiest:", whose);
	for (size_t i = 0; i < graph->load_count && i < LOADS_SHOWN && graph->loads[i].capacity_Bps; i++) {
		char name[3 * TOPOLOGY_NAME_BYTES], load[64];

		plan_load_name(channels->topology, &graph->loads[i], name, sizeof(name));
		channels_load_words(channels, graph, &graph->loads[i], utf8, load, sizeof(load));
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s %s %s", i ? "," : "", name, load);
		if (at >= sizeof(text))
			break;
	}
	options_print_wrapped(text, 2, COLUMNS, out);
}

static void print_chosen(const struct chosen *chosen, FILE *rows)
{
	char time[UNITS_BYTES], algbw[UNITS_BYTES], busbw[UNITS_BYTES];

	if (chosen->known)
		fprintf(rows, "\t%s/%s\t%s\t%s\t%s", predict_algorithm_word(chosen->choice.algorithm),
			predict_protocol_word(chosen->choice.protocol), units_time(chosen->choice.time_us / 1e6, time),
			units_GBps((uint64_t)(chosen->choice.algbw_GBps * 1e9), algbw),
			units_GBps((uint64_t)(chosen->choice.busbw_GBps * 1e9), busbw));
	else
		fputs("\tnone\t\t\t", rows);
}

static void print_sizes(const struct explained *explained, const struct term *term, FILE *out)
{
	struct table table;
	FILE *rows = table_begin(&table, out);

	fprintf(rows, "\n%s%s%s, by NCCL's cost model at the %s rates\n", term_on(term, TERM_BOLD),
		predict_collective_word(explained->collective), term_off(term),
		explained->measured ? "real" : "nominal");
	fputs("size\tNCCL takes\ttime\talgbw\tbusbw\tTributary\ttime\talgbw\tbusbw, GB/s\n", rows);
	for (size_t i = 0; i < SIZES; i++) {
		const struct chosen *nccl = &explained->by_size[i][0], *ours = &explained->by_size[i][1];
		char size[UNITS_BYTES];

		fputs(units_size((double)sizes[i], size), rows);
		print_chosen(nccl, rows);
		print_chosen(ours, rows);
		if (answer_differs(gain_of(explained, i)))
			fprintf(rows, "\t%.2f times as fast", gain_of(explained, i));
		fputc('\n', rows);
	}
	table_end(&table, rows, "  r   l  r  r  r   l  r  r  r   l");
}

static void print_text(const struct explained *explained, const struct term *term, FILE *out)
{
	struct answer first;
	struct table table;
	char words[160];
	FILE *rows;

	answer(explained, &first);
	answer_print(&first, out);
	term_title(term, explained->ours.topology->name, out);
	channels_request_words(&explained->ours, words, sizeof(words));
	fprintf(out, "%s\n", words);
	rows = table_begin(&table, out);
	for (int i = 0; i < PLAN_PATTERN_COUNT; i++) {
		enum plan_pattern pattern = (enum plan_pattern)i;

		if (!explained->ours.has[i] || !explained->nccl.has[i])
			continue;
		fprintf(rows, "\n%s%s%s\t%s\tTributary\n", term_on(term, TERM_BOLD), channels_pattern_word(pattern),
			term_off(term), explained->exact ? "NCCL (dump)" : "NCCL (estimate)");
		print_rates(explained, pattern, rows);
		print_full("NCCL's", &explained->nccl, pattern, term->utf8, rows);
		print_full("Tributary's", &explained->ours, pattern, term->utf8, rows);
	}
	print_gained(explained, term, rows);
	table_end(&table, rows, "l  r  r   l");
	print_sizes(explained, term, out);
	fprintf(out, "\n%s", term_on(term, TERM_DIM));
	options_print_wrapped(
		explained->exact ? "NCCL's side is what it dumped, on these capacities. Times are a model's, not "
				   "measured."
				 : "NCCL's side is an estimate of its search over nominal rates; --compare with what "
				   "it dumps (NCCL_GRAPH_DUMP_FILE) is exact. Times are a model's, not measured.",
		0, COLUMNS, out);
	if (!explained->measured)
		fputs("No link was measured: what links really carry under contention may be less.\n", out);
	fputs(term_off(term), out);
}

/* ------------------------------------------------------------------------------------------------------------- JSON */

static json_t *chosen_json(const struct chosen *chosen)
{
	if (!chosen->known)
		return json_null();
	return json_pack("{ss ss sf sI sI}", "algorithm", predict_algorithm_word(chosen->choice.algorithm), "protocol",
			 predict_protocol_word(chosen->choice.protocol), "time_us", chosen->choice.time_us, "algbw_Bps",
			 (json_int_t)(chosen->choice.algbw_GBps * 1e9), "busbw_Bps",
			 (json_int_t)(chosen->choice.busbw_GBps * 1e9));
}

static json_t *explained_json(const struct explained *explained)
{
	const char *name = explained->ours.topology->name;
	json_t *list = json_array();
	struct answer first;

	answer(explained, &first);
	for (size_t i = 0; i < SIZES; i++)
		json_array_append_new(list, json_pack("{sI so so}", "bytes", (json_int_t)sizes[i], "nccl",
						      chosen_json(&explained->by_size[i][0]), "tributary",
						      chosen_json(&explained->by_size[i][1])));
	return json_pack("{so so so sb s{sb sb} so so so ss so}", "answer", answer_json(&first), "name",
			 json_known_text(name), "profile", json_known_text(explained->source->profile_path), "exact",
			 explained->exact, "net_inside_host", "nccl", explained->splits.nccl.text[0] != '\0',
			 "tributary", explained->splits.ours.text[0] != '\0', "nccl", channels_json(&explained->nccl),
			 "tributary", channels_json(&explained->ours), "p2p", gained_json(explained), "collective",
			 predict_collective_word(explained->collective), "sizes", list);
}

/* The viewer takes the drawings in this order, and has to know the machine. */
static int draw_page(const void *arg, FILE *out)
{
	const struct explained *explained = arg;
	json_t *value;
	int r;

	page_begin(explained->ours.topology->name, out);
	r = channels_draw_all(&explained->nccl, out);
	if (r == 0)
		r = channels_draw_all(&explained->ours, out);
	if (r < 0)
		return r;
	value = explained_json(explained);
	json_object_set_new(value, "machine", json_topology(explained->ours.topology));
	return page_end("tributary-explain 1", value, out);
}

static int show(const struct command_call *call, const struct explained *explained, FILE *out)
{
	const char *page = command_value(call, "html");
	struct term term = term_of(call, out);
	int status = COMMAND_OK;

	if (page)
		status = file_put_made(page, "the page cannot be drawn", draw_page, explained, out);
	if (status == COMMAND_OK && command_given(call, "json"))
		return json_print("tributary-explain 1", explained_json(explained), out);
	if (status == COMMAND_OK && !page)
		print_text(explained, &term, out);
	return status;
}

/* ------------------------------------------------------------------------------------------------------------ whole */

static enum predict_collective collective_of(const struct command_call *call)
{
	const char *word = command_value(call, "collective"), *at = collectives;
	int index = 0;

	for (; strncmp(at, word, strlen(word)) != 0 || (at[strlen(word)] && at[strlen(word)] != '|'); index++)
		at += strcspn(at, "|") + 1;
	return (enum predict_collective)index;
}

/* The machine as a TCP host: its cards stay, as interfaces. */
static void take_rdma(struct topology *topology)
{
	for (size_t i = 0; i < topology->vertex_count; i++) {
		struct topology_vertex *vertex = &topology->vertices[i];

		if (vertex->kind == TOPOLOGY_NIC)
			vertex->nic.rdma = vertex->nic.gdr = false;
		else if (vertex->kind == TOPOLOGY_GPU)
			vertex->gpu.gdr = false;
	}
}

static int explain(const struct command_call *call, struct source *source, FILE *out)
{
	struct explained explained = { .source = source, .collective = collective_of(call) };
	const char *dump = command_value(call, "compare");
	struct plan_request request, nccls;
	enum plan_where where;
	int status;

	if (command_given(call, "no-rdma"))
		take_rdma(&source->topology);
	status = channels_request(call, &source->topology, &request, &where);
	if (status == COMMAND_OK && request.gpu_count * request.hosts < 2 && where == PLAN_ONE_HOST)
		status = command_usage_error("explain", "a communicator of one GPU exchanges nothing");
	if (status == COMMAND_OK)
		status = channels_plan(&source->topology, &request, where, &explained.ours);
	if (status != COMMAND_OK)
		return status;
	explained.exact = dump != NULL;
	explained.measured = source_is_measured(&source->topology);
	status = channels_need_rates(&explained.ours);
	if (status == COMMAND_OK)
		status = channels_collnet(call, &explained.ours, explained.ours.request.hosts, &explained.collnet);
	if (status != COMMAND_OK)
		goto fail;
	nccls = explained.ours.request;
	nccls.p2p_farthest = plan_p2p_default(&source->topology, nccls.gpus, nccls.gpu_count);
	if (dump)
		status = channels_read(&source->topology, &nccls, dump, &explained.nccl);
	else
		status = channels_estimate(&source->topology, &nccls, &explained.nccl);
	if (status != COMMAND_OK)
		goto fail;
	status = channels_find_splits(&explained.ours, &nccls, &explained.splits);
	if (status == COMMAND_OK) {
		predict(&explained);
		status = show(call, &explained, out);
	}
	channels_fini(&explained.nccl);
fail:
	channels_fini(&explained.ours);
	return status;
}

static int run(const struct command_call *call, FILE *out)
{
	return source_run(call, out, explain);
}

const struct command command_explain = {
	.name = "explain",
	.group = COMMAND_PLANNING,
	.operands = "",
	.help = "what NCCL by itself makes of the machine, and what Tributary makes of it",
	.about = "Both are judged on the same capacities: channels, what each believes they move and what they "
		 "really do, the links that they fill, and how long a collective takes by NCCL's cost model.\n"
		 "NCCL's channels are an estimate of its search, which knows nominal rates alone. --compare takes "
		 "those that it dumped instead (NCCL_GRAPH_DUMP_FILE).",
	.options = { COMMAND_OPTION_FROM,
		     COMMAND_OPTION_PROFILE,
		     COMMAND_OPTION_GPUS,
		     COMMAND_OPTION_NETS,
		     COMMAND_OPTION_HOSTS,
		     COMMAND_OPTION_COMPARE,
		     COMMAND_OPTION_COLLNET,
		     COMMAND_OPTION_COLLNET_CLUSTER,
		     COMMAND_OPTION_EXCLUDE,
		     { "no-rdma", NULL, "as if the NICs had no RDMA: what TCP hosts like this gain", NULL },
		     { "collective", "broadcast|reduce|allgather|reducescatter|allreduce", "what is timed",
		       "allreduce" },
		     { "html", "FILE", "one page: the gain of each size, NCCL's channels beside Tributary's", NULL },
		     COMMAND_OPTION_JSON,
		     COMMAND_OPTION_COLOR },
	.example = "tributary explain --from machine.topology --hosts 2",
	.run = run,
};
