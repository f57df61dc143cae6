/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/agreed.h"

#include "base/parse.h"
#include "plugin/steer/folder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 48 };

void steer_agreed_audience(const struct steer_snapshot *snapshot, struct steer_audience *ret)
{
	ret->count = 0;
	ret->tuning = snapshot->members[0].record.tuning[STEER_TUNING_SEVERAL];
	if (snapshot->member_count > STEER_MEMBERS_MAX || snapshot->dead_member_count)
		return;
	for (size_t i = 0; i < snapshot->member_count; i++) {
		const struct steer_member *member = &snapshot->members[i];

		/*
		 * An earlier communicator with the same id may have left a record: then a GPU is there twice (they are
		 * sorted by it), or its process had no room for a new one.
		 */
		if (!member->record.follows || member->process.overflowed ||
		    (i && !strcmp(member->record.bus_id, member[-1].record.bus_id)))
			return;
		if (member->record.tuning[STEER_TUNING_SEVERAL] != ret->tuning)
			ret->tuning = 0;
		steer_process_id(&member->process, ret->at[i].id);
		ret->at[i].serial = member->record.serial;
		memcpy(ret->at[i].bus_id, member->record.bus_id, sizeof(ret->at[i].bus_id));
	}
	ret->count = snapshot->member_count;
}

static void link_name(const char *id, uint64_t serial, char name[static STEER_FOLDER_NAME_BYTES])
{
	snprintf(name, STEER_FOLDER_NAME_BYTES, "a-%.72s-%" PRIx64, id, serial);
}

static int link_read(int directory, const char *name, struct steer_agreed *ret)
{
	char text[TEXT_BYTES], *ranks, *tuning;
	ssize_t bytes = readlinkat(directory, name, text, sizeof(text) - 1);
	uint64_t gain_permille, rank_count, hash;

	if (bytes < 0)
		return -errno;
	text[bytes] = '\0';
	ranks = strchr(text, '-');
	tuning = ranks ? strchr(ranks + 1, '-') : NULL;
	if (!tuning)
		return -EINVAL;
	*ranks++ = *tuning++ = '\0';
	if (parse_u64(text, 0, UINT32_MAX, &gain_permille) || parse_u64(ranks, 0, UINT32_MAX, &rank_count) ||
	    parse_hex64(tuning, &hash))
		return -EINVAL;
	*ret = (struct steer_agreed){ (unsigned)gain_permille, (unsigned)rank_count, hash };
	return 0;
}

static int tell_one(int directory, const char *name, struct steer_agreed agreed)
{
	struct steer_agreed before = { 0 };
	char text[TEXT_BYTES];

	if (link_read(directory, name, &before) == 0) {
		if (before.gain_permille < agreed.gain_permille)
			agreed.gain_permille = before.gain_permille;
		if (before.rank_count != agreed.rank_count)
			agreed.rank_count = 0;
		if (before.tuning != agreed.tuning)
			agreed.tuning = 0;
		unlinkat(directory, name, 0);
	}
	snprintf(text, sizeof(text), "%u-%u-%" PRIx64, agreed.gain_permille, agreed.rank_count, agreed.tuning);
	return symlinkat(text, directory, name) < 0 ? -errno : 0;
}

int steer_agreed_tell(int directory, const struct steer_audience *audience, const struct steer_agreed *agreed)
{
	int r = 0;

	for (size_t i = 0; i < audience->count && r == 0; i++) {
		char name[STEER_FOLDER_NAME_BYTES];

		link_name(audience->at[i].id, audience->at[i].serial, name);
		r = tell_one(directory, name, *agreed);
	}
	return r;
}

int steer_agreed_hear(int directory, const char *id, uint64_t serial, struct steer_agreed *ret)
{
	char name[STEER_FOLDER_NAME_BYTES];
	int r;

	link_name(id, serial, name);
	r = link_read(directory, name, ret);
	/* The link may have gone with the folder, and others may have read theirs before. */
	return r == -ENOENT && !steer_folder_has_name(directory) ? -ESTALE : r;
}

void steer_agreed_forget(int directory, const char *id, uint64_t serial)
{
	char name[STEER_FOLDER_NAME_BYTES];

	link_name(id, serial, name);
	unlinkat(directory, name, 0);
}
