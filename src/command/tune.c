/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary tune`: which algorithm and protocol NCCL takes for each collective and size on our channels, and why. */
#include "aggregate/gain.h"
#include "command/command.h"

#include "command/answer.h"
#include "command/json.h"
#include "command/plan/channels.h"
#include "command/print/units.h"
#include "command/python.h"
#include "command/source.h"
#include "command/term.h"
#include "command/tune_install.h"

#include <stdlib.h>
#include <string.h>

enum {
	SIZES = 28, /* 8 bytes to 1 GiB */
	SMALLEST = 8,
	NODES_MAX = 1 << 20,
	WORD_BYTES = 32,
};

struct tuned {
	struct channels channels;
	struct predict_tuner tuner;
	struct channels_collnet collnet;
	size_t node_count;
};

/* ---------------------------------------------------------------------------------------------------------- compute */

static void compute(const struct tuned *tuned, enum predict_collective collective, struct channels_tuned lines[SIZES])
{
	for (size_t i = 0; i < SIZES; i++)
		channels_tune(&tuned->tuner, collective, (uint64_t)SMALLEST << i, &lines[i]);
}

/* How many times as long it takes without the tuner; 1 where that is not known. */
static double gain_of(const struct channels_tuned *line)
{
	return line->tuned_us > 0 && line->alone_us > 0 ? line->alone_us / line->tuned_us : 1;
}

/* ----------------------------------------------------------------------------------------------------------- answer */

static void answer(const struct tuned *tuned, struct answer *ret)
{
	double best = 1, worst = 1;
	struct answer_balance balance = { 0 };
	bool takes_collnet = false;
	const char *what[2] = { "", "" }; /* of the best, of the worst */
	uint64_t bytes[2] = { 0, 0 };
	char size[UNITS_BYTES];

	*ret = (struct answer){ .text = "" };
	for (int c = 0; c < PREDICT_COLLECTIVE_COUNT; c++) {
		struct channels_tuned lines[SIZES];

		compute(tuned, (enum predict_collective)c, lines);
		for (size_t i = 0; i < SIZES; i++) {
			double gain = gain_of(&lines[i]);
			int which = gain > best ? 0 : 1;

			answer_weigh(&balance, gain);
			takes_collnet |= lines[i].tuned.algorithm == PREDICT_COLLNET_CHAIN;
			if (gain <= best && gain >= worst)
				continue;
			*(which ? &worst : &best) = gain;
			what[which] = predict_collective_word((enum predict_collective)c);
			bytes[which] = lines[i].bytes;
		}
	}
	if (answer_differs(best))
		answer_add(ret, "With the tuner %s of %s should be %.2f times as fast, its largest gain", what[0],
			   units_size((double)bytes[0], size), best);
	else
		answer_add(ret,
			   "No difference: without the tuner NCCL would choose as well for every collective and size");
	if (answer_differs(worst))
		answer_add(ret, ", but %s of %s takes %.2f times as long", what[1], units_size((double)bytes[1], size),
			   1 / worst);
	if (answer_loses(&balance))
		answer_add(ret, ": TRIBUTARY_TUNER=0 switches the tuner off.");
	else
		answer_add(ret, "; %s.", channels_to_set(&tuned->collnet, takes_collnet));
}

/* ------------------------------------------------------------------------------------------------------------- text */

static void taken_words(const struct channels_taken *taken, char text[WORD_BYTES])
{
	if (taken->algorithm < 0)
		snprintf(text, WORD_BYTES, "none");
	else
		snprintf(text, WORD_BYTES, "%s/%s", predict_algorithm_word((enum predict_algorithm)taken->algorithm),
			 predict_protocol_word((enum predict_protocol)taken->protocol));
}

static bool same(const struct channels_taken *a, const struct channels_taken *b)
{
	return a->algorithm == b->algorithm && a->protocol == b->protocol;
}

/* "Ring/LL to 128 KiB, Ring/Simple". */
static void print_ranges(const char *label, const struct channels_tuned *lines, bool alone, FILE *out)
{
	fprintf(out, "    %-12s", label);
	for (size_t i = 0; i < SIZES; i++) {
		const struct channels_taken *taken = alone ? &lines[i].alone : &lines[i].tuned;
		const struct channels_taken *next = i + 1 < SIZES ? (alone ? &lines[i + 1].alone : &lines[i + 1].tuned)
								  : NULL;
		char words[WORD_BYTES], size[24];

		if (next && same(taken, next))
			continue;
		taken_words(taken, words);
		units_size((double)lines[i].bytes, size);
		if (next)
			fprintf(out, "%s to %s, ", words, size);
		else
			fprintf(out, "%s\n", words);
	}
}

static void print_summary(const struct channels_tuned lines[SIZES], FILE *out)
{
	double most = 1;
	uint64_t where = 0;
	char size[24];

	print_ranges("takes", lines, false, out);
	for (size_t i = 0; i < SIZES; i++) {
		if (gain_of(&lines[i]) > most) {
			most = gain_of(&lines[i]);
			where = lines[i].bytes;
		}
	}
	if (!answer_differs(most))
		return;
	print_ranges("not tuned", lines, true, out);
	units_size((double)where, size);
	fprintf(out, "    %-12sat most %.2f times as long, at %s\n", "", most, size);
}

static void print_collnet(const struct channels_collnet *collnet, FILE *out)
{
	if (!collnet->on && collnet->has_file)
		fprintf(out,
			"collnet: off, as large AllReduces have %.2f times the rate of NCCL's ring or tree by the "
			"cluster file, and less than 1.5 is not used\n",
			collnet->gain_permille / 1000.0);
	else if (!collnet->on)
		fputs("collnet: off, as without NCCL_COLLNET_ENABLE=1 (--collnet, --cluster)\n", out);
	else if (gain_is_enough(collnet->gain_permille))
		fprintf(out,
			"collnet: on; large AllReduces at %.2f times the rate of NCCL's ring or tree, by the cluster file\n",
			collnet->gain_permille / 1000.0);
	else
		fputs("collnet: on; it is not known to gain, and a ring is taken for what is large\n", out);
}

static void print_rates(const struct tuned *tuned, FILE *out)
{
	const struct predict_communicator *file = &tuned->tuner.file, *truth = &tuned->tuner.truth;
	double count = (double)truth->ring.channel_count;
	char ring[UNITS_BYTES], tree[UNITS_BYTES];

	fprintf(out, "%s: rings %s GB/s, trees %s, as NCCL counts",
		tuned->node_count > 1 ? "on several hosts" : "on one host",
		units_GBps((uint64_t)(count * truth->ring.intra_GBps * 1e9), ring),
		units_GBps((uint64_t)((double)truth->tree.channel_count * truth->tree.intra_GBps * 1e9), tree));
	if (tuned->tuner.edits && predict_tuner_differs(&tuned->tuner))
		fprintf(out,
			"; the graph file says %s and %s, because there may be several hosts: the tuner corrects it\n",
			units_GBps((uint64_t)(count * file->ring.intra_GBps * 1e9), ring),
			units_GBps((uint64_t)((double)file->tree.channel_count * file->tree.intra_GBps * 1e9), tree));
	else if (tuned->tuner.edits)
		fputs("; the graph file says so; large trees are timed by the links' rates\n", out);
	else if (tuned->node_count < 2)
		fputs("; the graph file says so, and the tuner leaves NCCL's costs alone\n", out);
	else
		fputs("; the graph file says so, and the tuner changes collnet's costs alone\n", out);
	if (tuned->node_count > 1)
		print_collnet(&tuned->collnet, out);
}

static void print_text(const struct tuned *tuned, const struct term *term, FILE *out)
{
	struct channels_tuned lines[SIZES];
	struct answer first;
	char words[160];

	answer(tuned, &first);
	answer_print(&first, out);
	term_title(term, tuned->channels.topology->name, out);
	channels_request_words(&tuned->channels, words, sizeof(words));
	fprintf(out, "%s\n", words);
	print_rates(tuned, out);
	for (int c = 0; c < PREDICT_COLLECTIVE_COUNT; c++) {
		compute(tuned, (enum predict_collective)c, lines);
		fprintf(out, "\n%s%s%s\n", term_on(term, TERM_BOLD),
			predict_collective_word((enum predict_collective)c), term_off(term));
		print_summary(lines, out);
	}
	fprintf(out,
		"\n%sTimes are a model's, not measured; \"not tuned\" is NCCL with these channels and no tuner.%s\n",
		term_on(term, TERM_DIM), term_off(term));
}

/* ------------------------------------------------------------------------------------------------------------- JSON */

static json_t *taken_json(const struct channels_taken *taken, double time_us)
{
	if (taken->algorithm < 0)
		return json_null();
	return json_pack("{ss ss sf}", "algorithm", predict_algorithm_word((enum predict_algorithm)taken->algorithm),
			 "protocol", predict_protocol_word((enum predict_protocol)taken->protocol), "time_us", time_us);
}

static json_t *line_json(const struct channels_tuned *line)
{
	json_t *entries = json_array();

	for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++) {
		for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++) {
			struct channels_taken entry = { a, p };

			if (line->truth.us[a][p] >= 0)
				json_array_append_new(entries, taken_json(&entry, (double)line->truth.us[a][p]));
		}
	}
	return json_pack("{sI so so so}", "bytes", (json_int_t)line->bytes, "tuned",
			 taken_json(&line->tuned, line->tuned_us), "not_tuned",
			 taken_json(&line->alone, line->alone_us), "allowed", entries);
}

static json_t *collnet_json(const struct channels_collnet *collnet)
{
	return collnet->on ? json_real(collnet->gain_permille / 1000.0) : json_null();
}

static int print_json(const struct tuned *tuned, const struct source *source, FILE *out)
{
	const char *name = tuned->channels.topology->name;
	json_t *collectives = json_array();
	struct channels_tuned lines[SIZES];
	struct answer first;

	answer(tuned, &first);
	for (int c = 0; c < PREDICT_COLLECTIVE_COUNT; c++) {
		json_t *sizes = json_array();

		compute(tuned, (enum predict_collective)c, lines);
		for (size_t i = 0; i < SIZES; i++)
			json_array_append_new(sizes, line_json(&lines[i]));
		json_array_append_new(collectives,
				      json_pack("{ss so}", "collective",
						predict_collective_word((enum predict_collective)c), "sizes", sizes));
	}
	return json_print("tributary-tune 1",
			  json_pack("{so so so sI sI so sb so}", "answer", answer_json(&first), "name",
				    json_known_text(name), "profile", json_known_text(source->profile_path), "ranks",
				    (json_int_t)tuned->tuner.truth.rank_count, "nodes", (json_int_t)tuned->node_count,
				    "collnet_gain", collnet_json(&tuned->collnet), "tuned",
				    tuned->tuner.edits || tuned->collnet.on, "collectives", collectives),
			  out);
}

/* ------------------------------------------------------------------------------------------------------------ whole */

/* Of the communicator: all that the channels are for, or, where that may be either, as many as the call says. */
static int count_nodes(const struct command_call *call, enum plan_where where, unsigned hosts, size_t *ret)
{
	const char *word = command_value(call, "nodes");
	uint64_t count = where == PLAN_EITHER ? 1 : hosts;

	if (command_number(call, "nodes", 1, NODES_MAX, &count) != COMMAND_OK)
		return COMMAND_USAGE;
	if (word && where != PLAN_EITHER && (count > 1) != (where == PLAN_SEVERAL_HOSTS))
		return command_usage_error("tune", "--nodes is %s, and the channels are for %s: --hosts either", word,
					   where == PLAN_ONE_HOST ? "one host" : "several");
	*ret = (size_t)count;
	return COMMAND_OK;
}

static int tune(const struct command_call *call, struct source *source, FILE *out)
{
	struct term term = term_of(call, out);
	struct plan_request request;
	enum plan_where where;
	struct tuned tuned = { .node_count = 1 };
	int status = channels_request(call, &source->topology, &request, &where);

	if (status == COMMAND_OK)
		status = count_nodes(call, where, request.hosts, &tuned.node_count);
	if (status == COMMAND_OK && request.gpu_count * tuned.node_count < 2)
		status = command_usage_error("tune", "a communicator of one GPU exchanges nothing");
	if (status == COMMAND_OK)
		status = channels_plan(&source->topology, &request, where, &tuned.channels);
	if (status != COMMAND_OK)
		return status;
	status = channels_need_rates(&tuned.channels);
	if (status == COMMAND_OK)
		status = channels_collnet(call, &tuned.channels, tuned.node_count, &tuned.collnet);
	if (status != COMMAND_OK) {
		channels_fini(&tuned.channels);
		return status;
	}
	channels_tuner(&tuned.channels, tuned.node_count, &tuned.collnet, &tuned.tuner);
	if (command_given(call, "json"))
		status = print_json(&tuned, source, out);
	else
		print_text(&tuned, &term, out);
	channels_fini(&tuned.channels);
	return status;
}

/* The options from --measure on, but for those of both. */
static const char *only_measured(const struct command_call *call)
{
	const struct options_row *rows = call->command->options;
	bool is_measured = false;

	for (size_t i = 0; i < options_count(rows); i++) {
		is_measured |= !strcmp(rows[i].name, "measure");
		if (is_measured && strcmp(rows[i].name, "json") != 0 && strcmp(rows[i].name, "color") != 0 &&
		    command_given(call, rows[i].name))
			return rows[i].name;
	}
	return NULL;
}

static int run(const struct command_call *call, FILE *out)
{
	const char *name;

	if (command_given(call, "install"))
		return tune_install(call, out);
	if (command_given(call, "measure"))
		return python_become(call, "tune.py", NULL, out);
	name = only_measured(call);
	if (name)
		return command_usage_error("tune", "--%s is for --measure", name);
	if (call->rest)
		return command_usage_error("tune", "\"%s\": a command is for --measure", call->rest[0]);
	return source_run(call, out, tune);
}

const struct command command_tune = {
	.name = "tune",
	.group = COMMAND_PLANNING,
	.operands = "[COMMAND...]",
	.help = "which algorithm and protocol NCCL takes for each size on these channels, and why",
	.about =
		"For each collective and size, by NCCL's cost model at the rates of the planned channels: what the "
		"tuner makes NCCL take, and what NCCL would take without it. --json has the time of everything that "
		"NCCL may choose.\n"
		"Where a job has several hosts, channels are planned for communicators on one of them and on "
		"several alike (--hosts either); --nodes says how many the communicator at hand is on.\n"
		"On several hosts NCCL has the plugin's collnet too where NCCL_COLLNET_ENABLE=1 asks for it: "
		"--collnet; with --cluster where the cluster file promises a gain, as `tributary env` decides.\n"
		"With --measure the words after -- start the ranks, as for `tributary bench`: each run of them measures a "
		"candidate for each size of each collective. What is faster than NCCL's own choice in turns, beyond its "
		"95 % interval and by 3 %, enters a table for communicators of this shape, which the plugin follows; "
		"without such a thing there is none. The sentence at the end says what it brings and how jobs use it.",
	.options = { COMMAND_OPTION_FROM,
		     COMMAND_OPTION_PROFILE,
		     COMMAND_OPTION_GPUS,
		     COMMAND_OPTION_NETS,
		     COMMAND_OPTION_HOSTS,
		     { "nodes", "N", "hosts of the communicator; without it those of --hosts, one for either", NULL },
		     COMMAND_OPTION_COLLNET,
		     COMMAND_OPTION_COLLNET_CLUSTER,
		     COMMAND_OPTION_EXCLUDE,
		     { "install", "FILE",
		       "keep this tuning table here, as every host of a job needs it; - for standard input", NULL },
		     { "measure", NULL, "measure, with the ranks that COMMAND starts, and keep a table", NULL },
		     { "worker", "auto|nccl-tests|torch",
		       "what the ranks run; auto: nccl-tests where they are, and not under torchrun", "auto" },
		     { "nccl-tests", "FOLDER", "where all_reduce_perf and the others are; without it in PATH", NULL },
		     { "operations", "LIST", "some of all_reduce,all_gather,reduce_scatter (these), broadcast,reduce",
		       NULL },
		     { "sizes", "FROM-TO", "powers of two", "4K-64M" },
		     { "turns", "N", "of the table against none, 6 at least", "11" },
		     { "seconds", "SECONDS", "for all of it", "1800" },
		     { "timeout", "SECONDS", "for one start of COMMAND", "600" },
		     { "ranks", "N", "how many on this machine, without COMMAND", NULL },
		     { "mps", NULL, "ranks that share one GPU run side by side, by MPS", NULL },
		     COMMAND_OPTION_JSON,
		     COMMAND_OPTION_COLOR },
	.example = "tributary tune --from machine.topology --hosts 2",
	.run = run,
};
