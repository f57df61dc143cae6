/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ibnetdiscover prints, as bytes from anybody. What is read is within its bounds, and written in our own form it means the
 * same.
 */
#include "cluster/read/wiring.h"

#include "declared_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct cluster *cluster = NULL;
	struct wiring_options options = { .this_host = "here", .exclude = "x*,*[0-3],spine" };
	struct diag diag = { 0 };
	char *notes = NULL;
	int r = ibnetdiscover_read((const char *)data, bytes, &options, &cluster, &notes, &diag);

	free(notes);
	declared_check(r, cluster, &diag);
	return 0;
}
