/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/control/channel.h"

#include "control_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

static const char *const secret_text = "correct horse battery staple";

static void both_prove_themselves_and_know_each_others_names(void **state)
{
	struct control_secret secret = control_pair_secret(secret_text);
	struct control_channel client, server;

	(void)state;
	control_pair_prove(&client, &server, &secret);
	assert_string_equal(client.peer_name, "there");
	assert_string_equal(server.peer_name, "here");
	assert_null(client.payload);
	assert_null(server.payload);
	assert_null(server.out); /* nothing is held that is not needed */
	control_channel_fini(&client);
	control_channel_fini(&server);
}

static void another_secret_is_refused_and_said(void **state)
{
	struct control_secret secret = control_pair_secret(secret_text), other = control_pair_secret(secret_text);
	struct control_channel client, server;

	(void)state;
	other.bytes[other.count - 1] ^= 1;
	assert_int_equal(control_channel_init(&client, CONTROL_CLIENT, &secret, "here"), 0);
	assert_int_equal(control_channel_init(&server, CONTROL_SERVER, &other, "there"), 0);
	control_pair_run(&client, &server);
	assert_int_equal(client.state, CONTROL_DEAD);
	assert_int_equal(server.state, CONTROL_DEAD);
	assert_string_equal(client.why, "it has another secret");
	assert_string_equal(server.why, "it has another secret");
	assert_int_equal(control_channel_send(&client, CONTROL_ASK, NULL, 0), -ENOTCONN);
	control_channel_fini(&client);
	control_channel_fini(&server);
}

/* Runs a handshake in which one bit of what one side sends arrives wrong. True: both ends think that all is well. */
static bool handshake_with_wrong_bit(const struct control_secret *secret, bool from_client, size_t wrong_bit)
{
	struct control_channel ends[2];
	size_t sent[2] = { 0, 0 };
	bool moved = true, both;

	assert_int_equal(control_channel_init(&ends[0], CONTROL_CLIENT, secret, "here"), 0);
	assert_int_equal(control_channel_init(&ends[1], CONTROL_SERVER, secret, "there"), 0);
	while (moved) {
		moved = false;
		for (unsigned i = 0; i < 2; i++) {
			struct control_channel *from = &ends[i], *to = &ends[1 - i];
			const uint8_t *out;
			uint8_t *in;

			if (!control_channel_pending(from, &out) || !control_channel_wants(to, &in))
				continue;
			*in = *out;
			if ((i == 0) == from_client && sent[i] == wrong_bit / 8)
				*in ^= (uint8_t)(1 << wrong_bit % 8);
			sent[i]++;
			control_channel_went(from, 1);
			control_channel_came(to, 1);
			moved = true;
		}
	}
	both = control_channel_proved(&ends[0]) && control_channel_proved(&ends[1]);
	control_channel_fini(&ends[0]);
	control_channel_fini(&ends[1]);
	return both;
}

static void no_bit_of_the_handshake_can_be_changed(void **state)
{
	struct control_secret secret = control_pair_secret(secret_text);

	(void)state;
	for (size_t bit = 0; bit < 8 * (CONTROL_HELLO_BYTES + CONTROL_PROOF_BYTES); bit++)
		assert_false(handshake_with_wrong_bit(&secret, true, bit));
	for (size_t bit = 0; bit < 8 * (CONTROL_CHALLENGE_BYTES + CONTROL_WELCOME_BYTES); bit++)
		assert_false(handshake_with_wrong_bit(&secret, false, bit));
	assert_true(handshake_with_wrong_bit(&secret, true, SIZE_MAX)); /* and without a wrong bit it works */
}

/* What was recorded of one client proves nothing to the server's next connection. */
static void a_recorded_handshake_proves_nothing(void **state)
{
	struct control_secret secret = control_pair_secret(secret_text);
	struct control_channel client, server, again;
	uint8_t record[CONTROL_HELLO_BYTES + CONTROL_PROOF_BYTES], *in;
	size_t count = 0;
	int r = 0;

	(void)state;
	assert_int_equal(control_channel_init(&client, CONTROL_CLIENT, &secret, "here"), 0);
	assert_int_equal(control_channel_init(&server, CONTROL_SERVER, &secret, "there"), 0);
	while (!control_channel_proved(&server)) {
		const uint8_t *out;

		if (control_channel_pending(&client, &out) && count < sizeof(record))
			record[count++] = *out;
		(void)control_pair_byte(&client, &server, &r);
		while (control_pair_byte(&server, &client, &r))
			;
	}
	assert_int_equal(count, sizeof(record));
	assert_int_equal(control_channel_init(&again, CONTROL_SERVER, &secret, "there"), 0);
	for (size_t i = 0; i < count; i++) {
		assert_true(control_channel_wants(&again, &in) > 0);
		*in = record[i];
		r = control_channel_came(&again, 1);
	}
	assert_int_equal(r, -EACCES);
	control_channel_fini(&client);
	control_channel_fini(&server);
	control_channel_fini(&again);
}

