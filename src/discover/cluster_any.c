#include "discover/cluster_any.h"

#include "discover/ibnetdiscover.h"
#include "discover/lldp.h"

#include "base/sys.h"
#include "profile/text_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int cluster_any_read(const char *text, size_t bytes, const struct wiring_options *options, struct cluster **ret,
		     char **ret_notes, struct diag *diag)
{
	size_t blank = 0;

	*ret_notes = NULL;
	while (blank < bytes && text[blank] && strchr(" \t\r\n", text[blank]))
		blank++;
	if (blank < bytes && (text[blank] == '{' || text[blank] == '['))
		return lldp_read(text, bytes, options, ret, ret_notes, diag);
	if (ibnetdiscover_is(text, bytes))
		return ibnetdiscover_read(text, bytes, options, ret, ret_notes, diag);
	if (options->exclude) {
		diag_set(diag, 0, 0,
			 "--exclude is for what LLDP and ibnetdiscover say of cables: take out the lines of what "
			 "is not to be in this file");
		return -EINVAL;
	}
	return cluster_read(text, bytes, ret, diag);
}

int cluster_any_load(const char *path, const char *exclude, struct cluster **ret, char **ret_notes, struct diag *why)
{
	static const struct text_file file = { .kind = "cluster file", .limit_bytes = CLUSTER_ANY_BYTES_MAX };
	struct wiring_options options = { .exclude = exclude };
	struct diag reason = { 0 };
	char host[256] = "";
	size_t bytes = 0;
	char *text = NULL;
	int r;

	*ret_notes = NULL;
	r = text_file_read(&file, path, CLUSTER_ANY_BYTES_MAX, &text, &bytes, why);
	if (r < 0)
		return r;
	if (gethostname(host, sizeof(host) - 1) == 0 && host[0])
		options.this_host = host;
	r = cluster_any_read(text, bytes, &options, ret, ret_notes, &reason);
	if (r == -EINVAL && reason.line)
		diag_set(why, reason.line, reason.column, "%s%s:%d:%d: %s", text_file_lead(path), text_file_shown(path),
			 reason.line, reason.column, reason.text);
	else if (r < 0)
		diag_set(why, 0, 0, "%s%s cannot be read: %s", text_file_lead(path), text_file_shown(path),
			 r == -EINVAL ? reason.text : strerror(-r));
	sys_free(text);
	return r;
}
