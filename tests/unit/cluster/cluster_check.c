/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster_check.h"

#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct cluster *read_good(const char *text)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };

	if (cluster_read(text, strlen(text), &cluster, &diag) < 0)
		fail_msg("%d:%d: %s in\n%s", diag.line, diag.column, diag.text, text);
	return cluster;
}

char *written(const struct cluster *cluster)
{
	size_t bytes = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(cluster_write(cluster, out), 0);
	fclose(out);
	return text;
}

void check_bad(const char *text, int line, int column, const char *part)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };

	if (cluster_read(text, strlen(text), &cluster, &diag) != -EINVAL)
		fail_msg("not refused: %s", text);
	assert_null(cluster);
	if (diag.line != line || diag.column != column || !strstr(diag.text, part))
		fail_msg("expected %d:%d: ...%s..., got %d:%d: %s", line, column, part, diag.line, diag.column,
			 diag.text);
}

int leaf_of(const struct cluster *cluster, const char *host)
{
	const struct cluster_host *found = cluster_find(cluster, host);

	assert_non_null(found);
	return found->leaf;
}
