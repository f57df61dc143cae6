/* What is written is read back; what is missing or wrong is noticed, and nothing past the end is touched. */
#include "base/cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void what_is_written_is_read_back(void **state)
{
	uint8_t bytes[8 + 1 + 3 + 6];
	struct writer writer = { bytes };
	struct reader reader = { bytes, bytes + sizeof(bytes), false };
	char text[6];
	uint8_t block[3];

	(void)state;
	writer_put(&writer, 0x0123456789abcdef, 8);
	writer_put(&writer, 1, 1);
	writer_put_block(&writer, "\x80\x00\x7f", 3);
	writer_put_text(&writer, "a\nbcdefgh", sizeof(text));
	assert_ptr_equal(writer.at, bytes + sizeof(bytes));
	assert_int_equal(reader_get(&reader, 8), 0x0123456789abcdef);
	assert_true(reader_get_bool(&reader, 1));
	reader_get_block(&reader, block, sizeof(block));
	assert_memory_equal(block, "\x80\x00\x7f", 3);
	reader_get_text(&reader, text, sizeof(text));
	assert_string_equal(text, "a?bcd");
	assert_false(reader.bad);
	assert_ptr_equal(reader.at, reader.end);
}

/* Every length that is too short, for everything that can be read. Once bad, all that follows is zeros. */
static void what_is_missing_reads_as_zeros(void **state)
{
	(void)state;
	for (size_t length = 0; length < 8; length++) {
		uint8_t bytes[8] = "\1\1\1\1\1\1\1";
		struct reader number = { bytes, bytes + length, false }, block = number, text = number;
		char ret[8] = "XXXXXXX";

		assert_int_equal(reader_get(&number, 8), 0);
		assert_true(number.bad);
		assert_int_equal(reader_get(&number, 1), 0);
		reader_get_block(&block, ret, sizeof(ret));
		assert_true(block.bad);
		assert_memory_equal(ret, "\0\0\0\0\0\0\0", 8);
		reader_get_text(&text, ret, sizeof(ret));
		assert_true(text.bad);
		assert_string_equal(ret, "");
	}
}

static void text_and_booleans_are_checked(void **state)
{
	static const struct {
		char bytes[4];
		bool bad;
	} texts[] = { { "abc", false },  { "", false },     { { 'a', 'b', 'c', 'd' }, true },
		      { "a\x1f", true }, { "a\x7f", true }, { "a\x80", true } };
	const uint8_t numbers[] = { 0, 1, 2 };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const uint8_t *bytes = (const uint8_t *)texts[i].bytes;
		struct reader reader = { bytes, bytes + 4, false };
		char text[4];

		reader_get_text(&reader, text, sizeof(text));
		assert_int_equal(reader.bad, texts[i].bad);
		assert_int_equal(text[3], '\0');
	}
	for (size_t i = 0; i < sizeof(numbers); i++) {
		struct reader reader = { numbers + i, numbers + i + 1, false };

		assert_int_equal(reader_get_bool(&reader, 1), numbers[i] == 1);
		assert_int_equal(reader.bad, numbers[i] > 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(what_is_missing_reads_as_zeros),
		cmocka_unit_test(text_and_booleans_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
