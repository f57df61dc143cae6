/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/control/channel.h"

#include "base/bytes.h"
#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Each use of the secret has a label of its own, so that what proves one thing proves nothing else. */
static const char proof_label[2][24] = { "tributary proof client", "tributary proof server" };
static const char frames_label[2][24] = { "tributary frames client", "tributary frames server" };

/* The channel is over; the first reason stays. */
__attribute__((format(printf, 3, 4))) static int die(struct control_channel *channel, int error, const char *fmt, ...)
{
	va_list args;

	if (channel->state != CONTROL_DEAD) {
		va_start(args, fmt);
		log_sentence_v(channel->why, sizeof(channel->why), fmt, args);
		va_end(args);
		channel->state = CONTROL_DEAD;
	}
	return -error;
}

static enum control_side other(enum control_side side)
{
	return side == CONTROL_CLIENT ? CONTROL_SERVER : CONTROL_CLIENT;
}

/* HMAC of a label and what both have said so far; the nonces in it make it new for each connection. */
static void digest(const struct control_channel *channel, const char label[static 24], bool with_proof,
		   uint8_t ret[static SHA256_BYTES])
{
	struct hmac_sha256 hmac;

	hmac_sha256_init(&hmac, channel->secret->bytes, channel->secret->count);
	hmac_sha256_add(&hmac, label, 24);
	hmac_sha256_add(&hmac, channel->hello, sizeof(channel->hello));
	hmac_sha256_add(&hmac, channel->challenge, sizeof(channel->challenge));
	if (with_proof)
		hmac_sha256_add(&hmac, channel->proof, sizeof(channel->proof));
	hmac_sha256_end(&hmac, ret);
}

static void seal(const uint8_t key[static SHA256_BYTES], uint64_t number,
		 const uint8_t header[static CONTROL_HEADER_BYTES], const uint8_t *payload, size_t bytes,
		 uint8_t ret[static CONTROL_SEAL_BYTES])
{
	struct hmac_sha256 hmac;
	uint8_t number_bytes[8];

	bytes_put(number_bytes, number, sizeof(number_bytes));
	hmac_sha256_init(&hmac, key, SHA256_BYTES);
	hmac_sha256_add(&hmac, number_bytes, sizeof(number_bytes));
	hmac_sha256_add(&hmac, header, CONTROL_HEADER_BYTES);
	hmac_sha256_add(&hmac, payload, bytes);
	hmac_sha256_end(&hmac, ret);
}

/* --------------------------------------------------------------------------------------------------------------- out */

static int make_room(struct control_channel *channel, size_t bytes)
{
	size_t held = channel->out_end - channel->out_begin, room = channel->out_room;
	uint8_t *larger;

	if (held + bytes > CONTROL_OUT_MAX)
		return -ENOBUFS;
	if (channel->out_end + bytes <= room)
		return 0;
	if (held + bytes <= room) {
		memmove(channel->out, channel->out + channel->out_begin, held);
	} else {
		room = held + bytes < 512 ? 512 : held + bytes;
		larger = sys_zalloc(room);
		if (!larger)
			return -ENOMEM;
		if (held)
			memcpy(larger, channel->out + channel->out_begin, held);
		sys_free(channel->out);
		channel->out = larger;
		channel->out_room = room;
	}
	channel->out_begin = 0;
	channel->out_end = held;
	return 0;
}

static int queue(struct control_channel *channel, const void *data, size_t bytes)
{
	int r = make_room(channel, bytes);

	if (r < 0)
		return r;
	if (bytes)
		memcpy(channel->out + channel->out_end, data, bytes);
	channel->out_end += bytes;
	return 0;
}

