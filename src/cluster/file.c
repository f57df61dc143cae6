/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/file.h"

#include "base/params.h"
#include "base/sys.h"
#include "base/text_file.h"
#include "profile/profile.h"

#include <errno.h>
#include <string.h>

int cluster_file_load(const char *path, struct cluster **ret, struct diag *why)
{
	static const struct text_file file = { .kind = "cluster file", .limit_bytes = CLUSTER_TEXT_BYTES_MAX };
	int saved_errno = errno, r;
	struct diag reason = { 0 };
	size_t bytes = 0;
	char *text = NULL;

	r = text_file_read(&file, path, CLUSTER_TEXT_BYTES_MAX, &text, &bytes, why);
	if (r == 0) {
		r = cluster_read(text, bytes, ret, &reason);
		if (r == -EINVAL)
			diag_set(why, reason.line, reason.column, "%s%s:%d:%d: %s", text_file_lead(path),
				 text_file_shown(path), reason.line, reason.column, reason.text);
		else if (r < 0)
			diag_set(why, 0, 0, "\"%s%s\" cannot be read: %s", text_file_lead(path), text_file_shown(path),
				 strerror(-r));
	}
	sys_free(text);
	errno = saved_errno;
	return r;
}

int cluster_file_find(const struct params *params, struct profile *profile, struct cluster **ret, struct diag *why)
{
	if (params->cluster[0])
		return cluster_file_load(params->cluster, ret, why);
	*ret = NULL;
	if (profile) {
		*ret = profile->cluster;
		profile->cluster = NULL;
	}
	return 0;
}
