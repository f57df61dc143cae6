#include "plugin/steer/agreed.h"

#include "base/parse.h"
#include "plugin/steer/folder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = STEER_ID_BYTES + 24 };

void steer_agreed_audience(const struct steer_snapshot *snapshot, struct steer_audience *ret)
{
	ret->count = 0;
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
		steer_process_id(&member->process, ret->at[i].id);
		ret->at[i].process = steer_process_hash(&member->process);
		ret->at[i].serial = member->record.serial;
	}
	ret->count = snapshot->member_count;
}

static void link_name(uint64_t process, uint64_t serial, char name[static STEER_FOLDER_NAME_BYTES])
{
	snprintf(name, STEER_FOLDER_NAME_BYTES, "a-%016" PRIx64 "-%" PRIx64, process, serial);
}

/* Cuts the last number, behind a dash, off the text. */
static bool cut_number(char *text, unsigned *ret)
{
	char *dash = strrchr(text, '-');
	uint64_t value;

	if (!dash || parse_u64(dash + 1, 0, UINT32_MAX, &value))
		return false;
	*dash = '\0';
	*ret = (unsigned)value;
	return true;
}

static int link_read(int directory, const char *name, char text[static TEXT_BYTES], struct steer_agreed *ret)
{
	ssize_t bytes = readlinkat(directory, name, text, TEXT_BYTES - 1);
	struct steer_agreed agreed = { 0 };

	if (bytes < 0)
		return -errno;
	text[bytes] = '\0';
	if (!cut_number(text, &agreed.rank_count) || !cut_number(text, &agreed.gain_permille))
		return -EINVAL;
	*ret = agreed;
	return 0;
}

static int tell_one(int directory, const char *name, const char *id, struct steer_agreed agreed)
{
	struct steer_agreed before = { 0 };
	char text[TEXT_BYTES];

	if (link_read(directory, name, text, &before) == 0) {
		if (before.gain_permille < agreed.gain_permille)
			agreed.gain_permille = before.gain_permille;
		if (before.rank_count != agreed.rank_count)
			agreed.rank_count = 0;
		unlinkat(directory, name, 0);
	}
	snprintf(text, sizeof(text), "%s-%u-%u", id, agreed.gain_permille, agreed.rank_count);
	return symlinkat(text, directory, name) < 0 ? -errno : 0;
}

int steer_agreed_tell(int directory, const struct steer_audience *audience, const struct steer_agreed *agreed)
{
	int r = 0;

	for (size_t i = 0; i < audience->count && r == 0; i++) {
		char name[STEER_FOLDER_NAME_BYTES];

		link_name(audience->at[i].process, audience->at[i].serial, name);
		r = tell_one(directory, name, audience->at[i].id, *agreed);
	}
	return r;
}

int steer_agreed_hear(int directory, uint64_t process, uint64_t serial, struct steer_agreed *ret)
{
	char name[STEER_FOLDER_NAME_BYTES], text[TEXT_BYTES];
	int r;

	link_name(process, serial, name);
	r = link_read(directory, name, text, ret);
	/* The link may have gone with the folder, and others may have read theirs before. */
	return r == -ENOENT && !steer_folder_has_name(directory) ? -ESTALE : r;
}

void steer_agreed_forget(int directory, uint64_t process, uint64_t serial)
{
	char name[STEER_FOLDER_NAME_BYTES];

	link_name(process, serial, name);
	unlinkat(directory, name, 0);
}

bool steer_agreed_owner(int directory, const char *name, char id[static STEER_ID_BYTES])
{
	struct steer_agreed agreed;
	char text[TEXT_BYTES];

	if (link_read(directory, name, text, &agreed) < 0)
		return false;
	snprintf(id, STEER_ID_BYTES, "%.*s", STEER_ID_BYTES - 1, text);
	return true;
}
