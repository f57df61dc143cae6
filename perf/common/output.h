/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a benchmark prints: a table of aligned columns, the same figures as JSON lines, and a progress line on stderr
 * when that is a terminal. One rank prints; the others call nothing here. Main thread.
 */
#ifndef TRIBUTARY_PERF_OUTPUT_H
#define TRIBUTARY_PERF_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct output {
	FILE *table; /* stdout, or NULL: JSON alone on stdout */
	FILE *json;  /* NULL: none */
	bool line_open;
};

/* json_path: NULL for none, "-" for JSON in place of the table. 0 or -errno. */
int output_open(struct output *output, const char *json_path);
void output_close(struct output *output);

/* A cell of `width` columns, right-aligned; a width below 0 aligns left. output_end ends the row. */
void output_text(struct output *output, int width, const char *text);
void output_cell(struct output *output, int width, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void output_end(struct output *output);
/* A line of its own in the table. */
void output_note(struct output *output, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* One JSON object: begin, fields, end. Numbers that are not finite become null. */
void output_json_begin(struct output *output, const char *what);
void output_json_text(struct output *output, const char *key, const char *value);
void output_json_number(struct output *output, const char *key, double value);
void output_json_numbers(struct output *output, const char *key, const double *values, size_t count);
void output_json_end(struct output *output);

/* "512 K" style: 8, 1K, 64K, 4M; text is static storage, good until the fourth call after it. */
const char *output_size(size_t bytes);

void output_progress(const char *label, size_t done, size_t all);
void output_progress_clear(void);

#endif
