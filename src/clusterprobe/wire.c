/* The messages of a cluster measurement, little-endian, byte by byte; this file alone knows an offset. */
#include "clusterprobe/clusterprobe.h"

#include "base/cursor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define PREAMBLE_MAGIC UINT32_C(0x46425254) /* "TRBF" */
#define HELLO_MAGIC    UINT32_C(0x48425254) /* "TRBH" */
enum { PREAMBLE_VERSION = 1 };

/* ----------------------------------------------------------------------------------------------------------- addresses */

static const uint8_t v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

void clusterprobe_address_of(const struct sockaddr_storage *from, struct clusterprobe_address *ret)
{
	if (from->ss_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)from;

		memcpy(ret->ip, &six->sin6_addr, sizeof(ret->ip));
		ret->port = ntohs(six->sin6_port);
	} else {
		const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)from;

		memcpy(ret->ip, v4_prefix, sizeof(v4_prefix));
		memcpy(ret->ip + sizeof(v4_prefix), &four->sin_addr, 4);
		ret->port = ntohs(four->sin_port);
	}
}

socklen_t clusterprobe_address_to(const struct clusterprobe_address *from, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (!memcmp(from->ip, v4_prefix, sizeof(v4_prefix))) {
		struct sockaddr_in *four = (struct sockaddr_in *)(void *)ret;

		four->sin_family = AF_INET;
		memcpy(&four->sin_addr, from->ip + sizeof(v4_prefix), 4);
		four->sin_port = htons(from->port);
		return sizeof(*four);
	} else {
		struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)ret;

		six->sin6_family = AF_INET6;
		memcpy(&six->sin6_addr, from->ip, sizeof(from->ip));
		six->sin6_port = htons(from->port);
		return sizeof(*six);
	}
}

bool clusterprobe_address_is_loopback(const struct clusterprobe_address *address)
{
	static const uint8_t six[16] = { [15] = 1 };

	if (!memcmp(address->ip, v4_prefix, sizeof(v4_prefix)))
		return address->ip[sizeof(v4_prefix)] == 127;
	return !memcmp(address->ip, six, sizeof(six));
}

bool clusterprobe_address_widen(const char *given, struct sockaddr_storage *address)
{
	struct clusterprobe_address at;
	uint8_t number[16];

	clusterprobe_address_of(address, &at);
	if (!clusterprobe_address_is_loopback(&at))
		return false;
	if (inet_pton(AF_INET, given, number) == 1 || inet_pton(AF_INET6, given, number) == 1)
		return true;
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)address)->sin6_addr = in6addr_any;
	else
		((struct sockaddr_in *)(void *)address)->sin_addr.s_addr = htonl(INADDR_ANY);
	return true;
}

/* ------------------------------------------------------------------------------------------------------------ messages */

/* One list of fields for both directions: each is put, or got. */
struct codec {
	struct writer *out; /* NULL: it is read */
	struct reader in;
};

#define CODE_NUMBER(name, type)                                              \
	static void name(struct codec *codec, type *field)                   \
	{                                                                    \
		if (codec->out)                                              \
			writer_put(codec->out, *field, sizeof(*field));      \
		else                                                         \
			*field = (type)reader_get(&codec->in, sizeof(type)); \
	}
CODE_NUMBER(code_u16, uint16_t)
CODE_NUMBER(code_u32, uint32_t)
CODE_NUMBER(code_u64, uint64_t)

static void code_block(struct codec *codec, uint8_t *field, size_t bytes)
{
	if (codec->out)
		writer_put_block(codec->out, field, bytes);
	else
		reader_get_block(&codec->in, field, bytes);
}

static void code_text(struct codec *codec, char *field, size_t bytes)
{
	if (codec->out)
		writer_put_text(codec->out, field, bytes);
	else
		reader_get_text(&codec->in, field, bytes);
}

static void code_address(struct codec *codec, struct clusterprobe_address *address)
{
	code_block(codec, address->ip, sizeof(address->ip));
	code_u16(codec, &address->port);
}

static void code_tasks(struct codec *codec, struct clusterprobe_message *message)
{
	code_u32(codec, &message->round);
	code_u32(codec, &message->duration_ms);
	code_u16(codec, &message->task_count);
	codec->in.bad |= message->task_count > CLUSTERPROBE_TASKS_MAX || message->duration_ms > 60000;
	for (size_t i = 0; i < message->task_count && !codec->in.bad; i++) {
		code_u16(codec, &message->tasks[i].flow);
		code_u16(codec, &message->tasks[i].peer);
		code_u64(codec, &message->tasks[i].rate_Bps);
	}
}

