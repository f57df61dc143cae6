/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/tuning.h"

#include "base/hash.h"
#include "base/sys.h"
#include "base/text_file.h"
#include "plugin/report.h"
#include "profile/store_tuning.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define GPUS_FOLDER "/proc/driver/nvidia/gpus"
#define NO_VERSION \
	"a tuning table needs NCCL 2.28.7 or later with NCCL_ENV_PLUGIN=tributary, which says what NCCL this is"
#define TRIAL_TIME "0000-00-00T00:00:00Z" /* of a table that `tributary tune --measure` tries */
#define NOT_KNOWN  "not known"

enum {
	MODEL_BYTES = 512,
	PATH_BYTES = 320,
	RULES = 2, /* by which tables are followed: another number whenever they change */
};

/* ---------------------------------------------------------------------------------------------------------------- GPUs */

struct models {
	const char *root, *wanted;
	size_t count, wanted_count;
};

static int take_gpu(void *arg, const char *name)
{
	struct models *models = arg;
	char path[PATH_BYTES], text[MODEL_BYTES], *model;

	snprintf(path, sizeof(path), "%.128s" GPUS_FOLDER "/%.64s/information", models->root, name);
	if (text_file_value(AT_FDCWD, path, text, sizeof(text)) < 0 || strncmp(text, "Model:", 6) != 0)
		return 0;
	model = text + 6 + strspn(text + 6, " \t");
	model[strcspn(model, "\n")] = '\0';
	models->count++;
	models->wanted_count += !strcmp(model, models->wanted);
	return 0;
}

/* A folder of tables may be that of several clusters. Where the driver does not say what GPUs these are, any table is as good. */
static bool is_for_these_gpus(const char *root, const char *gpus)
{
	struct models models = { .root = root, .wanted = gpus };
	char folder[PATH_BYTES];

	snprintf(folder, sizeof(folder), "%.128s" GPUS_FOLDER, root);
	(void)sys_each_name(AT_FDCWD, folder, "", take_gpu, &models);
	return models.wanted_count == models.count || !strcmp(gpus, NOT_KNOWN);
}

/* ------------------------------------------------------------------------------------------------------------- network */

void steer_tuning_network(const struct steer_nets *nets, const char *kind, char ret[static TUNING_NAME_BYTES])
{
	char text[PLUGIN_REPORT_BYTES] = "";
	struct plugin_report line = { .text = text };
	uint64_t speed_Bps = 0;

	for (size_t i = 0; i < nets->count; i++)
		speed_Bps += nets->at[i].speed_Bps;
	if (nets->ours && nets->count) {
		plugin_report_add(&line, "%s", kind);
		plugin_report_add_speed(&line, speed_Bps);
	}
	snprintf(ret, TUNING_NAME_BYTES, "%.*s", TUNING_NAME_BYTES - 1, text);
}

/* ------------------------------------------------------------------------------------------------------------- reading */

struct loading {
	struct steer_tuning *tuning;
	const char *root, *network;
	unsigned nccl_version;
};

static bool is_for_this_host(const struct loading *loading, const struct tuning_table *table)
{
	return table->nccl_version == loading->nccl_version && strcmp(table->measured, TRIAL_TIME) != 0 &&
	       is_for_these_gpus(loading->root, table->gpus) &&
	       (table->host_count == 1 || !strcmp(table->network, loading->network) ||
		!strcmp(table->network, NOT_KNOWN));
}

/* By what the tables say alone, and not by when a file came: so that it is the same on all hosts. */
static bool is_before(const struct tuning_table *a, uint64_t a_hash, const struct steer_table *b)
{
	int order = strcmp(a->measured, b->table.measured);

	return order ? order > 0 : a_hash > b->hash;
}

