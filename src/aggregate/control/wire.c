#include "aggregate/control/wire.h"

#include "base/bytes.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>

/* "TribCtl" and a byte that no text has. */
static const uint8_t magic[8] = { 'T', 'r', 'i', 'b', 'C', 't', 'l', 0x9d };

/* A place in a unit that is written or read from its start to its end. Whoever uses it knows that there is room. */
struct pen {
	uint8_t *at;
};
struct eye {
	const uint8_t *at;
	bool bad;
};

static void put(struct pen *pen, uint64_t value, unsigned bytes)
{
	bytes_put(pen->at, value, bytes);
	pen->at += bytes;
}

static void put_bytes(struct pen *pen, const void *data, size_t bytes)
{
	memcpy(pen->at, data, bytes);
	pen->at += bytes;
}

/* Cut to what fits with a NUL, the rest zeros, and without what is not printable. */
static void put_text(struct pen *pen, const char *text, size_t bytes)
{
	size_t length = strnlen(text, bytes - 1);

	memset(pen->at, 0, bytes);
	for (size_t i = 0; i < length; i++)
		pen->at[i] = text[i] >= ' ' && text[i] <= '~' ? (uint8_t)text[i] : '?';
	pen->at += bytes;
}

static uint64_t get(struct eye *eye, unsigned bytes)
{
	uint64_t value = bytes_get(eye->at, bytes);

	eye->at += bytes;
	return value;
}

static void get_bytes(struct eye *eye, void *data, size_t bytes)
{
	memcpy(data, eye->at, bytes);
	eye->at += bytes;
}

static void get_text(struct eye *eye, char *ret, size_t bytes)
{
	get_bytes(eye, ret, bytes);
	if (!memchr(ret, '\0', bytes)) {
		eye->bad = true;
		return;
	}
	for (const char *c = ret; *c; c++)
		eye->bad = eye->bad || *c < ' ' || *c > '~';
}

static bool get_bool(struct eye *eye, unsigned bytes)
{
	uint64_t value = get(eye, bytes);

	eye->bad = eye->bad || value > 1;
	return value == 1;
}

/* --------------------------------------------------------------------------------------------------------- handshake */

static void put_greeting(uint8_t *bytes, enum control_status status, const struct control_hello *hello)
{
	struct pen pen = { bytes };

	put_bytes(&pen, magic, sizeof(magic));
	put(&pen, CONTROL_VERSION, 2);
	put(&pen, (uint64_t)status, 2);
	put(&pen, 0, 4);
	put_bytes(&pen, hello->nonce, CONTROL_NONCE_BYTES);
	put_text(&pen, hello->name, CONTROL_NAME_BYTES);
}

