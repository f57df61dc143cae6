/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics in Prometheus' text form (version 0.0.4), written from tables: a row has the name, the type, the help, and where in
 * a struct the value is. Any thread.
 */
#ifndef TRIBUTARY_BASE_METRICS_H
#define TRIBUTARY_BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

struct text;

/* The field is a uint64_t. Of _NS it is nanoseconds, written as seconds; of _MILLI thousandths. */
enum metrics_kind {
	METRICS_COUNTER,
	METRICS_COUNTER_NS,
	METRICS_GAUGE,
	METRICS_GAUGE_NS,
	METRICS_GAUGE_MILLI,
};

/* A table ends with a row without a name. Names are written in full, so that they can be searched for. */
struct metrics_row {
	const char *name;
	enum metrics_kind kind;
	size_t offset;
	const char *help;
};

/* Tables with the same labels, for the man page; an array ends without rows. labels: "process, device", "" for none. */
struct metrics_table {
	const char *labels;
	const struct metrics_row *rows;
};

/* One series of each row of a table. labels: as metrics_label makes them, "" for none. */
struct metrics_sample {
	const void *values;
	const char *labels;
};

enum { METRICS_LABELS_BYTES = 1024 };
/*
 * Adds NAME="VALUE" to labels, which were "" in the beginning. What is not printable ASCII becomes _, and a value that does
 * not fit loses its end.
 */
void metrics_label(char labels[static METRICS_LABELS_BYTES], const char *name, const char *value);

/* All series of a row follow its help and type, so a table is printed once, with all its samples. */
void metrics_print(const struct metrics_row *rows, const struct metrics_sample *samples, size_t count,
		   struct text *out);

/*
 * The file, whole or not at all: a reader sees the old text or the new one. name: of a file in the folder, which must be
 * there. -errno; what was there before is as it was.
 */
int metrics_file_write(const char *folder, const char *name, const char *text, size_t bytes);
/*
 * Removes files of that folder that begin so and were written more than stale_s before `name` was: their processes are gone,
 * for the living write theirs all the time. What cannot be removed stays. By the file system's own clock, as the folder may
 * be on another host.
 */
void metrics_file_sweep(const char *folder, const char *name, const char *prefix, int64_t stale_s);
void metrics_file_remove(const char *folder, const char *name);

#endif
