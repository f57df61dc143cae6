/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"
#include "base/random.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define UNTOUCHED    UINT64_C(0x5a5a5a5a5a5a5a5a)

struct number_case {
	const char *text;
	int result;
	uint64_t value;
};

static void u64_takes_whole_numbers_in_range(void **state)
{
	static const struct number_case cases[] = {
		{ "0", 0, 0 },
		{ "007", 0, 7 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "99999999999999999999999", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "1x", -EINVAL, 0 },
		{ "0x1", -EINVAL, 0 },
	};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		value = UNTOUCHED;
		assert_int_equal(parse_u64(cases[i].text, 0, UINT64_MAX, &value), cases[i].result);
		assert_int_equal(value, cases[i].result ? UNTOUCHED : cases[i].value);
	}
	assert_int_equal(parse_u64("9", 10, 20, &value), -ERANGE);
	assert_int_equal(parse_u64("10", 10, 20, &value), 0);
	assert_int_equal(parse_u64("20", 10, 20, &value), 0);
	assert_int_equal(parse_u64("21", 10, 20, &value), -ERANGE);
}

static void i64_takes_both_ends_of_its_range(void **state)
{
	int64_t value = 1;

	(void)state;
	assert_int_equal(parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &value), 0);
	assert_true(value == INT64_MIN);
	assert_int_equal(parse_i64("9223372036854775807", INT64_MIN, INT64_MAX, &value), 0);
	assert_true(value == INT64_MAX);
	assert_int_equal(parse_i64("9223372036854775808", INT64_MIN, INT64_MAX, &value), -ERANGE);
	assert_int_equal(parse_i64("-9223372036854775809", INT64_MIN, INT64_MAX, &value), -ERANGE);
	assert_int_equal(parse_i64("-3", -2, 2, &value), -ERANGE);
	assert_int_equal(parse_i64("-2", -2, 2, &value), 0);
	assert_int_equal(parse_i64("-", -2, 2, &value), -EINVAL);
	assert_int_equal(parse_i64("--1", -2, 2, &value), -EINVAL);
	assert_int_equal(value, -2);
}

static void hex_takes_up_to_sixteen_digits(void **state)
{
	uint64_t value = UNTOUCHED;

	(void)state;
	assert_int_equal(parse_hex64("0xDeadBeef", &value), 0);
	assert_int_equal(value, 0xdeadbeef);
	assert_int_equal(parse_hex64("ffffffffffffffff", &value), 0);
	assert_int_equal(value, UINT64_MAX);
	assert_int_equal(parse_hex64("10000000000000000", &value), -ERANGE);
	assert_int_equal(parse_hex64("", &value), -EINVAL);
	assert_int_equal(parse_hex64("0x", &value), -EINVAL);
	assert_int_equal(parse_hex64("12g", &value), -EINVAL);
	assert_int_equal(value, UINT64_MAX);
}

static void a_digest_has_sixteen_digits(void **state)
{
	static const char *const bad[] = { "",
					   "0123456789abcde",
					   "0123456789abcdef0",
					   "0123456789abcdeF",
					   "0x23456789abcdef",
					   "0000000000000000",
					   "0000000000000001",
					   " 123456789abcdef" };
	uint64_t value = 7;

	(void)state;
	assert_int_equal(parse_digest("0123456789abcdef", &value), 0);
	assert_int_equal(value, UINT64_C(0x0123456789abcdef));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse_digest(bad[i], &value), -EINVAL);
	assert_int_equal(value, UINT64_C(0x0123456789abcdef));
}

