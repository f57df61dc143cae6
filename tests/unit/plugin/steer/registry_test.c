/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes and ranks of the user there are, and what is left of those that are gone. */
#include "plugin/steer/registry.h"

#include "base/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin/steer/folder.h"
#include "support/tree.h"
#include "unit/plugin/steer/registry_place.h"

enum { CROWD = 4, COMERS = 100 };

/* ---------------------------------------------------------------------------------------------------------------- records */

static void what_is_added_is_found_until_it_is_dropped(void **state)
{
	struct registry_place *place = *state;
	int first = registry_place_add(&place->registry, 5, "0000:11:00.0"),
	    second = registry_place_add(&place->registry, 5, "0000:10:00.0");

	assert_true(first >= 0 && second >= 0 && first != second);
	assert_true(registry_place_add(&place->registry, 6, "0000:12:00.0") >= 0);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.process_count, 1);
	assert_int_equal(place->snapshot.member_count, 2);
	assert_string_equal(place->snapshot.members[0].record.bus_id, "0000:10:00.0");
	assert_string_equal(place->snapshot.members[1].record.bus_id, "0000:11:00.0");
	registry_place_scan(place, 6);
	assert_int_equal(place->snapshot.member_count, 1);
	registry_place_scan(place, 7);
	assert_int_equal(place->snapshot.member_count, 0);
	place->registry.host++;
	assert_int_equal(steer_registry_scan(&place->registry, 5, &place->snapshot, &place->diag), 0);
	place->registry.host--;
	assert_int_equal(place->snapshot.member_count, 0);
	steer_registry_drop(&place->registry, first);
	steer_registry_drop(&place->registry, first);
	steer_registry_drop(&place->registry, STEER_NO_SLOT);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.member_count, 1);
	assert_int_equal(tree_count(place->folder, "s-"), 2);
}

static void ranks_of_other_processes_are_found(void **state)
{
	struct registry_place *place = *state;
	struct registry_other other = registry_other_start(place);

	assert_int_equal(registry_place_add(&place->registry, 5, "0000:10:00.0"), 0);
	assert_int_equal(registry_other_do(&other, REGISTRY_ADD), 0);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.process_count, 2);
	assert_int_equal(place->snapshot.member_count, 2);
	assert_int_equal(place->snapshot.members[1].process.identity.pid, other.pid);
	assert_int_equal(place->snapshot.dead_member_count, 0);
	registry_other_end(&other, 0);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.process_count, 1);
	assert_int_equal(place->snapshot.member_count, 1);
	assert_int_equal(place->snapshot.dead_member_count, 0); /* it took its record along */
}

/* A set without the dead one would be too small. */
static void a_rank_that_was_killed_is_seen_to_be_dead(void **state)
{
	struct registry_place *place = *state;
	struct registry_other other = registry_other_start(place);

	assert_int_equal(registry_place_add(&place->registry, 5, "0000:10:00.0"), 0);
	assert_int_equal(registry_other_do(&other, REGISTRY_ADD), 0);
	registry_other_end(&other, SIGKILL);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.process_count, 1);
	assert_int_equal(place->snapshot.member_count, 1);
	assert_int_equal(place->snapshot.dead_member_count, 1);
	registry_place_scan(place, 6);
	assert_int_equal(place->snapshot.dead_member_count, 0);
	registry_place_sweep(place);
	assert_int_equal(tree_count(place->folder, "p-"), 1);
	assert_int_equal(tree_count(place->folder, "s-"), 1);
}

/* flock would be kept by the child; a record lock is not, and the child's end does not take it from its parent either. */
static void a_forked_child_keeps_nobody_alive_and_ends_nobody(void **state)
{
	struct registry_place *place = *state;
	struct registry_other other = registry_other_start(place);
	pid_t child;

	assert_int_equal(registry_other_do(&other, REGISTRY_ADD), 0);
	child = registry_other_do(&other, REGISTRY_FORK);
	assert_true(child > 0);
	assert_int_equal(kill(child, SIGKILL), 0);
	child = registry_other_do(&other, REGISTRY_FORK);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.process_count, 2);
	assert_int_equal(place->snapshot.member_count, 1);
	registry_other_end(&other, SIGKILL);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.process_count, 1);
	assert_int_equal(place->snapshot.dead_member_count, 1);
	registry_place_sweep(place);
	assert_int_equal(tree_count(place->folder, "p-"), 1);
	assert_int_equal(kill(child, SIGKILL), 0);
}

