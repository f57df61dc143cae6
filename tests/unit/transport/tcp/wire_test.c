/* SPDX-License-Identifier: Apache-2.0 */
/* Every structure survives the wire, and a decoder takes nothing that an encoder does not make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "transport/tcp/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static struct tcp_wire_handle some_handle(void)
{
	struct tcp_wire_handle handle = { .address = { .family = 4,
						       .speed = TCP_SPEED_BELOW_200,
						       .prefix_bits = 24,
						       .port = 4711,
						       .tied_port = 4712,
						       .bytes = { 10, 1, 2, 3 } },
					  .rail_count = 2,
					  .listener_id = 77,
					  .host_id = 0x0123456789abcdefULL,
					  .host = "node-a" };

	memset(handle.secret, 0xa5, sizeof(handle.secret));
	return handle;
}

static void a_handle_survives(void **state)
{
	struct tcp_wire_handle in = some_handle(), out;
	uint8_t bytes[TCP_WIRE_HANDLE_BYTES];

	(void)state;
	memset(&out, 0, sizeof(out));
	memset(bytes, 0xff, sizeof(bytes));
	tcp_wire_handle(CODEC_TO(bytes), &in);
	assert_int_equal(tcp_wire_get_cookie(bytes), 0);
	assert_int_equal(tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &out), 0);
	assert_memory_equal(&in.address, &out.address, sizeof(in.address));
	assert_int_equal(out.rail_count, 2);
	assert_int_equal(out.listener_id, 77);
	assert_true(out.host_id == in.host_id);
	assert_memory_equal(in.secret, out.secret, sizeof(in.secret));
	assert_string_equal(out.host, "node-a");
	tcp_wire_put_cookie(bytes, 0x1122334455667788ULL);
	assert_true(tcp_wire_get_cookie(bytes) == 0x1122334455667788ULL);
	assert_int_equal(tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &out),
			 0); /* the cookie is no part of it */
}

static void every_flipped_bit_of_a_handle_is_refused(void **state)
{
	struct tcp_wire_handle in = some_handle(), out;
	uint8_t bytes[TCP_WIRE_HANDLE_BYTES];

	(void)state;
	for (size_t bit = 0; bit < 120 * 8; bit++) {
		tcp_wire_handle(CODEC_TO(bytes), &in);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_true(tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &out) < 0);
	}
}

static struct tcp_wire_address some_way(unsigned index, uint8_t family)
{
	struct tcp_wire_address way = { .family = family,
					.speed = (uint8_t)(index % (TCP_SPEED_MOST + 1)),
					.prefix_bits = family == 4 ? (uint8_t)(1 + index * 5) : 64,
					.port = 4711 };

	memset(way.bytes, (int)(200 + index), family == 4 ? 4 : 16);
	return way;
}

static void add_and_compare(struct tcp_wire_handle *in, const struct tcp_wire_address *ways, unsigned count,
			    unsigned fits)
{
	uint8_t bytes[TCP_WIRE_HANDLE_BYTES];
	struct tcp_wire_handle out;

	memset(&out, 0xaa, sizeof(out)); /* nothing of it may show */
	memset(&out.address, 0, sizeof(out.address));
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(tcp_wire_add_way(in, &ways[i]), i < fits);
	tcp_wire_handle(CODEC_TO(bytes), in);
	assert_int_equal(tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &out), 0);
	assert_int_equal(out.way_count, fits);
	assert_memory_equal(&in->address, &out.address, sizeof(in->address));
	assert_memory_equal(in->ways, out.ways, out.way_count * sizeof(in->ways[0]));
	assert_memory_equal(in->secret, out.secret, sizeof(in->secret));
}