static void size_takes_a_unit(void **state)
{
	static const struct number_case cases[] = {
		{ "0", 0, 0 },
		{ "1", 0, 1 },
		{ "4K", 0, 4096 },
		{ "4k", 0, 4096 },
		{ "16M", 0, 16 << 20 },
		{ "3g", 0, UINT64_C(3) << 30 },
		{ "17179869183G", 0, UINT64_C(17179869183) << 30 },
		{ "17179869184G", -ERANGE, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "K", -EINVAL, 0 },
		{ "4KB", 0, 4000 },
		{ "64MB", 0, 64000000 },
		{ "64MiB", 0, 64 << 20 },
		{ "64Mi", 0, 64 << 20 },
		{ "64 MiB", 0, 64 << 20 },
		{ "7B", 0, 7 },
		{ "4T", 0, UINT64_C(4) << 40 },
		{ "4TB", 0, UINT64_C(4000000000000) },
		{ "1.5K", 0, 1536 },
		{ "1.5MB", 0, 1500000 },
		{ "0.3K", 0, 307 },
		{ "16777216TiB", -ERANGE, 0 },
		{ "4iB", -EINVAL, 0 },
		{ "4i", -EINVAL, 0 },
		{ "4Kb", -EINVAL, 0 },
		{ "4KBB", -EINVAL, 0 },
		{ "4  K", -EINVAL, 0 },
		{ "4 ", -EINVAL, 0 },
		{ " 4", -EINVAL, 0 },
		{ "-4K", -EINVAL, 0 },
		{ "4P", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		value = UNTOUCHED;
		assert_int_equal(parse_size(cases[i].text, 0, UINT64_MAX, &value), cases[i].result);
		assert_int_equal(value, cases[i].result ? UNTOUCHED : cases[i].value);
	}
	assert_int_equal(parse_size("4K", 4097, 8192, &value), -ERANGE);
	assert_int_equal(parse_size("9K", 4096, 8192, &value), -ERANGE);
}

static void seconds_take_nine_decimals(void **state)
{
	static const struct number_case cases[] = {
		{ "10", 0, UINT64_C(10000000000) },
		{ "0.1", 0, 100000000 },
		{ "0.100000000", 0, 100000000 },
		{ "1.000000001", 0, 1000000001 },
		{ "1.0000000001", -EINVAL, 0 },
		{ "1.", -EINVAL, 0 },
		{ ".5", -EINVAL, 0 },
		{ "1.5s", -EINVAL, 0 },
		{ "1,5", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "18446744073.709551615", 0, UINT64_MAX },
		{ "18446744073.709551616", -ERANGE, 0 },
		{ "18446744074", -ERANGE, 0 },
		{ "99999999999999999999", -ERANGE, 0 },
	};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		value = UNTOUCHED;
		assert_int_equal(parse_seconds(cases[i].text, 0, UINT64_MAX, &value), cases[i].result);
		assert_int_equal(value, cases[i].result ? UNTOUCHED : cases[i].value);
	}
	assert_int_equal(parse_seconds("1", 1, 999999999, &value), -ERANGE);
}

static void rate_is_in_bytes_or_bits(void **state)
{
	static const struct number_case cases[] = {
		{ "12500000000", 0, UINT64_C(12500000000) },
		{ "125000", 0, 125000 },
		{ "124999.9", -EINVAL, 0 }, /* below 1 Mbit/s: the unit was forgotten */
		{ "100", -EINVAL, 0 },
		{ "0", -EINVAL, 0 },
		{ "100Gbps", 0, UINT64_C(12500000000) },
		{ "100Gb/s", 0, UINT64_C(12500000000) },
		{ "100 Gbit/s", 0, UINT64_C(12500000000) },
		{ "12.5GBps", 0, UINT64_C(12500000000) },
		{ "12.5 GB/s", 0, UINT64_C(12500000000) },
		{ "100bps", 0, 12 },
		{ "12.5GB/s", 0, UINT64_C(12500000000) },
		{ "100Gbit/s", 0, UINT64_C(12500000000) },
		{ "100gbit/s", 0, UINT64_C(12500000000) },
		{ "8bit/s", 0, 1 },
		{ "7bit/s", 0, 0 },
		{ "9B/s", 0, 9 },
		{ "0.5kB/s", 0, 500 },
		{ "1.5Mbit/s", 0, 187500 },
		{ "1.6Tbit/s", 0, UINT64_C(200000000000) },
		{ "0.000000001TB/s", 0, 1000 },
		{ "0.999999999B/s", 0, 0 },
		{ "100G", -EINVAL, 0 },
		{ "100GB", -EINVAL, 0 },
		{ "100GBPS", -EINVAL, 0 },
		{ "100  Gbit/s", -EINVAL, 0 },
		{ "100Pbit/s", -EINVAL, 0 },
		{ "1.0000000001B/s", -EINVAL, 0 },
		{ "Gbit/s", -EINVAL, 0 },
		{ "-1B/s", -EINVAL, 0 },
		{ "1GBit/s", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "18446745TB/s", -ERANGE, 0 },
	};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		value = UNTOUCHED;
		assert_int_equal(parse_rate(cases[i].text, 0, UINT64_MAX, &value), cases[i].result);
		assert_int_equal(value, cases[i].result ? UNTOUCHED : cases[i].value);
	}
	assert_int_equal(parse_rate("8bit/s", 2, 10, &value), -ERANGE);
	assert_int_equal(parse_rate("88bit/s", 2, 10, &value), -ERANGE);
}

