/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clusters.h"

#include "base/random.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 1 << 20, LEAVES_MOST = 32 };

unsigned clusters_number(uint64_t *state, unsigned low, unsigned high)
{
	return low + (unsigned)random_below(state, high - low + 1);
}

static double uplink_Bps(uint64_t *state, double below_Bps)
{
	static const double ratios[] = { 0.5, 1, 1, 2, 2, 3, 4, 4, 8, 16 };

	return fmax(below_Bps / ratios[clusters_number(state, 0, 9)], CLUSTERS_HOST_BPS / 4);
}

static void add_rates(uint64_t *state, FILE *text, double below_Bps)
{
	double up_Bps = uplink_Bps(state, below_Bps),
	       down_Bps = clusters_number(state, 0, 3) ? up_Bps : uplink_Bps(state, below_Bps);

	fprintf(text, " up=%.0f down=%.0f\n", up_Bps, down_Bps);
}

static void write_cluster(uint64_t *state, FILE *text, unsigned size)
{
	unsigned leaves = clusters_number(state, 2, size > 3 ? LEAVES_MOST : 8),
		 pods = clusters_number(state, 0, 1) ? clusters_number(state, 2, 4) : 0, hosts = 0;
	unsigned slow = clusters_number(state, 0, 1) ? clusters_number(state, 5, 40) : 0; /* per cent of half rate */

	fputs("tributary-cluster 1\nswitch top\n", text);
	for (unsigned i = 0; i < pods; i++) {
		fprintf(text, "switch pod%u parent=top", i);
		add_rates(state, text, CLUSTERS_HOST_BPS * leaves * size * 2 / pods);
	}
	for (unsigned i = 0; i < leaves; i++) {
		unsigned count = clusters_number(state, 1, 4 * size);

		if (pods)
			fprintf(text, "switch leaf%u parent=pod%u", i, clusters_number(state, 0, pods - 1));
		else
			fprintf(text, "switch leaf%u parent=top", i);
		add_rates(state, text, CLUSTERS_HOST_BPS * count);
		for (unsigned j = 0; j < count; j++)
			fprintf(text, "host h%u leaf=leaf%u rate=%.0f\n", hosts++, i,
				clusters_number(state, 1, 100) <= slow ? CLUSTERS_HOST_BPS / 2 : CLUSTERS_HOST_BPS);
	}
}

int clusters_draw(uint64_t *state, unsigned size, struct cluster **ret, struct diag *diag)
{
	static char text[TEXT_BYTES];
	FILE *file = fmemopen(text, sizeof(text), "w");

	if (!file)
		return -errno;
	write_cluster(state, file, size);
	fclose(file);
	return cluster_read(text, strlen(text), ret, diag);
}
