/* Messages of the fleet, little-endian, byte by byte; this file alone knows an offset. */
#include "command/fleet/fleet.h"

#include "base/bytes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define KNOCK_MAGIC UINT32_C(0x46425254) /* "TRBF" */
#define HELLO_MAGIC UINT32_C(0x48425254) /* "TRBH" */
enum { KNOCK_VERSION = 1 };

struct pen {
	uint8_t *at;
};
struct eye {
	const uint8_t *at, *end;
	bool short_of;
};

static void put(struct pen *pen, uint64_t value, unsigned bytes)
{
	bytes_put(pen->at, value, bytes);
	pen->at += bytes;
}

static void put_block(struct pen *pen, const void *block, size_t bytes)
{
	memcpy(pen->at, block, bytes);
	pen->at += bytes;
}

static uint64_t get(struct eye *eye, unsigned bytes)
{
	uint64_t value;

	if ((size_t)(eye->end - eye->at) < bytes) {
		eye->short_of = true;
		return 0;
	}
	value = bytes_get(eye->at, bytes);
	eye->at += bytes;
	return value;
}

static void get_block(struct eye *eye, void *ret, size_t bytes)
{
	if ((size_t)(eye->end - eye->at) < bytes) {
		eye->short_of = true;
		memset(ret, 0, bytes);
		return;
	}
	memcpy(ret, eye->at, bytes);
	eye->at += bytes;
}

/* Printable ASCII with its NUL. */
static void get_text(struct eye *eye, char *ret, size_t bytes)
{
	get_block(eye, ret, bytes);
	if (ret[bytes - 1] != '\0')
		eye->short_of = true;
	ret[bytes - 1] = '\0';
	for (char *at = ret; *at; at++)
		if (*at < 0x20 || *at > 0x7e)
			*at = '?';
}

static void put_address(struct pen *pen, const struct fleet_address *address)
{
	put_block(pen, address->ip, sizeof(address->ip));
	put(pen, address->port, 2);
}

static void get_address(struct eye *eye, struct fleet_address *ret)
{
	get_block(eye, ret->ip, sizeof(ret->ip));
	ret->port = (uint16_t)get(eye, 2);
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
	struct pen pen = { payload };

	put(&pen, (uint64_t)message->kind, 1);
	switch (message->kind) {
	case FLEET_HELLO:
		put(&pen, HELLO_MAGIC, 4);
		put(&pen, FLEET_VERSION, 2);
		put(&pen, message->rank, 4);
		put(&pen, message->boot, 8);
		put_address(&pen, &message->address);
		put_block(&pen, message->name, sizeof(message->name));
		break;
	case FLEET_RATES:
	case FLEET_ROUND:
		put(&pen, message->round, 4);
		put(&pen, message->duration_ms, 4);
		put(&pen, message->task_count, 2);
		for (size_t i = 0; i < message->task_count; i++) {
			put(&pen, message->tasks[i].flow, 2);
			put(&pen, message->tasks[i].peer, 2);
			put(&pen, message->tasks[i].rate_Bps, 8);
		}
		break;
	case FLEET_LATENCIES:
	case FLEET_PING:
		put(&pen, message->round, 4);
		put(&pen, message->peer, 2);
		put(&pen, message->median_ns, 8);
		put(&pen, message->least_ns, 8);
		break;
	case FLEET_WELCOME:
		put(&pen, message->index, 2);
		put(&pen, message->streams, 4);
		put(&pen, message->limit_Bps, 8);
		put_block(&pen, message->token, sizeof(message->token));
		break;
	case FLEET_PEERS:
		put(&pen, message->first, 2);
		put(&pen, message->peer_count, 2);
		for (size_t i = 0; i < message->peer_count; i++)
			put_address(&pen, &message->peers[i]);
		break;
	case FLEET_TROUBLE:
	case FLEET_END:
		put_block(&pen, message->sentence, sizeof(message->sentence));
		break;
	case FLEET_HERE:
	case FLEET_NONE:
	case FLEET_KIND_COUNT:
		break;
	}
	return (size_t)(pen.at - payload);
}

