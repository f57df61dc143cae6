/* SPDX-License-Identifier: Apache-2.0 */
#include "declared.h"

#include "base/sys.h"
#include "cluster/read/any.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <string.h>

static void means(const char *text, const struct wiring_options *options, const char *expected, const char *part)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };
	char *is = NULL, *notes = NULL;
	size_t bytes;

	if (cluster_any_read(text, strlen(text), options, &cluster, &notes, &diag) < 0)
		fail_msg("%d:%d: %s in\n%s", diag.line, diag.column, diag.text, text);
	assert_int_equal(cluster_format(cluster, &is, &bytes), 0);
	assert_string_equal(is, expected);
	assert_non_null(notes);
	if (part ? !strstr(notes, part) : *notes)
		fail_msg("expected ...%s..., got %s", part ? part : "no note", notes);
	sys_free(is);
	free(notes);
	cluster_free(cluster);
}

void declared_means(const char *text, const char *this_host, const char *expected)
{
	means(text, &(struct wiring_options){ .this_host = this_host }, expected, NULL);
}

void declared_leaves_out(const char *text, const char *exclude, const char *expected, const char *part)
{
	means(text, &(struct wiring_options){ .exclude = exclude }, expected, part);
}

static void is_refused(const char *text, const struct wiring_options *options, int line, const char *part)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };
	char *notes = NULL;

	if (cluster_any_read(text, strlen(text), options, &cluster, &notes, &diag) != -EINVAL)
		fail_msg("not refused: %s", text);
	assert_null(cluster);
	if (diag.line != line || !strstr(diag.text, part))
		fail_msg("expected %d: ...%s..., got %d:%d: %s", line, part, diag.line, diag.column, diag.text);
	free(notes);
}

void declared_is_refused(const char *text, const char *this_host, int line, const char *part)
{
	is_refused(text, &(struct wiring_options){ .this_host = this_host }, line, part);
}

void declared_refuses_exclude(const char *text, int line, const char *part)
{
	is_refused(text, &(struct wiring_options){ .exclude = "x" }, line, part);
}
