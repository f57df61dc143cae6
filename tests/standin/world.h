/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that is not here: a profile that fits what places_show_gpus() shows. */
#ifndef TESTS_STANDIN_WORLD_H
#define TESTS_STANDIN_WORLD_H

#include "board.h"
#include "tributary/topology.h"

enum { WORLD_PATH_BYTES = 160, WORLD_GPUS_MAX = 16 };

struct world {
	char profile[WORLD_PATH_BYTES];
	char bus_ids[WORLD_GPUS_MAX][BOARD_BUS_ID_BYTES];
	int devs[WORLD_GPUS_MAX];
	unsigned gpu_count;
};

/* machine: a folder of topo/. Its GPUs; then, where sysfs shows them, the profile in that folder. Assert that it worked. */
void world_make(const char *machine, struct world *ret);
void world_measure(const char *folder, const char *machine, struct world *ret);

/* Beside the test program: the libraries that were built for it. */
void world_library(const char *name, char *ret, size_t bytes);

#endif