static void take_table(void *arg, uint64_t hash, const struct tuning_table *table)
{
	const struct loading *loading = arg;
	struct steer_tuning *tuning = loading->tuning;
	size_t at = 0;

	if (!is_for_this_host(loading, table))
		return;
	while (at < tuning->count && !is_before(table, hash, &tuning->at[at]))
		at++;
	if (at == STEER_TABLES_MAX || (at && tuning->at[at - 1].hash == hash)) /* two folders have it */
		return;
	if (tuning->count < STEER_TABLES_MAX)
		tuning->count++;
	memmove(&tuning->at[at + 1], &tuning->at[at], (tuning->count - at - 1) * sizeof(tuning->at[0]));
	tuning->at[at].hash = hash;
	tuning->at[at].table = *table;
}

/* What else must be equal, as it forbids what a table may choose. */
static uint64_t hash_of_settings(const struct params_source *source)
{
	static const char *const names[] = { "NCCL_ALGO", "NCCL_PROTO" };
	uint64_t hash = hash_step(HASH_START, RULES);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = source->get(names[i]);

		hash = hash_bytes(hash, value ? value : "", value ? strlen(value) + 1 : 1);
	}
	return hash;
}

static void number_them(struct steer_tuning *tuning, uint64_t settings)
{
	for (int kind = 0; kind < STEER_TUNING_KINDS; kind++) {
		/* A rank that lacks the named one fails by itself. */
		uint64_t hash = hash_step(settings, tuning->named);
		bool is_any = tuning->is_named;

		for (size_t i = 0; i < tuning->count && !tuning->is_named; i++) {
			if ((tuning->at[i].table.host_count > 1) != (kind == STEER_TUNING_SEVERAL))
				continue;
			hash = hash_step(hash, tuning->at[i].hash);
			is_any = true;
		}
		tuning->numbers[kind] = is_any ? hash | 1 : 0;
	}
}

void steer_tuning_load(const struct params *params, const struct params_source *source, const char *root,
		       const char *network, unsigned nccl_version, struct steer_tuning *ret)
{
	struct loading loading = { .tuning = ret, .root = root, .network = network, .nccl_version = nccl_version };

	*ret = (struct steer_tuning){ .named = params_tuning_named(params) };
	ret->is_named = ret->named != 0;
	if (params->disable || !params->tuner || params->tuning == PARAMS_TUNING_OFF)
		return;
	if (!nccl_version) {
		diag_set(&ret->why, 0, 0, "%s", NO_VERSION);
		return;
	}
	ret->at = sys_zalloc(STEER_TABLES_MAX * sizeof(*ret->at));
	if (!ret->at) {
		diag_set(&ret->why, 0, 0, "no memory for tuning tables");
		return;
	}
	if (ret->is_named) {
		ret->at[0].hash = ret->named;
		ret->count = store_tuning_load(params, ret->named, &ret->at[0].table, &ret->why) == 0;
		if (ret->count)
			ret->why.text[0] = '\0';
		/* Another shape than that of any communicator here: no change, and no failure. */
		if (ret->count && ret->at[0].table.nccl_version != nccl_version)
			ret->count = 0;
	} else {
		(void)store_tuning_each(params, take_table, &loading, NULL);
	}
	number_them(ret, hash_of_settings(source));
}

void steer_tuning_fini(struct steer_tuning *tuning)
{
	sys_free(tuning->at);
	*tuning = (struct steer_tuning){ .is_named = false };
}

bool steer_tuning_is_there(const struct steer_tuning *tuning)
{
	return tuning->is_named || tuning->count;
}

uint64_t steer_tuning_told(const struct steer_tuning *tuning)
{
	return tuning->is_named ? tuning->numbers[STEER_TUNING_SEVERAL] : 0;
}

const struct steer_table *steer_tuning_find(const struct steer_tuning *tuning, size_t rank_count, size_t host_count)
{
	for (size_t i = 0; i < tuning->count; i++) {
		const struct tuning_table *table = &tuning->at[i].table;

		if (table->rank_count == rank_count && table->host_count == host_count)
			return &tuning->at[i];
	}
	return NULL;
}
