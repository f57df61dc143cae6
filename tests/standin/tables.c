/* SPDX-License-Identifier: Apache-2.0 */
#include "tables.h"

#include "tuner_table.h"

#include "base/params.h"
#include "profile/store_tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { RANKS_MAX = 8, HOSTS_MAX = 3, FIRST_SIZE = 37, SIZES = 4 }; /* larger than any question of tuner_table_ask */

static const unsigned versions[] = { 22809, 23007 };

static void table_make(enum play_tables_kind kind, unsigned version, size_t ranks, size_t hosts,
		       struct tuning_table *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->nccl_version = version;
	ret->rank_count = ranks;
	ret->host_count = hosts;
	snprintf(ret->gpus, sizeof(ret->gpus), "not known");
	snprintf(ret->network, sizeof(ret->network), "played");
	snprintf(ret->measured, sizeof(ret->measured), "2026-11-27T18:30:00Z");
	for (size_t s = FIRST_SIZE; s < FIRST_SIZE + SIZES; s++)
		ret->choices[PREDICT_ALLREDUCE][s] = (struct tuning_choice){ .bytes_max = (size_t)1 << s,
									     .algorithm = PREDICT_TREE,
									     .protocol = PREDICT_LL,
									     .channels = 1 + (unsigned)kind };
}

static void folder_make(struct play_tables *tables, enum play_tables_kind kind)
{
	const bool is_named = kind == PLAY_TABLES_NAMED;
	struct tuning_table table;
	struct params params;
	char path[STORE_PATH_BYTES];
	struct diag why;
	uint64_t hash;

	assert_int_equal(mkdir(tables->folders[kind], 0755), 0);
	params_defaults(&params);
	snprintf(params.state_dir, sizeof(params.state_dir), "%s", tables->folders[kind]);
	for (size_t v = 0; kind != PLAY_TABLES_NONE && v < 2; v++) {
		for (size_t hosts = 1; hosts <= (is_named ? HOSTS_MAX : 1); hosts++) {
			for (size_t ranks = hosts > 2 ? hosts : 2; ranks <= (is_named ? RANKS_MAX : 4); ranks++) {
				table_make(kind, versions[v], ranks, hosts, &table);
				assert_int_equal(store_tuning_save(&params, &table, &hash, path, &why), 0);
				if (is_named)
					tables->hashes[v][ranks][hosts] = hash;
			}
		}
	}
}

void tables_make(const char *folder, struct play_tables *ret)
{
	static const char *const names[] = { "none", "some", "others", "changing", "named" };

	for (int kind = 0; kind < PLAY_TABLES_KINDS; kind++) {
		snprintf(ret->folders[kind], sizeof(ret->folders[kind]), "%s/%s", folder, names[kind]);
		folder_make(ret, (enum play_tables_kind)kind);
	}
	snprintf(ret->here, sizeof(ret->here), "%s/tuning", ret->folders[PLAY_TABLES_CHANGING]);
	snprintf(ret->gone, sizeof(ret->gone), "%s/gone", ret->folders[PLAY_TABLES_CHANGING]);
}

/* Its own numbers, so that the rest of a schedule is what it is without tables. */
static unsigned below(struct play *play, unsigned bound)
{
	return (unsigned)random_below(&play->tables.random, bound);
}

void tables_choose(struct play *play, unsigned job, unsigned rank_count, unsigned host_count, unsigned process_count)
{
	struct play_tables *tables = &play->tables;

	if (!job) {
		tables->random = play->random ^ UINT64_C(0x7ab1e5);
		tables->change_at = below(play, 3) ? 0 : 1 + below(play, 200);
	}
	tables->are_alike = below(play, 2);
	tables->odd = tables->odd_host = UINT32_MAX;
	/* An NCCL of those asks for no net init of communicators, so no rank can follow a table. */
	tables->old_tuner = below(play, 10) ? 0 : 3 + (int)below(play, 2);
	tables->ranks = rank_count;
	tables->hosts = host_count;
	tables->is_named = !play->calm && below(play, host_count > 1 ? 2 : 4) == 0 && rank_count >= 2 &&
			   rank_count <= RANKS_MAX && host_count <= HOSTS_MAX;
	if (tables->is_named && host_count > 1 && below(play, 2))
		tables->odd_host = below(play, 2);
	else if (tables->is_named && below(play, 2))
		tables->odd = play->process_count + below(play, process_count);
}