/* Its process id means nothing here, and is very likely one of somebody else. */
static void a_process_of_another_pid_namespace_is_alive_by_its_lock(void **state)
{
	struct registry_place *place = *state;
	struct registry_other other;
	char byte;

	if (!registry_other_contain(place, &other)) {
		print_message("skipped: no process id namespace may be made here\n");
		skip();
	}
	assert_int_equal(registry_other_do(&other, REGISTRY_ADD), 0);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.member_count, 1);
	assert_int_equal(place->snapshot.members[0].process.identity.pid, 1);
	assert_true(place->snapshot.members[0].process.identity.pid_namespace !=
		    place->registry.own->process.identity.pid_namespace);
	registry_place_sweep(place);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.member_count, 1);
	close(other.orders); /* it ends without closing its registry */
	assert_int_equal(read(other.replies, &byte, 1), 0);
	assert_int_equal(waitpid(other.pid, NULL, 0), other.pid);
	close(other.replies);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.member_count, 0);
	assert_int_equal(place->snapshot.dead_member_count, 1);
	registry_place_sweep(place);
	assert_int_equal(tree_count(place->folder, "p-"), 1);
}

static void half_a_record_means_that_not_all_is_known(void **state)
{
	struct registry_place *place = *state;
	struct registry_other other = registry_other_start(place);

	assert_int_equal(registry_other_do(&other, REGISTRY_TEAR), 0);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.foreign_count, 1);
	assert_int_equal(place->snapshot.member_count, 0);
	registry_other_end(&other, SIGKILL);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.foreign_count, 0);
	registry_place_sweep(place);
	assert_int_equal(tree_count(place->folder, "p-"), 1);
}

static void a_file_of_another_version_counts_while_its_process_lives(void **state)
{
	struct registry_place *place = *state;
	struct registry_other other = registry_other_start(place);

	assert_int_equal(registry_other_do(&other, REGISTRY_REPLACE), 0);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.process_count, 1);
	assert_int_equal(place->snapshot.foreign_count, 1);
	registry_place_sweep(place);
	assert_int_equal(tree_count(place->folder, "p-"), 2);
	registry_other_end(&other, SIGKILL);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.foreign_count, 0);
	registry_place_sweep(place);
	assert_int_equal(tree_count(place->folder, "p-"), 1);
}

/* A file in the folder. */
static void put(const struct registry_place *place, const char *name, const void *data, size_t bytes)
{
	int fd = open(place->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	tree_write(fd, name, data, bytes);
	close(fd);
}

static void foreign_and_broken_files_do_not_mislead(void **state)
{
	struct registry_place *place = *state;
	char path[512];

	assert_int_equal(registry_place_add(&place->registry, 5, "0000:10:00.0"), 0);
	put(place, "p-", "", 0);
	put(place, "p-garbage", "x", 1);
	put(place, "n-1-2-3-4-5", "x", 1);
	put(place, "s-1-2-3-4-5-00", "x", 1);
	snprintf(path, sizeof(path), "%s/a-1-2-3-4-5-17", place->folder);
	assert_int_equal(symlink("1750-8", path), 0);
	put(place, "d-0000000000000005-0000000000000007-5", "x", 1); /* no author */
	put(place, "x-1-1-1-1-1", "x", 1);
	put(place, "readme", "x", 1);
	snprintf(path, sizeof(path), "%s/p-link", place->folder);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	snprintf(path, sizeof(path), "%s/c-0000000000000005-0000000000000007-5", place->folder);
	assert_int_equal(symlink("1-2-3-4-5", path), 0);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.member_count, 1);
	assert_int_equal(place->snapshot.process_count, 1);
	registry_place_sweep(place);
	assert_int_equal(tree_count(place->folder, "n-"), 0);
	assert_int_equal(tree_count(place->folder, "a-"), 0);
	assert_int_equal(tree_count(place->folder, "c-"), 0);
	assert_int_equal(tree_count(place->folder, "s-"), 1); /* this process's */
	assert_int_equal(tree_count(place->folder, "x-"), 1); /* whatever that is */
	assert_int_equal(tree_count(place->folder, "readme"), 1);
	assert_int_equal(steer_registry_decision(&place->registry, 5, &place->decision, &place->diag), -ENODATA);
}