static void collectives_have_the_names_that_others_write(void **state)
{
	static const struct {
		const char *text, *plain;
	} cases[] = {
		{ "allreduce", "allreduce" },
		{ "all_reduce", "allreduce" },
		{ "AllReduce", "allreduce" },
		{ "all-reduce", "allreduce" },
		{ "all_reduce_perf", "allreduce" },
		{ "all_gather_into_tensor", "allgather" },
		{ "reduce_scatter_tensor", "reducescatter" },
		{ "all_to_all_single", "alltoall" },
		{ "alltoall_perf", "alltoall" },
		{ "_allgather_base", "allgather" },
		{ "send_recv", "sendrecv" },
		{ "broadcast", "broadcast" },
		{ "perf", "perf" },
		{ "", "" },
	};
	char text[32];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(text, sizeof(text), "%s", cases[i].text);
		parse_collective(text);
		assert_string_equal(text, cases[i].plain);
	}
}

static void range_is_low_to_high(void **state)
{
	uint64_t low = UNTOUCHED, high = UNTOUCHED;
	static const struct number_case bad[] = {
		{ "5", -EINVAL, 0 },   { "5-", -EINVAL, 0 },   { "-5", -EINVAL, 0 },    { "7-6", -EINVAL, 0 },
		{ "0-5", -ERANGE, 0 }, { "5-11", -ERANGE, 0 }, { "5-6-7", -EINVAL, 0 }, { "5 - 6", -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_int_equal(parse_range(bad[i].text, 1, 10, &low, &high), bad[i].result);
	assert_int_equal(low, UNTOUCHED);
	assert_int_equal(high, UNTOUCHED);
	assert_int_equal(parse_range("1-10", 1, 10, &low, &high), 0);
	assert_int_equal(low, 1);
	assert_int_equal(high, 10);
	assert_int_equal(parse_range("4-4", 1, 10, &low, &high), 0);
	assert_int_equal(low, 4);
	assert_int_equal(high, 4);
}

static void bool_has_four_pairs_of_words(void **state)
{
	static const char *const no[] = { "0", "no", "false", "off", "OFF", "False" };
	static const char *const yes[] = { "1", "yes", "true", "on", "ON", "True" };
	static const char *const bad[] = { "", "2", "y", "offf", "o", " 1", "1 " };
	bool value;

	(void)state;
	for (size_t i = 0; i < COUNT(no); i++) {
		value = true;
		assert_int_equal(parse_bool(no[i], &value), 0);
		assert_false(value);
	}
	for (size_t i = 0; i < COUNT(yes); i++) {
		value = false;
		assert_int_equal(parse_bool(yes[i], &value), 0);
		assert_true(value);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_int_equal(parse_bool(bad[i], &value), -EINVAL);
}

static void list_gives_items_and_passes_over_empty_ones(void **state)
{
	const char *rest = ",,eth0,,ib,x,", *item;
	static const char *const expected[] = { "eth0", "ib", "x" };
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < COUNT(expected); i++) {
		assert_true(parse_list_next(&rest, ',', &item, &bytes));
		assert_int_equal(bytes, strlen(expected[i]));
		assert_memory_equal(item, expected[i], bytes);
	}
	assert_false(parse_list_next(&rest, ',', &item, &bytes));
	assert_false(parse_list_next(&rest, ',', &item, &bytes));
	rest = "";
	assert_false(parse_list_next(&rest, ',', &item, &bytes));
}

static void trim_takes_white_space_off_the_end(void **state)
{
	char text[] = " up \t\r\n", blank[] = " \n\n", empty[] = "";

	(void)state;
	parse_trim(text);
	assert_string_equal(text, " up");
	parse_trim(blank);
	assert_string_equal(blank, "");
	parse_trim(empty);
	assert_string_equal(empty, "");
}

static void distance_counts_edits_up_to_its_limit(void **state)
{
	char long_name[200];

	(void)state;
	assert_int_equal(parse_distance("", "", 3), 0);
	assert_int_equal(parse_distance("STREAMS", "STREAMS", 3), 0);
	assert_int_equal(parse_distance("STREAM", "STREAMS", 3), 1);
	assert_int_equal(parse_distance("STREAMSS", "STREAMS", 3), 1);
	assert_int_equal(parse_distance("STREEMS", "STREAMS", 3), 1);
	assert_int_equal(parse_distance("STERAMS", "STREAMS", 3), 1);
	assert_int_equal(parse_distance("SRTEAMSX", "STREAMS", 3), 2);
	assert_int_equal(parse_distance("abcd", "wxyz", 3), 4);
	assert_int_equal(parse_distance("", "abcd", 3), 4);
	assert_int_equal(parse_distance("abc", "", 3), 3);
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(parse_distance("abc", long_name, 3), 4);
	assert_int_equal(parse_distance(long_name, "abc", 3), 4);
	assert_int_equal(parse_distance(long_name, long_name, 3), 4); /* longer than it compares */
}

static void a_slip_is_near_or_the_beginning(void **state)
{
	(void)state;
	assert_int_equal(parse_slip("jsno", "json"), 1);
	assert_int_equal(parse_slip("exlpain", "explain"), 1);
	assert_int_equal(parse_slip("measrue", "measure"), 1);
	assert_int_equal(parse_slip("prof", "profile"), 1);
	assert_int_equal(parse_slip("rum", "run"), 1);
	assert_int_equal(parse_slip("x", "xy"), PARSE_NO_SLIP);
	assert_int_equal(parse_slip("foo", "env"), PARSE_NO_SLIP);
	assert_int_equal(parse_slip("", "env"), PARSE_NO_SLIP);
	assert_int_equal(parse_slip("json", "jobs"), PARSE_NO_SLIP);
}

static void lists_of_devices_are_as_nccl_has_them(void **state)
{
	static const struct {
		const char *list, *device;
		unsigned port;
		bool wanted;
	} cases[] = {
		{ "", "mlx5_0", 1, true },           { "mlx5", "mlx5_0", 1, true },
		{ "mlx5_1", "mlx5_10", 1, true },    { "=mlx5_1", "mlx5_10", 1, false },
		{ "=mlx5_1", "mlx5_1", 2, true },    { "mlx5_0:2", "mlx5_0", 1, false },
		{ "mlx5_0:2", "mlx5_0", 2, true },   { "bnxt,mlx5_3", "mlx5_3", 1, true },
		{ "bnxt,mlx4", "mlx5_3", 1, false }, { "^mlx5_0", "mlx5_0", 1, false },
		{ "^mlx5_0", "mlx5_1", 1, true },    { "^=mlx5_1", "mlx5_10", 1, true },
		{ "^mlx5_0:1", "mlx5_0", 2, true },  { "mlx5_0:x", "mlx5_0", 1, false },
		{ "^", "mlx5_0", 1, false },         { "mlx5_0:0", "mlx5_0", 1, false },
		{ ",,", "mlx5_0", 1, true },         { "=", "mlx5_0", 1, true },
		{ "=^mlx5_0", "mlx5_0", 1, false },  { ":1", "mlx5_0", 2, true },
		{ "mlx5_0:", "mlx5_0", 2, true },    { "mlx5_0:-1", "mlx5_0", 2, true },
		{ "mlx5_0:2", "mlx5_0", 0, true },   { "mlx5_0::3", "mlx5_0", 2, true },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (parse_list_wants(cases[i].list, cases[i].device, cases[i].port) != cases[i].wanted)
			fail_msg("\"%s\", %s port %u", cases[i].list, cases[i].device, cases[i].port);
}

static const char *pick(uint64_t *random, const char *const *from, size_t count)
{
	return from[random_below(random, count)];
}

/* Lists are written from items, whose meaning is known without reading them. */
static void drawn_lists_mean_what_they_were_written_from(void **state)
{
	static const char *const names[] = { "mlx5", "mlx5_0", "mlx5_1", "bnxt", "m", "" };
	static const char *const devices[] = { "mlx5_0", "mlx5_1", "mlx5_10", "bnxt_re0" };
	static const struct {
		const char *text;
		int number;
	} numbers[] = { { "", -1 },  { "0", 0 }, { "1", 1 },  { "2", 2 },
			{ " 2", 2 }, { "x", 0 }, { "2x", 2 }, { "-1", -1 } };
	uint64_t random = runtime_seed();

	(void)state;
	for (unsigned i = 0; i < 10000; i++) {
		const bool but = random_below(&random, 2), whole = random_below(&random, 2);
		const char *device = pick(&random, devices, 4);
		const unsigned port = 1 + (unsigned)random_below(&random, 2);
		int rail = -1, plane = -1, found_rail, found_plane;
		bool any = false, found = false;
		char list[512];
		size_t used = (size_t)snprintf(list, sizeof(list), "%s%s", but ? "^" : "", whole ? "=" : "");

		for (uint64_t items = random_below(&random, 5); items; items--) {
			const char *name = pick(&random, names, 6);
			int value[3] = { -1, -1, -1 };

			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s", name);
			for (uint64_t k = 0, given = random_below(&random, 5); k < given; k++) {
				const size_t which = random_below(&random, 8);

				used += (size_t)snprintf(list + used, sizeof(list) - used, ":%s", numbers[which].text);
				if (k < 3)
					value[k] = numbers[which].number;
			}
			used += (size_t)snprintf(list + used, sizeof(list) - used, ",");
			any |= name[0] != '\0';
			if (found || !name[0] || (value[0] != -1 && value[0] != (int)port) ||
			    (whole ? strcmp(name, device) != 0 : strncmp(name, device, strlen(name)) != 0))
				continue;
			found = true;
			rail = value[1];
			plane = value[2];
		}
		if (parse_list_finds(list, device, port, &found_rail, &found_plane) != ((found || !any) != but) ||
		    found_rail != rail || found_plane != plane)
			fail_msg("\"%s\", %s port %u", list, device, port);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(u64_takes_whole_numbers_in_range),
		cmocka_unit_test(i64_takes_both_ends_of_its_range),
		cmocka_unit_test(hex_takes_up_to_sixteen_digits),
		cmocka_unit_test(a_digest_has_sixteen_digits),
		cmocka_unit_test(size_takes_a_unit),
		cmocka_unit_test(seconds_take_nine_decimals),
		cmocka_unit_test(rate_is_in_bytes_or_bits),
		cmocka_unit_test(collectives_have_the_names_that_others_write),
		cmocka_unit_test(range_is_low_to_high),
		cmocka_unit_test(bool_has_four_pairs_of_words),
		cmocka_unit_test(list_gives_items_and_passes_over_empty_ones),
		cmocka_unit_test(lists_of_devices_are_as_nccl_has_them),
		cmocka_unit_test(drawn_lists_mean_what_they_were_written_from),
		cmocka_unit_test(trim_takes_white_space_off_the_end),
		cmocka_unit_test(distance_counts_edits_up_to_its_limit),
		cmocka_unit_test(a_slip_is_near_or_the_beginning),
	};

	runtime_start("parse_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
