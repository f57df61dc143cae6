/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a profile, and reading it. */
#include "profile/store_places.h"

#include "base/params.h"
#include "base/sys.h"
#include "base/text_file.h"
#include "profile/fingerprint_lines.h"
#include "profile/profile_text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX           ".profile"

static int too_long(const char *path, struct diag *why)
{
	diag_set(why, 0, 0, "the path %s%s is too long", text_file_lead(path), text_file_shown(path));
	return -ENAMETOOLONG;
}

/* -------- places -------- */

static int copy_path(const char *path, char *ret, size_t ret_bytes)
{
	size_t bytes = strlen(path) + 1;

	if (bytes > ret_bytes)
		return -ENAMETOOLONG;
	memcpy(ret, path, bytes);
	return 0;
}

size_t store_directories(const struct params *params, bool root, char ret[][STORE_PATH_BYTES])
{
	size_t count = state_dir_path_of(params, root, ret[0], STORE_PATH_BYTES) ? 0 : 1;

	if (!params->state_dir[0] && !root)
		copy_path(STATE_DIR_OF_ROOT, ret[count++], STORE_PATH_BYTES);
	return count;
}

/* -------- reading -------- */

static int read_file(const char *path, size_t most, char **ret, size_t *ret_bytes, struct diag *why)
{
	static const struct text_file profile = { .kind = "profile", .limit_bytes = PROFILE_MOST_BYTES };

	return text_file_read(&profile, path, most, ret, ret_bytes, why);
}

static int error_of(enum fingerprint_change change)
{
	return change == FINGERPRINT_SAME ? 0 : change == FINGERPRINT_FOREIGN ? -EXDEV : -ESTALE;
}

/* A profile that is whole and fits. */
static int load(const char *path, const struct fingerprint *now, struct profile *ret, struct diag *why)
{
	struct diag reason = { 0 };
	struct profile profile;
	size_t bytes = 0;
	char *text = NULL;
	int r = read_file(path, PROFILE_MOST_BYTES, &text, &bytes, why);

	if (r < 0)
		return r;
	r = profile_read(text, bytes, &profile, &reason);
	sys_free(text);
	if (r < 0) {
		if (!reason.text[0])
			diag_set(&reason, 0, 0, "%s", strerror(-r));
		if (reason.line > 1)
			diag_set(why, reason.line, reason.column, "%s%s cannot be used: line %d: %s",
				 text_file_lead(path), text_file_shown(path), reason.line, reason.text);
		else
			diag_set(why, reason.line, reason.column, "%s%s cannot be used: %s", text_file_lead(path),
				 text_file_shown(path), reason.text);
		return r;
	}
	r = error_of(fingerprint_compare(&profile.fingerprint, now, &reason));
	if (r < 0) {
		diag_set(why, 0, 0, "%s%s %s: %s", text_file_lead(path), text_file_shown(path),
			 r == -ESTALE ? "is out of date" : "does not belong here", reason.text);
		profile_fini(&profile);
		return r;
	}
	*ret = profile;
	return 0;
}

/* -------- choosing -------- */

struct candidate {
	char path[STORE_PATH_BYTES];
	bool found;
	int error;     /* what it would be refused with: 0, -ESTALE, -EXDEV */
	size_t common; /* lines */
	int64_t date_s;
};

static bool better(const struct candidate *a, const struct candidate *b)
{
	static const int order[] = { 0, -ESTALE, -EXDEV };

	if (!b->found)
		return true;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && a->error != b->error; i++) {
		if (a->error == order[i])
			return true;
		if (b->error == order[i])
			return false;
	}
	return a->common != b->common ? a->common > b->common : a->date_s > b->date_s;
}

/* A file whose beginning is no profile's is passed over: only the one named by the fingerprint is known to be meant. */
static int look_at(const char *path, const struct fingerprint *now, struct candidate *best, struct diag *why)
{
	struct candidate one = { .found = true };
	struct fingerprint then = { 0 };
	size_t bytes = 0;
	char *text = NULL;
	int r = read_file(path, PROFILE_HEAD_BYTES, &text, &bytes, why);

	if (r < 0)
		return r;
	r = profile_read_head(text, bytes, &then, &one.date_s);
	sys_free(text);
	if (r < 0)
		return 0;
	one.error = error_of(fingerprint_compare(&then, now, NULL));
	one.common = fingerprint_common(&then, now);
	if (better(&one, best) && !copy_path(path, one.path, sizeof(one.path)))
		*best = one;
	fingerprint_fini(&then);
	return 0;
}

