/* SPDX-License-Identifier: Apache-2.0 */
#include "command/print/table.h"

#include "command/print/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void print(const char *text, const char *layout, FILE *out)
{
	struct table table;
	FILE *rows = table_begin(&table, out);

	fputs(text, rows);
	table_end(&table, rows, layout);
	assert_int_equal(fflush(out), 0);
}

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
	static const struct {
		const char *text, *layout, *printed;
	} cases[] = {
		{ "a\tb\nccc\tdd\n", "l  r", "a     b\nccc  dd\n" },
		{ "a\tb\tc\td\nx\t10\t200\t3\n", "  r l  r", "  a b     c  d\n  x 10  200  3\n" },
		{ "a\tb\n\na line of its own\n\tx\n", "l  l", "a  b\n\na line of its own\n   x\n" },
		{ "a\t\t\nbb\tc\t\n", "l  l  l", "a\nbb  c\n" },
		{ "≥1\tx\n\033[1m22\033[0m\ty\n3\tz\n", "r  l", "≥1  x\n\033[1m22\033[0m  y\n 3  z\n" },
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		FILE *out = fmemopen(text, sizeof(text), "w");

		assert_non_null(out);
		print(cases[i].text, cases[i].layout, out);
		fclose(out);
		assert_string_equal(text, cases[i].printed);
	}
}

/* Of a list of hosts, say. */
static void a_long_cell_is_whole(void **state)
{
	static char text[8192], row[3100];
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)state;
	assert_non_null(out);
	memset(row, 'x', 3000);
	memcpy(row + 3000, "\ty\n", sizeof("\ty\n"));
	print(row, "l  l", out);
	fclose(out);
	memcpy(row + 3000, "  y\n", sizeof("  y\n"));
	assert_string_equal(text, row);
}

/* A terminal hands on a line at a time. */
static void read_lines(int pty, size_t count, char *text, size_t text_bytes)
{
	size_t used = 0;

	while (count) {
		ssize_t bytes = read(pty, text + used, text_bytes - 1 - used);

		assert_true(bytes > 0);
		for (ssize_t i = 0; i < bytes; i++)
			count -= text[used + (size_t)i] == '\n';
		used += (size_t)bytes;
	}
	text[used] = '\0';
}

static void a_terminal_breaks_the_last_column_alone(void **state)
{
	static const char row[] = "name\tone two three four five six seven eight nine ten\n";
	struct winsize size = { .ws_row = 24, .ws_col = 40 };
	int pty = posix_openpt(O_RDWR | O_NOCTTY);
	char text[512];
	FILE *terminal;

	(void)state;
	if (pty < 0 || grantpt(pty) || unlockpt(pty)) {
		print_message("skipped: there is no pseudo-terminal\n");
		skip();
	}
	terminal = fopen(ptsname(pty), "w");
	assert_non_null(terminal);
	assert_int_equal(ioctl(pty, TIOCSWINSZ, &size), 0);
	print(row, "l  l", terminal);
	read_lines(pty, 2, text, sizeof(text));
	assert_string_equal(text, "name  one two three four five six seven\r\n      eight nine ten\r\n");
	size.ws_col = 20; /* too narrow to break anything */
	assert_int_equal(ioctl(pty, TIOCSWINSZ, &size), 0);
	print(row, "l  l", terminal);
	read_lines(pty, 1, text, sizeof(text));
	assert_string_equal(text, "name  one two three four five six seven eight nine ten\r\n");
	fclose(terminal);
	close(pty);
}

static void units_are_in_one_form(void **state)
{
	char text[UNITS_BYTES];

	(void)state;
	assert_string_equal(units_bits(0, text), "0 Mbit/s");
	assert_string_equal(units_bits(12.5e9, text), "100 Gbit/s");
	assert_string_equal(units_bits(2e6, text), "16 Mbit/s");
	assert_string_equal(units_bits(1.8e12, text), "14400 Gbit/s");
	assert_string_equal(units_rate(0.3623e9, text), "0.362 GB/s");
	assert_string_equal(units_rate(INFINITY, text), "-");
	assert_string_equal(units_size(8, text), "8 B");
	assert_string_equal(units_size(1536, text), "1.5 KiB");
	assert_string_equal(units_size(1e15, text), "931323 GiB");
	assert_string_equal(units_time(2e-5, text), "20 us");
	assert_string_equal(units_time(0.16863, text), "168.6 ms");
	assert_string_equal(units_time(12345.6, text), "12346 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
		cmocka_unit_test(a_long_cell_is_whole),
		cmocka_unit_test(a_terminal_breaks_the_last_column_alone),
		cmocka_unit_test(units_are_in_one_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
