/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: a line each, or one on the command line. */
#include "command/place/placing.h"

#include "base/log.h"
#include "base/parse.h"
#include "cluster/text.h"
#include "command/command.h"
#include "command/file.h"
#include "command/term.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS_BYTES = 1 << 20, WORDS_MOST = 6 };

static const char *const kinds[] = { [PLAN_PLACE_HOST] = "host", [PLAN_PLACE_PEER] = "peer", NULL };

/* -------------------------------------------------------------------------------------------------------------- slots */

struct taking {
	const struct placing *placing;
	uint32_t *slots;
	size_t count;
	char *missing; /* what is not there; malloc'ed */
};

static int add_slot(struct taking *taking, uint32_t slot)
{
	for (size_t i = 0; i < taking->count; i++)
		if (taking->slots[i] == slot)
			return 0;
	taking->slots[taking->count++] = slot;
	return 0;
}

static const char *slot_name(const void *tree, size_t index)
{
	return ((const struct plan_place_tree *)tree)->slots[index].name;
}

static int take_host(void *arg, const char *name, size_t bytes)
{
	struct taking *taking = arg;
	const struct plan_place_tree *tree = &taking->placing->tree;
	size_t slot = command_find_host(name, bytes, slot_name, tree, tree->slot_count);

	if (slot < tree->slot_count)
		return add_slot(taking, (uint32_t)slot);
	taking->missing = strndup(name, bytes);
	return -ENOENT;
}

static int take_gpus(struct taking *taking, const char *list)
{
	const struct plan_place_tree *tree = &taking->placing->tree;
	const char *item;
	size_t bytes;

	while (parse_list_next(&list, ',', &item, &bytes)) {
		uint64_t low = 0, high = 0;
		char text[32];

		snprintf(text, sizeof(text), "%.*s", (int)(bytes < sizeof(text) ? bytes : sizeof(text) - 1), item);
		if (parse_range(text, 0, 65535, &low, &high) < 0 && parse_u64(text, 0, 65535, &low) < 0)
			return -EINVAL;
		high = strchr(text, '-') ? high : low;
		for (; low <= high; low++) {
			uint32_t slot = 0;

			while (slot < tree->slot_count && tree->slots[slot].number != low)
				slot++;
			if (slot == tree->slot_count) {
				taking->missing = strdup(text);
				return -ENOENT;
			}
			add_slot(taking, slot);
		}
	}
	return taking->count ? 0 : -EINVAL;
}

/* "0-3,6" or "node[1-4]"; ret has room for all slots. An exit status; `where` for what is wrong. */
static int placing_slots(const struct placing *placing, const char *list, const char *where, uint32_t *ret,
			 size_t *ret_count)
{
	struct cluster_word word = { list, strlen(list), 1, 1 };
	struct taking taking = { .placing = placing, .slots = ret };
	struct diag diag = { 0 };
	int status = COMMAND_OK, r;

	r = placing->hosts ? cluster_expand(&word, "a host", &diag, take_host, &taking) : take_gpus(&taking, list);
	if (r == -ENOENT)
		status = command_failed(NULL, 0, "%s: there is no %s %.100s", where, placing->hosts ? "host" : "GPU",
					taking.missing ? taking.missing : "");
	else if (r < 0)
		status = command_failed(NULL, 0, "%s: \"%.100s\" is no list of %s", where, list,
					placing->hosts ? "hosts, as node[1-4],x7" : "GPUs, as 0-3,6");
	free(taking.missing);
	*ret_count = taking.count;
	return status;
}

/* --------------------------------------------------------------------------------------------------------------- jobs */

static int add_job(struct placing *placing, const char *name, const char *kind, const char *rate, const char *where,
		   struct placing_job **ret)
{
	struct placing_job *job = &placing->jobs[placing->job_count];
	uint64_t rate_Bps = 0;
	size_t which = 0;

	if (placing->job_count == PLACING_JOBS_MAX)
		return command_failed(NULL, 0, "%s: there are more than %d jobs", where, PLACING_JOBS_MAX);
	if (parse_choice(kind, kinds, &which) < 0)
		return command_failed(NULL, 0, "%s: \"%.40s\" is no kind of job, expected host or peer", where, kind);
	if (rate && parse_rate(rate, 1, UINT64_C(1000000000000000), &rate_Bps) < 0)
		return command_failed(NULL, 0, "%s: \"%.40s\", expected " PARSE_RATE_EXPECTED, where, rate);
	job->slots = calloc(placing->tree.slot_count, sizeof(*job->slots));
	if (!job->slots)
		return command_failed(NULL, ENOMEM, "the jobs cannot be read");
	term_clean(name, job->name, sizeof(job->name));
	job->job = (struct plan_place_job){ .kind = (enum plan_place_kind)which,
					    .rate_Bps = (double)rate_Bps,
					    .slots = job->slots };
	placing->job_count++;
	*ret = job;
	return COMMAND_OK;
}

static int set_count(const struct placing *placing, const char *text, const char *where, struct placing_job *job)
{
	uint64_t count;

	if (parse_u64(text, 1, 1 << 20, &count) < 0)
		return command_failed(NULL, 0, "%s: \"%.40s\" is no number of GPUs", where, text);
	job->job.count = (size_t)((count + placing->gpus - 1) / placing->gpus);
	return COMMAND_OK;
}

