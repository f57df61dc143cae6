/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control connections, and the words between members and aggregators, from anybody: raw bytes at every state of both ends;
 * and frames with a right seal, as from a peer that has the secret and then says anything. What decodes is in range and
 * is the same after it was encoded and decoded once more; nothing is read or written out of bounds.
 *
 * The first byte chooses what the rest is for; see LLVMFuzzerTestOneInput.
 */
#include "aggregate/control/channel.h"
#include "aggregate/aggregator_wire.h"
#include "support/fuzz.h"

#include <string.h>

static struct control_secret *secret(void)
{
	static struct control_secret one = { .count = 32 };

	return &one;
}

/* Handshakes draw random numbers, which no fuzzer can follow: both ends are put into a state by hand. */
static struct control_channel proved_aggregator(void)
{
	struct control_channel channel;

	fuzz_must(control_channel_init(&channel, CONTROL_SERVER, secret(), "fuzz") == 0);
	channel.state = CONTROL_AWAITS_HEADER;
	return channel;
}

static size_t feed(struct control_channel *channel, const uint8_t *data, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		uint8_t *at;
		size_t wanted = control_channel_wants(channel, &at);

		if (!wanted)
			break;
		if (wanted > bytes - done)
			wanted = bytes - done;
		memcpy(at, data + done, wanted);
		done += wanted;
		if (control_channel_came(channel, wanted) < 0) {
			fuzz_must(channel->state == CONTROL_DEAD && channel->why[0]);
			break;
		}
	}
	return done;
}

static void raw(enum control_side side, const uint8_t *data, size_t bytes)
{
	struct control_channel channel;

	fuzz_must(control_channel_init(&channel, side, secret(), "fuzz") == 0);
	feed(&channel, data, bytes);
	fuzz_must(!control_channel_proved(&channel)); /* nobody proves a secret of zeros by luck */
	control_channel_fini(&channel);
}

static void one_request(const uint8_t *payload, size_t bytes)
{
	static uint8_t again[CONTROL_PAYLOAD_MAX];
	struct control_request first, second;

	if (control_wire_request(CODEC_FROM(payload, bytes), &first) < 0)
		return;
	fuzz_must_be_text(first.name, sizeof(first.name));
	fuzz_must(first.member_count >= 1 && first.member_count <= CONTROL_MEMBERS_MAX);
	control_wire_request(CODEC_TO(again), &first);
	fuzz_must(control_wire_request(CODEC_FROM(again, bytes), &second) == 0);
	fuzz_must(!memcmp(first.id, second.id, sizeof(first.id)) && first.member_count == second.member_count &&
		  first.timeout_ms == second.timeout_ms && !strcmp(first.name, second.name));
	fuzz_must(!memcmp(first.handles, second.handles, (size_t)first.member_count * TRANSPORT_HANDLE_BYTES));
}

static void one_state(const uint8_t *payload, size_t bytes)
{
	static struct control_group_state groups[CONTROL_GROUPS_MAX];
	static uint8_t again[CONTROL_PAYLOAD_MAX];
	struct control_state state;

	if (control_wire_state(CODEC_FROM(payload, bytes), &state, groups) < 0)
		return;
	fuzz_must_be_text(state.name, sizeof(state.name));
	fuzz_must(state.group_count <= CONTROL_GROUPS_MAX);
	for (size_t i = 0; i < state.group_count; i++)
		fuzz_must_be_text(groups[i].name, sizeof(groups[i].name));
	control_wire_state(CODEC_TO(again), &state, groups);
	fuzz_must(!memcmp(again, payload, CONTROL_STATE_BYTES - 32)); /* the rest is for later versions */
}

