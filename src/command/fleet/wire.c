/* Messages of the fleet, little-endian, byte by byte; this file alone knows an offset. */
#include "command/fleet/fleet.h"

#include "base/cursor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define KNOCK_MAGIC UINT32_C(0x46425254) /* "TRBF" */
#define HELLO_MAGIC UINT32_C(0x48425254) /* "TRBH" */
enum { KNOCK_VERSION = 1 };

static void put_address(struct writer *writer, const struct fleet_address *address)
{
	writer_put_block(writer, address->ip, sizeof(address->ip));
	writer_put(writer, address->port, 2);
}

static void get_address(struct reader *reader, struct fleet_address *ret)
{
	reader_get_block(reader, ret->ip, sizeof(ret->ip));
	ret->port = (uint16_t)reader_get(reader, 2);
}

/* ----------------------------------------------------------------------------------------------------------- addresses */

static const uint8_t v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

void fleet_address_of(const struct sockaddr_storage *from, struct fleet_address *ret)
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

socklen_t fleet_address_to(const struct fleet_address *from, struct sockaddr_storage *ret)
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

bool fleet_address_is_loopback(const struct fleet_address *address)
{
	static const uint8_t six[16] = { [15] = 1 };

	if (!memcmp(address->ip, v4_prefix, sizeof(v4_prefix)))
		return address->ip[sizeof(v4_prefix)] == 127;
	return !memcmp(address->ip, six, sizeof(six));
}

