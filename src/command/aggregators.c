/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary aggregators`: asks every aggregator of the cluster file how it is. */
#include "command/command.h"

#include "aggregate/control/client.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/parse.h"
#include "cluster/file.h"
#include "command/cluster_open.h"
#include "command/json.h"
#include "command/print/units.h"
#include "command/term.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_MS = 20 };

/* One aggregator of the file, and what it said. */
struct asked {
	const struct cluster_aggregator *of;
	struct control_client *client;
	bool through, answered;
	char why[CONTROL_SENTENCE_BYTES]; /* not answered: a sentence that names it */
	struct control_state state;
	struct control_group_state *groups;
};
struct question {
	struct cluster *cluster;
	struct control_secret secret;
	struct control_answer answer;
	struct asked *each; /* [cluster->aggregator_count] */
};

static void question_fini(struct question *question)
{
	for (size_t i = 0; question->each && question->cluster && i < question->cluster->aggregator_count; i++) {
		control_client_close(question->each[i].client);
		free(question->each[i].groups);
	}
	free(question->each);
	cluster_free(question->cluster);
	control_secret_forget(&question->secret);
}

/* ------------------------------------------------------------------------------------------------------------- ask */

static void take(struct question *question, struct asked *asked, enum control_event event)
{
	size_t count = question->answer.state.group_count;

	if (event == CONTROL_EVENT_LOST) {
		memcpy(asked->why, question->answer.sentence, sizeof(asked->why));
		asked->through = true;
	} else if (event == CONTROL_EVENT_STATE) {
		asked->state = question->answer.state;
		asked->groups = calloc(count + 1, sizeof(*asked->groups));
		if (asked->groups)
			memcpy(asked->groups, question->answer.groups, count * sizeof(*asked->groups));
		else
			asked->state.group_count = 0;
		asked->through = asked->answered = true;
	}
}

static int ask_all(struct question *question, uint64_t timeout_ns)
{
	size_t count = question->cluster->aggregator_count, through = 0;
	int r;

	for (size_t i = 0; i < count; i++) {
		struct control_client_setup setup = { .address = question->each[i].of->address,
						      .port = question->each[i].of->port,
						      .secret = &question->secret,
						      .name = "tributary aggregators",
						      .timeout_ns = timeout_ns };

		r = control_client_open(&setup, &question->each[i].client);
		if (r == 0)
			r = control_client_ask(question->each[i].client);
		if (r < 0)
			return r;
	}
	while (through < count) {
		through = 0;
		for (size_t i = 0; i < count; i++) {
			struct asked *asked = &question->each[i];

			if (!asked->through)
				take(question, asked, control_client_step(asked->client, &question->answer));
			through += asked->through;
		}
		if (through < count)
			poll(NULL, 0, STEP_MS);
	}
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ print */

static void print_groups(const struct asked *asked, FILE *out)
{
	for (size_t i = 0; i < asked->state.group_count; i++) {
		const struct control_group_state *group = &asked->groups[i];
		char in[UNITS_BYTES], out_rate[UNITS_BYTES], name[2 * CONTROL_NAME_BYTES];

		units_bits((double)group->rate_in_Bps, in);
		units_bits((double)group->rate_out_Bps, out_rate);
		term_clean(group->name, name, sizeof(name));
		fprintf(out, "    group %s: %u members, %s, %" PRIu64 " s, %.1f MB in, %.1f MB out, %s in, %s out\n",
			name, group->member_count, group->ready ? "ready" : "comes together", group->age_ms / 1000,
			(double)group->bytes_in / 1e6, (double)group->bytes_out / 1e6, in, out_rate);
	}
}

static void print_one(const struct question *question, const struct asked *asked, FILE *out)
{
	const struct control_state *state = &asked->state;
	char in[UNITS_BYTES], out_rate[UNITS_BYTES], nic[UNITS_BYTES], name[2 * CONTROL_NAME_BYTES];

	fprintf(out, strchr(asked->of->address, ':') ? "[%s]:%u" : "%s:%u", asked->of->address, asked->of->port);
	fprintf(out, " on %s", question->cluster->switches[asked->of->leaf].name);
	if (!asked->answered) {
		fprintf(out, "\n  %s\n", asked->why);
		return;
	}
	term_clean(state->name, name, sizeof(name));
	units_bits((double)state->rate_in_Bps, in);
	units_bits((double)state->rate_out_Bps, out_rate);
	units_bits((double)state->nic_Bps, nic);
	fprintf(out, ": %s, version %s, up %" PRIu64 " s%s\n", name, state->version, state->uptime_ms / 1000,
		state->draining ? ", ending" : "");
	fprintf(out, "  %u of %u groups, %s in, %s out of %s, %u.%02u of %u threads' cores busy\n", state->group_count,
		state->groups_max, in, out_rate, nic, state->busy_milli / 1000, state->busy_milli % 1000 / 10,
		state->thread_count);
	fprintf(out,
		"  %.1f MB in, %.1f MB out, %" PRIu64 " segments, %" PRIu64 " groups since it started; %" PRIu64
		" connections turned away\n",
		(double)state->bytes_in / 1e6, (double)state->bytes_out / 1e6, state->segments, state->groups_served,
		state->strangers);
	print_groups(asked, out);
}

static json_t *groups_json(const struct asked *asked)
{
	json_t *list = json_array();

	for (size_t i = 0; i < asked->state.group_count; i++) {
		const struct control_group_state *group = &asked->groups[i];

		json_array_append_new(
			list,
			json_pack("{so si sb sI sI sI sI sI sI}", "name", json_text(group->name), "members",
				  (int)group->member_count, "ready", group->ready, "age_ms", (json_int_t)group->age_ms,
				  "received_bytes", (json_int_t)group->bytes_in, "sent_bytes",
				  (json_int_t)group->bytes_out, "segments", (json_int_t)group->segments, "receive_Bps",
				  (json_int_t)group->rate_in_Bps, "send_Bps", (json_int_t)group->rate_out_Bps));
	}
	return list;
}

static json_t *one_json(const struct question *question, const struct asked *asked)
{
	const struct control_state *state = &asked->state;
	json_t *one = json_pack("{so si so sI sb}", "address", json_text(asked->of->address), "port",
				(int)asked->of->port, "leaf",
				json_text(question->cluster->switches[asked->of->leaf].name), "rate_Bps",
				(json_int_t)asked->of->rate_Bps, "answered", asked->answered);

	if (!one || !asked->answered) {
		json_object_set_new(one, "why", json_text(asked->why));
		return one;
	}
	json_object_update_new(
		one,
		json_pack("{so so sI sI sI sI sI sI sI sI sI sI sI sf si si sb so}", "name", json_text(state->name),
			  "version", json_text(state->version), "uptime_ms", (json_int_t)state->uptime_ms,
			  "received_bytes", (json_int_t)state->bytes_in, "sent_bytes", (json_int_t)state->bytes_out,
			  "segments", (json_int_t)state->segments, "receive_Bps", (json_int_t)state->rate_in_Bps,
			  "send_Bps", (json_int_t)state->rate_out_Bps, "nic_Bps", (json_int_t)state->nic_Bps,
			  "memory_bytes", (json_int_t)state->memory_bytes, "memory_limit_bytes",
			  (json_int_t)state->memory_max_bytes, "groups_served", (json_int_t)state->groups_served,
			  "turned_away", (json_int_t)state->strangers, "busy_cores", (double)state->busy_milli / 1000,
			  "threads", (int)state->thread_count, "groups_limit", (int)state->groups_max, "draining",
			  state->draining, "groups", groups_json(asked)));
	return one;
}

static int print_all(const struct command_call *call, const struct question *question, FILE *out)
{
	size_t count = question->cluster->aggregator_count, answered = 0;
	json_t *list = json_array();
	int status = COMMAND_OK;

	for (size_t i = 0; i < count; i++) {
		answered += question->each[i].answered;
		if (command_given(call, "json"))
			json_array_append_new(list, one_json(question, &question->each[i]));
		else
			print_one(question, &question->each[i], out);
	}
	if (command_given(call, "json"))
		status = json_print("tributary-aggregators 1", json_pack("{sO}", "aggregators", list), out);
	json_decref(list);
	return status == COMMAND_OK && answered < count ? COMMAND_FAILED : status;
}

/* -------------------------------------------------------------------------------------------------------------- run */

static int find_cluster(const struct command_call *call, struct params *params, struct question *question)
{
	const char *file = command_value(call, "cluster"), *secret = command_value(call, "secret");
	struct diag why = { 0 };
	int r = 0;

	if (file && command_cluster_open(file, NULL, &question->cluster) != COMMAND_OK)
		return COMMAND_FAILED;
	if (!file)
		r = cluster_file_find(params, NULL, &question->cluster, &why);
	if (r < 0)
		return command_failed(NULL, why.text[0] ? 0 : r, "%s",
				      why.text[0] ? why.text : "the cluster is not known");
	if (!question->cluster)
		return command_failed(NULL, 0, "no cluster file is named: --cluster FILE, or TRIBUTARY_CLUSTER");
	if (!question->cluster->aggregator_count)
		return command_failed(NULL, 0, "the cluster file names no aggregator");
	if (!secret)
		secret = params->secret;
	if (!secret[0])
		return command_failed(NULL, 0, "no secret is named: --secret FILE, or TRIBUTARY_SECRET");
	r = control_secret_read(secret, &question->secret, &why);
	return r < 0 ? command_failed(&why, r, "the secret cannot be read") : COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	struct question *question = calloc(1, sizeof(*question));
	struct params params;
	uint64_t timeout_ns = 0;
	int status, r;

	if (!question)
		return command_failed(NULL, ENOMEM, "aggregators");
	command_load_params(&params);
	if (parse_seconds(command_value(call, "seconds"), NS_PER_S / 10, 600 * NS_PER_S, &timeout_ns) < 0)
		status = command_wrong_value(call, "seconds", "0.1 to 600");
	else
		status = find_cluster(call, &params, question);
	if (status == COMMAND_OK && question->cluster) {
		question->each = calloc(question->cluster->aggregator_count, sizeof(*question->each));
		for (size_t i = 0; question->each && i < question->cluster->aggregator_count; i++)
			question->each[i].of = &question->cluster->aggregators[i];
		r = question->each ? ask_all(question, timeout_ns) : -ENOMEM;
		status = r < 0 ? command_failed(NULL, r, "the aggregators cannot be asked")
			       : print_all(call, question, out);
	}
	question_fini(question);
	free(question);
	return status;
}

const struct command command_aggregators = {
	.name = "aggregators",
	.group = COMMAND_CLUSTERS,
	.operands = "",
	.help = "how the aggregators of the cluster are: groups, bytes, rates, busy cores",
	.about = "Asks every tributaryd that the cluster file names. The exit status is 1 if one of them does not "
		 "answer.",
	.options = { { "cluster", "FILE", "the cluster file; without it that of TRIBUTARY_CLUSTER", NULL },
		     { "secret", "FILE", "the secret shared with them; without it that of TRIBUTARY_SECRET", NULL },
		     { "seconds", "SECONDS", "how long to wait for each", "5" },
		     COMMAND_OPTION_JSON },
	.example = "tributary aggregators --cluster cluster --secret secret",
	.run = run,
};
