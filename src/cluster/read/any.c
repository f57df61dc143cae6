/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/read/any.h"

#include "base/sys.h"
#include "base/text_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool begins(const char *text, size_t bytes, const char *with)
{
	return bytes >= strlen(with) && !memcmp(text, with, strlen(with));
}

/* Forms of the same tools that are not read, by how they begin. True: it is one, and *diag says what to do. */
static bool is_another_form(const char *text, size_t bytes, struct diag *diag)
{
	static const char lldp[] = "give the JSON that `lldpctl -f json` prints",
			  infiniband[] = "give what `ibnetdiscover` prints without -p";
	static const struct {
		const char *begins, *form, *remedy;
	} forms[] = {
		{ "lldp.", "lldpctl's keyvalue form", lldp },
		{ "local-chassis.", "lldpcli's keyvalue form", lldp },
		{ "LLDP neighbors", "lldpctl's plain form", lldp },
		{ "-----", "lldpctl's plain form", lldp },
		{ "<", "XML", lldp },
		{ "CA: ", "iblinkinfo's output", infiniband },
		{ "Switch: ", "iblinkinfo's output", infiniband },
		{ "CA ", "ibnetdiscover's list of ports", infiniband },
		{ "SW ", "ibnetdiscover's list of ports", infiniband },
		{ "{ CA ", "ibdiagnet's list of links", infiniband },
		{ "{ SW ", "ibdiagnet's list of links", infiniband },
	};
	const char *end = memchr(text, '\n', bytes);
	size_t line = end ? (size_t)(end - text) : bytes;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (begins(text, bytes, forms[i].begins)) {
			diag_set(diag, 0, 0, "this looks like %s: %s", forms[i].form, forms[i].remedy);
			return true;
		}
	if (!memmem(text, line, "==(", 3) || !memmem(text, line, ")==>", 4))
		return false;
	diag_set(diag, 0, 0, "this looks like iblinkinfo's output: %s", infiniband);
	return true;
}

/* Where the file has none of the forms of cluster_read, the message names those that are read here, too. */
static void name_more_forms(struct diag *diag)
{
	const struct diag said = *diag;

	if (strstr(said.text, CLUSTER_FORMS))
		diag_set(diag, said.line, said.column,
			 "%s; what `lldpctl -f json` and `ibnetdiscover` print is read, too", said.text);
}

int cluster_any_read(const char *text, size_t bytes, const struct wiring_options *options, struct cluster **ret,
		     char **ret_notes, struct diag *diag)
{
	size_t blank = 0;
	int r;

	*ret_notes = NULL;
	while (blank < bytes && text[blank] && strchr(" \t\r\n", text[blank]))
		blank++;
	if (is_another_form(text + blank, bytes - blank, diag))
		return -EINVAL;
	if (blank < bytes && (text[blank] == '{' || text[blank] == '['))
		return lldp_read(text, bytes, options, ret, ret_notes, diag);
	if (ibnetdiscover_is(text, bytes))
		return ibnetdiscover_read(text, bytes, options, ret, ret_notes, diag);
	if (options->exclude && blank < bytes) {
		diag_set(diag, 0, 0,
			 "--exclude is for what LLDP and ibnetdiscover say of cables: take out the lines of what "
			 "is not to be in this file");
		return -EINVAL;
	}
	r = cluster_read(text, bytes, ret, diag);
	if (r == -EINVAL)
		name_more_forms(diag);
	return r;
}

int cluster_any_load(const char *path, const char *exclude, struct cluster **ret, char **ret_notes, struct diag *why)
{
	static const struct text_file file = { .kind = "cluster file",
					       .limit_bytes = CLUSTER_ANY_BYTES_MAX,
					       .stream = true };
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
		diag_set(why, 0, 0, "\"%s%s\" cannot be read: %s", text_file_lead(path), text_file_shown(path),
			 r == -EINVAL ? reason.text : strerror(-r));
	sys_free(text);
	return r;
}