static void one_of_each(const uint8_t *payload, size_t bytes)
{
	char sentence[CONTROL_SENTENCE_BYTES];
	struct control_offer offer;
	struct control_go go;

	one_request(payload, bytes);
	one_state(payload, bytes);
	if (!control_wire_sentence(CODEC_FROM(payload, bytes), sentence))
		fuzz_must_be_text(sentence, sizeof(sentence));
	(void)control_wire_offer(CODEC_FROM(payload, bytes), &offer);
	if (!control_wire_go(CODEC_FROM(payload, bytes), &go))
		fuzz_must(go.aggregator_count <= CONTROL_AGGREGATORS_MAX && go.position < go.aggregator_count);
}

/* A header of the fuzzer's, its payload, and the seal that belongs there. */
static void sealed(const uint8_t *data, size_t bytes)
{
	struct control_channel aggregator = proved_aggregator(), client = proved_aggregator();
	struct control_header header;
	const uint8_t *payload, *out;
	size_t count;

	client.side = CONTROL_CLIENT; /* all keys are zeros */
	if (bytes >= CONTROL_HEADER_BYTES &&
	    !control_wire_header(CODEC_FROM(data, CONTROL_HEADER_BYTES), true, &header)) {
		static uint8_t padded[CONTROL_PAYLOAD_MAX];

		memset(padded, 0, header.payload_bytes);
		bytes -= CONTROL_HEADER_BYTES;
		memcpy(padded, data + CONTROL_HEADER_BYTES,
		       bytes < header.payload_bytes ? bytes : header.payload_bytes);
		fuzz_must(control_channel_send(&client, header.type, padded, header.payload_bytes) == 0);
		count = control_channel_pending(&client, &out);
		fuzz_must(feed(&aggregator, out, count) == count);
		fuzz_must(control_channel_frame(&aggregator, &payload) != NULL);
		fuzz_must(!memcmp(payload, padded, header.payload_bytes));
		one_of_each(payload, header.payload_bytes);
		control_channel_take(&aggregator);
	}
	control_channel_fini(&aggregator);
	control_channel_fini(&client);
}

static void words(const uint8_t *data, size_t bytes)
{
	uint8_t whole[AGGREGATOR_WIRE_HEAD_BYTES] = { 0 }, again[AGGREGATOR_WIRE_HEAD_BYTES];
	struct aggregator_wire_head head;
	struct aggregator_wire_hello hello;
	uint32_t lost;

	memcpy(whole, data, bytes < sizeof(whole) ? bytes : sizeof(whole));
	if (!aggregator_wire_head(CODEC_FROM(whole, AGGREGATOR_WIRE_HEAD_BYTES), &head)) {
		fuzz_must(head.bytes && head.bytes <= AGGREGATOR_WIRE_SEGMENT_BYTES_MAX);
		fuzz_must(head.leaf_inputs <= AGGREGATOR_WIRE_INPUTS_MAX &&
			  head.root_inputs <= AGGREGATOR_WIRE_INPUTS_MAX);
		aggregator_wire_head(CODEC_TO(again), &head);
		fuzz_must(!memcmp(whole, again, sizeof(whole)));
	}
	if (!aggregator_wire_lost(CODEC_FROM(whole, AGGREGATOR_WIRE_LOST_BYTES), &lost)) {
		aggregator_wire_lost(CODEC_TO(again), &lost);
		fuzz_must(!memcmp(whole, again, AGGREGATOR_WIRE_LOST_BYTES));
	}
	(void)aggregator_wire_hello(CODEC_FROM(whole, AGGREGATOR_WIRE_HELLO_BYTES), &hello);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (!bytes)
		return 0;
	switch (data[0] % 6) {
	case 0:
		raw(CONTROL_SERVER, data + 1, bytes - 1);
		break;
	case 1:
		raw(CONTROL_CLIENT, data + 1, bytes - 1);
		break;
	case 2:
		sealed(data + 1, bytes - 1);
		break;
	case 3:
		words(data + 1, bytes - 1);
		break;
	case 4: {
		struct control_channel aggregator = proved_aggregator();

		feed(&aggregator, data + 1, bytes - 1);
		control_channel_fini(&aggregator);
		break;
	}
	default:
		one_of_each(data + 1, bytes - 1);
	}
	return 0;
}
