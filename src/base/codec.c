/* SPDX-License-Identifier: Apache-2.0 */
#include "base/codec.h"

#include "base/bytes.h"

#include <errno.h>
#include <string.h>

void codec_check(struct codec *codec, bool sane)
{
	if (!codec->out && !sane && !codec->error)
		codec->error = -EBADMSG;
}

/* The next bytes of the message that is read. NULL: there are not so many, or something was wrong before. */
static const uint8_t *take(struct codec *codec, size_t bytes)
{
	const uint8_t *at = codec->in;

	codec_check(codec, (size_t)(codec->end - at) >= bytes);
	if (codec->error)
		return NULL;
	codec->in += bytes;
	return at;
}

static uint64_t get(struct codec *codec, unsigned count)
{
	const uint8_t *at = take(codec, count);

	return at ? bytes_get(at, count) : 0;
}

static void put(struct codec *codec, uint64_t value, unsigned count)
{
	bytes_put(codec->out, value, count);
	codec->out += count;
}

/* A member has the byte order of the machine, which is that of the messages: its first bytes are its low ones. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "codec_number");

void codec_number(struct codec *codec, void *member, size_t member_bytes, unsigned count)
{
	uint64_t value = 0;

	if (codec->out) {
		memcpy(&value, member, member_bytes);
		put(codec, value, count);
		return;
	}
	value = get(codec, count);
	codec_check(codec, member_bytes == sizeof(value) || !(value >> 8 * member_bytes));
	memcpy(member, &value, member_bytes);
}

void codec_bool(struct codec *codec, bool *member, unsigned count)
{
	uint64_t value = codec->out && *member; /* before a read the member may be no bool at all */

	CODEC_NUMBER(codec, value, count);
	codec_check(codec, value <= 1);
	*member = value == 1;
}

void codec_block(struct codec *codec, void *member, size_t bytes)
{
	const uint8_t *at;

	if (codec->out) {
		memcpy(codec->out, member, bytes);
		codec->out += bytes;
		return;
	}
	at = take(codec, bytes);
	if (at)
		memcpy(member, at, bytes);
	else
		memset(member, 0, bytes);
}

static bool is_printable(char c)
{
	return c >= ' ' && c <= '~';
}

void codec_text(struct codec *codec, char *member, size_t bytes)
{
	size_t length = codec->out ? strnlen(member, bytes - 1) : 0;

	for (size_t i = 0; codec->out && i < bytes; i++)
		put(codec, i >= length ? 0 : is_printable(member[i]) ? (uint8_t)member[i] : '?', 1);
	if (codec->out)
		return;
	codec_block(codec, member, bytes);
	length = strnlen(member, bytes);
	codec_check(codec, length < bytes);
	for (size_t i = 0; i < bytes; i++)
		codec_check(codec, i < length ? is_printable(member[i]) : !member[i]);
	member[bytes - 1] = '\0';
}

void codec_name(struct codec *codec, char *member, size_t bytes)
{
	codec_block(codec, member, bytes);
	if (codec->out)
		return;
	member[bytes - 1] = '\0';
	for (char *c = member; *c; c++)
		if (!is_printable(*c))
			*c = '?';
}

void codec_sum(struct codec *codec)
{
	const uint8_t *at = codec->out ? codec->out : codec->in;
	uint32_t sum = bytes_checksum(codec->begin, (size_t)(at - codec->begin)), said = sum;

	CODEC_NUMBER(codec, said, 4);
	codec_check(codec, said == sum);
}

void codec_magic(struct codec *codec, const void *magic, size_t bytes)
{
	const uint8_t *at;

	if (codec->out) {
		memcpy(codec->out, magic, bytes);
		codec->out += bytes;
		return;
	}
	at = take(codec, bytes);
	codec_check(codec, at && !memcmp(at, magic, bytes));
}

void codec_zeros(struct codec *codec, size_t bytes)
{
	for (; bytes; bytes--) {
		if (codec->out)
			*codec->out++ = 0;
		else
			codec_check(codec, !get(codec, 1));
	}
}

void codec_version(struct codec *codec, uint16_t version)
{
	codec->version = version;
	CODEC_NUMBER(codec, codec->version, 2);
	if (!codec->error && codec->version != version)
		codec->error = -EPROTO;
}

void codec_reserved(struct codec *codec, size_t bytes)
{
	if (codec->out)
		codec_zeros(codec, bytes);
	else
		(void)take(codec, bytes);
}

void codec_tail(struct codec *codec, const uint8_t **bytes, size_t count)
{
	if (codec->out)
		codec_block(codec, (void *)(uintptr_t)*bytes, count);
	else
		*bytes = take(codec, count);
}

int codec_end(struct codec *codec)
{
	codec_check(codec, codec->in == codec->end);
	return codec->error;
}