int control_channel_send(struct control_channel *channel, enum control_type type, const void *payload, size_t bytes)
{
	struct control_header header = { type, bytes };
	uint8_t head[CONTROL_HEADER_BYTES], tail[CONTROL_SEAL_BYTES];
	int r;

	if (!control_channel_proved(channel))
		return -ENOTCONN;
	r = make_room(channel, sizeof(head) + bytes + sizeof(tail));
	if (r < 0)
		return r;
	control_wire_header(CODEC_TO(head), false, &header);
	seal(channel->key_out, channel->number_out++, head, payload, bytes, tail);
	/* There is room for all three. */
	queue(channel, head, sizeof(head));
	queue(channel, payload, bytes);
	queue(channel, tail, sizeof(tail));
	return 0;
}

size_t control_channel_pending(const struct control_channel *channel, const uint8_t **ret_at)
{
	*ret_at = channel->out ? channel->out + channel->out_begin : NULL;
	return channel->out_end - channel->out_begin;
}

void control_channel_went(struct control_channel *channel, size_t bytes)
{
	channel->out_begin += bytes;
	if (channel->out_begin < channel->out_end)
		return;
	/* Most channels say little for hours. */
	sys_free(channel->out);
	channel->out = NULL;
	channel->out_room = channel->out_begin = channel->out_end = 0;
}

/* --------------------------------------------------------------------------------------------------------- handshake */

static int greeting_make(const char *name, struct control_hello *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (getrandom(ret->nonce, sizeof(ret->nonce), 0) != (ssize_t)sizeof(ret->nonce))
		return -EIO;
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	return 0;
}

int control_channel_init(struct control_channel *channel, enum control_side side, const struct control_secret *secret,
			 const char *name)
{
	struct control_hello hello;
	int r;

	memset(channel, 0, sizeof(*channel));
	channel->side = side;
	channel->secret = secret;
	channel->state = side == CONTROL_CLIENT ? CONTROL_AWAITS_CHALLENGE : CONTROL_AWAITS_HELLO;
	snprintf(channel->own_name, sizeof(channel->own_name), "%s", name);
	if (side == CONTROL_SERVER)
		return 0;
	r = greeting_make(name, &hello);
	if (r < 0)
		return r;
	control_wire_hello(CODEC_TO(channel->hello), &hello);
	return queue(channel, channel->hello, sizeof(channel->hello));
}

void control_channel_fini(struct control_channel *channel)
{
	sys_free(channel->payload);
	sys_free(channel->out);
	memset(channel, 0, sizeof(*channel));
	__asm__ __volatile__("" : : "r"(channel) : "memory"); /* the keys */
	channel->state = CONTROL_DEAD;
}

bool control_channel_proved(const struct control_channel *channel)
{
	return channel->state >= CONTROL_AWAITS_HEADER && channel->state < CONTROL_DEAD;
}

static void begin_frames(struct control_channel *channel)
{
	digest(channel, frames_label[channel->side], true, channel->key_out);
	digest(channel, frames_label[other(channel->side)], true, channel->key_in);
	channel->state = CONTROL_AWAITS_HEADER;
}

/* Server. */
static int hello_came(struct control_channel *channel)
{
	struct control_challenge challenge = { .status = CONTROL_STATUS_OK };
	struct control_hello hello;
	struct codec *codec = CODEC_FROM(channel->unit, CONTROL_HELLO_BYTES);
	int r = control_wire_hello(codec, &hello), q;

	if (r == -EPROTO)
		challenge.status = CONTROL_STATUS_VERSION;
	else if (r < 0)
		return die(channel, EBADMSG, "it does not speak this protocol");
	else
		memcpy(channel->peer_name, hello.name, sizeof(channel->peer_name));
	if (greeting_make(channel->own_name, &challenge.hello) < 0)
		return die(channel, EIO, "the kernel gives no random bytes");
	memcpy(channel->hello, channel->unit, sizeof(channel->hello));
	control_wire_challenge(CODEC_TO(channel->challenge), &challenge);
	q = queue(channel, channel->challenge, sizeof(channel->challenge));
	if (q < 0)
		return die(channel, -q, "no memory for its answer");
	if (r < 0)
		return die(channel, EPROTO, "it speaks version %u of this protocol, not %u", codec->version,
			   CONTROL_VERSION);
	channel->state = CONTROL_AWAITS_PROOF;
	return 0;
}