/* The folder is in shared memory, which is emptied when a user's last session ends (logind.conf(5), RemoveIPC). */
static void a_folder_that_was_emptied_is_made_again(void **state)
{
	struct registry_place *place = *state;
	struct registry_other other;
	bool is_author;

	assert_int_equal(registry_place_add(&place->registry, 5, "0000:10:00.0"), 0);
	tree_remove(place->folder);
	registry_place_decision(&place->decision, 5, 1);
	assert_int_equal(steer_registry_decide(&place->registry, 0, &place->decision, &is_author, &place->diag), -EIO);
	assert_false(is_author);
	assert_int_equal(steer_registry_restore(&place->registry, &place->diag), 0);
	assert_int_equal(steer_registry_restore(&place->registry, &place->diag), 0);
	assert_int_equal(registry_place_add(&place->registry, 5, "0000:11:00.0"), 1);
	other = registry_other_start(place);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.process_count, 2);
	assert_int_equal(place->snapshot.member_count, 2);
	registry_place_decision(&place->decision, 5, 1);
	assert_int_equal(steer_registry_decide(&place->registry, 1, &place->decision, &is_author, &place->diag), 0);
	assert_true(is_author);
	registry_other_end(&other, 0);
	assert_int_equal(tree_count(place->folder, "p-"), 1);
}

static void records_that_find_no_slot_are_told_of_until_they_are_gone(void **state)
{
	struct registry_place *place = *state;

	for (int i = 0; i < STEER_RECORDS; i++)
		assert_int_equal(registry_place_add(&place->registry, (uint64_t)i, "0000:10:00.0"), i);
	registry_place_scan(place, 5);
	assert_false(place->snapshot.processes[0].overflowed);
	assert_int_equal(registry_place_add(&place->registry, 100, "0000:10:00.0"), -ENOSPC);
	assert_int_equal(registry_place_add(&place->registry, 101, "0000:10:00.0"), -ENOSPC);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.processes[0].overflowed, 2);
	steer_registry_drop(&place->registry, 3); /* one that has a slot */
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.processes[0].overflowed, 2);
	steer_registry_drop(&place->registry, -ENOSPC);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.processes[0].overflowed, 1);
	steer_registry_drop(&place->registry, -ENOSPC);
	registry_place_scan(place, 5);
	assert_int_equal(place->snapshot.processes[0].overflowed, 0);
	assert_int_equal(registry_place_add(&place->registry, 100, "0000:10:00.0"), 3);
}

static void a_record_that_cannot_be_written_leaves_nothing_behind(void **state)
{
	struct registry_place *place = *state;
	const int fd = place->registry.process_fd;
	const unsigned files = tree_count(place->folder, "");

	place->registry.process_fd = -1;
	assert_int_equal(registry_place_add(&place->registry, 5, "0000:10:00.0"), -EBADF);
	place->registry.process_fd = fd;
	assert_int_equal(tree_count(place->folder, ""), files);
	assert_int_equal(registry_place_add(&place->registry, 5, "0000:10:00.0"), 0);
	assert_int_equal(tree_count(place->folder, ""), files + 1);
}

/* ------------------------------------------------------------------------------------------------------------ the process's end */

