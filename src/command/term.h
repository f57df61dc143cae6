/* SPDX-License-Identifier: Apache-2.0 */
/* What the reader of the output can show: colours, UTF-8, so many columns. */
#ifndef TRIBUTARY_COMMAND_TERM_H
#define TRIBUTARY_COMMAND_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct command_call;

enum term_colour {
	TERM_PLAIN,
	TERM_BOLD,
	TERM_DIM,
	TERM_BLUE,
	TERM_CYAN,
	TERM_YELLOW,
	TERM_ORANGE,
	TERM_RED,
	TERM_GREEN,
	TERM_COLOUR_COUNT
};

struct term {
	bool colour, utf8;
	size_t columns; /* 0: not a terminal */
};

/* By --color of the call's own table, NO_COLOR, the locale, and what out is. */
struct term term_of(const struct command_call *call, FILE *out);
/* The sequence that begins a colour, and the one that ends it; "" where there are no colours. */
const char *term_on(const struct term *term, enum term_colour colour);
const char *term_off(const struct term *term);
/* The name of a machine, "this machine" without one, and a colon. */
void term_title(const struct term *term, const char *name, FILE *out);
/* A bar of so many cells, filled by share of 1, in eighths of a cell where there is UTF-8. */
void term_bar(const struct term *term, double share, size_t cells, enum term_colour colour, FILE *out);
/* Columns of a UTF-8 text whose characters are all one column wide; what begins and ends colours takes none. */
size_t term_width(const char *text);
/*
 * A copy without control characters, which must not reach a terminal; text from outside goes through this, but for names of
 * vertices and limits, which have none.
 */
void term_clean(const char *text, char *ret, size_t ret_bytes);

#endif