/* Nor can a server be made to answer its own challenge: the two sides prove different things. */
static void a_reflected_challenge_proves_nothing(void **state)
{
	struct control_secret secret = control_pair_secret(secret_text);
	struct control_channel client;
	const uint8_t *out;
	uint8_t *in, hello[CONTROL_HELLO_BYTES], proof[CONTROL_WELCOME_BYTES] = { 0 };
	size_t bytes;

	(void)state;
	assert_int_equal(control_channel_init(&client, CONTROL_CLIENT, &secret, "here"), 0);
	assert_int_equal(control_channel_pending(&client, &out), sizeof(hello));
	memcpy(hello, out, sizeof(hello));
	control_channel_went(&client, sizeof(hello));
	bytes = control_channel_wants(&client, &in);
	assert_int_equal(bytes, sizeof(hello));
	memcpy(in, hello, bytes); /* its own greeting as the challenge */
	assert_int_equal(control_channel_came(&client, bytes), 0);
	assert_int_equal(control_channel_pending(&client, &out), CONTROL_PROOF_BYTES);
	memcpy(proof + 8, out, CONTROL_PROOF_BYTES); /* its own proof as the server's */
	bytes = control_channel_wants(&client, &in);
	assert_int_equal(bytes, sizeof(proof));
	memcpy(in, proof, bytes);
	assert_int_equal(control_channel_came(&client, bytes), -EACCES);
	control_channel_fini(&client);
}

static void another_version_is_named_to_both(void **state)
{
	struct control_secret secret = control_pair_secret(secret_text);
	struct control_channel client, server;
	int r = 0;

	(void)state;
	assert_int_equal(control_channel_init(&client, CONTROL_CLIENT, &secret, "here"), 0);
	assert_int_equal(control_channel_init(&server, CONTROL_SERVER, &secret, "there"), 0);
	client.out[8] = 7; /* the version */
	while (control_pair_byte(&client, &server, &r))
		;
	assert_int_equal(r, -EPROTO);
	assert_non_null(strstr(server.why, "version 7"));
	while (control_pair_byte(&server, &client, &r))
		;
	assert_int_equal(r, -EPROTO);
	assert_non_null(strstr(client.why, "version 1"));
	control_channel_fini(&client);
	control_channel_fini(&server);
}

static void frames_arrive_whole_and_in_order(void **state)
{
	struct control_secret secret = control_pair_secret(secret_text);
	struct control_channel client, server;
	uint8_t sentence[CONTROL_SENTENCE_BYTES];

	(void)state;
	control_pair_prove(&client, &server, &secret);
	assert_int_equal(control_channel_send(&client, CONTROL_ASK, NULL, 0), 0);
	assert_int_equal(control_channel_send(&client, CONTROL_HEARTBEAT, NULL, 0), 0);
	for (unsigned i = 0; i < 2; i++) {
		const struct control_header *header;
		const uint8_t *payload;

		control_pair_run(&client, &server);
		header = control_channel_frame(&server, &payload);
		assert_non_null(header);
		assert_int_equal(header->type, i ? CONTROL_HEARTBEAT : CONTROL_ASK);
		control_channel_take(&server);
	}
	control_wire_sentence(CODEC_TO(sentence), (char[CONTROL_SENTENCE_BYTES]){ "no room" });
	assert_int_equal(control_channel_send(&server, CONTROL_REFUSAL, sentence, CONTROL_SENTENCE_BYTES), 0);
	control_pair_run(&server, &client);
	assert_int_equal(client.state, CONTROL_HAS_FRAME);
	assert_string_equal((char *)client.payload, "no room");
	control_channel_fini(&client);
	control_channel_fini(&server);
}

/* Moves one sealed frame by hand, so that it can be bent. */
static size_t record_frame(struct control_channel *from, uint8_t *frame, size_t room)
{
	const uint8_t *out;
	size_t bytes = control_channel_pending(from, &out);

	assert_true(bytes <= room);
	memcpy(frame, out, bytes);
	control_channel_went(from, bytes);
	return bytes;
}

static int play_frame(struct control_channel *to, const uint8_t *frame, size_t bytes)
{
	int r = 0;

	for (size_t i = 0; i < bytes && r == 0; i++) {
		uint8_t *in;

		if (!control_channel_wants(to, &in))
			return -ENOBUFS;
		*in = frame[i];
		r = control_channel_came(to, 1);
	}
	return r;
}

