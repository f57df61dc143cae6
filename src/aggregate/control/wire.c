/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/control/wire.h"

#include <errno.h>

/* "TribCtl" and a byte that no text has. */
static const uint8_t magic[8] = { 'T', 'r', 'i', 'b', 'C', 't', 'l', 0x9d };

/* --------------------------------------------------------------------------------------------------------- handshake */

int control_wire_challenge(struct codec *codec, struct control_challenge *challenge)
{
	codec_magic(codec, magic, sizeof(magic));
	codec_version(codec, CONTROL_VERSION);
	CODEC_NUMBER(codec, challenge->status, 2);
	codec_zeros(codec, 4);
	codec_block(codec, challenge->hello.nonce, CONTROL_NONCE_BYTES);
	codec_text(codec, challenge->hello.name, CONTROL_NAME_BYTES);
	codec_check(codec, challenge->status == CONTROL_STATUS_OK || challenge->status == CONTROL_STATUS_VERSION);
	return codec_end(codec);
}

_Static_assert(CONTROL_HELLO_BYTES == 16 + CONTROL_NONCE_BYTES + CONTROL_NAME_BYTES, "a challenge");
_Static_assert((int)CONTROL_CHALLENGE_BYTES == (int)CONTROL_HELLO_BYTES, "a challenge");

int control_wire_hello(struct codec *codec, struct control_hello *hello)
{
	struct control_challenge challenge = { .status = CONTROL_STATUS_OK, .hello = *hello };

	control_wire_challenge(codec, &challenge);
	codec_check(codec, challenge.status == CONTROL_STATUS_OK);
	*hello = challenge.hello;
	return codec_end(codec);
}

int control_wire_welcome(struct codec *codec, struct control_welcome *welcome)
{
	CODEC_NUMBER(codec, welcome->status, 4);
	codec_zeros(codec, 4);
	codec_block(codec, welcome->proof, CONTROL_PROOF_BYTES);
	codec_check(codec, welcome->status == CONTROL_STATUS_OK || welcome->status == CONTROL_STATUS_SECRET);
	return codec_end(codec);
}

/* ------------------------------------------------------------------------------------------------------------ header */

/* What each type may have for a payload, and who may send it. */
static const struct {
	const char *word;
	size_t least_bytes, most_bytes;
	bool client, aggregator;
} types[CONTROL_TYPE_COUNT] = {
	[CONTROL_REQUEST] = { "request", CONTROL_REQUEST_BYTES + TRANSPORT_HANDLE_BYTES, CONTROL_PAYLOAD_MAX, true,
			      false },
	[CONTROL_GO] = { "go", CONTROL_GO_BYTES + TRANSPORT_HANDLE_BYTES,
			 CONTROL_GO_BYTES + CONTROL_AGGREGATORS_MAX *TRANSPORT_HANDLE_BYTES, true, false },
	[CONTROL_ASK] = { "ask", 0, 0, true, false },
	[CONTROL_LEAVE] = { "leave", 0, 0, true, false },
	[CONTROL_OFFER] = { "offer", CONTROL_OFFER_BYTES, CONTROL_OFFER_BYTES, false, true },
	[CONTROL_REFUSAL] = { "refusal", CONTROL_SENTENCE_BYTES, CONTROL_SENTENCE_BYTES, false, true },
	[CONTROL_READY] = { "ready", 0, 0, false, true },
	[CONTROL_FAILURE] = { "failure", CONTROL_SENTENCE_BYTES, CONTROL_SENTENCE_BYTES, false, true },
	[CONTROL_STATE] = { "state", CONTROL_STATE_BYTES, CONTROL_STATE_BYTES + CONTROL_GROUPS_MAX *CONTROL_GROUP_BYTES,
			    false, true },
	[CONTROL_DRAIN] = { "drain", 0, 0, false, true },
	[CONTROL_HEARTBEAT] = { "heartbeat", 0, 0, true, true },
	[CONTROL_REPORT] = { "report", 1, CONTROL_PAYLOAD_MAX, true, false },
	[CONTROL_TELL] = { "tell", 1, CONTROL_PAYLOAD_MAX, false, true },
};

static bool header_makes_sense(const struct control_header *header, bool from_client)
{
	if (header->type >= CONTROL_TYPE_COUNT || !types[header->type].word ||
	    !(from_client ? types[header->type].client : types[header->type].aggregator))
		return false;
	return header->payload_bytes >= types[header->type].least_bytes &&
	       header->payload_bytes <= types[header->type].most_bytes;
}

int control_wire_header(struct codec *codec, bool from_client, struct control_header *header)
{
	CODEC_NUMBER(codec, header->payload_bytes, 4);
	CODEC_NUMBER(codec, header->type, 2);
	codec_zeros(codec, 2);
	codec_check(codec, header_makes_sense(header, from_client));
	return codec_end(codec);
}

