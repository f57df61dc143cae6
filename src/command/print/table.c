/* SPDX-License-Identifier: Apache-2.0 */
#include "command/print/table.h"

#include "base/options.h"
#include "base/parse.h"
#include "command/term.h"

#include <stdlib.h>
#include <string.h>

/* A row has at most so many cells; and a last column narrower than that is not broken. */
enum { COLUMNS_MAX = 256, LEAST_WIDTH = 24 };

struct columns {
	size_t count, widths[COLUMNS_MAX];
};

FILE *table_begin(struct table *table, FILE *out)
{
	FILE *rows;

	*table = (struct table){ .out = out };
	rows = open_memstream(&table->text, &table->bytes);
	return rows ? rows : out; /* without memory: rows as they are */
}

/* The next cell of a row is a text of its own until cell_end: at a tab, or at the end of the row. */
static char *cell_begin(char *at, char *ret_end)
{
	char *end = at + strcspn(at, "\t\n");

	*ret_end = *end;
	*end = '\0';
	return end;
}

static char *cell_end(char *end, char was)
{
	*end = was;
	return end;
}

static void measure_columns(char *text, struct columns *ret)
{
	while (*text) {
		bool is_row = text[strcspn(text, "\t\n")] == '\t';

		for (size_t column = 0;; column++) {
			char was, *end = cell_begin(text, &was);

			if (is_row && column < COLUMNS_MAX && term_width(text) > ret->widths[column])
				ret->widths[column] = term_width(text);
			text = cell_end(end, was);
			if (is_row && column < COLUMNS_MAX && column >= ret->count)
				ret->count = column + 1;
			if (*text != '\t')
				break;
			text++;
		}
		text += *text == '\n';
	}
}

/* Moves on to the next column of a layout; the last stays. */
static const char *next_column(const char *layout, size_t *ret_gap, bool *ret_right)
{
	size_t gap = strspn(layout, " "), next = gap + 1;

	*ret_gap = gap;
	*ret_right = layout[gap] == 'r';
	return layout[next] ? layout + next : layout;
}

/* Words of the last cell, each line after `indent` columns. */
static void print_broken(const char *text, size_t indent, size_t width, FILE *out)
{
	size_t used = 0, bytes;
	const char *word;

	while (parse_list_next(&text, ' ', &word, &bytes)) {
		if (used && used + 1 + bytes > width) {
			fprintf(out, "\n%*s", (int)indent, "");
			used = 0;
		}
		fprintf(out, "%s%.*s", used ? " " : "", (int)bytes, word);
		used += (used > 0) + bytes;
	}
}

/* Spaces are owed until something stands behind them: no line ends with one. Returns where the next row begins. */
static char *print_row(char *text, const struct columns *columns, const char *layout, size_t limit, FILE *out)
{
	size_t owed = 0, at = 0;

	for (size_t column = 0;; column++) {
		char was, *end = cell_begin(text, &was);
		size_t width, own, gap;
		bool right;

		layout = next_column(layout, &gap, &right);
		own = term_width(text);
		width = column < COLUMNS_MAX ? columns->widths[column] : own;
		owed += gap + (right ? width - own : 0);
		at += gap;
		if (own)
			fprintf(out, "%*s", (int)owed, "");
		if (!right && column + 1 == columns->count && at + LEAST_WIDTH < limit && at + own > limit)
			print_broken(text, at, limit - at, out);
		else
			fputs(text, out);
		text = cell_end(end, was);
		owed = (own ? 0 : owed) + (right ? 0 : width - own);
		at += width;
		if (*text != '\t')
			break;
		text++;
	}
	fputc('\n', out);
	return text + (*text == '\n');
}

void table_end(struct table *table, FILE *rows, const char *layout)
{
	size_t limit = options_terminal_columns(table->out);
	struct columns columns = { 0 };

	if (rows == table->out)
		return;
	if (fclose(rows) == 0) {
		measure_columns(table->text, &columns);
		for (char *at = table->text; *at;) {
			size_t bytes = strcspn(at, "\t\n");

			if (at[bytes] == '\t') {
				at = print_row(at, &columns, layout, limit, table->out);
				continue;
			}
			bytes += at[bytes] == '\n';
			fwrite(at, 1, bytes, table->out);
			at += bytes;
		}
	}
	free(table->text);
}