static bool is_profile_name(const char *name)
{
	size_t bytes = strlen(name), suffix = strlen(SUFFIX);

	return name[0] != '.' && bytes > suffix && !strcmp(name + bytes - suffix, SUFFIX);
}

static void none_in(const char *directory, struct diag *why)
{
	diag_set(why, 0, 0, "there is no profile in %s%s", text_file_lead(directory), text_file_shown(directory));
}

/* -ENOENT: no profile at all; another error: what the first unreadable file said, if none could be read. */
static int scan(const char *directory, const struct fingerprint *now, struct candidate *best, struct diag *why)
{
	char path[STORE_PATH_BYTES];
	const struct dirent *entry;
	struct diag reason = { 0 };
	unsigned looked_at = 0;
	int first = 0, r;
	DIR *listing = opendir(directory);

	if (!listing) {
		r = -errno;
		if (r == -ENOENT)
			none_in(directory, why);
		else
			diag_set(why, 0, 0, "%s%s cannot be read: %s", text_file_lead(directory),
				 text_file_shown(directory), strerror(-r));
		return r;
	}
	while (looked_at < STORE_FILES_MAX && (entry = readdir(listing))) {
		int bytes;

		if (!is_profile_name(entry->d_name))
			continue;
		looked_at++;
		bytes = snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		if (bytes < 0 || (size_t)bytes >= sizeof(path))
			continue;
		r = look_at(path, now, best, &reason);
		if (r < 0 && !first) {
			first = r;
			if (why)
				*why = reason;
		}
	}
	closedir(listing);
	if (best->found)
		return 0;
	if (!first)
		none_in(directory, why);
	return first ? first : -ENOENT;
}

static int find_in(const char *directory, const struct fingerprint *now, struct profile *ret, char *ret_path,
		   size_t ret_path_bytes, struct diag *why)
{
	struct candidate best = { 0 };
	int bytes = snprintf(best.path, sizeof(best.path), "%s/%s" SUFFIX, directory, now->id), r;

	if (bytes < 0 || (size_t)bytes >= sizeof(best.path))
		return too_long(directory, why);
	r = load(best.path, now, ret, why);
	if (r == -ENOENT || r == -ESTALE || r == -EXDEV) {
		r = scan(directory, now, &best, why);
		if (!r)
			r = load(best.path, now, ret, why);
	}
	if (r < 0)
		return r;
	r = copy_path(best.path, ret_path, ret_path_bytes);
	if (r < 0) {
		profile_fini(ret);
		too_long(best.path, why);
	}
	return r;
}

/* How much an error says: that this machine's profile is bad, or only another's is there, or none. */
static int weight(int error)
{
	return error == -ENOENT ? 0 : error == -EXDEV ? 1 : 2;
}

int store_find_in(char directories[][STORE_PATH_BYTES], size_t count, const struct fingerprint *now,
		  struct profile *ret, char *ret_path, size_t ret_path_bytes, struct diag *why)
{
	struct diag reason = { 0 }, most_telling = { 0 };
	int most = 0;

	for (size_t i = 0; i < count; i++) {
		int r = find_in(directories[i], now, ret, ret_path, ret_path_bytes, &reason);

		if (r >= 0)
			return 0;
		if (most && weight(r) <= weight(most))
			continue;
		most = r;
		most_telling = reason;
	}
	if (!most) {
		most = -ENOENT;
		diag_set(&most_telling, 0, 0,
			 "there is no home folder to look for a profile in; TRIBUTARY_STATE_DIR can name one");
	}
	if (why)
		*why = most_telling;
	return most;
}

int store_find(const struct params *params, const struct fingerprint *now, struct profile *ret, char *ret_path,
	       size_t ret_path_bytes, struct diag *why)
{
	char directories[STORE_DIRECTORIES_MAX][STORE_PATH_BYTES];
	int saved_errno = errno, r;

	if (params->profile[0]) {
		r = strlen(params->profile) < ret_path_bytes ? load(params->profile, now, ret, why)
							     : too_long(params->profile, why);
		if (!r)
			copy_path(params->profile, ret_path, ret_path_bytes);
	} else {
		r = store_find_in(directories, store_directories(params, geteuid() == 0, directories), now, ret,
				  ret_path, ret_path_bytes, why);
	}
	errno = saved_errno;
	return r;
}
