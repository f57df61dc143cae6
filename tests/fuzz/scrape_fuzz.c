/* SPDX-License-Identifier: Apache-2.0 */
/* What asks tributaryd for its metrics: a request is judged alike however its bytes come, and read no further than they do. */
#include "daemon/daemon.h"
#include "support/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	enum daemon_request whole, part = DAEMON_REQUEST_MORE;
	char *text;

	if (bytes > DAEMON_REQUEST_BYTES)
		return 0;
	text = malloc(bytes + !bytes); /* of its own, so that a read behind it is found */
	fuzz_must(text != NULL);
	memcpy(text, data, bytes);
	whole = daemon_scrape_request(text, bytes);
	fuzz_must(whole != DAEMON_REQUEST_LONG || bytes == DAEMON_REQUEST_BYTES);
	for (size_t i = 1; i <= bytes && part == DAEMON_REQUEST_MORE; i++)
		part = daemon_scrape_request(text, i);
	/* Once it has an end, what follows does not matter, but for a NUL. */
	fuzz_must(part == whole || whole == DAEMON_REQUEST_WRONG);
	fuzz_must(whole != DAEMON_REQUEST_METRICS || !strncmp(text, "GET /metrics HTTP/1.", 20));
	free(text);
	return 0;
}