/* Client. It proves itself first: whoever is only curious gets nothing that depends on the secret. */
static int challenge_came(struct control_channel *channel)
{
	struct control_challenge challenge;
	struct codec *codec = CODEC_FROM(channel->unit, CONTROL_CHALLENGE_BYTES);
	int r = control_wire_challenge(codec, &challenge);

	if (r == -EPROTO)
		return die(channel, EPROTO, "it speaks version %u of the control protocol, not %u", codec->version,
			   CONTROL_VERSION);
	if (r < 0)
		return die(channel, EBADMSG, "it is no tributaryd");
	if (challenge.status == CONTROL_STATUS_VERSION)
		return die(channel, EPROTO, "it does not speak version %u of the control protocol", CONTROL_VERSION);
	memcpy(channel->peer_name, challenge.hello.name, sizeof(channel->peer_name));
	memcpy(channel->challenge, channel->unit, sizeof(channel->challenge));
	digest(channel, proof_label[CONTROL_CLIENT], false, channel->proof);
	r = queue(channel, channel->proof, sizeof(channel->proof));
	if (r < 0)
		return die(channel, -r, "no memory for the proof");
	channel->state = CONTROL_AWAITS_WELCOME;
	return 0;
}

/* Server. */
static int proof_came(struct control_channel *channel)
{
	struct control_welcome welcome = { .status = CONTROL_STATUS_OK };
	uint8_t expected[SHA256_BYTES], bytes[CONTROL_WELCOME_BYTES];
	bool right;
	int r;

	digest(channel, proof_label[CONTROL_CLIENT], false, expected);
	right = sha256_equal(expected, channel->unit);
	memcpy(channel->proof, channel->unit, sizeof(channel->proof));
	if (right)
		digest(channel, proof_label[CONTROL_SERVER], true, welcome.proof);
	else
		welcome.status = CONTROL_STATUS_SECRET;
	control_wire_welcome(CODEC_TO(bytes), &welcome);
	r = queue(channel, bytes, sizeof(bytes));
	if (r < 0)
		return die(channel, -r, "no memory for its answer");
	if (!right)
		return die(channel, EACCES, "it has another secret");
	begin_frames(channel);
	return 0;
}

