/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

int output_open(struct output *output, const char *json_path)
{
	*output = (struct output){ .table = stdout };
	if (!json_path)
		return 0;
	if (!strcmp(json_path, "-")) {
		output->table = NULL;
		output->json = stdout;
		return 0;
	}
	output->json = fopen(json_path, "we");
	return output->json ? 0 : -errno;
}

void output_close(struct output *output)
{
	if (output->json && output->json != stdout)
		fclose(output->json);
	output->json = NULL;
	fflush(stdout);
}

void output_text(struct output *output, int width, const char *text)
{
	if (output->table)
		fprintf(output->table, "%*s ", width, text);
}

void output_cell(struct output *output, int width, const char *fmt, ...)
{
	char text[128];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	output_text(output, width, text);
}

void output_end(struct output *output)
{
	output_progress_clear();
	if (!output->table)
		return;
	fputc('\n', output->table);
	fflush(output->table);
}

void output_note(struct output *output, const char *fmt, ...)
{
	va_list args;

	output_progress_clear();
	if (!output->table)
		return;
	va_start(args, fmt);
	vfprintf(output->table, fmt, args);
	va_end(args);
	output_end(output);
}

static void put_string(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(file, "\\%c", c);
		else if (c < 0x20)
			fprintf(file, "\\u%04x", c);
		else
			fputc(c, file);
	}
	fputc('"', file);
}

static void put_number(FILE *file, double value)
{
	if (isfinite(value))
		fprintf(file, "%.10g", value);
	else
		fputs("null", file);
}

static void put_key(struct output *output, const char *key)
{
	if (output->line_open)
		fputs(", ", output->json);
	output->line_open = true;
	put_string(output->json, key);
	fputs(": ", output->json);
}

void output_json_begin(struct output *output, const char *what)
{
	if (!output->json)
		return;
	fputc('{', output->json);
	output->line_open = false;
	output_json_text(output, "what", what);
}

void output_json_text(struct output *output, const char *key, const char *value)
{
	if (!output->json)
		return;
	put_key(output, key);
	put_string(output->json, value);
}

void output_json_number(struct output *output, const char *key, double value)
{
	if (!output->json)
		return;
	put_key(output, key);
	put_number(output->json, value);
}

void output_json_numbers(struct output *output, const char *key, const double *values, size_t count)
{
	size_t i;

	if (!output->json)
		return;
	put_key(output, key);
	fputc('[', output->json);
	for (i = 0; i < count; i++) {
		if (i)
			fputs(", ", output->json);
		put_number(output->json, values[i]);
	}
	fputc(']', output->json);
}

void output_json_end(struct output *output)
{
	if (!output->json)
		return;
	fputs("}\n", output->json);
	fflush(output->json);
}

const char *output_size(size_t bytes)
{
	static const char units[] = { 0, 'K', 'M', 'G', 'T' };
	static char texts[4][24];
	static unsigned next;
	char *text = texts[next++ % 4];
	size_t unit = 0;

	while (bytes && bytes % 1024 == 0 && unit + 1 < sizeof(units)) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, sizeof(texts[0]), unit ? "%zu%c" : "%zu", bytes, units[unit]);
	return text;
}

static bool progress_shown;

void output_progress(const char *label, size_t done, size_t all)
{
	char bar[33];
	size_t full = all ? done * (sizeof(bar) - 1) / all : 0;

	if (!isatty(STDERR_FILENO))
		return;
	if (full > sizeof(bar) - 1)
		full = sizeof(bar) - 1;
	memset(bar, ' ', sizeof(bar));
	memset(bar, '#', full);
	bar[sizeof(bar) - 1] = 0;
	fprintf(stderr, "\r%-28.28s [%s] %3zu %%", label, bar, all ? done * 100 / all : 0);
	progress_shown = true;
}

void output_progress_clear(void)
{
	if (progress_shown)
		fprintf(stderr, "\r%70s\r", "");
	progress_shown = false;
}