static void a_process_takes_everything_along(void **state)
{
	struct registry_place *place = *state;
	bool is_author;
	int slot = registry_place_add(&place->registry, 5, "0000:10:00.0");
	struct stat st;

	registry_place_decision(&place->decision, 5, 1);
	assert_int_equal(steer_registry_decide(&place->registry, slot, &place->decision, &is_author, &place->diag), 0);
	assert_int_equal(tree_count(place->folder, "s-"), 0); /* it has become the decision */
	steer_registry_forget(&place->registry, 5);
	assert_true(registry_place_add(&place->registry, 6, "0000:10:00.0") >= 0);
	assert_int_equal(tree_count(place->folder, "s-"), 1);
	steer_registry_close(&place->registry);
	assert_int_equal(stat(place->folder, &st), -1);
}

/* At exit, while another thread of the process is in an init. */
static void nothing_is_written_once_it_is_closed(void **state)
{
	struct registry_place *place = *state;

	steer_registry_close(&place->registry);
	assert_int_equal(registry_place_add(&place->registry, 5, "0000:10:00.0"), -ESHUTDOWN);
	assert_int_equal(steer_registry_restore(&place->registry, &place->diag), -ESHUTDOWN);
	assert_int_equal(steer_registry_scan(&place->registry, 5, &place->snapshot, &place->diag), -ESHUTDOWN);
	steer_registry_drop(&place->registry, 0);
	steer_registry_close(&place->registry);
}

/* The folder goes with the last process: nobody is left in one that was removed, and none stays behind. */
static int come_and_go(const char *root)
{
	struct steer_process process = registry_place_process(1, 0);
	struct steer_registry registry;
	struct stat named, own;
	struct diag diag;
	int r = 0;

	if (steer_registry_open(root, &process, &registry, &diag) < 0)
		return 1;
	if (!steer_folder_has_name(registry.process_fd))
		r = 2;
	else if (stat(registry.path, &named) < 0 || fstat(registry.directory, &own) < 0 || named.st_ino != own.st_ino)
		r = 3;
	steer_registry_close(&registry);
	return r;
}

/* A process opens it once, so each time is a process of its own. */
static int many_come_and_go(const char *root)
{
	for (unsigned i = 0; i < COMERS; i++) {
		pid_t pid = fork();
		int status;

		if (!pid)
			_exit(come_and_go(root));
		if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
			return 9;
		if (WEXITSTATUS(status))
			return WEXITSTATUS(status);
	}
	return 0;
}

static void processes_that_come_and_go_share_one_registry(void **state)
{
	char root[] = "/dev/shm/tributary-registry-XXXXXX", path[128];
	pid_t pids[CROWD];
	int status;

	(void)state;
	assert_non_null(mkdtemp(root));
	for (unsigned i = 0; i < CROWD; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (!pids[i])
			_exit(many_come_and_go(root));
	}
	for (unsigned i = 0; i < CROWD; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	snprintf(path, sizeof(path), "%s/tributary-%u", root, (unsigned)process_user());
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(rmdir(root), 0);
}

#define REGISTRY_TEST(name) cmocka_unit_test_setup_teardown(name, registry_place_open, registry_place_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		REGISTRY_TEST(what_is_added_is_found_until_it_is_dropped),
		REGISTRY_TEST(ranks_of_other_processes_are_found),
		REGISTRY_TEST(a_rank_that_was_killed_is_seen_to_be_dead),
		REGISTRY_TEST(a_forked_child_keeps_nobody_alive_and_ends_nobody),
		REGISTRY_TEST(a_process_of_another_pid_namespace_is_alive_by_its_lock),
		REGISTRY_TEST(half_a_record_means_that_not_all_is_known),
		REGISTRY_TEST(a_file_of_another_version_counts_while_its_process_lives),
		REGISTRY_TEST(foreign_and_broken_files_do_not_mislead),
		REGISTRY_TEST(a_folder_that_was_emptied_is_made_again),
		REGISTRY_TEST(records_that_find_no_slot_are_told_of_until_they_are_gone),
		REGISTRY_TEST(a_record_that_cannot_be_written_leaves_nothing_behind),
		REGISTRY_TEST(a_process_takes_everything_along),
		REGISTRY_TEST(nothing_is_written_once_it_is_closed),
		cmocka_unit_test(processes_that_come_and_go_share_one_registry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
