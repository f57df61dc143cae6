/* SPDX-License-Identifier: Apache-2.0 */
#include "command/measure_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { LAST = 1 };

struct terminal {
	int master;
	FILE *out;
};

static void open_terminal(unsigned short columns, struct terminal *ret)
{
	struct winsize size = { .ws_row = 24, .ws_col = columns };
	struct termios raw;
	int slave;

	ret->master = posix_openpt(O_RDWR | O_NOCTTY);
	assert_true(ret->master >= 0);
	assert_int_equal(grantpt(ret->master), 0);
	assert_int_equal(unlockpt(ret->master), 0);
	slave = open(ptsname(ret->master), O_RDWR | O_NOCTTY);
	assert_true(slave >= 0);
	/* What is read is what was written. */
	assert_int_equal(tcgetattr(slave, &raw), 0);
	cfmakeraw(&raw);
	assert_int_equal(tcsetattr(slave, TCSANOW, &raw), 0);
	assert_int_equal(ioctl(slave, TIOCSWINSZ, &size), 0);
	ret->out = fdopen(slave, "w");
	assert_non_null(ret->out);
}

static void close_terminal(struct terminal *terminal)
{
	fclose(terminal->out);
	close(terminal->master);
}

/* What has been written since. It comes when the kernel has time for it: a byte of our own is the last. */
static void take(struct terminal *terminal, char *text, size_t text_bytes)
{
	size_t used = 0;

	fputc(LAST, terminal->out);
	fflush(terminal->out);
	while (!used || text[used - 1] != LAST) {
		ssize_t bytes = read(terminal->master, text + used, text_bytes - used);

		assert_true(bytes > 0);
		used += (size_t)bytes;
		assert_true(used < text_bytes);
	}
	text[used - 1] = '\0';
}

static const char what[] = "gpu0>switch:0000:21:00.0 and gpu1>switch:0000:21:00.0 together, and some more";

/* In the last column some terminals go on to the next line, and \r then leaves the old bar where it is. */
static void bar_is_narrower_than_any_terminal(void **state)
{
	static const unsigned short widths[] = { 1, 2, 5, 10, 16, 20, 40, 79, 80, 81, 132, 300 };

	(void)state;
	setenv("TERM", "xterm", 1);
	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		struct measure_text text;
		struct terminal terminal;
		char all[4096], *rest = all, *line;

		open_terminal(widths[i], &terminal);
		measure_text_begin(terminal.out, &text);
		assert_true(text.shown);
		measure_text_progress(&text, 7, 48, what);
		measure_text_progress(&text, 163, 1048, "short");
		measure_text_end(&text);
		take(&terminal, all, sizeof(all));
		assert_true(strlen(all) > 0);
		while ((line = strsep(&rest, "\r")))
			if (strlen(line) >= (widths[i] > 1 ? widths[i] : 2))
				fail_msg("%zu columns of %d: \"%s\"", strlen(line), widths[i], line);
		close_terminal(&terminal);
	}
}

static void bar_shows_counts_and_nothing_is_left_of_it(void **state)
{
	struct measure_text text;
	struct terminal terminal;
	char all[4096];

	(void)state;
	setenv("TERM", "xterm", 1);
	open_terminal(80, &terminal);
	measure_text_begin(terminal.out, &text);
	measure_text_progress(&text, 24, 48, what);
	take(&terminal, all, sizeof(all));
	assert_non_null(strstr(all, "\r[#############.............] 24 of 48  gpu0>switch"));
	measure_text_progress(&text, 25, 48, "short");
	take(&terminal, all, sizeof(all));
	/* The end of the longer line is written over. */
	assert_non_null(strstr(all, "25 of 48  short          "));
	measure_text_end(&text);
	take(&terminal, all, sizeof(all));
	assert_true(all[0] == '\r' && all[strlen(all) - 1] == '\r');
	assert_int_equal(strspn(all + 1, " "), strlen(all) - 2);
	measure_text_end(&text);
	take(&terminal, all, sizeof(all));
	assert_string_equal(all, "");
	close_terminal(&terminal);
}

static void nothing_is_drawn_where_nobody_can_see_it(void **state)
{
	struct measure_text text;
	struct terminal terminal;
	char *all = NULL, seen[64];
	size_t bytes = 0;
	FILE *memory = open_memstream(&all, &bytes), *file = tmpfile();

	(void)state;
	assert_true(memory && file);
	setenv("TERM", "xterm", 1);
	measure_text_begin(file, &text);
	measure_text_progress(&text, 1, 2, what);
	measure_text_end(&text);
	assert_int_equal(ftell(file), 0);
	measure_text_begin(memory, &text);
	measure_text_progress(&text, 1, 2, what);
	measure_text_end(&text);
	fclose(memory);
	assert_int_equal(bytes, 0);
	free(all);
	fclose(file);
	setenv("TERM", "dumb", 1);
	open_terminal(80, &terminal);
	measure_text_begin(terminal.out, &text);
	measure_text_progress(&text, 1, 2, what);
	measure_text_end(&text);
	take(&terminal, seen, sizeof(seen));
	assert_string_equal(seen, "");
	close_terminal(&terminal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bar_is_narrower_than_any_terminal),
		cmocka_unit_test(bar_shows_counts_and_nothing_is_left_of_it),
		cmocka_unit_test(nothing_is_drawn_where_nobody_can_see_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
