/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of numbers of streams, from anybody: as it is, and with the sum that fits. What is read is written, and that is read
 * back as the same.
 */
#include "base/bytes.h"
#include "support/fuzz.h"
#include "transport/tcp/streams_measure.h"
#include "transport/tcp/streams_memory.h"

#include <errno.h>

enum { NOW_S = 2000000000 };

static void read_one(const uint8_t *data, size_t bytes)
{
	static struct tcp_streams_memory memory, again;
	uint8_t text[TCP_STREAMS_MEMORY_BYTES];
	int r = tcp_streams_memory_read(data, bytes, &memory);

	fuzz_must(r == 0 || r == -EBADMSG || r == -EPROTO);
	fuzz_must(memory.count <= TCP_STREAMS_MEMORY_ENTRIES && (r == 0 || memory.count == 0));
	for (unsigned i = 0; i < memory.count; i++) {
		const struct tcp_streams_memory_entry *entry = &memory.entries[i];
		const unsigned found = tcp_streams_memory_find(&memory, &entry->key, NOW_S);

		fuzz_must_be_text(entry->key.interface, sizeof(entry->key.interface));
		fuzz_must(found == 0 || (found >= 2 && found <= TCP_STREAMS_RAIL_MAX));
	}
	if (r < 0)
		return;
	fuzz_must(tcp_streams_memory_write(&memory, text) == bytes && !memcmp(text, data, bytes));
	if (memory.count) {
		const struct tcp_streams_memory_key key = memory.entries[0].key;

		tcp_streams_memory_put(&memory, &key, 7, NOW_S);
		fuzz_must(tcp_streams_memory_find(&memory, &key, NOW_S) == 7);
		fuzz_must(tcp_streams_memory_read(text, tcp_streams_memory_write(&memory, text), &again) == 0);
		fuzz_must(again.count == memory.count);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t *exact = calloc(bytes ? bytes : 1, 1); /* so that a byte read beyond it is seen */

	fuzz_must(exact != NULL);
	if (bytes)
		memcpy(exact, data, bytes);
	read_one(exact, bytes);
	if (bytes >= 4) {
		bytes_put(exact + bytes - 4, bytes_checksum(exact, bytes - 4), 4);
		read_one(exact, bytes);
	}
	free(exact);
	return 0;
}