static void get_tasks(struct eye *eye, struct fleet_message *ret)
{
	ret->round = (uint32_t)get(eye, 4);
	ret->duration_ms = (uint32_t)get(eye, 4);
	ret->task_count = get(eye, 2);
	if (ret->task_count > FLEET_TASKS_MAX || ret->duration_ms > 60000)
		eye->short_of = true;
	for (size_t i = 0; i < ret->task_count && !eye->short_of; i++) {
		ret->tasks[i].flow = (uint16_t)get(eye, 2);
		ret->tasks[i].peer = (uint16_t)get(eye, 2);
		ret->tasks[i].rate_Bps = get(eye, 8);
	}
}

static void get_peers(struct eye *eye, struct fleet_message *ret)
{
	ret->first = (uint16_t)get(eye, 2);
	ret->peer_count = get(eye, 2);
	if (ret->peer_count > FLEET_PEERS_MAX || ret->first + ret->peer_count > FABRIC_HOSTS_MAX)
		eye->short_of = true;
	for (size_t i = 0; i < ret->peer_count && !eye->short_of; i++)
		get_address(eye, &ret->peers[i]);
}

static int get_hello(struct eye *eye, struct fleet_message *ret)
{
	bool named = get(eye, 4) == HELLO_MAGIC;

	ret->version = named ? (uint16_t)get(eye, 2) : 1;
	if (ret->version != FLEET_VERSION && !eye->short_of)
		return -EPROTO;
	ret->rank = (uint32_t)get(eye, 4);
	ret->boot = get(eye, 8);
	get_address(eye, &ret->address);
	get_text(eye, ret->name, sizeof(ret->name));
	return 0;
}

int fleet_message_get(const uint8_t *payload, size_t bytes, bool from_member, struct fleet_message *ret)
{
	struct eye eye = { payload, payload + bytes, false };
	uint64_t kind = get(&eye, 1);

	if (kind == FLEET_NONE || kind >= FLEET_KIND_COUNT || from_member != (kind <= FLEET_TROUBLE))
		return -EBADMSG;
	ret->kind = (enum fleet_kind)kind;
	switch (ret->kind) {
	case FLEET_HELLO:
		if (get_hello(&eye, ret) < 0)
			return -EPROTO;
		break;
	case FLEET_RATES:
	case FLEET_ROUND:
		get_tasks(&eye, ret);
		break;
	case FLEET_LATENCIES:
	case FLEET_PING:
		ret->round = (uint32_t)get(&eye, 4);
		ret->peer = (uint16_t)get(&eye, 2);
		ret->median_ns = get(&eye, 8);
		ret->least_ns = get(&eye, 8);
		break;
	case FLEET_WELCOME:
		ret->index = (uint16_t)get(&eye, 2);
		ret->streams = (uint32_t)get(&eye, 4);
		ret->limit_Bps = get(&eye, 8);
		get_block(&eye, ret->token, sizeof(ret->token));
		break;
	case FLEET_PEERS:
		get_peers(&eye, ret);
		break;
	case FLEET_TROUBLE:
	case FLEET_END:
		get_text(&eye, ret->sentence, sizeof(ret->sentence));
		break;
	case FLEET_HERE:
	case FLEET_NONE:
	case FLEET_KIND_COUNT:
		break;
	}
	return eye.short_of || eye.at != eye.end ? -EBADMSG : 0;
}

/* -------------------------------------------------------------------------------------------------------------- knocks */

void fleet_knock_put(const struct fleet_knock *knock, uint8_t bytes[static FLEET_KNOCK_BYTES])
{
	struct pen pen = { bytes };

	put(&pen, KNOCK_MAGIC, 4);
	put(&pen, KNOCK_VERSION, 1);
	put(&pen, knock->echo, 1);
	put(&pen, knock->flow, 2);
	put(&pen, knock->round, 4);
	put_block(&pen, knock->token, sizeof(knock->token));
	put(&pen, 0, 4);
}

int fleet_knock_get(const uint8_t bytes[static FLEET_KNOCK_BYTES], struct fleet_knock *ret)
{
	struct eye eye = { bytes, bytes + FLEET_KNOCK_BYTES, false };
	uint64_t magic = get(&eye, 4), version = get(&eye, 1), echo = get(&eye, 1);

	if (magic != KNOCK_MAGIC || version != KNOCK_VERSION || echo > 1)
		return -EBADMSG;
	ret->echo = echo != 0;
	ret->flow = (uint16_t)get(&eye, 2);
	ret->round = (uint32_t)get(&eye, 4);
	get_block(&eye, ret->token, sizeof(ret->token));
	return 0;
}
