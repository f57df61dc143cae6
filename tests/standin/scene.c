#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct board_place scene_places[SCENE_PLACES] = {
	[OTHER_HOST] = { .own_net = true },
	[SMALL] = { .shm_bytes = 64 * 1024 },
	[OTHER_PIDS] = { .shared = true, .own_pids = true },
};

struct scene scene;
const int scene_all[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

int scene_setup(void **state)
{
	(void)state;
	snprintf(scene.folder, sizeof(scene.folder), "/tmp/standin-XXXXXX");
	scene.opened = play_open(&scene.play, scene_places, SCENE_PLACES, runtime_setting("PLUGIN"));
	if (scene.opened < 0)
		return 0;
	assert_non_null(mkdtemp(scene.folder));
	assert_int_equal(chmod(scene.folder, 0755), 0);
	world_make(scene.folder, "single-root-4gpu", &scene.four);
	world_make(scene.folder, "dual-root-8gpu", &scene.eight);
	world_make(scene.folder, "nvlink-pairs-4gpu", &scene.nvlink);
	return 0;
}

int scene_teardown(void **state)
{
	(void)state;
	play_close(&scene.play);
	remove(scene.four.profile);
	remove(scene.eight.profile);
	remove(scene.nvlink.profile);
	rmdir(scene.folder);
	return 0;
}

struct play_launch scene_begin(const struct world *world, unsigned round)
{
	static const char *const versions[] = { "2.28.9", "2.30.7" };
	struct play_launch launch = { .world_size = 4, .local_size = 4 };

	if (scene.opened < 0) {
		printf("skipped: no namespaces here: %s\n", strerror(-scene.opened));
		skip();
	}
	play_reset(&scene.play, world, versions[round % 2], runtime_seed() + round, true);
	scene.play.counts.failures = 0;
	scene.play.burst = 25;
	launch.net_version = round % 2 ? 12 : 11;
	launch.tuner_version = round % 2 ? 6 : 5;
	return launch;
}

unsigned scene_run(unsigned first, const int *locals, unsigned count)
{
	unsigned comm = play_comm_of(&scene.play, first, locals, count);

	play_run(&scene.play);
	return comm;
}

unsigned scene_run_shared(unsigned parent, unsigned first, const int *locals, unsigned count)
{
	unsigned comm = play_comm(&scene.play, (int)parent, true);

	for (unsigned i = 0; i < count; i++)
		play_join(&scene.play, comm, first + (unsigned)locals[i], 0, locals[i]);
	play_run(&scene.play);
	return comm;
}

void scene_nobody_failed_at(const char *file, int line)
{
	if (scene.play.counts.failures)
		fail_msg("%s:%d: %s", file, line, scene.play.failure);
}

void scene_expect_at(unsigned comm, enum play_verdict wanted, const char *file, int line)
{
	static const char *const words[] = {
		"nothing", "rest", "a plan", "a plan on some hosts", "failure", "given up"
	};
	enum play_verdict got = scene.play.comms[comm].verdict;

	scene_nobody_failed_at(file, line);
	if (got == wanted)
		return;
	for (unsigned p = 0; p < scene.play.process_count; p++)
		fprintf(stderr, "process %u logged:\n%s", p, play_log(&scene.play, p));
	fail_msg("%s:%d: communicator %u got %s, not %s", file, line, comm, words[got], words[wanted]);
}