/* No slot runs two jobs. */
static int check_apart(const struct placing *placing, const struct placing_job *job, const char *where)
{
	for (size_t i = 0; i + 1 < placing->job_count; i++)
		for (size_t j = 0; placing->jobs[i].state == PLACING_RUNS && j < placing->jobs[i].job.count; j++)
			for (size_t k = 0; k < job->job.count; k++)
				if (placing->jobs[i].slots[j] == job->slots[k])
					return command_failed(NULL, 0, "%s: %s runs %s already", where,
							      placing->tree.slots[job->slots[k]].name,
							      placing->jobs[i].name);
	return COMMAND_OK;
}

/* "running NAME KIND SLOTS [RATE]" or "wants NAME KIND COUNT [RATE]". */
static int take_line(struct placing *placing, char *line, const char *where)
{
	char *words[WORDS_MOST] = { NULL }, *place = NULL;
	struct placing_job *job = NULL;
	size_t count = 0;
	int status;

	line[strcspn(line, "#")] = '\0';
	for (char *at = strtok_r(line, " \t\r", &place); at && count < WORDS_MOST; at = strtok_r(NULL, " \t\r", &place))
		words[count++] = at;
	if (!count)
		return COMMAND_OK;
	if (count < 4 || count > 5 || (strcmp(words[0], "running") != 0 && strcmp(words[0], "wants") != 0))
		return command_failed(NULL, 0,
				      "%s: expected \"running NAME host|peer LIST [RATE]\" or \"wants NAME "
				      "host|peer COUNT [RATE]\"",
				      where);
	status = add_job(placing, words[1], words[2], words[4], where, &job);
	if (!job || status != COMMAND_OK)
		return status;
	if (!strcmp(words[0], "wants"))
		return set_count(placing, words[3], where, job);
	job->state = PLACING_RUNS;
	status = placing_slots(placing, words[3], where, job->slots, &job->job.count);
	return status == COMMAND_OK ? check_apart(placing, job, where) : status;
}

static int read_file(struct placing *placing, const char *path)
{
	char *text, *rest, where[256];
	size_t bytes;
	int status = file_load(path, JOBS_BYTES, NULL, &text, &bytes), number = 0;

	if (status != COMMAND_OK)
		return status;
	rest = text;
	for (char *line; status == COMMAND_OK && (line = strsep(&rest, "\n"));) {
		snprintf(where, sizeof(where), "%.200s:%d", path, ++number);
		status = take_line(placing, line, where);
	}
	free(text);
	return status;
}

/* KIND:COUNT[:RATE] */
static int read_operand(struct placing *placing, const char *operand)
{
	char text[128], *words[3] = { NULL }, *rest = text;
	struct placing_job *job = NULL;
	int status;

	snprintf(text, sizeof(text), "%s", operand);
	for (size_t i = 0; i < 3; i++)
		words[i] = rest ? strsep(&rest, ":") : NULL;
	if (!words[1] || rest || strlen(operand) >= sizeof(text))
		return command_usage_error("place", "\"%.60s\" is no job, expected host:COUNT or peer:COUNT", operand);
	status = add_job(placing, "job", words[0], words[2], operand, &job);
	if (job && status == COMMAND_OK)
		status = set_count(placing, words[1], operand, job);
	return status == COMMAND_FAILED ? COMMAND_USAGE : status;
}

static int read_busy(const struct command_call *call, struct placing *placing)
{
	const char *list = command_value(call, "busy");
	uint32_t *slots = list ? calloc(placing->tree.slot_count, sizeof(*slots)) : NULL;
	size_t count = 0;
	int status;

	if (!list)
		return COMMAND_OK;
	if (!slots)
		return command_failed(NULL, ENOMEM, "the jobs cannot be read");
	status = placing_slots(placing, list, "--busy", slots, &count);
	for (size_t i = 0; status == COMMAND_OK && i < count; i++)
		placing->busy[slots[i]] = true;
	free(slots);
	return status;
}

int placing_read(const struct command_call *call, struct placing *placing)
{
	const char *file = command_value(call, "jobs");
	int status;

	if (!file && !call->operand_count)
		return command_usage_error("place", "give a job, as peer:4, or --jobs FILE");
	placing->share = command_given(call, "share");
	placing->busy = calloc(placing->tree.slot_count, sizeof(*placing->busy));
	placing->jobs = calloc(PLACING_JOBS_MAX, sizeof(*placing->jobs));
	if (!placing->busy || !placing->jobs)
		return command_failed(NULL, ENOMEM, "the jobs cannot be read");
	status = read_busy(call, placing);
	if (status == COMMAND_OK && file)
		status = read_file(placing, file);
	if (status == COMMAND_OK && call->operand_count)
		status = read_operand(placing, call->operands[0]);
	return status;
}

void placing_fini(struct placing *placing)
{
	for (size_t i = 0; i < placing->job_count; i++)
		free(placing->jobs[i].slots);
	free(placing->jobs);
	free(placing->busy);
}
