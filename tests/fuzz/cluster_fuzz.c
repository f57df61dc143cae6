/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster file, ours or Slurm's, as bytes from anybody. What is read is within its bounds and written canonically:
 * reading that gives the same text and fingerprint again.
 */
#include "base/log.h"
#include "support/fuzz.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *text_of(const struct cluster *cluster, size_t *ret_bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_bytes);

	fuzz_must(out && cluster_write(cluster, out) == 0);
	fclose(out);
	return text;
}

static void check(const struct cluster *cluster)
{
	fuzz_must(cluster->switch_count <= CLUSTER_SWITCHES_MAX && cluster->host_count <= CLUSTER_HOSTS_MAX &&
		  cluster->aggregator_count <= CLUSTER_AGGREGATORS_MAX);
	for (size_t i = 0; i < cluster->switch_count; i++)
		fuzz_must(cluster->switches[i].name[0] && cluster->switches[i].parent >= CLUSTER_NONE &&
			  cluster->switches[i].parent < (int)i);
	for (size_t i = 0; i < cluster->host_count; i++) {
		fuzz_must(cluster->hosts[i].leaf >= 0 && (size_t)cluster->hosts[i].leaf < cluster->switch_count);
		fuzz_must(cluster_find(cluster, cluster->hosts[i].name) == &cluster->hosts[i]);
	}
	for (size_t i = 0; i < cluster->aggregator_count; i++)
		fuzz_must(cluster->aggregators[i].leaf >= 0 && cluster->aggregators[i].port > 0 &&
			  (size_t)cluster->aggregators[i].leaf < cluster->switch_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct cluster *cluster = NULL, *again = NULL;
	size_t first_bytes, second_bytes;
	struct diag diag = { 0 };
	char *first, *second;
	int r = cluster_read((const char *)data, bytes, &cluster, &diag);

	if (r < 0) {
		fuzz_must(r == -EINVAL && !cluster && diag.line >= 1 && diag.column >= 1 && diag.text[0]);
		return 0;
	}
	check(cluster);
	first = text_of(cluster, &first_bytes);
	fuzz_must(cluster_read(first, first_bytes, &again, &diag) == 0);
	second = text_of(again, &second_bytes);
	fuzz_must(first_bytes == second_bytes && !memcmp(first, second, first_bytes));
	fuzz_must(cluster->fingerprint == again->fingerprint);
	free(first);
	free(second);
	cluster_free(cluster);
	cluster_free(again);
	return 0;
}
