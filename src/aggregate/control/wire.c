#include "aggregate/control/wire.h"

#include "base/cursor.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>

/* "TribCtl" and a byte that no text has. */
static const uint8_t magic[8] = { 'T', 'r', 'i', 'b', 'C', 't', 'l', 0x9d };

/* --------------------------------------------------------------------------------------------------------- handshake */

static void put_greeting(uint8_t *bytes, enum control_status status, const struct control_hello *hello)
{
	struct writer writer = { bytes };

	writer_put_block(&writer, magic, sizeof(magic));
	writer_put(&writer, CONTROL_VERSION, 2);
	writer_put(&writer, (uint64_t)status, 2);
	writer_put(&writer, 0, 4);
	writer_put_block(&writer, hello->nonce, CONTROL_NONCE_BYTES);
	writer_put_text(&writer, hello->name, CONTROL_NAME_BYTES);
}

static int get_greeting(const uint8_t *bytes, enum control_status *ret_status, struct control_hello *ret,
			uint16_t *ret_version)
{
	struct reader reader = { bytes + sizeof(magic), bytes + CONTROL_HELLO_BYTES, false };
	struct control_hello hello;
	uint64_t status;

	if (memcmp(bytes, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	*ret_version = (uint16_t)reader_get(&reader, 2);
	if (*ret_version != CONTROL_VERSION)
		return -EPROTO;
	status = reader_get(&reader, 2);
	if (status >= CONTROL_STATUS_COUNT || reader_get(&reader, 4) != 0)
		return -EBADMSG;
	reader_get_block(&reader, hello.nonce, CONTROL_NONCE_BYTES);
	reader_get_text(&reader, hello.name, CONTROL_NAME_BYTES);
	if (reader.bad)
		return -EBADMSG;
	*ret_status = (enum control_status)status;
	*ret = hello;
	return 0;
}

_Static_assert(CONTROL_HELLO_BYTES == 16 + CONTROL_NONCE_BYTES + CONTROL_NAME_BYTES, "put_greeting");
_Static_assert((int)CONTROL_CHALLENGE_BYTES == (int)CONTROL_HELLO_BYTES, "put_greeting");

void control_put_hello(const struct control_hello *hello, uint8_t bytes[static CONTROL_HELLO_BYTES])
{
	put_greeting(bytes, CONTROL_STATUS_OK, hello);
}

int control_get_hello(const uint8_t bytes[static CONTROL_HELLO_BYTES], struct control_hello *ret, uint16_t *ret_version)
{
	enum control_status status;
	struct control_hello hello;
	int r = get_greeting(bytes, &status, &hello, ret_version);

	if (r < 0)
		return r;
	if (status != CONTROL_STATUS_OK)
		return -EBADMSG;
	*ret = hello;
	return 0;
}

void control_put_challenge(const struct control_challenge *challenge, uint8_t bytes[static CONTROL_CHALLENGE_BYTES])
{
	put_greeting(bytes, challenge->status, &challenge->hello);
}

int control_get_challenge(const uint8_t bytes[static CONTROL_CHALLENGE_BYTES], struct control_challenge *ret,
			  uint16_t *ret_version)
{
	struct control_challenge challenge;
	int r = get_greeting(bytes, &challenge.status, &challenge.hello, ret_version);

	if (r < 0)
		return r;
	if (challenge.status == CONTROL_STATUS_SECRET)
		return -EBADMSG;
	*ret = challenge;
	return 0;
}

void control_put_welcome(const struct control_welcome *welcome, uint8_t bytes[static CONTROL_WELCOME_BYTES])
{
	struct writer writer = { bytes };

	writer_put(&writer, (uint64_t)welcome->status, 4);
	writer_put(&writer, 0, 4);
	writer_put_block(&writer, welcome->proof, CONTROL_PROOF_BYTES);
}

int control_get_welcome(const uint8_t bytes[static CONTROL_WELCOME_BYTES], struct control_welcome *ret)
{
	struct reader reader = { bytes, bytes + CONTROL_WELCOME_BYTES, false };
	uint64_t status = reader_get(&reader, 4);

	if ((status != CONTROL_STATUS_OK && status != CONTROL_STATUS_SECRET) || reader_get(&reader, 4) != 0)
		return -EBADMSG;
	ret->status = (enum control_status)status;
	reader_get_block(&reader, ret->proof, CONTROL_PROOF_BYTES);
	return 0;
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

void control_put_header(const struct control_header *header, uint8_t bytes[static CONTROL_HEADER_BYTES])
{
	struct writer writer = { bytes };

	writer_put(&writer, header->payload_bytes, 4);
	writer_put(&writer, (uint64_t)header->type, 2);
	writer_put(&writer, 0, 2);
}

int control_get_header(const uint8_t bytes[static CONTROL_HEADER_BYTES], bool from_client, struct control_header *ret)
{
	struct reader reader = { bytes, bytes + CONTROL_HEADER_BYTES, false };
	uint64_t payload_bytes = reader_get(&reader, 4), type = reader_get(&reader, 2);

	if (type >= CONTROL_TYPE_COUNT || !types[type].word || reader_get(&reader, 2) != 0)
		return -EBADMSG;
	if (!(from_client ? types[type].client : types[type].aggregator))
		return -EBADMSG;
	if (payload_bytes < types[type].least_bytes || payload_bytes > types[type].most_bytes)
		return -EBADMSG;
	ret->type = (enum control_type)type;
	ret->payload_bytes = (size_t)payload_bytes;
	return 0;
}

/* ---------------------------------------------------------------------------------------------------------- payloads */

size_t control_put_request(const struct control_request *request, uint8_t *payload)
{
	struct writer writer = { payload };

	writer_put_block(&writer, request->id, CONTROL_ID_BYTES);
	writer_put(&writer, request->data_version, 2);
	writer_put(&writer, request->types, 2);
	writer_put(&writer, request->operations, 2);
	writer_put(&writer, request->member_count, 2);
	writer_put_text(&writer, request->name, CONTROL_NAME_BYTES);
	writer_put(&writer, request->timeout_ms, 4);
	writer_put(&writer, 0, 4);
	writer_put_block(&writer, request->handles, (size_t)request->member_count * TRANSPORT_HANDLE_BYTES);
	return (size_t)(writer.at - payload);
}

int control_get_request(const uint8_t *payload, size_t bytes, struct control_request *ret)
{
	struct reader reader = { payload, payload + bytes, false };
	struct control_request request;

	if (bytes < CONTROL_REQUEST_BYTES)
		return -EBADMSG;
	reader_get_block(&reader, request.id, CONTROL_ID_BYTES);
	request.data_version = (uint16_t)reader_get(&reader, 2);
	request.types = (uint16_t)reader_get(&reader, 2);
	request.operations = (uint16_t)reader_get(&reader, 2);
	request.member_count = (uint16_t)reader_get(&reader, 2);
	reader_get_text(&reader, request.name, CONTROL_NAME_BYTES);
	request.timeout_ms = (uint32_t)reader_get(&reader, 4);
	if (reader.bad || reader_get(&reader, 4) != 0 || !request.member_count ||
	    request.member_count > CONTROL_MEMBERS_MAX)
		return -EBADMSG;
	if (bytes != CONTROL_REQUEST_BYTES + (size_t)request.member_count * TRANSPORT_HANDLE_BYTES)
		return -EBADMSG;
	request.handles = reader.at;
	*ret = request;
	return 0;
}

size_t control_put_offer(const struct control_offer *offer, uint8_t *payload)
{
	struct writer writer = { payload };

	writer_put_block(&writer, offer->handle, TRANSPORT_HANDLE_BYTES);
	writer_put(&writer, offer->rate_Bps, 8);
	writer_put(&writer, offer->window_bytes, 8);
	writer_put(&writer, offer->group_count, 4);
	writer_put(&writer, 0, 4);
	return (size_t)(writer.at - payload);
}

int control_get_offer(const uint8_t *payload, size_t bytes, struct control_offer *ret)
{
	struct reader reader = { payload, payload + bytes, false };

	if (bytes != CONTROL_OFFER_BYTES)
		return -EBADMSG;
	reader_get_block(&reader, ret->handle, TRANSPORT_HANDLE_BYTES);
	ret->rate_Bps = reader_get(&reader, 8);
	ret->window_bytes = reader_get(&reader, 8);
	ret->group_count = (uint32_t)reader_get(&reader, 4);
	return 0;
}

size_t control_put_go(const struct control_go *go, uint8_t *payload)
{
	struct writer writer = { payload };

	writer_put(&writer, go->position, 2);
	writer_put(&writer, go->aggregator_count, 2);
	writer_put(&writer, 0, 4);
	writer_put_block(&writer, go->handles, (size_t)go->aggregator_count * TRANSPORT_HANDLE_BYTES);
	return (size_t)(writer.at - payload);
}

int control_get_go(const uint8_t *payload, size_t bytes, struct control_go *ret)
{
	struct reader reader = { payload, payload + bytes, false };
	struct control_go go;

	if (bytes < CONTROL_GO_BYTES)
		return -EBADMSG;
	go.position = (uint16_t)reader_get(&reader, 2);
	go.aggregator_count = (uint16_t)reader_get(&reader, 2);
	if (reader_get(&reader, 4) != 0 || !go.aggregator_count || go.aggregator_count > CONTROL_AGGREGATORS_MAX ||
	    go.position >= go.aggregator_count)
		return -EBADMSG;
	if (bytes != CONTROL_GO_BYTES + (size_t)go.aggregator_count * TRANSPORT_HANDLE_BYTES)
		return -EBADMSG;
	go.handles = reader.at;
	*ret = go;
	return 0;
}

size_t control_put_sentence(const char *sentence, uint8_t *payload)
{
	struct writer writer = { payload };
	char text[CONTROL_SENTENCE_BYTES];

	log_sentence(text, sizeof(text), "%s", sentence);
	writer_put_text(&writer, text, CONTROL_SENTENCE_BYTES);
	return CONTROL_SENTENCE_BYTES;
}

int control_get_sentence(const uint8_t *payload, size_t bytes, char ret[static CONTROL_SENTENCE_BYTES])
{
	struct reader reader = { payload, payload + bytes, false };
	char sentence[CONTROL_SENTENCE_BYTES];

	if (bytes != CONTROL_SENTENCE_BYTES)
		return -EBADMSG;
	reader_get_text(&reader, sentence, CONTROL_SENTENCE_BYTES);
	if (reader.bad)
		return -EBADMSG;
	memcpy(ret, sentence, CONTROL_SENTENCE_BYTES);
	return 0;
}

static void put_group_state(struct writer *writer, const struct control_group_state *group)
{
	writer_put_block(writer, group->id, CONTROL_ID_BYTES);
	writer_put_text(writer, group->name, CONTROL_NAME_BYTES);
	writer_put(writer, group->member_count, 2);
	writer_put(writer, group->ready, 2);
	writer_put(writer, 0, 4);
	writer_put(writer, group->age_ms, 8);
	writer_put(writer, group->bytes_in, 8);
	writer_put(writer, group->bytes_out, 8);
	writer_put(writer, group->segments, 8);
	writer_put(writer, group->rate_in_Bps, 8);
	writer_put(writer, group->rate_out_Bps, 8);
}

static void get_group_state(struct reader *reader, struct control_group_state *ret)
{
	reader_get_block(reader, ret->id, CONTROL_ID_BYTES);
	reader_get_text(reader, ret->name, CONTROL_NAME_BYTES);
	ret->member_count = (uint16_t)reader_get(reader, 2);
	ret->ready = reader_get_bool(reader, 2);
	reader->bad = reader->bad || reader_get(reader, 4) != 0;
	ret->age_ms = reader_get(reader, 8);
	ret->bytes_in = reader_get(reader, 8);
	ret->bytes_out = reader_get(reader, 8);
	ret->segments = reader_get(reader, 8);
	ret->rate_in_Bps = reader_get(reader, 8);
	ret->rate_out_Bps = reader_get(reader, 8);
}

size_t control_put_state(const struct control_state *state, const struct control_group_state *groups, uint8_t *payload)
{
	struct writer writer = { payload };

	writer_put_text(&writer, state->version, CONTROL_NAME_BYTES);
	writer_put_text(&writer, state->name, CONTROL_NAME_BYTES);
	writer_put(&writer, state->uptime_ms, 8);
	writer_put(&writer, state->bytes_in, 8);
	writer_put(&writer, state->bytes_out, 8);
	writer_put(&writer, state->segments, 8);
	writer_put(&writer, state->rate_in_Bps, 8);
	writer_put(&writer, state->rate_out_Bps, 8);
	writer_put(&writer, state->nic_Bps, 8);
	writer_put(&writer, state->memory_bytes, 8);
	writer_put(&writer, state->memory_max_bytes, 8);
	writer_put(&writer, state->groups_served, 8);
	writer_put(&writer, state->strangers, 8);
	writer_put(&writer, state->busy_milli, 4);
	writer_put(&writer, state->thread_count, 4);
	writer_put(&writer, state->groups_max, 4);
	writer_put(&writer, state->draining, 2);
	writer_put(&writer, state->group_count, 2);
	for (unsigned i = 0; i < 4; i++)
		writer_put(&writer, 0, 8);
	for (size_t i = 0; i < state->group_count; i++)
		put_group_state(&writer, &groups[i]);
	return (size_t)(writer.at - payload);
}

int control_get_state(const uint8_t *payload, size_t bytes, struct control_state *ret,
		      struct control_group_state *ret_groups)
{
	struct reader reader = { payload, payload + bytes, false };
	struct control_state state;

	if (bytes < CONTROL_STATE_BYTES)
		return -EBADMSG;
	reader_get_text(&reader, state.version, CONTROL_NAME_BYTES);
	reader_get_text(&reader, state.name, CONTROL_NAME_BYTES);
	state.uptime_ms = reader_get(&reader, 8);
	state.bytes_in = reader_get(&reader, 8);
	state.bytes_out = reader_get(&reader, 8);
	state.segments = reader_get(&reader, 8);
	state.rate_in_Bps = reader_get(&reader, 8);
	state.rate_out_Bps = reader_get(&reader, 8);
	state.nic_Bps = reader_get(&reader, 8);
	state.memory_bytes = reader_get(&reader, 8);
	state.memory_max_bytes = reader_get(&reader, 8);
	state.groups_served = reader_get(&reader, 8);
	state.strangers = reader_get(&reader, 8);
	state.busy_milli = (uint32_t)reader_get(&reader, 4);
	state.thread_count = (uint32_t)reader_get(&reader, 4);
	state.groups_max = (uint32_t)reader_get(&reader, 4);
	state.draining = reader_get_bool(&reader, 2);
	state.group_count = (uint16_t)reader_get(&reader, 2);
	reader.at += 8 * 4;
	if (reader.bad || state.group_count > CONTROL_GROUPS_MAX ||
	    bytes != CONTROL_STATE_BYTES + (size_t)state.group_count * CONTROL_GROUP_BYTES)
		return -EBADMSG;
	for (size_t i = 0; i < state.group_count; i++)
		get_group_state(&reader, &ret_groups[i]);
	if (reader.bad)
		return -EBADMSG;
	*ret = state;
	return 0;
}
