/*
 * Can the stand-in fail? A plugin that is right passes; each of many that are wrong in one thing is found, and by the
 * sentence that names it.
 */
#include "play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct play play;
static struct world world;
static char mutant[300], folder[] = "/tmp/standin-XXXXXX", gpus[600];
static int opened;

static int group_setup(void **state)
{
	static const struct board_place places[2];

	(void)state;
	world_library("libmutant.so", mutant, sizeof(mutant));
	opened = play_open(&play, places, 2, mutant);
	if (opened < 0)
		return 0;
	assert_non_null(mkdtemp(folder));
	world_make(folder, "dual-root-8gpu", &world);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	play_close(&play);
	remove(world.profile);
	rmdir(folder);
	return 0;
}

static void need_hosts(void)
{
	if (opened < 0) {
		printf("skipped: no namespaces here: %s\n", strerror(-opened));
		skip();
	}
}

/* Four processes on each of two hosts, and communicators that a right plugin steers without fault. */
static void scene(const char *which, uint64_t seed)
{
	static char environment[2][700];
	struct play_launch launch = { .world_size = 8, .local_size = 4, .extra = { environment[0], environment[1] } };
	static const int some[] = { 3, 0, 2 };
	unsigned first, comm;

	if (!strcmp(which, "stays") || seed % 4 == 3)
		launch.tuner_version = -1; /* with a tuner another sentence would come first */
	play_reset(&play, &world, seed % 2 ? "2.28.9" : "2.30.7", seed, true);
	gpus[0] = '\0';
	for (unsigned i = 0; i < 4; i++)
		snprintf(gpus + strlen(gpus), sizeof(gpus) - strlen(gpus), "%s%s=%d", i ? " " : "", world.bus_ids[i],
			 world.devs[i]);
	snprintf(environment[0], sizeof(environment[0]), "STANDIN_MUTANT=%s", which);
	snprintf(environment[1], sizeof(environment[1]), "MUTANT_GPUS=%s", gpus);
	if (seed % 2 || strstr(which, "heads"))
		launch.extra[2] = "NCCL_COLLNET_ENABLE=1";
	play.quiet = strcmp(which, "good") != 0;
	play.hang_ms = 1500;
	play.burst = (unsigned)(seed % 3) * 20;
	first = play_processes(&play, launch, 4, 0);
	launch.place = 1;
	launch.host = 1;
	play_processes(&play, launch, 4, 4);
	comm = play_comm(&play, -1, false); /* all */
	for (unsigned i = 0; i < 8; i++)
		play_join(&play, comm, first + i, 0, (int)(i % 4));
	play_run(&play);
	comm = play_comm_of(&play, first, some, 3); /* some, on one host */
	play_run(&play);
	comm = play_comm(&play, (int)comm, true); /* a part of these, by a split with shared resources */
	for (unsigned i = 0; i < 2; i++)
		play_join(&play, comm, first + (unsigned)some[i], 0, some[i]);
	play_run(&play);
	for (unsigned c = 0; c < play.comm_count; c++)
		play_end(&play, c);
	play_run(&play);
}

static void one_that_is_right_passes(void **state)
{
	(void)state;
	need_hosts();
	for (uint64_t seed = 0; seed < 6; seed++) {
		unsigned before = play.counts.failures, planned = play.counts.planned, rested = play.counts.rested;

		scene("good", runtime_seed() + seed);
		assert_int_equal(play.counts.failures, before);
		assert_int_equal(play.counts.planned - planned, 2);
		assert_int_equal(play.counts.rested - rested, 1); /* the split */
	}
}

struct wrong {
	const char *mutant, *says;
};
static const struct wrong wrongs[] = {
	{ "early", "" }, /* which of the sentences depends on who came first */
	{ "others", "not found: the communicator has no such GPU here" },
	{ "one missing", "" },
	{ "forgets itself", "" },
	{ "one rests", "" },
	{ "ranks differ", "" },
	{ "no file", "cannot be opened" },
	{ "channels", "ring 2" },
	{ "attribute", "without samechannels" },
	{ "rank", "a rank, which 2.30 believes" },
	{ "latency", "latencyinter" },
	{ "declaration", "<?xml>" },
	{ "tab", "character 0x9" },
	{ "version", "version 2" },
	{ "net", "there is no net 7" },
	{ "stays", "no such GPU here" },
	{ "not taken back", "still there after the tuner's init" },
	{ "heads", "no head of collnet" },
	{ "no heads", "without the other" },
	{ "tuner differs", "the tuner answers" },
	{ "tuner allows", "allows what NCCL forbade" },
	{ "errno", "changes errno" },
	{ "fails", "gives 2" },
	{ "crashes", "ended by itself: signal" },
	{ "hangs", "hangs in properties" },
};

static void each_that_is_wrong_is_found(void **state)
{
	(void)state;
	need_hosts();
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		unsigned before = play.counts.failures;

		for (uint64_t seed = 0; seed < 20 && play.counts.failures == before; seed++)
			scene(wrongs[i].mutant, runtime_seed() + seed);
		if (play.counts.failures == before)
			fail_msg("\"%s\" was not found", wrongs[i].mutant);
		if (!strstr(play.failure, wrongs[i].says))
			fail_msg("\"%s\" was taken for: %s", wrongs[i].mutant, play.failure);
		printf("%-16s %s\n", wrongs[i].mutant, play.failure);
	}
}

