/* What the fuzzers of declared clusters must all find true. */
#ifndef TESTS_FUZZ_DECLARED_FUZZ_H
#define TESTS_FUZZ_DECLARED_FUZZ_H

#include "base/log.h"
#include "base/sys.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static inline void declared_must(bool truth)
{
	if (!truth)
		abort();
}

/* r, cluster, diag: as a reader left them. The cluster is freed. */
static inline void declared_check(int r, struct cluster *cluster, const struct diag *diag)
{
	struct cluster *again = NULL;
	struct diag why = { 0 };
	char *text = NULL;
	size_t bytes;

	if (r < 0) {
		declared_must(r == -EINVAL && !cluster && diag->text[0]);
		return;
	}
	declared_must(cluster->host_count >= 1 && cluster->host_count <= CLUSTER_HOSTS_MAX);
	declared_must(cluster->switch_count >= 1 && cluster->switch_count <= CLUSTER_SWITCHES_MAX);
	declared_must(!cluster_format(cluster, &text, &bytes) && !cluster_read(text, bytes, &again, &why));
	declared_must(again->fingerprint == cluster->fingerprint);
	sys_free(text);
	cluster_free(again);
	cluster_free(cluster);
}

#endif
