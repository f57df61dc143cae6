/* SPDX-License-Identifier: Apache-2.0 */
/* One function writes a message and reads it: what it wrote is read back, and every length and value that is not so is not. */
#include "base/codec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct message {
	int32_t number;
	uint16_t narrow;
	bool yes;
	uint8_t block[3];
	char text[6];
	const uint8_t *tail;
};
enum {
	MAGIC,
	VERSION = 2,
	NUMBER = 4,
	NARROW = 8,
	YES = 12,
	ZEROS = 14,
	RESERVED = 16,
	BLOCK = 18,
	TEXT = 21,
	TAIL = 27
};
enum { MESSAGE_BYTES = 29, TAIL_BYTES = 2 };

static int message_codec(struct codec *codec, struct message *message)
{
	codec_magic(codec, "\xfe\x01", 2);
	codec_version(codec, 7);
	CODEC_NUMBER(codec, message->number, 4);
	CODEC_NUMBER(codec, message->narrow, 4);
	codec_bool(codec, &message->yes, 2);
	codec_zeros(codec, 2);
	codec_reserved(codec, 2);
	codec_block(codec, message->block, sizeof(message->block));
	codec_text(codec, message->text, sizeof(message->text));
	codec_tail(codec, &message->tail, TAIL_BYTES);
	codec_check(codec, message->number != 5);
	return codec_end(codec);
}

static void written(uint8_t bytes[static MESSAGE_BYTES])
{
	struct message message = { -2, 0xabcd, true, { 0, 0x80, 0xff }, "a\x80z", (const uint8_t *)"\x11\x22" };

	memset(bytes, 0xee, MESSAGE_BYTES);
	assert_int_equal(message_codec(CODEC_TO(bytes), &message), 0);
}

static void what_is_written_is_read_back(void **state)
{
	static const uint8_t expected[MESSAGE_BYTES] =
		"\xfe\x01\x07\0\xfe\xff\xff\xff\xcd\xab\0\0\x01\0\0\0\0\0\0\x80\xff"
		"a?z\0\0\0\x11";
	uint8_t bytes[MESSAGE_BYTES];
	struct message message;

	(void)state;
	written(bytes);
	memset(&message, 0xff, sizeof(message)); /* nothing of it counts when reading */
	assert_memory_equal(bytes, expected, MESSAGE_BYTES - 1);
	bytes[RESERVED] = 9;
	assert_int_equal(message_codec(CODEC_FROM(bytes, MESSAGE_BYTES), &message), 0);
	assert_true(message.number == -2 && message.narrow == 0xabcd && message.yes && message.block[2] == 0xff);
	assert_string_equal(message.text, "a?z");
	assert_ptr_equal(message.tail, bytes + TAIL);
}

static void other_lengths_and_values_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		int error;
	} changes[] = {
		{ MAGIC, 0, -EBADMSG },      { VERSION, 8, -EPROTO },      { VERSION + 1, 1, -EPROTO },
		{ NARROW + 2, 1, -EBADMSG }, { YES, 2, -EBADMSG },         { YES + 1, 1, -EBADMSG },
		{ ZEROS + 1, 1, -EBADMSG },  { TEXT + 1, 0x80, -EBADMSG }, { TEXT + 2, '\n', -EBADMSG },
		{ TEXT + 5, 'x', -EBADMSG },
	};
	uint8_t bytes[MESSAGE_BYTES + 1];
	struct message message;

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		written(bytes);
		bytes[changes[i].at] = changes[i].value;
		assert_int_equal(message_codec(CODEC_FROM(bytes, MESSAGE_BYTES), &message), changes[i].error);
	}
	written(bytes);
	for (size_t length = 0; length < MESSAGE_BYTES; length++)
		assert_int_equal(message_codec(CODEC_FROM(bytes, length), &message), -EBADMSG);
	assert_int_equal(message_codec(CODEC_FROM(bytes, MESSAGE_BYTES + 1), &message), -EBADMSG);
	memset(bytes + TEXT, 'x', 6);
	assert_int_equal(message_codec(CODEC_FROM(bytes, MESSAGE_BYTES), &message), -EBADMSG);
	written(bytes);
	memcpy(bytes + NUMBER, "\5\0\0", 4);
	assert_int_equal(message_codec(CODEC_FROM(bytes, MESSAGE_BYTES), &message), -EBADMSG);
}

/* Another version may be of another length, too: the version is what counts. */
static void another_version_is_known_by_its_number(void **state)
{
	struct codec *codec;
	uint8_t bytes[MESSAGE_BYTES];
	struct message message;

	(void)state;
	written(bytes);
	bytes[VERSION] = 9;
	codec = CODEC_FROM(bytes, NUMBER);
	assert_int_equal(message_codec(codec, &message), -EPROTO);
	assert_int_equal(codec->version, 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(other_lengths_and_values_are_refused),
		cmocka_unit_test(another_version_is_known_by_its_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
