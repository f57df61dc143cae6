/* SPDX-License-Identifier: Apache-2.0 */
#include "command/term.h"

#include "command/command.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool wants_colour(const char *when, FILE *out)
{
	const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");

	if (strcmp(when, "auto") != 0)
		return !strcmp(when, "always");
	return isatty(fileno(out)) && !(no_color && *no_color) && !(terminal && !strcmp(terminal, "dumb"));
}

/* The locale of characters alone: numbers are always written with a dot. */
static bool locale_is_utf8(void)
{
	bool utf8 = false;

	if (setlocale(LC_CTYPE, "")) {
		utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
		setlocale(LC_CTYPE, "C");
	}
	return utf8;
}

struct term term_of(const struct command_call *call, FILE *out)
{
	return (struct term){ .colour = wants_colour(command_value(call, "color"), out),
			      .utf8 = locale_is_utf8(),
			      .columns = options_terminal_columns(out) };
}

/* Of the 256 colours, those that are told apart with every common kind of colour blindness. */
const char *term_on(const struct term *term, enum term_colour colour)
{
	static const char *const on[TERM_COLOUR_COUNT] = {
		[TERM_PLAIN] = "",
		[TERM_BOLD] = "\033[1m",
		[TERM_DIM] = "\033[2m",
		[TERM_BLUE] = "\033[38;5;32m",
		[TERM_CYAN] = "\033[38;5;74m",
		[TERM_YELLOW] = "\033[38;5;178m",
		[TERM_ORANGE] = "\033[38;5;208m",
		[TERM_RED] = "\033[38;5;166m",
		[TERM_GREEN] = "\033[38;5;36m",
	};

	return term->colour ? on[colour] : "";
}

const char *term_off(const struct term *term)
{
	return term->colour ? "\033[0m" : "";
}

void term_title(const struct term *term, const char *name, FILE *out)
{
	char clean[256];

	term_clean(*name ? name : "this machine", clean, sizeof(clean));
	fprintf(out, "%s%s%s: ", term_on(term, TERM_BOLD), clean, term_off(term));
}

void term_bar(const struct term *term, double share, size_t cells, enum term_colour colour, FILE *out)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	size_t units = share >= 1 ? 8 * cells : (size_t)(share * 8 * (double)cells + 0.5), cell = 0;

	if (!term->utf8)
		units = (units + 4) / 8 * 8;
	fputs(term_on(term, colour), out);
	for (; cell < units / 8; cell++)
		fputs(term->utf8 ? "█" : "#", out);
	if (units % 8) {
		fputs(eighths[units % 8], out);
		cell++;
	}
	fprintf(out, "%s%s", term_off(term), term_on(term, TERM_DIM));
	for (; cell < cells; cell++)
		fputs(term->utf8 ? "░" : ".", out);
	fputs(term_off(term), out);
}

size_t term_width(const char *text)
{
	size_t columns = 0;

	for (; *text; text++) {
		if (*text == '\033')
			text += strcspn(text, "m");
		else
			columns += ((unsigned char)*text & 0xC0) != 0x80;
	}
	return columns;
}
