/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/store_tuning.h"

#include "base/params.h"
#include "base/parse.h"
#include "base/sys.h"
#include "base/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "tuning"
#define SUFFIX ".tuning"

enum { FILE_MODE = 0644, DIGITS = TUNING_HASH_BYTES - 1 };

static int path_of(const char *directory, uint64_t hash, char path[static STORE_PATH_BYTES])
{
	char digits[TUNING_HASH_BYTES];
	int bytes;

	tuning_hash_format(hash, digits);
	bytes = snprintf(path, STORE_PATH_BYTES, "%s/" FOLDER "/%s" SUFFIX, directory, digits);
	return bytes < 0 || bytes >= STORE_PATH_BYTES ? -ENAMETOOLONG : 0;
}

static int load(const char *path, uint64_t hash, struct tuning_table *ret, struct diag *why)
{
	static const struct text_file kind = { .kind = "tuning table", .limit_bytes = TUNING_MOST_BYTES };
	struct diag reason = { 0 };
	char *text = NULL;
	size_t bytes = 0;
	int r = text_file_read(&kind, path, TUNING_MOST_BYTES, &text, &bytes, why);

	if (r < 0)
		return r;
	if (tuning_hash(text, bytes) != hash) {
		r = -EBADMSG;
		diag_set(why, 0, 0, "%s%s was changed: its name is not the hash of its text; delete it",
			 text_file_lead(path), text_file_shown(path));
	} else {
		r = tuning_parse(text, bytes, ret, &reason);
		if (r < 0)
			diag_set(why, reason.line, 0, "%s%s, line %d: %s", text_file_lead(path), text_file_shown(path),
				 reason.line, reason.text);
	}
	sys_free(text);
	return r;
}

int store_tuning_load(const struct params *params, uint64_t hash, struct tuning_table *ret, struct diag *why)
{
	char directories[STORE_DIRECTORIES_MAX][STORE_PATH_BYTES], path[STORE_PATH_BYTES], digits[TUNING_HASH_BYTES];
	const size_t count = store_directories(params, geteuid() == 0, directories);
	int r = -ENOENT;

	for (size_t i = 0; i < count && r == -ENOENT; i++) {
		r = path_of(directories[i], hash, path);
		if (r == 0)
			r = load(path, hash, ret, why);
	}
	tuning_hash_format(hash, digits);
	if (r == -ENOENT)
		diag_set(why, 0, 0, "%s%s/" FOLDER "/%s" SUFFIX " is not there: copy it from the host that measured it",
			 count ? text_file_lead(directories[0]) : "", count ? text_file_shown(directories[0]) : "~",
			 digits);
	return r;
}

struct listing {
	const char *directory;
	void (*each)(void *arg, uint64_t hash, const struct tuning_table *table);
	void *arg;
	struct diag *why;
	size_t looked_at, failed;
};

static int take_name(void *arg, const char *name)
{
	struct listing *listing = arg;
	char path[STORE_PATH_BYTES], digits[TUNING_HASH_BYTES];
	struct tuning_table table;
	struct diag reason = { 0 };
	uint64_t hash;

	if (strlen(name) != DIGITS + sizeof(SUFFIX) - 1 || strcmp(name + DIGITS, SUFFIX) != 0)
		return 0;
	snprintf(digits, sizeof(digits), "%.*s", DIGITS, name);
	if (parse_digest(digits, &hash) < 0 || path_of(listing->directory, hash, path) < 0)
		return 0;
	if (++listing->looked_at > STORE_FILES_MAX)
		return 1;
	if (load(path, hash, &table, &reason) == 0)
		listing->each(listing->arg, hash, &table);
	else if (!listing->failed++ && listing->why)
		*listing->why = reason;
	return 0;
}

size_t store_tuning_each(const struct params *params,
			 void (*each)(void *arg, uint64_t hash, const struct tuning_table *table), void *arg,
			 struct diag *why)
{
	char directories[STORE_DIRECTORIES_MAX][STORE_PATH_BYTES];
	const size_t count = store_directories(params, geteuid() == 0, directories);
	struct listing listing = { .each = each, .arg = arg, .why = why };

	for (size_t i = 0; i < count; i++) {
		int folder = sys_openat(AT_FDCWD, directories[i], O_RDONLY | O_DIRECTORY, 0);

		listing.directory = directories[i];
		listing.looked_at = 0;
		if (folder >= 0)
			(void)sys_each_name(folder, FOLDER, "", take_name, &listing);
		sys_close(&folder);
	}
	return listing.failed;
}

int store_tuning_save(const struct params *params, const struct tuning_table *table, uint64_t *ret_hash,
		      char ret_path[static STORE_PATH_BYTES], struct diag *why)
{
	char directory[STORE_PATH_BYTES], folder[STORE_PATH_BYTES + sizeof(FOLDER)];
	char *text = NULL;
	size_t bytes = 0;
	uint64_t hash;
	int r = tuning_print(table, &text, &bytes);

	if (r < 0) {
		diag_set(why, 0, 0, "the tuning table has no text form: %s", strerror(-r));
		return r;
	}
	hash = tuning_hash(text, bytes);
	r = state_dir_make(params, directory, why);
	if (r < 0)
		goto out;
	snprintf(folder, sizeof(folder), "%s/" FOLDER, directory);
	r = state_dir_make_folders(folder);
	if (r == 0)
		r = path_of(directory, hash, ret_path);
	if (r == 0)
		r = state_dir_replace(ret_path, text, bytes, FILE_MODE);
	if (r < 0)
		diag_set(why, 0, 0,
			 "the tuning table cannot be kept in %.200s: %s; TRIBUTARY_STATE_DIR can name another "
			 "folder",
			 folder, strerror(-r));
out:
	sys_free(text);
	if (r == 0)
		*ret_hash = hash;
	return r;
}