/* ---- the order of the calls ---- */

/* A line of order-VERSION.txt without its first word; connections made for the bootstrap are one word. */
static void recorded(const char *version, const char *what, char *ret, size_t bytes)
{
	const char *source = runtime_setting("SOURCE");
	char path[512], line[1024];
	FILE *file;

	*ret = '\0';
	snprintf(path, sizeof(path), "%s/tests/standin/order-%s.txt", source ? source : ".", version);
	file = fopen(path, "re");
	if (!file)
		fail_msg("%s cannot be read", path);
	while (fgets(line, sizeof(line), file)) {
		char *rest, *word;

		if (strncmp(line, what, strlen(what)) != 0 || line[strlen(what)] != ':')
			continue;
		strtok_r(line, ":", &rest);
		while ((word = strtok_r(NULL, " \n", &rest)))
			if (strcmp(word, "accept") != 0 && strcmp(word, "connect") != 0)
				snprintf(ret + strlen(ret), bytes - strlen(ret), "%s%s", *ret ? " " : "", word);
		break;
	}
	fclose(file);
	if (!*ret)
		fail_msg("%s: nothing about \"%s\"", path, what);
}

/*
 * What was recorded with collnet was recorded with another plugin, of one device; from the graph files on it does not
 * matter. NCCL's calls to collnet's own table are left out.
 */
static void from_the_files_on(char *trace)
{
	char *from = strstr(trace, "@local"), *word, *rest, kept[1024] = "";

	assert_non_null(from);
	for (word = strtok_r(from, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		if (strncmp(word, "collnet-", strlen("collnet-")) != 0)
			snprintf(kept + strlen(kept), sizeof(kept) - strlen(kept), "%s%s", *kept ? " " : "", word);
	memmove(trace, kept, strlen(kept) + 1);
}

static void as_recorded(const char *version, const char *what, unsigned comm)
{
	char expected[1024];

	recorded(version, what, expected, sizeof(expected));
	if (strstr(what, "collnet"))
		from_the_files_on(expected);
	for (unsigned i = 0; i < play.comms[comm].member_count; i++) {
		char *trace = play.comms[comm].members[i].trace, *last = strstr(trace, " tuner");

		assert_non_null(last);
		last[strlen(" tuner")] = '\0'; /* what comes after it was not recorded */
		if (strstr(what, "collnet"))
			from_the_files_on(trace);
		if (strcmp(trace, expected) != 0)
			fail_msg("NCCL %s, %s:\n  seen of NCCL:  %s\n  the stand-in:  %s", version, what, expected,
				 trace);
	}
}

/* Two communicators of two processes, and of the second the two kinds of splits. */
static void as_recorded_with(const char *version, bool several, const char *extra, const char *const what[4])
{
	struct play_launch launch = { .world_size = 2, .local_size = several ? 1 : 2 };
	unsigned comm = 0;

	launch.net_version = strcmp(version, "2.28.9") ? 12 : 11;
	launch.extra[0] = "STANDIN_MUTANT=good";
	launch.extra[1] = "MUTANT_DEVICES=2";
	launch.extra[2] = "MUTANT_GPUS=0000:23:00.0=0 0000:24:00.0=1";
	launch.extra[3] = extra;
	play_reset(&play, &world, version, runtime_seed(), true);
	play.quiet = false;
	play_processes(&play, launch, several ? 1 : 2, 0);
	launch.place = 1;
	launch.host = 1;
	if (several)
		play_processes(&play, launch, 1, 1);
	for (int i = 0; i < 4; i++) {
		if (!what[i])
			continue;
		comm = play_comm(&play, i < 2 ? -1 : (int)comm, i == 3);
		for (unsigned p = 0; p < 2; p++)
			play_join(&play, comm, p, 0, (int)p);
		play_run(&play);
		as_recorded(version, what[i], comm);
	}
	assert_string_equal(play.failure, "");
}

static void the_order_of_calls_is_the_recorded_one(void **state)
{
	static const char *const versions[] = { "2.28.9", "2.30.7" };
	static const char *const one_host[] = { "first", "later", "split", "split, shared resources" };
	static const char *const several[] = { "first, several hosts", "later, several hosts", NULL,
					       "split, shared, several hosts" };
	static const char *const fused[] = { "first, NICs fused", "later, NICs fused before", NULL, NULL };
	static const char *const over_net[] = { "first, bootstrap over the net", "later, bootstrap over the net", NULL,
						NULL };
	static const char *const collnet[] = { "first, collnet (net 11)", "later, collnet (net 11)", NULL, NULL };

	(void)state;
	need_hosts();
	for (int i = 0; i < 2; i++) {
		as_recorded_with(versions[i], false, NULL, one_host);
		as_recorded_with(versions[i], true, NULL, several);
		as_recorded_with(versions[i], true, "NCCL_NET_FORCE_MERGE=a,b", fused);
		as_recorded_with(versions[i], true, "NCCL_OOB_NET_ENABLE=1", over_net);
		as_recorded_with(versions[i], true, "NCCL_COLLNET_ENABLE=1", collnet);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_order_of_calls_is_the_recorded_one),
		cmocka_unit_test(one_that_is_right_passes),
		cmocka_unit_test(each_that_is_wrong_is_found),
	};

	runtime_start("standin/standin_test", 100);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