/* Client. */
static int welcome_came(struct control_channel *channel)
{
	struct control_welcome welcome;
	uint8_t expected[SHA256_BYTES];

	if (control_wire_welcome(CODEC_FROM(channel->unit, CONTROL_WELCOME_BYTES), &welcome) < 0)
		return die(channel, EBADMSG, "it breaks the protocol");
	if (welcome.status == CONTROL_STATUS_SECRET)
		return die(channel, EACCES, "it has another secret");
	digest(channel, proof_label[CONTROL_SERVER], true, expected);
	if (!sha256_equal(expected, welcome.proof))
		return die(channel, EACCES, "it does not prove that it has the secret");
	begin_frames(channel);
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ frames */

static int header_came(struct control_channel *channel)
{
	if (control_wire_header(CODEC_FROM(channel->unit, CONTROL_HEADER_BYTES), channel->side == CONTROL_SERVER,
				&channel->header) < 0)
		return die(channel, EBADMSG, "it breaks the protocol");
	channel->payload = sys_zalloc(channel->header.payload_bytes + CONTROL_SEAL_BYTES);
	if (!channel->payload)
		return die(channel, ENOMEM, "no memory for a frame of %zu bytes", channel->header.payload_bytes);
	channel->state = CONTROL_AWAITS_PAYLOAD;
	return 0;
}

static int payload_came(struct control_channel *channel)
{
	size_t bytes = channel->header.payload_bytes;
	uint8_t expected[CONTROL_SEAL_BYTES];

	seal(channel->key_in, channel->number_in++, channel->unit, channel->payload, bytes, expected);
	if (!sha256_equal(expected, channel->payload + bytes))
		return die(channel, EBADMSG, "a frame of it has a wrong seal");
	channel->state = CONTROL_HAS_FRAME;
	return 0;
}

static const struct {
	size_t bytes; /* 0: the payload's, or nothing is wanted */
	int (*came)(struct control_channel *channel);
} steps[CONTROL_CHANNEL_STATE_COUNT] = {
	[CONTROL_AWAITS_HELLO] = { CONTROL_HELLO_BYTES, hello_came },
	[CONTROL_AWAITS_CHALLENGE] = { CONTROL_CHALLENGE_BYTES, challenge_came },
	[CONTROL_AWAITS_PROOF] = { CONTROL_PROOF_BYTES, proof_came },
	[CONTROL_AWAITS_WELCOME] = { CONTROL_WELCOME_BYTES, welcome_came },
	[CONTROL_AWAITS_HEADER] = { CONTROL_HEADER_BYTES, header_came },
	[CONTROL_AWAITS_PAYLOAD] = { 0, payload_came },
};

static size_t unit_bytes(const struct control_channel *channel)
{
	if (channel->state == CONTROL_AWAITS_PAYLOAD)
		return channel->header.payload_bytes + CONTROL_SEAL_BYTES;
	return steps[channel->state].bytes;
}

size_t control_channel_wants(struct control_channel *channel, uint8_t **ret_at)
{
	uint8_t *base = channel->state == CONTROL_AWAITS_PAYLOAD ? channel->payload : channel->unit;

	*ret_at = base + channel->in_count;
	return unit_bytes(channel) ? unit_bytes(channel) - channel->in_count : 0;
}

int control_channel_came(struct control_channel *channel, size_t bytes)
{
	channel->in_count += bytes;
	if (channel->in_count < unit_bytes(channel))
		return 0;
	channel->in_count = 0;
	return steps[channel->state].came(channel);
}

const struct control_header *control_channel_frame(const struct control_channel *channel, const uint8_t **ret_payload)
{
	if (channel->state != CONTROL_HAS_FRAME)
		return NULL;
	*ret_payload = channel->payload;
	return &channel->header;
}

void control_channel_take(struct control_channel *channel)
{
	if (channel->state != CONTROL_HAS_FRAME)
		return;
	sys_free(channel->payload);
	channel->payload = NULL;
	channel->state = CONTROL_AWAITS_HEADER;
}

/* ------------------------------------------------------------------------------------------------------------ socket */

static int move_out(struct control_channel *channel, int fd)
{
	const uint8_t *at;
	size_t bytes;

	while ((bytes = control_channel_pending(channel, &at)) != 0) {
		ssize_t sent = sys_send(fd, at, bytes);

		if (sent == -EAGAIN)
			return 0;
		if (sent == -EINTR)
			continue;
		if (sent < 0)
			return die(channel, (int)-sent, "the connection broke: %s", strerror((int)-sent));
		control_channel_went(channel, (size_t)sent);
	}
	return 0;
}

static int move_in(struct control_channel *channel, int fd)
{
	uint8_t *at;
	size_t bytes;

	while ((bytes = control_channel_wants(channel, &at)) != 0) {
		ssize_t got = sys_recv(fd, at, bytes, MSG_DONTWAIT);
		int r;

		if (got == -EAGAIN)
			return 0;
		if (got == -EINTR)
			continue;
		if (got < 0)
			return die(channel, (int)-got, "the connection broke: %s", strerror((int)-got));
		if (!got)
			return die(channel, EPIPE, "it closed the connection");
		r = control_channel_came(channel, (size_t)got);
		if (r < 0)
			return r;
	}
	return 0;
}

int control_channel_move(struct control_channel *channel, int fd)
{
	int r = move_in(channel, fd), w = move_out(channel, fd);

	/* What the last message says (another secret) goes out even when nothing more may come in. */
	return r < 0 ? r : w;
}