/* ---------------------------------------------------------------------------------------------------------- payloads */

/* So many handles, which lie behind the rest: the caller's when writing, the payload's when reading. */
static void handles_codec(struct codec *codec, uint16_t count, size_t most, const uint8_t **handles)
{
	size_t bytes = (size_t)count * TRANSPORT_HANDLE_BYTES;

	codec_check(codec, count && count <= most);
	codec_tail(codec, handles, bytes);
}

int control_wire_request(struct codec *codec, struct control_request *request)
{
	codec_block(codec, request->id, CONTROL_ID_BYTES);
	CODEC_NUMBER(codec, request->data_version, 2);
	CODEC_NUMBER(codec, request->types, 2);
	CODEC_NUMBER(codec, request->operations, 2);
	CODEC_NUMBER(codec, request->member_count, 2);
	codec_text(codec, request->name, CONTROL_NAME_BYTES);
	CODEC_NUMBER(codec, request->timeout_ms, 4);
	codec_zeros(codec, 4);
	handles_codec(codec, request->member_count, CONTROL_MEMBERS_MAX, &request->handles);
	return codec_end(codec);
}

int control_wire_offer(struct codec *codec, struct control_offer *offer)
{
	codec_block(codec, offer->handle, TRANSPORT_HANDLE_BYTES);
	CODEC_NUMBER(codec, offer->rate_Bps, 8);
	CODEC_NUMBER(codec, offer->window_bytes, 8);
	CODEC_NUMBER(codec, offer->group_count, 4);
	codec_reserved(codec, 4);
	return codec_end(codec);
}

int control_wire_go(struct codec *codec, struct control_go *go)
{
	CODEC_NUMBER(codec, go->position, 2);
	CODEC_NUMBER(codec, go->aggregator_count, 2);
	codec_zeros(codec, 4);
	codec_check(codec, go->position < go->aggregator_count);
	handles_codec(codec, go->aggregator_count, CONTROL_AGGREGATORS_MAX, &go->handles);
	return codec_end(codec);
}

int control_wire_sentence(struct codec *codec, char *sentence)
{
	codec_text(codec, sentence, CONTROL_SENTENCE_BYTES);
	return codec_end(codec);
}

static void group_codec(struct codec *codec, struct control_group_state *group)
{
	codec_block(codec, group->id, CONTROL_ID_BYTES);
	codec_text(codec, group->name, CONTROL_NAME_BYTES);
	CODEC_NUMBER(codec, group->member_count, 2);
	codec_bool(codec, &group->ready, 2);
	codec_zeros(codec, 4);
	CODEC_NUMBER(codec, group->age_ms, 8);
	CODEC_NUMBER(codec, group->bytes_in, 8);
	CODEC_NUMBER(codec, group->bytes_out, 8);
	CODEC_NUMBER(codec, group->segments, 8);
	CODEC_NUMBER(codec, group->rate_in_Bps, 8);
	CODEC_NUMBER(codec, group->rate_out_Bps, 8);
}

int control_wire_state(struct codec *codec, struct control_state *state, struct control_group_state *groups)
{
	codec_text(codec, state->version, CONTROL_NAME_BYTES);
	codec_text(codec, state->name, CONTROL_NAME_BYTES);
	CODEC_NUMBER(codec, state->uptime_ms, 8);
	CODEC_NUMBER(codec, state->bytes_in, 8);
	CODEC_NUMBER(codec, state->bytes_out, 8);
	CODEC_NUMBER(codec, state->segments, 8);
	CODEC_NUMBER(codec, state->rate_in_Bps, 8);
	CODEC_NUMBER(codec, state->rate_out_Bps, 8);
	CODEC_NUMBER(codec, state->nic_Bps, 8);
	CODEC_NUMBER(codec, state->memory_bytes, 8);
	CODEC_NUMBER(codec, state->memory_max_bytes, 8);
	CODEC_NUMBER(codec, state->groups_served, 8);
	CODEC_NUMBER(codec, state->strangers, 8);
	CODEC_NUMBER(codec, state->busy_milli, 4);
	CODEC_NUMBER(codec, state->thread_count, 4);
	CODEC_NUMBER(codec, state->groups_max, 4);
	codec_bool(codec, &state->draining, 2);
	CODEC_NUMBER(codec, state->group_count, 2);
	codec_reserved(codec, 32);
	codec_check(codec, state->group_count <= CONTROL_GROUPS_MAX);
	for (size_t i = 0; i < state->group_count && !codec->error; i++)
		group_codec(codec, &groups[i]);
	return codec_end(codec);
}