/* IPv4 in front, whatever comes first. */
static void a_handle_has_more_ways_as_far_as_they_fit(void **state)
{
	(void)state;
	for (unsigned count_4 = 0; count_4 < TCP_WIRE_HANDLE_WAYS_MAX; count_4++)
		for (unsigned first = 0; first < 2; first++) {
			const bool six_fits = count_4 < 4;
			struct tcp_wire_address ways[TCP_WIRE_HANDLE_WAYS_MAX];
			struct tcp_wire_handle in = some_handle();

			for (unsigned i = 0; i < count_4; i++)
				ways[first + i] = some_way(i, 4);
			ways[first ? 0 : count_4] = some_way(9, 6);
			if (six_fits)
				add_and_compare(&in, ways, count_4 + 1, count_4 + 1);
			else if (!first)
				add_and_compare(&in, ways, count_4 + 1, count_4);
			for (unsigned i = 0; i < in.way_count; i++)
				assert_int_equal(in.ways[i].family, i < count_4 ? 4 : 6);
		}
}

static struct tcp_wire_address way_6(const char *text, uint16_t tied_port)
{
	struct tcp_wire_address way = some_way(1, 6);

	assert_int_equal(inet_pton(AF_INET6, text, way.bytes), 1);
	way.tied_port = tied_port;
	return way;
}

/* Subnets of one site; addresses that the kernel makes; such as have nothing in common. */
static void ways_of_ipv6_are_short_where_they_are_alike(void **state)
{
	static const struct {
		const char *texts[7];
		unsigned count, fits[2]; /* behind an IPv4 address, or behind the first one again */
	} cases[] = {
		{ { "fd00:1::1", "fd00:2::1", "fd00:3::15", "fd00:4::1:2", "fd00::1", "fd00::" }, 6, { 6, 6 } },
		{ { "2001:db8:0:1:216:3eff:fe11:1234", "2001:db8:0:2:216:3eff:fe11:1235",
		    "2001:db8:0:3:216:3eff:fe11:1236" },
		  3,
		  { 2, 3 } },
		{ { "3b1d:9b6c:2f4e:d1a7:58c3:e90f:7a62:b84d", "c6e2:45f9:8a13:7d0b:be94:162c:f358:9ad7" },
		  2,
		  { 1, 2 } },
		{ { "::", "::1", "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" }, 4, { 4, 4 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (unsigned of_6 = 0; of_6 < 2; of_6++) {
			struct tcp_wire_handle in = some_handle();
			struct tcp_wire_address ways[7];

			for (unsigned k = 0; k < cases[i].count; k++)
				ways[k] = way_6(cases[i].texts[k], k % 2 ? 4712 : 0);
			if (of_6) {
				in.address = ways[0];
				in.address.tied_port = 0;
			}
			add_and_compare(&in, ways, cases[i].count, cases[i].fits[of_6]);
		}
}

/* Random ones, with bytes that are often zero or as before, in any number. */
static void whatever_was_added_arrives(void **state)
{
	uint64_t random = 1;

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		struct tcp_wire_handle in = some_handle(), out;
		struct tcp_wire_address way = some_way(1, 6);
		uint8_t bytes[TCP_WIRE_HANDLE_BYTES];

		for (unsigned i = 0; i < 8; i++) {
			way.family = random_below(&random, 3) ? 6 : 4;
			way.tied_port = random_below(&random, 2) ? 4712 : 0;
			for (unsigned k = 0; k < 16; k++)
				if (!random_below(&random, 3))
					way.bytes[k] = random_below(&random, 2) ? (uint8_t)random_below(&random, 256)
										: 0;
			if (way.family == 4)
				memset(way.bytes + 4, 0, 12);
			(void)tcp_wire_add_way(&in, &way);
		}
		tcp_wire_handle(CODEC_TO(bytes), &in);
		assert_int_equal(tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &out), 0);
		assert_int_equal(out.way_count, in.way_count);
		assert_true(in.way_count > 0);
		for (unsigned i = 0; i < in.way_count; i++) {
			assert_int_equal(in.ways[i].family, out.ways[i].family);
			assert_int_equal(in.ways[i].tied_port, out.ways[i].tied_port);
			assert_memory_equal(in.ways[i].bytes, out.ways[i].bytes, 16);
		}
	}
}

static void prefixes_of_other_ways_are_rounded(void **state)
{
	static const struct {
		uint8_t family, in, out;
	} cases[] = { { 4, 0, 32 },  { 4, 1, 1 },   { 4, 32, 32 },  { 6, 0, 48 },
		      { 6, 49, 56 }, { 6, 64, 64 }, { 6, 65, 128 }, { 6, 128, 128 } };
	uint8_t bytes[TCP_WIRE_HANDLE_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tcp_wire_handle in = some_handle(), out;

		in.way_count = 1;
		in.ways[0] = some_way(1, cases[i].family);
		in.ways[0].prefix_bits = cases[i].in;
		tcp_wire_handle(CODEC_TO(bytes), &in);
		assert_int_equal(tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &out), 0);
		assert_int_equal(out.ways[0].prefix_bits, cases[i].out);
	}
}