static int get_greeting(const uint8_t *bytes, enum control_status *ret_status, struct control_hello *ret,
			uint16_t *ret_version)
{
	struct eye eye = { bytes + sizeof(magic), false };
	struct control_hello hello;
	uint64_t status;

	if (memcmp(bytes, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	*ret_version = (uint16_t)get(&eye, 2);
	if (*ret_version != CONTROL_VERSION)
		return -EPROTO;
	status = get(&eye, 2);
	if (status >= CONTROL_STATUS_COUNT || get(&eye, 4) != 0)
		return -EBADMSG;
	get_bytes(&eye, hello.nonce, CONTROL_NONCE_BYTES);
	get_text(&eye, hello.name, CONTROL_NAME_BYTES);
	if (eye.bad)
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
	struct pen pen = { bytes };

	put(&pen, (uint64_t)welcome->status, 4);
	put(&pen, 0, 4);
	put_bytes(&pen, welcome->proof, CONTROL_PROOF_BYTES);
}

int control_get_welcome(const uint8_t bytes[static CONTROL_WELCOME_BYTES], struct control_welcome *ret)
{
	struct eye eye = { bytes, false };
	uint64_t status = get(&eye, 4);

	if ((status != CONTROL_STATUS_OK && status != CONTROL_STATUS_SECRET) || get(&eye, 4) != 0)
		return -EBADMSG;
	ret->status = (enum control_status)status;
	get_bytes(&eye, ret->proof, CONTROL_PROOF_BYTES);
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ header */

/* What each type may have for a payload, and who may send it. */
static const struct {
	const char *word;
	size_t least_bytes, most_bytes;
	bool client, server;
} types[CONTROL_TYPE_COUNT] = {
	[CONTROL_REQUEST] = { "request", CONTROL_REQUEST_BYTES + TRANSPORT_HANDLE_BYTES, CONTROL_PAYLOAD_MAX, true,
			      false },
	[CONTROL_GO] = { "go", CONTROL_GO_BYTES + TRANSPORT_HANDLE_BYTES,
			 CONTROL_GO_BYTES + CONTROL_SERVERS_MAX *TRANSPORT_HANDLE_BYTES, true, false },
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
	struct pen pen = { bytes };

	put(&pen, header->payload_bytes, 4);
	put(&pen, (uint64_t)header->type, 2);
	put(&pen, 0, 2);
}

int control_get_header(const uint8_t bytes[static CONTROL_HEADER_BYTES], bool from_client, struct control_header *ret)
{
	struct eye eye = { bytes, false };
	uint64_t payload_bytes = get(&eye, 4), type = get(&eye, 2);

	if (type >= CONTROL_TYPE_COUNT || !types[type].word || get(&eye, 2) != 0)
		return -EBADMSG;
	if (!(from_client ? types[type].client : types[type].server))
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
	struct pen pen = { payload };

	put_bytes(&pen, request->id, CONTROL_ID_BYTES);
	put(&pen, request->data_version, 2);
	put(&pen, request->types, 2);
	put(&pen, request->operations, 2);
	put(&pen, request->member_count, 2);
	put_text(&pen, request->name, CONTROL_NAME_BYTES);
	put(&pen, request->timeout_ms, 4);
	put(&pen, 0, 4);
	put_bytes(&pen, request->handles, (size_t)request->member_count * TRANSPORT_HANDLE_BYTES);
	return (size_t)(pen.at - payload);
}

int control_get_request(const uint8_t *payload, size_t bytes, struct control_request *ret)
{
	struct eye eye = { payload, false };
	struct control_request request;

	if (bytes < CONTROL_REQUEST_BYTES)
		return -EBADMSG;
	get_bytes(&eye, request.id, CONTROL_ID_BYTES);
	request.data_version = (uint16_t)get(&eye, 2);
	request.types = (uint16_t)get(&eye, 2);
	request.operations = (uint16_t)get(&eye, 2);
	request.member_count = (uint16_t)get(&eye, 2);
	get_text(&eye, request.name, CONTROL_NAME_BYTES);
	request.timeout_ms = (uint32_t)get(&eye, 4);
	if (eye.bad || get(&eye, 4) != 0 || !request.member_count || request.member_count > CONTROL_MEMBERS_MAX)
		return -EBADMSG;
	if (bytes != CONTROL_REQUEST_BYTES + (size_t)request.member_count * TRANSPORT_HANDLE_BYTES)
		return -EBADMSG;
	request.handles = eye.at;
	*ret = request;
	return 0;
}

size_t control_put_offer(const struct control_offer *offer, uint8_t *payload)
{
	struct pen pen = { payload };

	put_bytes(&pen, offer->handle, TRANSPORT_HANDLE_BYTES);
	put(&pen, offer->rate_Bps, 8);
	put(&pen, offer->window_bytes, 8);
	put(&pen, offer->group_count, 4);
	put(&pen, 0, 4);
	return (size_t)(pen.at - payload);
}

int control_get_offer(const uint8_t *payload, size_t bytes, struct control_offer *ret)
{
	struct eye eye = { payload, false };

	if (bytes != CONTROL_OFFER_BYTES)
		return -EBADMSG;
	get_bytes(&eye, ret->handle, TRANSPORT_HANDLE_BYTES);
	ret->rate_Bps = get(&eye, 8);
	ret->window_bytes = get(&eye, 8);
	ret->group_count = (uint32_t)get(&eye, 4);
	return 0;
}

size_t control_put_go(const struct control_go *go, uint8_t *payload)
{
	struct pen pen = { payload };

	put(&pen, go->position, 2);
	put(&pen, go->server_count, 2);
	put(&pen, 0, 4);
	put_bytes(&pen, go->handles, (size_t)go->server_count * TRANSPORT_HANDLE_BYTES);
	return (size_t)(pen.at - payload);
}

int control_get_go(const uint8_t *payload, size_t bytes, struct control_go *ret)
{
	struct eye eye = { payload, false };
	struct control_go go;

	if (bytes < CONTROL_GO_BYTES)
		return -EBADMSG;
	go.position = (uint16_t)get(&eye, 2);
	go.server_count = (uint16_t)get(&eye, 2);
	if (get(&eye, 4) != 0 || !go.server_count || go.server_count > CONTROL_SERVERS_MAX ||
	    go.position >= go.server_count)
		return -EBADMSG;
	if (bytes != CONTROL_GO_BYTES + (size_t)go.server_count * TRANSPORT_HANDLE_BYTES)
		return -EBADMSG;
	go.handles = eye.at;
	*ret = go;
	return 0;
}

size_t control_put_sentence(const char *sentence, uint8_t *payload)
{
	struct pen pen = { payload };
	char text[CONTROL_SENTENCE_BYTES];

	log_sentence(text, sizeof(text), "%s", sentence);
	put_text(&pen, text, CONTROL_SENTENCE_BYTES);
	return CONTROL_SENTENCE_BYTES;
}

int control_get_sentence(const uint8_t *payload, size_t bytes, char ret[static CONTROL_SENTENCE_BYTES])
{
	struct eye eye = { payload, false };
	char sentence[CONTROL_SENTENCE_BYTES];

	if (bytes != CONTROL_SENTENCE_BYTES)
		return -EBADMSG;
	get_text(&eye, sentence, CONTROL_SENTENCE_BYTES);
	if (eye.bad)
		return -EBADMSG;
	memcpy(ret, sentence, CONTROL_SENTENCE_BYTES);
	return 0;
}

static void put_group_state(struct pen *pen, const struct control_group_state *group)
{
	put_bytes(pen, group->id, CONTROL_ID_BYTES);
	put_text(pen, group->name, CONTROL_NAME_BYTES);
	put(pen, group->member_count, 2);
	put(pen, group->ready, 2);
	put(pen, 0, 4);
	put(pen, group->age_ms, 8);
	put(pen, group->bytes_in, 8);
	put(pen, group->bytes_out, 8);
	put(pen, group->segments, 8);
	put(pen, group->rate_in_Bps, 8);
	put(pen, group->rate_out_Bps, 8);
}

static void get_group_state(struct eye *eye, struct control_group_state *ret)
{
	get_bytes(eye, ret->id, CONTROL_ID_BYTES);
	get_text(eye, ret->name, CONTROL_NAME_BYTES);
	ret->member_count = (uint16_t)get(eye, 2);
	ret->ready = get_bool(eye, 2);
	eye->bad = eye->bad || get(eye, 4) != 0;
	ret->age_ms = get(eye, 8);
	ret->bytes_in = get(eye, 8);
	ret->bytes_out = get(eye, 8);
	ret->segments = get(eye, 8);
	ret->rate_in_Bps = get(eye, 8);
	ret->rate_out_Bps = get(eye, 8);
}

size_t control_put_state(const struct control_state *state, const struct control_group_state *groups, uint8_t *payload)
{
	struct pen pen = { payload };

	put_text(&pen, state->version, CONTROL_NAME_BYTES);
	put_text(&pen, state->name, CONTROL_NAME_BYTES);
	put(&pen, state->uptime_ms, 8);
	put(&pen, state->bytes_in, 8);
	put(&pen, state->bytes_out, 8);
	put(&pen, state->segments, 8);
	put(&pen, state->rate_in_Bps, 8);
	put(&pen, state->rate_out_Bps, 8);
	put(&pen, state->nic_Bps, 8);
	put(&pen, state->memory_bytes, 8);
	put(&pen, state->memory_max_bytes, 8);
	put(&pen, state->groups_served, 8);
	put(&pen, state->strangers, 8);
	put(&pen, state->busy_milli, 4);
	put(&pen, state->thread_count, 4);
	put(&pen, state->groups_max, 4);
	put(&pen, state->draining, 2);
	put(&pen, state->group_count, 2);
	for (unsigned i = 0; i < 4; i++)
		put(&pen, 0, 8);
	for (size_t i = 0; i < state->group_count; i++)
		put_group_state(&pen, &groups[i]);
	return (size_t)(pen.at - payload);
}

int control_get_state(const uint8_t *payload, size_t bytes, struct control_state *ret,
		      struct control_group_state *ret_groups)
{
	struct eye eye = { payload, false };
	struct control_state state;

	if (bytes < CONTROL_STATE_BYTES)
		return -EBADMSG;
	get_text(&eye, state.version, CONTROL_NAME_BYTES);
	get_text(&eye, state.name, CONTROL_NAME_BYTES);
	state.uptime_ms = get(&eye, 8);
	state.bytes_in = get(&eye, 8);
	state.bytes_out = get(&eye, 8);
	state.segments = get(&eye, 8);
	state.rate_in_Bps = get(&eye, 8);
	state.rate_out_Bps = get(&eye, 8);
	state.nic_Bps = get(&eye, 8);
	state.memory_bytes = get(&eye, 8);
	state.memory_max_bytes = get(&eye, 8);
	state.groups_served = get(&eye, 8);
	state.strangers = get(&eye, 8);
	state.busy_milli = (uint32_t)get(&eye, 4);
	state.thread_count = (uint32_t)get(&eye, 4);
	state.groups_max = (uint32_t)get(&eye, 4);
	state.draining = get_bool(&eye, 2);
	state.group_count = (uint16_t)get(&eye, 2);
	eye.at += 8 * 4;
	if (eye.bad || state.group_count > CONTROL_GROUPS_MAX ||
	    bytes != CONTROL_STATE_BYTES + (size_t)state.group_count * CONTROL_GROUP_BYTES)
		return -EBADMSG;
	for (size_t i = 0; i < state.group_count; i++)
		get_group_state(&eye, &ret_groups[i]);
	if (eye.bad)
		return -EBADMSG;
	*ret = state;
	return 0;
}
