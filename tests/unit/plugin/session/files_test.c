#include "plugin/session/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "ncclxml/graph_xml.h"
#include "support/tree.h"

struct files_place {
	char root[64];
	int fd;
	struct session_files files;
	struct diag diag;
};

static int files_open(void **state)
{
	struct files_place *place = calloc(1, sizeof(*place));

	assert_non_null(place);
	snprintf(place->root, sizeof(place->root), "/dev/shm/tributary-files-XXXXXX");
	assert_non_null(mkdtemp(place->root));
	place->fd = open(place->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(place->fd >= 0);
	assert_int_equal(session_files_make(place->fd, place->root, "1-2", "<system/>", &place->files, &place->diag),
			 0);
	*state = place;
	return 0;
}

static int files_close(void **state)
{
	struct files_place *place = *state;

	session_files_remove(&place->files);
	close(place->fd);
	assert_int_equal(rmdir(place->root), 0); /* nothing is left */
	free(place);
	return 0;
}

/* By its path, as NCCL does. */
static void expect_text(const char *path, const char *text)
{
	char found[4096] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(read(fd, found, sizeof(found) - 1) >= 0);
	close(fd);
	assert_string_equal(found, text);
}

static void the_graph_file_rests_until_a_plan_is_published(void **state)
{
	struct files_place *place = *state;
	struct session_files *files = &place->files;

	expect_text(files->topology_path, "<system/>");
	expect_text(files->graph_path, graph_xml_resting);
	assert_int_equal(session_files_publish(files, "a plan", 6), 0);
	expect_text(files->graph_path, "a plan");
	assert_int_equal(session_files_publish(files, "plan", 4), 0);
	expect_text(files->graph_path, "plan\n\n"); /* shorter, in the same phase */
	assert_int_equal(session_files_rest(files), 0);
	assert_int_equal(session_files_rest(files), 0);
	expect_text(files->graph_path, graph_xml_resting);
	assert_int_equal(session_files_prepare(files), 0);
	assert_int_equal(session_files_publish(files, "plan", 4), 0);
	expect_text(files->graph_path, "plan");
	assert_int_equal(session_files_prepare(files), 0); /* not while it is published */
	expect_text(files->graph_path, "plan");
	assert_true(session_files_are_there(files));
}

static void reading_is_seen(void **state)
{
	struct files_place *place = *state;
	struct session_files *files = &place->files;

	assert_true(files->can_tell_reads);
	session_files_watch(files);
	assert_false(session_files_was_read(files));
	expect_text(files->graph_path, graph_xml_resting);
	assert_true(session_files_was_read(files));
	assert_int_equal(session_files_publish(files, "plan", 4), 0);
	assert_false(session_files_was_read(files));
	expect_text(files->graph_path, "plan");
	assert_true(session_files_was_read(files));
	assert_int_equal(session_files_publish(files, "plan", 4), 0);
	assert_false(session_files_was_read(files));
}

static void a_text_that_is_too_long_changes_nothing(void **state)
{
	static char text[SESSION_FILES_PLAN_BYTES + 1];
	struct files_place *place = *state;

	assert_int_equal(session_files_publish(&place->files, "plan", 4), 0);
	assert_int_equal(session_files_publish(&place->files, text, sizeof(text)), -E2BIG);
	expect_text(place->files.graph_path, "plan");
}

static void files_that_are_gone_are_missed(void **state)
{
	struct files_place *place = *state;

	assert_int_equal(unlink(place->files.graph_path), 0);
	assert_false(session_files_are_there(&place->files));
	assert_int_equal(session_files_publish(&place->files, "plan", 4), -ENOENT);
}

#ifdef TRIBUTARY_FAULTS
/* Whatever fails, what NCCL finds is one of the two texts; and publishing needs no room. */
static void failures_leave_one_of_the_two(void **state)
{
	static const enum sys_fault_kind kinds[] = { SYS_FAULT_FILE, SYS_FAULT_FILE_DATA };
	struct files_place *place = *state;
	struct session_files *files = &place->files;

	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		for (uint64_t nth = 1; nth < 12; nth++) {
			int r;

			assert_int_equal(session_files_rest(files), 0);
			sys_fault_set(kinds[kind], nth, EIO);
			r = session_files_publish(files, "plan", 4);
			sys_fault_set(kinds[kind], 0, 0);
			expect_text(files->graph_path, r < 0 ? graph_xml_resting : "plan");
		}
		for (uint64_t nth = 1; nth < 20; nth++) {
			struct session_files other;

			sys_fault_set(kinds[kind], nth, ENOSPC);
			if (session_files_make(place->fd, place->root, "3-4", "<system/>", &other, &place->diag) == 0)
				session_files_remove(&other);
			sys_fault_set(kinds[kind], 0, 0);
		}
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_graph_file_rests_until_a_plan_is_published, files_open,
						files_close),
		cmocka_unit_test_setup_teardown(reading_is_seen, files_open, files_close),
		cmocka_unit_test_setup_teardown(a_text_that_is_too_long_changes_nothing, files_open, files_close),
		cmocka_unit_test_setup_teardown(files_that_are_gone_are_missed, files_open, files_close),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test_setup_teardown(failures_leave_one_of_the_two, files_open, files_close),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