/* Every byte of HELLO and WELCOME, the nonces, the direction and the secret count. */
static void a_proof_is_of_all_that_was_said(void **state)
{
	static const size_t counts[] = { TCP_WIRE_HELLO_BYTES, TCP_WIRE_WELCOME_BYTES };
	uint8_t secret[TCP_WIRE_SECRET_BYTES] = { 1, 2 }, bytes[TCP_WIRE_WELCOME_BYTES];
	struct tcp_wire_nonces nonces = { .connecting = { 3 }, .accepting = { 4 } };

	(void)state;
	for (enum tcp_wire_direction way = TCP_WIRE_CONNECTING; way <= TCP_WIRE_ACCEPTING; way++) {
		const enum tcp_wire_direction other = way == TCP_WIRE_CONNECTING ? TCP_WIRE_ACCEPTING
										 : TCP_WIRE_CONNECTING;

		memset(bytes, 7, sizeof(bytes));
		tcp_wire_prove(way, secret, &nonces, bytes, counts[way]);
		assert_true(tcp_wire_is_proven(way, secret, &nonces, bytes, counts[way]));
		assert_false(tcp_wire_is_proven(other, secret, &nonces, bytes, counts[way]));
		for (size_t i = 0; i < counts[way]; i++) {
			bytes[i] ^= 0x10;
			assert_false(tcp_wire_is_proven(way, secret, &nonces, bytes, counts[way]));
			bytes[i] ^= 0x10;
		}
		for (size_t i = 0; i < TCP_WIRE_NONCE_BYTES; i++) {
			uint8_t *const parts[] = { &nonces.connecting[i], &nonces.accepting[i], &secret[i] };

			for (unsigned k = 0; k < 3; k++) {
				*parts[k] ^= 1;
				assert_false(tcp_wire_is_proven(way, secret, &nonces, bytes, counts[way]));
				*parts[k] ^= 1;
			}
		}
	}
}

static void a_challenge_survives(void **state)
{
	struct tcp_wire_challenge in = { .nonce = { 1, 2, 3 } }, out;
	uint8_t bytes[TCP_WIRE_CHALLENGE_BYTES];
	struct codec *codec = CODEC_FROM(bytes, sizeof(bytes));

	(void)state;
	tcp_wire_challenge(CODEC_TO(bytes), &in);
	assert_int_equal(tcp_wire_challenge(CODEC_FROM(bytes, sizeof(bytes)), &out), 0);
	assert_memory_equal(&in, &out, sizeof(in));
	bytes[4]++;
	assert_int_equal(tcp_wire_challenge(codec, &out), -EPROTO);
	assert_int_equal(codec->version, TCP_WIRE_VERSION + 1);
}

static void another_version_is_told_from_garbage_and_names_its_host(void **state)
{
	struct tcp_wire_handle in = some_handle(), out;
	uint8_t bytes[TCP_WIRE_HANDLE_BYTES];
	char host[TCP_WIRE_HOST_BYTES];
	uint16_t version;

	(void)state;
	tcp_wire_handle(CODEC_TO(bytes), &in);
	bytes[4] = TCP_WIRE_VERSION + 1;
	assert_int_equal(tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &out), -EPROTO);
	tcp_wire_peek_host(bytes, host, &version);
	assert_int_equal(version, TCP_WIRE_VERSION + 1);
	assert_string_equal(host, "node-a");
	memset(bytes, 2, sizeof(bytes));
	assert_int_equal(tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &out), -EBADMSG);
	tcp_wire_peek_host(bytes, host, &version);
	assert_int_equal(version, 0);
	assert_string_equal(host, "?");
}