bool fleet_address_widen(const char *given, struct sockaddr_storage *address)
{
	struct fleet_address at;
	uint8_t number[16];

	fleet_address_of(address, &at);
	if (!fleet_address_is_loopback(&at))
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

size_t fleet_message_put(const struct fleet_message *message, uint8_t *payload)
{
	struct writer writer = { payload };

	writer_put(&writer, (uint64_t)message->kind, 1);
	switch (message->kind) {
	case FLEET_HELLO:
		writer_put(&writer, HELLO_MAGIC, 4);
		writer_put(&writer, FLEET_VERSION, 2);
		writer_put(&writer, message->rank, 4);
		writer_put(&writer, message->boot, 8);
		put_address(&writer, &message->address);
		writer_put_text(&writer, message->name, sizeof(message->name));
		break;
	case FLEET_RATES:
	case FLEET_ROUND:
		writer_put(&writer, message->round, 4);
		writer_put(&writer, message->duration_ms, 4);
		writer_put(&writer, message->task_count, 2);
		for (size_t i = 0; i < message->task_count; i++) {
			writer_put(&writer, message->tasks[i].flow, 2);
			writer_put(&writer, message->tasks[i].peer, 2);
			writer_put(&writer, message->tasks[i].rate_Bps, 8);
		}
		break;
	case FLEET_LATENCIES:
	case FLEET_PING:
		writer_put(&writer, message->round, 4);
		writer_put(&writer, message->peer, 2);
		writer_put(&writer, message->median_ns, 8);
		writer_put(&writer, message->least_ns, 8);
		break;
	case FLEET_WELCOME:
		writer_put(&writer, message->index, 2);
		writer_put(&writer, message->streams, 4);
		writer_put(&writer, message->limit_Bps, 8);
		writer_put_block(&writer, message->token, sizeof(message->token));
		break;
	case FLEET_PEERS:
		writer_put(&writer, message->first, 2);
		writer_put(&writer, message->peer_count, 2);
		for (size_t i = 0; i < message->peer_count; i++)
			put_address(&writer, &message->peers[i]);
		break;
	case FLEET_TROUBLE:
	case FLEET_END:
		writer_put_text(&writer, message->sentence, sizeof(message->sentence));
		break;
	case FLEET_HERE:
	case FLEET_NONE:
	case FLEET_KIND_COUNT:
		break;
	}
	return (size_t)(writer.at - payload);
}

static void get_tasks(struct reader *reader, struct fleet_message *ret)
{
	ret->round = (uint32_t)reader_get(reader, 4);
	ret->duration_ms = (uint32_t)reader_get(reader, 4);
	ret->task_count = reader_get(reader, 2);
	if (ret->task_count > FLEET_TASKS_MAX || ret->duration_ms > 60000)
		reader->bad = true;
	for (size_t i = 0; i < ret->task_count && !reader->bad; i++) {
		ret->tasks[i].flow = (uint16_t)reader_get(reader, 2);
		ret->tasks[i].peer = (uint16_t)reader_get(reader, 2);
		ret->tasks[i].rate_Bps = reader_get(reader, 8);
	}
}

static void get_peers(struct reader *reader, struct fleet_message *ret)
{
	ret->first = (uint16_t)reader_get(reader, 2);
	ret->peer_count = reader_get(reader, 2);
	if (ret->peer_count > FLEET_PEERS_MAX || ret->first + ret->peer_count > FABRIC_HOSTS_MAX)
		reader->bad = true;
	for (size_t i = 0; i < ret->peer_count && !reader->bad; i++)
		get_address(reader, &ret->peers[i]);
}

static int get_hello(struct reader *reader, struct fleet_message *ret)
{
	bool named = reader_get(reader, 4) == HELLO_MAGIC;

	ret->version = named ? (uint16_t)reader_get(reader, 2) : 1;
	if (ret->version != FLEET_VERSION && !reader->bad)
		return -EPROTO;
	ret->rank = (uint32_t)reader_get(reader, 4);
	ret->boot = reader_get(reader, 8);
	get_address(reader, &ret->address);
	reader_get_text(reader, ret->name, sizeof(ret->name));
	return 0;
}

int fleet_message_get(const uint8_t *payload, size_t bytes, bool from_member, struct fleet_message *ret)
{
	struct reader reader = { payload, payload + bytes, false };
	uint64_t kind = reader_get(&reader, 1);

	if (kind == FLEET_NONE || kind >= FLEET_KIND_COUNT || from_member != (kind <= FLEET_TROUBLE))
		return -EBADMSG;
	ret->kind = (enum fleet_kind)kind;
	switch (ret->kind) {
	case FLEET_HELLO:
		if (get_hello(&reader, ret) < 0)
			return -EPROTO;
		break;
	case FLEET_RATES:
	case FLEET_ROUND:
		get_tasks(&reader, ret);
		break;
	case FLEET_LATENCIES:
	case FLEET_PING:
		ret->round = (uint32_t)reader_get(&reader, 4);
		ret->peer = (uint16_t)reader_get(&reader, 2);
		ret->median_ns = reader_get(&reader, 8);
		ret->least_ns = reader_get(&reader, 8);
		break;
	case FLEET_WELCOME:
		ret->index = (uint16_t)reader_get(&reader, 2);
		ret->streams = (uint32_t)reader_get(&reader, 4);
		ret->limit_Bps = reader_get(&reader, 8);
		reader_get_block(&reader, ret->token, sizeof(ret->token));
		break;
	case FLEET_PEERS:
		get_peers(&reader, ret);
		break;
	case FLEET_TROUBLE:
	case FLEET_END:
		reader_get_text(&reader, ret->sentence, sizeof(ret->sentence));
		break;
	case FLEET_HERE:
	case FLEET_NONE:
	case FLEET_KIND_COUNT:
		break;
	}
	return reader.bad || reader.at != reader.end ? -EBADMSG : 0;
}

/* -------------------------------------------------------------------------------------------------------------- knocks */

void fleet_knock_put(const struct fleet_knock *knock, uint8_t bytes[static FLEET_KNOCK_BYTES])
{
	struct writer writer = { bytes };

	writer_put(&writer, KNOCK_MAGIC, 4);
	writer_put(&writer, KNOCK_VERSION, 1);
	writer_put(&writer, knock->echo, 1);
	writer_put(&writer, knock->flow, 2);
	writer_put(&writer, knock->round, 4);
	writer_put_block(&writer, knock->token, sizeof(knock->token));
	writer_put(&writer, 0, 4);
}

int fleet_knock_get(const uint8_t bytes[static FLEET_KNOCK_BYTES], struct fleet_knock *ret)
{
	struct reader reader = { bytes, bytes + FLEET_KNOCK_BYTES, false };
	uint64_t magic = reader_get(&reader, 4), version = reader_get(&reader, 1), echo = reader_get(&reader, 1);

	if (magic != KNOCK_MAGIC || version != KNOCK_VERSION || echo > 1)
		return -EBADMSG;
	ret->echo = echo != 0;
	ret->flow = (uint16_t)reader_get(&reader, 2);
	ret->round = (uint32_t)reader_get(&reader, 4);
	reader_get_block(&reader, ret->token, sizeof(ret->token));
	return 0;
}
