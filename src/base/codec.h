/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as functions that name their fields in order: the same function writes a message and reads it, as XDR's filters
 * do, so that its layout stands once. Numbers are little-endian; text fills a field of fixed size, ends with a NUL and is
 * printable ASCII. Pure, any thread.
 *
 *	int hello_codec(struct codec *codec, struct hello *hello)
 *	{
 *		codec_magic(codec, "HELO", 4);
 *		CODEC_NUMBER(codec, hello->from, 2);
 *		codec_check(codec, hello->from < 256);
 *		return codec_end(codec);
 *	}
 *	hello_codec(CODEC_TO(bytes), &hello);
 *	r = hello_codec(CODEC_FROM(bytes, count), &hello);
 *
 * A write leaves the message alone and cannot fail: the caller has room. After a read that failed its contents are undefined.
 */
#ifndef TRIBUTARY_BASE_CODEC_H
#define TRIBUTARY_BASE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct codec {
	uint8_t *out;            /* writing: where the next byte goes; NULL: reading */
	const uint8_t *in, *end; /* reading */
	const uint8_t *begin;    /* of the message */
	int error;               /* of the read, or 0 */
	uint16_t version;        /* that was read, also if it is another one */
};
#define CODEC_TO(bytes)          (&(struct codec){ .out = (bytes), .begin = (bytes) })
#define CODEC_FROM(bytes, count) (&(struct codec){ .in = (bytes), .end = (bytes) + (count), .begin = (bytes) })

/* count: 1 to 8 bytes of the message. A number that the member cannot hold is -EBADMSG. */
#define CODEC_NUMBER(codec, member, count) codec_number(codec, &(member), sizeof(member), count)
void codec_number(struct codec *codec, void *member, size_t member_bytes, unsigned count);
void codec_bool(struct codec *codec, bool *member, unsigned count);
void codec_block(struct codec *codec, void *member, size_t bytes);
/* Written: cut to what fits with its NUL, the rest zeros; what is not printable becomes '?'. Read: so, or -EBADMSG. */
void codec_text(struct codec *codec, char *member, size_t bytes);
/* A name that is only shown, whoever wrote it: read, it ends with a NUL, and what is not printable is '?'. */
void codec_name(struct codec *codec, char *member, size_t bytes);
/* In four bytes, bytes_checksum of all that is before it. Another one is -EBADMSG. */
void codec_sum(struct codec *codec);
/* Other bytes are -EBADMSG. */
void codec_magic(struct codec *codec, const void *magic, size_t bytes);
void codec_zeros(struct codec *codec, size_t bytes);
/* In two bytes. Another one is -EPROTO. */
void codec_version(struct codec *codec, uint16_t version);
/* Sent as zeros; a later version may send something there. */
void codec_reserved(struct codec *codec, size_t bytes);
/* Bytes that lie elsewhere: the caller's when writing, those of the message itself when reading. */
void codec_tail(struct codec *codec, const uint8_t **bytes, size_t count);
/* What must be true of a message that was read; else -EBADMSG. */
void codec_check(struct codec *codec, bool sane);
/* 0, or the first error; bytes that no field took are -EBADMSG. */
int codec_end(struct codec *codec);

#endif