static void a_host_name_from_the_wire_is_fit_for_a_log(void **state)
{
	struct tcp_wire_handle in = some_handle(), out;
	uint8_t bytes[TCP_WIRE_HANDLE_BYTES];

	(void)state;
	memset(in.host, 'x', sizeof(in.host));
	in.host[0] = '\n';
	in.host[1] = 27;
	tcp_wire_handle(CODEC_TO(bytes), &in);
	assert_int_equal(tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &out), 0);
	assert_int_equal(strlen(out.host), TCP_WIRE_HANDLE_HOST_BYTES - 1);
	assert_memory_equal(out.host, "??xx", 4);
}

static void a_hello_survives_and_its_counts_are_bounded(void **state)
{
	struct tcp_wire_hello in = { .stream = 1,
				     .stream_count = 3,
				     .active_count = 2,
				     .listener_id = 9,
				     .epoch = 4,
				     .process_id = 1,
				     .nonce = { 5, 6 },
				     .connection_id = 99,
				     .eager_window_bytes = 65536,
				     .timeout_ms = 10000,
				     .host = "node-b" },
			      out;
	uint8_t bytes[TCP_WIRE_HELLO_BYTES];

	(void)state;
	memset(&out, 0, sizeof(out));
	tcp_wire_hello(CODEC_TO(bytes), &in);
	assert_int_equal(tcp_wire_hello(CODEC_FROM(bytes, TCP_WIRE_HELLO_BYTES), &out), 0);
	assert_memory_equal(&in, &out, sizeof(in));
	for (unsigned count = 0; count < 256; count++)
		for (unsigned stream = 0; stream < 20; stream++) {
			in.stream_count = (uint8_t)count;
			in.stream = (uint8_t)stream;
			in.active_count = 1;
			tcp_wire_hello(CODEC_TO(bytes), &in);
			assert_int_equal(tcp_wire_hello(CODEC_FROM(bytes, TCP_WIRE_HELLO_BYTES), &out) == 0,
					 count >= 1 && count <= TCP_WIRE_STREAMS_MAX && stream < count);
		}
}

static void a_welcome_survives_and_its_rails_are_bounded(void **state)
{
	struct tcp_wire_welcome in = { .status = TCP_WELCOME_OK,
				       .rail_count = TCP_WIRE_RAILS_MAX,
				       .own_count = TCP_WIRE_RAILS_MAX + 1,
				       .way_count = TCP_WIRE_WAYS_MAX,
				       .process_id = 4242,
				       .connection_id = 5,
				       .eager_window_bytes = 65536,
				       .host = "node-c" },
				out;
	uint8_t bytes[TCP_WIRE_WELCOME_BYTES];
	struct codec *codec = CODEC_FROM(bytes, TCP_WIRE_WELCOME_BYTES);

	(void)state;
	memset(&out, 0, sizeof(out));
	for (unsigned i = 0; i < TCP_WIRE_WAYS_MAX; i++)
		in.ways[i] = (struct tcp_wire_address){ .family = 6,
							.speed = (uint8_t)(i % 8),
							.prefix_bits = 64,
							.port = (uint16_t)(1000 + i),
							.tied_port = (uint16_t)(2000 + i),
							.bytes = { 0xfd, [15] = (uint8_t)i } };
	tcp_wire_welcome(CODEC_TO(bytes), &in);
	assert_int_equal(tcp_wire_welcome(CODEC_FROM(bytes, TCP_WIRE_WELCOME_BYTES), &out), 0);
	assert_memory_equal(&in, &out, sizeof(in));
	in.status = TCP_WELCOME_COUNT;
	tcp_wire_welcome(CODEC_TO(bytes), &in);
	assert_int_equal(tcp_wire_welcome(CODEC_FROM(bytes, TCP_WIRE_WELCOME_BYTES), &out), -EBADMSG);
	in.status = TCP_WELCOME_OK;
	tcp_wire_welcome(CODEC_TO(bytes), &in);
	bytes[4] = 9;
	assert_int_equal(tcp_wire_welcome(codec, &out), -EPROTO);
	assert_int_equal(codec->version, 9);
}

