/*
 * What lldpctl prints, as bytes from anybody. What is read is within its bounds, and written in our own form it means the
 * same.
 */
#include "discover/lldp.h"

#include "declared_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };
	int r = lldp_read((const char *)data, bytes, "here", &cluster, &diag);

	declared_check(r, cluster, &diag);
	return 0;
}
