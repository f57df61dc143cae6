/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a cluster measurement, little-endian, byte by byte; this file alone knows an offset. */
#include "clusterprobe/clusterprobe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static const uint8_t hello_magic[4] = { 'T', 'R', 'B', 'H' };

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

static void code_address(struct codec *codec, struct clusterprobe_address *address)
{
	codec_block(codec, address->ip, sizeof(address->ip));
	CODEC_NUMBER(codec, address->port, 2);
}

static void code_tasks(struct codec *codec, struct clusterprobe_message *message)
{
	CODEC_NUMBER(codec, message->round, 4);
	CODEC_NUMBER(codec, message->duration_ms, 4);
	CODEC_NUMBER(codec, message->task_count, 2);
	codec_check(codec, message->task_count <= CLUSTERPROBE_TASKS_MAX && message->duration_ms <= 60000);
	for (size_t i = 0; i < message->task_count && !codec->error; i++) {
		CODEC_NUMBER(codec, message->tasks[i].flow, 2);
		CODEC_NUMBER(codec, message->tasks[i].peer, 2);
		CODEC_NUMBER(codec, message->tasks[i].rate_Bps, 8);
	}
}

static void code_peers(struct codec *codec, struct clusterprobe_message *message)
{
	CODEC_NUMBER(codec, message->first, 2);
	CODEC_NUMBER(codec, message->peer_count, 2);
	codec_check(codec, message->peer_count <= CLUSTERPROBE_PEERS_MAX &&
				   message->first + message->peer_count <= FABRIC_HOSTS_MAX);
	for (size_t i = 0; i < message->peer_count && !codec->error; i++)
		code_address(codec, &message->peers[i]);
}

static void code_text(struct codec *codec, struct clusterprobe_message *message)
{
	CODEC_NUMBER(codec, message->round, 4);
	CODEC_NUMBER(codec, message->text_bytes, 2);
	codec_check(codec, message->text_bytes <= CLUSTERPROBE_TEXT_BYTES);
	if (codec->error)
		return;
	codec_block(codec, message->text, message->text_bytes);
	if (!codec->out)
		message->text[message->text_bytes] = '\0';
}

/* What follows the kind; the version of a HELLO is not looked at. */
static void code_fields(struct codec *codec, struct clusterprobe_message *message)
{
	switch (message->kind) {
	case CLUSTERPROBE_HELLO:
		CODEC_NUMBER(codec, message->rank, 4);
		CODEC_NUMBER(codec, message->boot, 8);
		code_address(codec, &message->address);
		codec_text(codec, message->name, sizeof(message->name));
		break;
	case CLUSTERPROBE_RATES:
	case CLUSTERPROBE_ROUND:
		code_tasks(codec, message);
		break;
	case CLUSTERPROBE_LATENCIES:
	case CLUSTERPROBE_PING:
		CODEC_NUMBER(codec, message->round, 4);
		CODEC_NUMBER(codec, message->peer, 2);
		CODEC_NUMBER(codec, message->median_ns, 8);
		CODEC_NUMBER(codec, message->least_ns, 8);
		break;
	case CLUSTERPROBE_WELCOME:
		CODEC_NUMBER(codec, message->index, 2);
		CODEC_NUMBER(codec, message->streams, 4);
		CODEC_NUMBER(codec, message->limit_Bps, 8);
		codec_block(codec, message->token, sizeof(message->token));
		break;
	case CLUSTERPROBE_PEERS:
		code_peers(codec, message);
		break;
	case CLUSTERPROBE_ANSWER:
	case CLUSTERPROBE_ASK:
		code_text(codec, message);
		break;
	case CLUSTERPROBE_TROUBLE:
	case CLUSTERPROBE_END:
		codec_text(codec, message->sentence, sizeof(message->sentence));
		break;
	case CLUSTERPROBE_HERE:
	case CLUSTERPROBE_NONE:
	case CLUSTERPROBE_KIND_COUNT:
		break;
	}
}

size_t clusterprobe_message_put(struct clusterprobe_message *message, uint8_t *payload)
{
	struct codec *codec = CODEC_TO(payload);

	CODEC_NUMBER(codec, message->kind, 1);
	if (message->kind == CLUSTERPROBE_HELLO) {
		codec_magic(codec, hello_magic, sizeof(hello_magic));
		codec_version(codec, CLUSTERPROBE_VERSION);
	}
	code_fields(codec, message);
	return (size_t)(codec->out - payload);
}

int clusterprobe_message_get(const uint8_t *payload, size_t bytes, bool from_worker, struct clusterprobe_message *ret)
{
	struct codec *codec = CODEC_FROM(payload, bytes);

	CODEC_NUMBER(codec, ret->kind, 1);
	if (ret->kind == CLUSTERPROBE_NONE || ret->kind >= CLUSTERPROBE_KIND_COUNT ||
	    from_worker != (ret->kind <= CLUSTERPROBE_TROUBLE))
		return -EBADMSG;
	if (ret->kind == CLUSTERPROBE_HELLO && bytes > sizeof(hello_magic)) {
		ret->version = 1; /* which had no magic */
		if (memcmp(codec->in, hello_magic, sizeof(hello_magic)) != 0)
			return -EPROTO;
		codec_magic(codec, hello_magic, sizeof(hello_magic));
		codec_version(codec, CLUSTERPROBE_VERSION);
		ret->version = codec->version;
	}
	code_fields(codec, ret);
	return codec_end(codec);
}

/* -------------------------------------------------------------------------------------------------------------- preambles */

int clusterprobe_preamble_codec(struct codec *codec, struct clusterprobe_preamble *preamble)
{
	codec_magic(codec, "TRBF\x01", 5); /* and the version */
	codec_bool(codec, &preamble->echo, 1);
	CODEC_NUMBER(codec, preamble->flow, 2);
	CODEC_NUMBER(codec, preamble->round, 4);
	codec_block(codec, preamble->token, sizeof(preamble->token));
	codec_zeros(codec, 4);
	return codec_end(codec);
}
