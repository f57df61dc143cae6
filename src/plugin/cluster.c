/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/cluster.h"

#include "base/log.h"
#include "base/params.h"
#include "cluster/file.h"
#include "profile/fingerprint.h"
#include "profile/store.h"
#include "profile/store_places.h"

#include <stddef.h>

/* False: there is no profile that fits, which steering says where it matters. */
static bool find_profile(const struct params *params, struct profile *profile)
{
	char path[STORE_PATH_BYTES];
	struct fingerprint now;
	struct diag why;
	int r;

	if (fingerprint_take("", &now) < 0)
		return false;
	r = store_find(params, &now, profile, path, sizeof(path), &why);
	fingerprint_fini(&now);
	return r == 0;
}

struct cluster *plugin_cluster_load(const struct params *params)
{
	struct diag why = { .text = "" };
	struct cluster *cluster = NULL;
	struct profile profile;
	bool has_profile;
	int r;

	profile_init(&profile);
	has_profile = !params->cluster[0] && find_profile(params, &profile);
	r = cluster_file_find(params, has_profile ? &profile : NULL, &cluster, &why);
	profile_fini(&profile);
	if (r == 0)
		return cluster;
	log_warn("The cluster is not known, so all hosts count as one leaf: %s", why.text);
	return NULL;
}