__attribute__((format(printf, 2, 3))) static void set(struct board_process *shared, const char *fmt, ...)
{
	va_list args;

	assert_true(shared->variable_count < BOARD_VARIABLES_MAX);
	va_start(args, fmt);
	vsnprintf(shared->variables[shared->variable_count++], BOARD_VALUE_BYTES, fmt, args);
	va_end(args);
}

void tables_give(struct play *play, unsigned process, struct board_process *shared)
{
	const struct play_tables *tables = &play->tables;
	enum play_tables_kind kind = tables->are_alike || play->calm
					     ? PLAY_TABLES_SOME
					     : (enum play_tables_kind)below(play, PLAY_TABLES_NAMED);
	const bool is_odd = tables->odd == process || tables->odd_host == play->processes[process].host;
	const bool lacks_file = tables->odd == process && below(play, 2);

	if (tables->is_named)
		kind = lacks_file ? PLAY_TABLES_NONE : PLAY_TABLES_NAMED;
	set(shared, "TRIBUTARY_STATE_DIR=%s", tables->folders[kind]);
	if (tables->old_tuner && !play->calm)
		shared->tuner_version = tables->old_tuner;
	play->processes[process].is_of_named = tables->is_named;
	shared->has_other_profiler = tables->is_named && below(play, 12) == 0;
	if (!tables->is_named || (is_odd && !lacks_file && below(play, 2)))
		return;
	set(shared, "TRIBUTARY_TUNING=%016llx",
	    (unsigned long long)tables->hashes[shared->env_version == 2][tables->ranks][tables->hosts]);
	if (is_odd && !lacks_file) { /* its connections tell of no table */
		set(shared, "TRIBUTARY_TUNER=0");
		play->processes[process].unwilling = true;
	} else
		play->processes[process].named = tables->hashes[shared->env_version == 2][tables->ranks][tables->hosts];
}

void tables_change(struct play *play)
{
	struct play_tables *tables = &play->tables;

	if (!tables->change_at || play->turns < tables->change_at)
		return;
	tables->change_at = play->turns + 100;
	if (rename(tables->is_away ? tables->gone : tables->here, tables->is_away ? tables->here : tables->gone) == 0)
		tables->is_away = !tables->is_away;
}

/* Of a job that names a table: a communicator may have a rank without plugin, or that is not told of it, or lacks the file. */
bool tables_may_refuse(const struct play_process *process)
{
	return process->is_of_named;
}

/* What a peer on another host sees of it: without the plugin its handles are not Tributary's. */
static uint64_t shown(const struct play *play, unsigned process)
{
	return play->board->processes[process].kind == BOARD_NO_PLUGIN ? 0 : play->processes[process].named;
}

void tables_judge(struct play *play, const struct play_comm *comm)
{
	const struct play_member *first = &comm->members[0];
	const struct play_process *of_first = &play->processes[first->process];
	struct tuner_answers own;

	tuner_table_follow(&(struct tuner_table){ 0 }, NULL, &(struct tuner_profiler){ 0 }, &own);
	for (unsigned i = 0; i < comm->member_count; i++) {
		if (comm->members[i].refused) { /* NCCL fails the whole communicator */
			play->counts.refused++;
			return;
		}
	}
	for (unsigned i = 1; i < comm->member_count; i++) {
		const struct play_member *member = &comm->members[i];
		const struct play_process *process = &play->processes[member->process];

		/* Between hosts, a connection that the first group's choices make shows that one has not the other's. */
		if (member->answers.first != first->answers.first ||
		    (member->answers.rest != first->answers.rest &&
		     (process->host == of_first->host || shown(play, member->process) == shown(play, first->process))))
			play_fail(play, "communicator %u: processes %u and %u follow different tables",
				  (unsigned)(comm - play->comms), first->process, member->process);
	}
	play->counts.followed += first->answers.rest != own.rest;
}
