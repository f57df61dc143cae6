/* What the tests of single situations share: places, machines, and a word for what is expected. Asserts. */
#ifndef TESTS_STANDIN_SCENE_H
#define TESTS_STANDIN_SCENE_H

#include "play.h"

enum { PLAIN, OTHER_HOST, CONTAINER, SMALL, OTHER_PIDS, SCENE_PLACES };

struct scene {
	struct play play;
	struct world four, eight, nvlink; /* by their GPUs */
	char folder[32];
	int opened;
};
extern struct scene scene;

int scene_setup(void **state);
int scene_teardown(void **state);

/*
 * A new scene of a job with four processes, 0 to 3; every round takes the order of another version, and another seed.
 * Skips the test where there are no namespaces.
 */
struct play_launch scene_begin(const struct world *world, unsigned round);

extern const int scene_all[8]; /* 0, 1, 2, ... */
/* One communicator of these processes, alone; of a part of one, with its resources. */
unsigned scene_run(unsigned first, const int *locals, unsigned count);
unsigned scene_run_shared(unsigned parent, unsigned first, const int *locals, unsigned count);

/* That nobody failed, and what the communicator got. */
#define scene_expect(comm, wanted) scene_expect_at(comm, wanted, __FILE__, __LINE__)
void scene_expect_at(unsigned comm, enum play_verdict wanted, const char *file, int line);
#define scene_nobody_failed() scene_nobody_failed_at(__FILE__, __LINE__)
void scene_nobody_failed_at(const char *file, int line);

#endif
