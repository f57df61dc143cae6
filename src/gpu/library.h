/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shared library that is opened at run time, and the functions that are taken from it into a table. Any thread. Inner
 * header of src/gpu.
 */
#ifndef TRIBUTARY_GPU_LIBRARY_H
#define TRIBUTARY_GPU_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct diag;

struct gpu_library_symbol {
	const char *name;
	size_t offset;  /* of its pointer in the table */
	bool must_have; /* without it the library is of no use; otherwise its pointer is NULL when it is missing */
};

/*
 * Fills *table. The library stays open until the process ends: drivers have threads and exit handlers of their own.
 * -ENODEV: it is not installed, or cannot be loaded; -ENOSYS: it lacks a function that we must have, the driver is too
 * old. *diag says which; nothing is left open then. what_it_means completes "FILE is not there: ".
 */
int gpu_library_open(const char *file, const char *what_it_means, const struct gpu_library_symbol *symbols,
		     size_t symbol_count, void *table, struct diag *diag);

#endif
