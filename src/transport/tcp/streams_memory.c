/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/streams_memory.h"

#include "base/codec.h"
#include "base/minmax.h"
#include "transport/tcp/streams_measure.h"
#include "transport/tcp/tcp.h"

#include <stdio.h>
#include <string.h>

#define MAGIC "TRIBSTRM"
enum { VERSION = 1, DAY_S = 24 * 3600, CLOCKS_DIFFER_S = 60 }; /* of hosts that share a home */

static void clear_host(uint8_t address[static 16], unsigned prefix)
{
	for (unsigned bit = prefix; bit < 128; bit++)
		address[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
}

struct tcp_streams_memory_key tcp_streams_memory_key(const struct tcp_interface *interface,
						     const struct sockaddr_storage *peer)
{
	struct tcp_streams_memory_key key = { .speed_Bps = interface->speed_assumed ? 0 : interface->speed_Bps };
	struct tcp_wire_address own, other;

	snprintf(key.interface, sizeof(key.interface), "%s", interface->name);
	tcp_socket_wire_address(&interface->address, 0, &own);
	tcp_socket_wire_address(peer, 0, &other);
	key.family = other.family;
	key.prefix = (uint8_t)interface->prefix_bits;
	memcpy(key.subnet, other.bytes, sizeof(key.subnet));
	clear_host(key.subnet, key.prefix);
	clear_host(own.bytes, key.prefix);
	if (!key.prefix || own.family != other.family || memcmp(own.bytes, key.subnet, sizeof(key.subnet)) != 0) {
		key.prefix = other.family == 6 ? 64 : 24;
		memcpy(key.subnet, other.bytes, sizeof(key.subnet));
		clear_host(key.subnet, key.prefix);
	}
	return key;
}

static void entry_codec(struct codec *codec, struct tcp_streams_memory_entry *entry)
{
	struct tcp_streams_memory_key *key = &entry->key;
	uint8_t subnet[16];

	codec_text(codec, key->interface, sizeof(key->interface));
	CODEC_NUMBER(codec, key->speed_Bps, 8);
	CODEC_NUMBER(codec, key->family, 1);
	CODEC_NUMBER(codec, key->prefix, 1);
	codec_block(codec, key->subnet, sizeof(key->subnet));
	CODEC_NUMBER(codec, entry->streams, 1);
	CODEC_NUMBER(codec, entry->written_s, 8);
	codec_check(codec, key->interface[0] && (key->family == 4 || key->family == 6));
	codec_check(codec, key->prefix && key->prefix <= (key->family == 4 ? 32 : 128));
	memcpy(subnet, key->subnet, sizeof(subnet));
	clear_host(subnet, key->prefix);
	codec_check(codec, !memcmp(subnet, key->subnet, sizeof(subnet)));
	codec_check(codec, entry->streams >= 2 && entry->streams <= TCP_STREAMS_RAIL_MAX);
}

static int memory_codec(struct codec *codec, struct tcp_streams_memory *memory)
{
	codec_magic(codec, MAGIC, sizeof(MAGIC) - 1);
	codec_version(codec, VERSION);
	CODEC_NUMBER(codec, memory->count, 2);
	codec_check(codec, memory->count <= TCP_STREAMS_MEMORY_ENTRIES);
	for (unsigned i = 0; !codec->error && i < memory->count; i++)
		entry_codec(codec, &memory->entries[i]);
	codec_sum(codec);
	return codec_end(codec);
}

int tcp_streams_memory_read(const uint8_t *bytes, size_t count, struct tcp_streams_memory *ret)
{
	int r = memory_codec(CODEC_FROM(bytes, count), ret);

	if (r < 0)
		ret->count = 0;
	return r;
}

size_t tcp_streams_memory_write(const struct tcp_streams_memory *memory, uint8_t bytes[static TCP_STREAMS_MEMORY_BYTES])
{
	struct tcp_streams_memory copy = *memory;
	struct codec *codec = CODEC_TO(bytes);

	memory_codec(codec, &copy);
	return (size_t)(codec->out - bytes);
}

bool tcp_streams_memory_same(const struct tcp_streams_memory_key *a, const struct tcp_streams_memory_key *b)
{
	return !strcmp(a->interface, b->interface) && a->speed_Bps == b->speed_Bps && a->family == b->family &&
	       a->prefix == b->prefix && !memcmp(a->subnet, b->subnet, sizeof(a->subnet));
}

static bool is_valid(const struct tcp_streams_memory_entry *entry, uint64_t now_s)
{
	return entry->written_s <= now_s + CLOCKS_DIFFER_S && now_s <= entry->written_s + DAY_S;
}

unsigned tcp_streams_memory_find(const struct tcp_streams_memory *memory, const struct tcp_streams_memory_key *key,
				 uint64_t now_s)
{
	for (unsigned i = 0; i < memory->count; i++)
		if (tcp_streams_memory_same(&memory->entries[i].key, key) && is_valid(&memory->entries[i], now_s))
			return memory->entries[i].streams;
	return 0;
}

void tcp_streams_memory_put(struct tcp_streams_memory *memory, const struct tcp_streams_memory_key *key,
			    unsigned streams, uint64_t now_s)
{
	unsigned count = 0;

	for (unsigned i = 0; i < memory->count; i++) {
		const struct tcp_streams_memory_entry *entry = &memory->entries[i];

		if (!tcp_streams_memory_same(&entry->key, key) && is_valid(entry, now_s))
			memory->entries[count++] = *entry;
	}
	if (count == TCP_STREAMS_MEMORY_ENTRIES && streams > 1)
		memmove(memory->entries, memory->entries + 1, --count * sizeof(memory->entries[0]));
	if (streams > 1)
		memory->entries[count++] = (struct tcp_streams_memory_entry){
			.key = *key,
			.streams = (uint8_t)min_u64(streams, TCP_STREAMS_RAIL_MAX),
			.written_s = now_s,
		};
	memory->count = (uint16_t)count;
}
