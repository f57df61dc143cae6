/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hosts of `tributary cluster measure` say to each other, as bytes from anybody: messages to rank 0 and from it, and the
 * first bytes of a connection for data. What decodes is in range, and is the same after it was encoded and decoded once
 * more. The first byte of an input chooses which.
 */
#include "clusterprobe/clusterprobe.h"
#include "support/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* What does not belong to the kind stays as it was: both are zero there. */
static void message(const uint8_t *data, size_t bytes, bool from_worker)
{
	static struct clusterprobe_message first, second;
	static uint8_t again[CONTROL_PAYLOAD_MAX];
	size_t length;

	memset(&first, 0, sizeof(first));
	memset(&second, 0, sizeof(second));
	if (clusterprobe_message_get(data, bytes, from_worker, &first) < 0)
		return;
	fuzz_must(first.kind > CLUSTERPROBE_NONE && first.kind < CLUSTERPROBE_KIND_COUNT);
	fuzz_must(from_worker == (first.kind <= CLUSTERPROBE_TROUBLE));
	fuzz_must(first.task_count <= CLUSTERPROBE_TASKS_MAX && first.peer_count <= CLUSTERPROBE_PEERS_MAX);
	fuzz_must(first.text_bytes <= CLUSTERPROBE_TEXT_BYTES && !first.text[first.text_bytes]);
	fuzz_must(first.first + first.peer_count <= FABRIC_HOSTS_MAX);
	fuzz_must_be_text(first.name, sizeof(first.name));
	fuzz_must_be_text(first.sentence, sizeof(first.sentence));
	length = clusterprobe_message_put(&first, again);
	fuzz_must(length == bytes && length <= sizeof(again));
	fuzz_must(clusterprobe_message_get(again, length, from_worker, &second) == 0);
	fuzz_must(first.kind == second.kind && first.rank == second.rank && first.boot == second.boot &&
		  first.version == second.version && first.round == second.round &&
		  first.duration_ms == second.duration_ms && first.streams == second.streams &&
		  first.index == second.index && first.peer == second.peer && first.first == second.first &&
		  first.limit_Bps == second.limit_Bps && first.median_ns == second.median_ns &&
		  first.least_ns == second.least_ns && first.task_count == second.task_count &&
		  first.peer_count == second.peer_count && first.text_bytes == second.text_bytes &&
		  !memcmp(first.text, second.text, first.text_bytes));
	fuzz_must(!memcmp(first.token, second.token, sizeof(first.token)) && !strcmp(first.name, second.name) &&
		  !strcmp(first.sentence, second.sentence));
	for (size_t i = 0; i < first.task_count; i++)
		fuzz_must(first.tasks[i].flow == second.tasks[i].flow && first.tasks[i].peer == second.tasks[i].peer &&
			  first.tasks[i].rate_Bps == second.tasks[i].rate_Bps);
	for (size_t i = 0; i < first.peer_count; i++)
		fuzz_must(!memcmp(first.peers[i].ip, second.peers[i].ip, sizeof(first.peers[i].ip)) &&
			  first.peers[i].port == second.peers[i].port);
}

static void preamble(const uint8_t *bytes)
{
	struct clusterprobe_preamble first, second;
	uint8_t again[CLUSTERPROBE_PREAMBLE_BYTES];

	if (clusterprobe_preamble_codec(CODEC_FROM(bytes, CLUSTERPROBE_PREAMBLE_BYTES), &first) < 0)
		return;
	clusterprobe_preamble_codec(CODEC_TO(again), &first);
	fuzz_must(clusterprobe_preamble_codec(CODEC_FROM(again, CLUSTERPROBE_PREAMBLE_BYTES), &second) == 0);
	fuzz_must(first.echo == second.echo && first.flow == second.flow && first.round == second.round &&
		  !memcmp(first.token, second.token, sizeof(first.token)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t *exact;

	if (bytes < 1 || bytes > 1 + CONTROL_PAYLOAD_MAX)
		return 0;
	/* In memory of its own, so that a byte beyond the end is noticed. */
	exact = malloc(bytes - 1 ? bytes - 1 : 1);
	if (!exact)
		return 0;
	memcpy(exact, data + 1, bytes - 1);
	if (data[0] % 3 < 2)
		message(exact, bytes - 1, data[0] % 3 == 0);
	else if (bytes - 1 == CLUSTERPROBE_PREAMBLE_BYTES)
		preamble(exact);
	free(exact);
	return 0;
}
