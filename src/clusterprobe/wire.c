/* The messages of a cluster measurement, little-endian, byte by byte; this file alone knows an offset. */
#include "clusterprobe/clusterprobe.h"

#include "base/cursor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define PREAMBLE_MAGIC UINT32_C(0x46425254) /* "TRBF" */
#define HELLO_MAGIC    UINT32_C(0x48425254) /* "TRBH" */
enum { PREAMBLE_VERSION = 1 };

static void put_address(struct writer *writer, const struct clusterprobe_address *address)
{
	writer_put_block(writer, address->ip, sizeof(address->ip));
	writer_put(writer, address->port, 2);
}

static void get_address(struct reader *reader, struct clusterprobe_address *ret)
{
	reader_get_block(reader, ret->ip, sizeof(ret->ip));
	ret->port = (uint16_t)reader_get(reader, 2);
}

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

size_t clusterprobe_message_put(const struct clusterprobe_message *message, uint8_t *payload)
{
	struct writer writer = { payload };

	writer_put(&writer, (uint64_t)message->kind, 1);
	switch (message->kind) {
	case CLUSTERPROBE_HELLO:
		writer_put(&writer, HELLO_MAGIC, 4);
		writer_put(&writer, CLUSTERPROBE_VERSION, 2);
		writer_put(&writer, message->rank, 4);
		writer_put(&writer, message->boot, 8);
		put_address(&writer, &message->address);
		writer_put_text(&writer, message->name, sizeof(message->name));
		break;
	case CLUSTERPROBE_RATES:
	case CLUSTERPROBE_ROUND:
		writer_put(&writer, message->round, 4);
		writer_put(&writer, message->duration_ms, 4);
		writer_put(&writer, message->task_count, 2);
		for (size_t i = 0; i < message->task_count; i++) {
			writer_put(&writer, message->tasks[i].flow, 2);
			writer_put(&writer, message->tasks[i].peer, 2);
			writer_put(&writer, message->tasks[i].rate_Bps, 8);
		}
		break;
	case CLUSTERPROBE_LATENCIES:
	case CLUSTERPROBE_PING:
		writer_put(&writer, message->round, 4);
		writer_put(&writer, message->peer, 2);
		writer_put(&writer, message->median_ns, 8);
		writer_put(&writer, message->least_ns, 8);
		break;
	case CLUSTERPROBE_WELCOME:
		writer_put(&writer, message->index, 2);
		writer_put(&writer, message->streams, 4);
		writer_put(&writer, message->limit_Bps, 8);
		writer_put_block(&writer, message->token, sizeof(message->token));
		break;
	case CLUSTERPROBE_PEERS:
		writer_put(&writer, message->first, 2);
		writer_put(&writer, message->peer_count, 2);
		for (size_t i = 0; i < message->peer_count; i++)
			put_address(&writer, &message->peers[i]);
		break;
	case CLUSTERPROBE_TROUBLE:
	case CLUSTERPROBE_END:
		writer_put_text(&writer, message->sentence, sizeof(message->sentence));
		break;
	case CLUSTERPROBE_HERE:
	case CLUSTERPROBE_NONE:
	case CLUSTERPROBE_KIND_COUNT:
		break;
	}
	return (size_t)(writer.at - payload);
}

static void get_tasks(struct reader *reader, struct clusterprobe_message *ret)
{
	ret->round = (uint32_t)reader_get(reader, 4);
	ret->duration_ms = (uint32_t)reader_get(reader, 4);
	ret->task_count = reader_get(reader, 2);
	if (ret->task_count > CLUSTERPROBE_TASKS_MAX || ret->duration_ms > 60000)
		reader->bad = true;
	for (size_t i = 0; i < ret->task_count && !reader->bad; i++) {
		ret->tasks[i].flow = (uint16_t)reader_get(reader, 2);
		ret->tasks[i].peer = (uint16_t)reader_get(reader, 2);
		ret->tasks[i].rate_Bps = reader_get(reader, 8);
	}
}

static void get_peers(struct reader *reader, struct clusterprobe_message *ret)
{
	ret->first = (uint16_t)reader_get(reader, 2);
	ret->peer_count = reader_get(reader, 2);
	if (ret->peer_count > CLUSTERPROBE_PEERS_MAX || ret->first + ret->peer_count > FABRIC_HOSTS_MAX)
		reader->bad = true;
	for (size_t i = 0; i < ret->peer_count && !reader->bad; i++)
		get_address(reader, &ret->peers[i]);
}

static int get_hello(struct reader *reader, struct clusterprobe_message *ret)
{
	bool named = reader_get(reader, 4) == HELLO_MAGIC;

	ret->version = named ? (uint16_t)reader_get(reader, 2) : 1;
	if (ret->version != CLUSTERPROBE_VERSION && !reader->bad)
		return -EPROTO;
	ret->rank = (uint32_t)reader_get(reader, 4);
	ret->boot = reader_get(reader, 8);
	get_address(reader, &ret->address);
	reader_get_text(reader, ret->name, sizeof(ret->name));
	return 0;
}

int clusterprobe_message_get(const uint8_t *payload, size_t bytes, bool from_worker, struct clusterprobe_message *ret)
{
	struct reader reader = { payload, payload + bytes, false };
	uint64_t kind = reader_get(&reader, 1);

	if (kind == CLUSTERPROBE_NONE || kind >= CLUSTERPROBE_KIND_COUNT ||
	    from_worker != (kind <= CLUSTERPROBE_TROUBLE))
		return -EBADMSG;
	ret->kind = (enum clusterprobe_kind)kind;
	switch (ret->kind) {
	case CLUSTERPROBE_HELLO:
		if (get_hello(&reader, ret) < 0)
			return -EPROTO;
		break;
	case CLUSTERPROBE_RATES:
	case CLUSTERPROBE_ROUND:
		get_tasks(&reader, ret);
		break;
	case CLUSTERPROBE_LATENCIES:
	case CLUSTERPROBE_PING:
		ret->round = (uint32_t)reader_get(&reader, 4);
		ret->peer = (uint16_t)reader_get(&reader, 2);
		ret->median_ns = reader_get(&reader, 8);
		ret->least_ns = reader_get(&reader, 8);
		break;
	case CLUSTERPROBE_WELCOME:
		ret->index = (uint16_t)reader_get(&reader, 2);
		ret->streams = (uint32_t)reader_get(&reader, 4);
		ret->limit_Bps = reader_get(&reader, 8);
		reader_get_block(&reader, ret->token, sizeof(ret->token));
		break;
	case CLUSTERPROBE_PEERS:
		get_peers(&reader, ret);
		break;
	case CLUSTERPROBE_TROUBLE:
	case CLUSTERPROBE_END:
		reader_get_text(&reader, ret->sentence, sizeof(ret->sentence));
		break;
	case CLUSTERPROBE_HERE:
	case CLUSTERPROBE_NONE:
	case CLUSTERPROBE_KIND_COUNT:
		break;
	}
	return reader.bad || reader.at != reader.end ? -EBADMSG : 0;
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