static void no_frame_can_be_changed_repeated_or_left_out(void **state)
{
	struct control_secret secret = control_pair_secret(secret_text);
	uint8_t first[64], second[64];

	(void)state;
	for (size_t bit = 0; bit < 8 * (CONTROL_HEADER_BYTES + CONTROL_SEAL_BYTES); bit++) {
		struct control_channel client, server;
		size_t bytes;
		int r;

		control_pair_prove(&client, &server, &secret);
		control_channel_send(&client, CONTROL_ASK, NULL, 0);
		bytes = record_frame(&client, first, sizeof(first));
		first[bit / 8] ^= (uint8_t)(1 << bit % 8);
		r = play_frame(&server, first, bytes);
		assert_true(r < 0 || server.state != CONTROL_HAS_FRAME);
		control_channel_fini(&client);
		control_channel_fini(&server);
	}
	for (unsigned left_out = 0; left_out < 2; left_out++) {
		struct control_channel client, server;
		size_t bytes;

		control_pair_prove(&client, &server, &secret);
		control_channel_send(&client, CONTROL_ASK, NULL, 0);
		bytes = record_frame(&client, first, sizeof(first));
		control_channel_send(&client, CONTROL_ASK, NULL, 0);
		assert_int_equal(record_frame(&client, second, sizeof(second)), bytes);
		if (!left_out) {
			assert_int_equal(play_frame(&server, first, bytes), 0);
			control_channel_take(&server);
		}
		/* The first again, or the second without the first. */
		assert_int_equal(play_frame(&server, left_out ? second : first, bytes), -EBADMSG);
		assert_non_null(strstr(server.why, "seal"));
		control_channel_fini(&client);
		control_channel_fini(&server);
	}
}

/* A frame of one's own, said back, is no frame of the peer. */
static void a_reflected_frame_is_refused(void **state)
{
	struct control_secret secret = control_pair_secret(secret_text);
	struct control_channel client, server;
	uint8_t frame[64];
	size_t bytes;

	(void)state;
	control_pair_prove(&client, &server, &secret);
	control_channel_send(&client, CONTROL_HEARTBEAT, NULL, 0);
	bytes = record_frame(&client, frame, sizeof(frame));
	assert_int_equal(play_frame(&client, frame, bytes), -EBADMSG);
	control_channel_fini(&client);
	control_channel_fini(&server);
}

static void a_length_out_of_bounds_takes_no_memory(void **state)
{
	static const uint8_t headers[][CONTROL_HEADER_BYTES] = {
		{ 0xff, 0xff, 0xff, 0xff, CONTROL_REQUEST, 0, 0, 0 }, /* too long */
		{ 1, 0, 0, 0, CONTROL_ASK, 0, 0, 0 },                 /* should be empty */
		{ 0, 0, 0, 0, CONTROL_REQUEST, 0, 0, 0 },             /* should not */
		{ 0, 0, 0, 0, CONTROL_READY, 0, 0, 0 },               /* the server's to say */
		{ 0, 0, 0, 0, 200, 0, 0, 0 },                         /* no type */
		{ 0, 0, 0, 0, CONTROL_NONE, 0, 0, 0 },
	};
	struct control_secret secret = control_pair_secret(secret_text);

	(void)state;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		struct control_channel client, server;

		control_pair_prove(&client, &server, &secret);
		assert_int_equal(play_frame(&server, headers[i], sizeof(headers[i])), -EBADMSG);
		assert_null(server.payload);
		control_channel_fini(&client);
		control_channel_fini(&server);
	}
}

static void who_does_not_read_is_not_written_to_without_end(void **state)
{
	struct control_secret secret = control_pair_secret(secret_text);
	struct control_channel client, server;
	unsigned sent = 0;
	int r = 0;

	(void)state;
	control_pair_prove(&client, &server, &secret);
	while (r == 0 && sent < 100000) {
		r = control_channel_send(&server, CONTROL_HEARTBEAT, NULL, 0);
		sent++;
	}
	assert_int_equal(r, -ENOBUFS);
	assert_true(server.out_room <= CONTROL_OUT_MAX);
	control_channel_fini(&client);
	control_channel_fini(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_prove_themselves_and_know_each_others_names),
		cmocka_unit_test(another_secret_is_refused_and_said),
		cmocka_unit_test(no_bit_of_the_handshake_can_be_changed),
		cmocka_unit_test(a_recorded_handshake_proves_nothing),
		cmocka_unit_test(a_reflected_challenge_proves_nothing),
		cmocka_unit_test(another_version_is_named_to_both),
		cmocka_unit_test(frames_arrive_whole_and_in_order),
		cmocka_unit_test(no_frame_can_be_changed_repeated_or_left_out),
		cmocka_unit_test(a_reflected_frame_is_refused),
		cmocka_unit_test(a_length_out_of_bounds_takes_no_memory),
		cmocka_unit_test(who_does_not_read_is_not_written_to_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