static void code_peers(struct codec *codec, struct clusterprobe_message *message)
{
	code_u16(codec, &message->first);
	code_u16(codec, &message->peer_count);
	codec->in.bad |= message->peer_count > CLUSTERPROBE_PEERS_MAX ||
			 message->first + message->peer_count > FABRIC_HOSTS_MAX;
	for (size_t i = 0; i < message->peer_count && !codec->in.bad; i++)
		code_address(codec, &message->peers[i]);
}

/* What follows the kind; the version of a HELLO is not looked at. */
static void code_fields(struct codec *codec, struct clusterprobe_message *message)
{
	switch (message->kind) {
	case CLUSTERPROBE_HELLO:
		code_u32(codec, &message->rank);
		code_u64(codec, &message->boot);
		code_address(codec, &message->address);
		code_text(codec, message->name, sizeof(message->name));
		break;
	case CLUSTERPROBE_RATES:
	case CLUSTERPROBE_ROUND:
		code_tasks(codec, message);
		break;
	case CLUSTERPROBE_LATENCIES:
	case CLUSTERPROBE_PING:
		code_u32(codec, &message->round);
		code_u16(codec, &message->peer);
		code_u64(codec, &message->median_ns);
		code_u64(codec, &message->least_ns);
		break;
	case CLUSTERPROBE_WELCOME:
		code_u16(codec, &message->index);
		code_u32(codec, &message->streams);
		code_u64(codec, &message->limit_Bps);
		code_block(codec, message->token, sizeof(message->token));
		break;
	case CLUSTERPROBE_PEERS:
		code_peers(codec, message);
		break;
	case CLUSTERPROBE_TROUBLE:
	case CLUSTERPROBE_END:
		code_text(codec, message->sentence, sizeof(message->sentence));
		break;
	case CLUSTERPROBE_HERE:
	case CLUSTERPROBE_NONE:
	case CLUSTERPROBE_KIND_COUNT:
		break;
	}
}

size_t clusterprobe_message_put(struct clusterprobe_message *message, uint8_t *payload)
{
	struct writer writer = { payload };
	struct codec codec = { .out = &writer };

	writer_put(&writer, (uint64_t)message->kind, 1);
	if (message->kind == CLUSTERPROBE_HELLO) {
		writer_put(&writer, HELLO_MAGIC, 4);
		writer_put(&writer, CLUSTERPROBE_VERSION, 2);
	}
	code_fields(&codec, message);
	return (size_t)(writer.at - payload);
}

int clusterprobe_message_get(const uint8_t *payload, size_t bytes, bool from_worker, struct clusterprobe_message *ret)
{
	struct codec codec = { .in = { payload, payload + bytes, false } };
	struct reader *reader = &codec.in;
	uint64_t kind = reader_get(reader, 1);

	if (kind == CLUSTERPROBE_NONE || kind >= CLUSTERPROBE_KIND_COUNT ||
	    from_worker != (kind <= CLUSTERPROBE_TROUBLE))
		return -EBADMSG;
	ret->kind = (enum clusterprobe_kind)kind;
	if (ret->kind == CLUSTERPROBE_HELLO) {
		ret->version = reader_get(reader, 4) == HELLO_MAGIC ? (uint16_t)reader_get(reader, 2) : 1;
		if (ret->version != CLUSTERPROBE_VERSION && !reader->bad)
			return -EPROTO;
	}
	code_fields(&codec, ret);
	return reader->bad || reader->at != reader->end ? -EBADMSG : 0;
}

/* -------------------------------------------------------------------------------------------------------------- preambles */

void clusterprobe_preamble_put(const struct clusterprobe_preamble *preamble,
			       uint8_t bytes[static CLUSTERPROBE_PREAMBLE_BYTES])
{
	struct writer writer = { bytes };

	writer_put(&writer, PREAMBLE_MAGIC, 4);
	writer_put(&writer, PREAMBLE_VERSION, 1);
	writer_put(&writer, preamble->echo, 1);
	writer_put(&writer, preamble->flow, 2);
	writer_put(&writer, preamble->round, 4);
	writer_put_block(&writer, preamble->token, sizeof(preamble->token));
	writer_put(&writer, 0, 4);
}

int clusterprobe_preamble_get(const uint8_t bytes[static CLUSTERPROBE_PREAMBLE_BYTES],
			      struct clusterprobe_preamble *ret)
{
	struct reader reader = { bytes, bytes + CLUSTERPROBE_PREAMBLE_BYTES, false };
	uint64_t magic = reader_get(&reader, 4), version = reader_get(&reader, 1), echo = reader_get(&reader, 1);

	if (magic != PREAMBLE_MAGIC || version != PREAMBLE_VERSION || echo > 1)
		return -EBADMSG;
	ret->echo = echo != 0;
	ret->flow = (uint16_t)reader_get(&reader, 2);
	ret->round = (uint32_t)reader_get(&reader, 4);
	reader_get_block(&reader, ret->token, sizeof(ret->token));
	return 0;
}
