/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a cluster file's text, for tests of placements. The includer has cmocka's headers. */
#ifndef TESTS_UNIT_PLAN_PLACE_TREE_H
#define TESTS_UNIT_PLAN_PLACE_TREE_H

#include "base/log.h"
#include "plan/place.h"
#include "tributary/cluster.h"

#include <string.h>

/* Its names belong to the cluster, which the caller frees. */
static struct cluster *tree_of(const char *text, struct plan_place_tree *ret)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };

	if (cluster_read(text, strlen(text), &cluster, &diag) < 0)
		fail_msg("%s in\n%s", diag.text, text);
	assert_int_equal(plan_place_of_cluster(cluster, ret), 0);
	return cluster;
}

#endif
