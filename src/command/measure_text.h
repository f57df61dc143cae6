/* SPDX-License-Identifier: Apache-2.0 */
/* What `tributary measure` says: a bar while it runs, a table at the end. */
#ifndef TRIBUTARY_COMMAND_MEASURE_TEXT_H
#define TRIBUTARY_COMMAND_MEASURE_TEXT_H

#include "measure/measure.h"

#include <stdbool.h>
#include <stdio.h>

struct command_call;
struct measure_others_uses;

struct measure_text {
	FILE *out;
	bool shown;   /* out is a terminal that can go back to the beginning of a line */
	size_t drawn; /* columns of the line that is there; 0: none */
};

/* Where out is no terminal nothing is ever drawn. */
void measure_text_begin(FILE *out, struct measure_text *ret);
/* For struct measure_options; arg is a struct measure_text. Never wider than the terminal. */
void measure_text_progress(void *arg, size_t done, size_t total, const char *what);
void measure_text_end(struct measure_text *text);

/* What there was to measure, what became of it, and where it went. */
struct measure_result {
	const struct topology *topology;
	const struct measure_report *report;
	const struct measure_others_uses *others;
	const char *path;   /* of the profile; "": none was written */
	bool elsewhere;     /* there the plugin finds it by TRIBUTARY_PROFILE alone */
	const char *no_gpu; /* why no GPU was measured; "" */
};
/* Both return an exit status. */
int measure_print(const struct command_call *call, const struct measure_result *result, FILE *out);
int measure_print_json(const struct measure_result *result, FILE *out);

#endif
