#include "declared.h"

#include "base/sys.h"
#include "discover/cluster_any.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

void declared_means(const char *text, const char *this_host, const char *expected)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };
	char *is = NULL;
	size_t bytes;

	if (cluster_any_read(text, strlen(text), this_host, &cluster, &diag) < 0)
		fail_msg("%d:%d: %s in\n%s", diag.line, diag.column, diag.text, text);
	assert_int_equal(cluster_format(cluster, &is, &bytes), 0);
	assert_string_equal(is, expected);
	sys_free(is);
	cluster_free(cluster);
}

void declared_is_refused(const char *text, const char *this_host, int line, const char *part)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };

	if (cluster_any_read(text, strlen(text), this_host, &cluster, &diag) != -EINVAL)
		fail_msg("not refused: %s", text);
	assert_null(cluster);
	if (diag.line != line || !strstr(diag.text, part))
		fail_msg("expected %d: ...%s..., got %d:%d: %s", line, part, diag.line, diag.column, diag.text);
}