static void every_frame_survives(void **state)
{
	(void)state;
	for (unsigned type = 0; type < 256; type++) {
		bool from_receiver = type >= TCP_FRAME_GRANT && type <= TCP_FRAME_TRUNCATED;
		bool names_request = type == TCP_FRAME_RTS || type == TCP_FRAME_DATA;
		struct tcp_frame in = { .type = (uint8_t)type,
					.stream = (names_request ? TCP_WIRE_REQUESTS_MAX : TCP_WIRE_STREAMS_MAX) - 1,
					.epoch = 0xfffe,
					.message = 0xfffffff0,
					.value = 1ULL << 40 },
				 out;
		uint8_t bytes[TCP_WIRE_FRAME_BYTES];

		if (from_receiver)
			in.position = UINT64_MAX - 1;
		else
			in.tag = -7;
		if (type == TCP_FRAME_RTS)
			in.hosts = 16;
		if (type == TCP_FRAME_HEARTBEAT)
			in.tag = 1;
		if (type == TCP_FRAME_DATA || type == TCP_FRAME_EAGER || type == TCP_FRAME_RTS)
			in.payload_bytes = 1 << 30;
		tcp_wire_put_frame(&in, bytes);
		if (type == TCP_FRAME_NONE || type >= TCP_FRAME_TYPE_COUNT) {
			assert_int_equal(tcp_wire_get_frame(bytes, &out), -EBADMSG);
			continue;
		}
		assert_int_equal(tcp_wire_get_frame(bytes, &out), 0);
		/* Not as bytes: of those between fields nothing is said. */
		assert_true(out.type == in.type && out.stream == in.stream && out.hosts == in.hosts &&
			    out.epoch == in.epoch && out.message == in.message && out.value == in.value &&
			    out.position == in.position && out.payload_bytes == in.payload_bytes && out.tag == in.tag);
	}
}

static void sequence_numbers_are_found_from_their_low_half(void **state)
{
	static const int64_t distances[] = { 0, 1, -1, 256, -256, INT32_MAX, INT32_MIN };

	(void)state;
	for (uint64_t near = TCP_WIRE_FIRST_SEQUENCE; near < TCP_WIRE_FIRST_SEQUENCE + 600; near++)
		for (size_t i = 0; i < sizeof(distances) / sizeof(distances[0]); i++) {
			uint64_t sequence = near + (uint64_t)distances[i];

			assert_true(tcp_wire_sequence((uint32_t)sequence, near) == sequence);
		}
	assert_true((uint32_t)(TCP_WIRE_FIRST_SEQUENCE + 600) < 600); /* they have wrapped */
}

static void hosts_of_an_rts_are_rounded_down(void **state)
{
	static const uint8_t rounded[] = { 1, 1, 2, 3, 4, 4, 6, 6, 8, 8, 8, 8, 12, 12, 12, 12, 16, 16 };
	uint8_t bytes[TCP_WIRE_FRAME_BYTES];

	(void)state;
	for (uint8_t hosts = 0; hosts < sizeof(rounded); hosts++) {
		struct tcp_frame frame = { .type = TCP_FRAME_RTS, .request = 17, .hosts = hosts }, out;

		tcp_wire_put_frame(&frame, bytes);
		assert_int_equal(tcp_wire_get_frame(bytes, &out), 0);
		assert_int_equal(out.hosts, rounded[hosts]);
		assert_int_equal(out.request, 17);
	}
}

