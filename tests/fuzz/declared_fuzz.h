/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzers of declared clusters must all find true. */
#ifndef TESTS_FUZZ_DECLARED_FUZZ_H
#define TESTS_FUZZ_DECLARED_FUZZ_H

#include "base/log.h"
#include "base/sys.h"
#include "support/fuzz.h"
#include "tributary/cluster.h"

#include <errno.h>

/* r, cluster, diag: as a reader left them. The cluster is freed. */
static inline void declared_check(int r, struct cluster *cluster, const struct diag *diag)
{
	struct cluster *again = NULL;
	struct diag why = { 0 };
	char *text = NULL;
	size_t bytes;

	if (r < 0) {
		fuzz_must(r == -EINVAL && !cluster && diag->text[0]);
		return;
	}
	fuzz_must(cluster->host_count >= 1 && cluster->host_count <= CLUSTER_HOSTS_MAX);
	fuzz_must(cluster->switch_count >= 1 && cluster->switch_count <= CLUSTER_SWITCHES_MAX);
	fuzz_must(!cluster_format(cluster, &text, &bytes) && !cluster_read(text, bytes, &again, &why));
	fuzz_must(again->fingerprint == cluster->fingerprint);
	sys_free(text);
	cluster_free(again);
	cluster_free(cluster);
}

#endif