static void a_port_survives(void **state)
{
	static const struct tcp_wire_port ports[] = {
		{ 0 },
		{ .number = UINT32_MAX, .competes = true, .most = 32, .kept = 1, .lost = 2, .each = 3 },
		{ .number = 1,
		  .full = true,
		  .measured = true,
		  .kept = TCP_WIRE_PORT_KEPT_MOST,
		  .each = TCP_WIRE_PORT_RATE_MOST },
		{ .turn = true, .most = 1, .lost = TCP_WIRE_PORT_RATE_MOST },
	};
	struct tcp_frame frame = { .type = TCP_FRAME_PORT, .position = 7 };
	uint8_t bytes[TCP_WIRE_FRAME_BYTES];

	(void)state;
	for (unsigned i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		struct tcp_wire_port out;

		tcp_wire_put_port(&ports[i], &frame);
		tcp_wire_put_frame(&frame, bytes);
		memset(&frame, 0, sizeof(frame));
		assert_int_equal(tcp_wire_get_frame(bytes, &frame), 0);
		tcp_wire_get_port(&frame, &out);
		assert_true(out.number == ports[i].number && out.competes == ports[i].competes &&
			    out.full == ports[i].full && out.turn == ports[i].turn && out.most == ports[i].most &&
			    out.measured == ports[i].measured && out.kept == ports[i].kept &&
			    out.lost == ports[i].lost && out.each == ports[i].each);
	}
	for (unsigned bit = 62; bit < 64; bit++) { /* reserved */
		frame.value = UINT64_C(1) << bit;
		tcp_wire_put_frame(&frame, bytes);
		assert_int_equal(tcp_wire_get_frame(bytes, &frame), -EBADMSG);
	}
	frame = (struct tcp_frame){ .type = TCP_FRAME_HEARTBEAT, .tag = 2 };
	tcp_wire_put_frame(&frame, bytes);
	assert_int_equal(tcp_wire_get_frame(bytes, &frame), -EBADMSG);
}

static void payload_belongs_to_eager_and_data_alone(void **state)
{
	struct tcp_frame frame = { .type = TCP_FRAME_RTS, .value = 9, .unscheduled_bytes = 10 }, out;
	uint8_t bytes[TCP_WIRE_FRAME_BYTES];

	(void)state;
	tcp_wire_put_frame(&frame, bytes);
	assert_int_equal(tcp_wire_get_frame(bytes, &out), -EBADMSG); /* more than there is */
	frame = (struct tcp_frame){ .type = TCP_FRAME_HEARTBEAT, .payload_bytes = 1 };
	tcp_wire_put_frame(&frame, bytes);
	assert_int_equal(tcp_wire_get_frame(bytes, &out), -EBADMSG);
	frame = (struct tcp_frame){ .type = TCP_FRAME_DATA };
	tcp_wire_put_frame(&frame, bytes);
	assert_int_equal(tcp_wire_get_frame(bytes, &out), -EBADMSG);
	frame = (struct tcp_frame){ .type = TCP_FRAME_DATA, .payload_bytes = 1, .request = TCP_WIRE_REQUESTS_MAX };
	tcp_wire_put_frame(&frame, bytes);
	assert_int_equal(tcp_wire_get_frame(bytes, &out), -EBADMSG);
	frame = (struct tcp_frame){ .type = TCP_FRAME_ACK, .stream = TCP_WIRE_STREAMS_MAX };
	tcp_wire_put_frame(&frame, bytes);
	assert_int_equal(tcp_wire_get_frame(bytes, &out), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handle_survives),
		cmocka_unit_test(every_flipped_bit_of_a_handle_is_refused),
		cmocka_unit_test(a_handle_has_more_ways_as_far_as_they_fit),
		cmocka_unit_test(ways_of_ipv6_are_short_where_they_are_alike),
		cmocka_unit_test(whatever_was_added_arrives),
		cmocka_unit_test(prefixes_of_other_ways_are_rounded),
		cmocka_unit_test(a_proof_is_of_all_that_was_said),
		cmocka_unit_test(a_challenge_survives),
		cmocka_unit_test(another_version_is_told_from_garbage_and_names_its_host),
		cmocka_unit_test(a_host_name_from_the_wire_is_fit_for_a_log),
		cmocka_unit_test(a_hello_survives_and_its_counts_are_bounded),
		cmocka_unit_test(a_welcome_survives_and_its_rails_are_bounded),
		cmocka_unit_test(every_frame_survives),
		cmocka_unit_test(sequence_numbers_are_found_from_their_low_half),
		cmocka_unit_test(hosts_of_an_rts_are_rounded_down),
		cmocka_unit_test(a_port_survives),
		cmocka_unit_test(payload_belongs_to_eager_and_data_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
