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
	assert_int_equal(session_files_publish(files, "a plan", 6), -ECANCELED); /* there is no room for one */
	assert_int_equal(session_files_prepare(files, 1), 0);
	expect_text(files->graph_path, graph_xml_resting);
	assert_int_equal(session_files_publish(files, "a plan", 6), 0);
	expect_text(files->graph_path, "a plan");
	assert_int_equal(session_files_publish(files, "plan", 4), 0);
	expect_text(files->graph_path, "plan\n\n"); /* shorter, in the same phase */
	assert_int_equal(session_files_rest(files), 0);
	assert_int_equal(session_files_rest(files), 0);
	expect_text(files->graph_path, graph_xml_resting);
	assert_int_equal(session_files_prepare(files, 2), 0);
	assert_int_equal(session_files_prepare(files, 3), 0); /* and 2 was never needed */
	assert_int_equal(session_files_publish(files, "plan", 4), 0);
	expect_text(files->graph_path, "plan");
	assert_int_equal(session_files_prepare(files, 4), 0); /* not while it is published */
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
	assert_true(session_files_of_other_was_read(place->fd, "1-2"));
	assert_int_equal(session_files_prepare(files, 1), 0);
	assert_int_equal(session_files_publish(files, "plan", 4), 0);
	assert_false(session_files_was_read(files));
	assert_false(session_files_of_other_was_read(place->fd, "1-2"));
	expect_text(files->graph_path, "plan");
	assert_true(session_files_was_read(files));
	assert_int_equal(session_files_publish(files, "plan", 4), 0);
	assert_false(session_files_was_read(files));
}

/* What other processes do, by the id and the number alone. */
static void others_take_back_that_plan_and_no_other(void **state)
{
	struct files_place *place = *state;
	struct session_files *files = &place->files;

	assert_int_equal(session_files_prepare(files, 7), 0);
	assert_int_equal(session_files_plan_state(place->fd, "1-2", 7), SESSION_PLAN_UNREAD);
	assert_int_equal(session_files_publish(files, "plan", 4), 0);
	assert_int_equal(session_files_plan_state(place->fd, "1-2", 7), SESSION_PLAN_UNREAD);
	session_files_retract(place->fd, "1-2", 6);
	session_files_retract(place->fd, "1-3", 7);
	expect_text(files->graph_path, "plan");
	assert_int_equal(session_files_plan_state(place->fd, "1-2", 7), SESSION_PLAN_READ);
	assert_int_equal(session_files_plan_state(place->fd, "1-2", 6), SESSION_PLAN_OVER);
	session_files_retract(place->fd, "1-2", 7);
	session_files_retract(place->fd, "1-2", 7); /* two that come upon it at once */
	assert_int_equal(session_files_plan_state(place->fd, "1-2", 7), SESSION_PLAN_OVER);
	assert_true(session_files_are_there(files));
	expect_text(files->graph_path, graph_xml_resting);
	assert_true(session_files_was_read(files));
	assert_int_equal(session_files_publish(files, "text", 4), 0); /* with other numbers: still taken back */
	expect_text(files->graph_path, graph_xml_resting);
	assert_int_equal(session_files_rest(files), 0); /* who had published it need not know */
	assert_true(session_files_are_there(files));
	expect_text(files->graph_path, graph_xml_resting);
	assert_int_equal(session_files_prepare(files, 8), 0);
	session_files_retract(place->fd, "1-2", 7); /* too late */
	assert_int_equal(session_files_publish(files, "next", 4), 0);
	session_files_retract(place->fd, "1-2", 7);
	expect_text(files->graph_path, "next");
	assert_int_equal(session_files_rest(files), 0);
	assert_true(session_files_are_there(files));
}

static void a_plan_taken_back_before_it_is_published_never_is(void **state)
{
	struct files_place *place = *state;
	struct session_files *files = &place->files;

	assert_int_equal(session_files_prepare(files, 1), 0);
	session_files_retract(place->fd, "1-2", 1);
	assert_true(session_files_are_there(files));
	assert_int_equal(session_files_plan_state(place->fd, "1-2", 1), SESSION_PLAN_OVER);
	assert_int_equal(session_files_publish(files, "plan", 4), -ECANCELED);
	expect_text(files->graph_path, graph_xml_resting);
	assert_int_equal(session_files_prepare(files, 2), 0);
	assert_int_equal(session_files_publish(files, "plan", 4), 0);
	expect_text(files->graph_path, "plan");
}

static void a_text_that_is_too_long_changes_nothing(void **state)
{
	static char text[SESSION_FILES_PLAN_BYTES + 1];
	struct files_place *place = *state;

	assert_int_equal(session_files_prepare(&place->files, 1), 0);
	assert_int_equal(session_files_publish(&place->files, "plan", 4), 0);
	assert_int_equal(session_files_publish(&place->files, text, sizeof(text)), -E2BIG);
	expect_text(place->files.graph_path, "plan");
}

static void files_that_are_gone_are_missed(void **state)
{
	struct files_place *place = *state;

	assert_int_equal(unlink(place->files.graph_path), 0);
	assert_false(session_files_are_there(&place->files));
	session_files_remove(&place->files);
	assert_int_equal(session_files_make(place->fd, place->root, "1-2", NULL, &place->files, &place->diag), 0);
	assert_int_equal(session_files_prepare(&place->files, 1), 0);
	assert_int_equal(session_files_publish(&place->files, "plan", 4), 0);
	assert_true(session_files_are_there(&place->files));
	assert_int_equal(unlink(place->files.graph_path), 0);
	assert_false(session_files_are_there(&place->files));
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
			r = session_files_prepare(files, 100 + nth);
			if (r == 0)
				r = session_files_publish(files, "plan", 4);
			if (r == 0)
				(void)session_files_publish(files, "plan", 4);
			sys_fault_set(kinds[kind], 0, 0);
			expect_text(files->graph_path, files->published ? "plan" : graph_xml_resting);
			assert_true(r == 0 || !files->published);
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
		cmocka_unit_test_setup_teardown(others_take_back_that_plan_and_no_other, files_open, files_close),
		cmocka_unit_test_setup_teardown(a_plan_taken_back_before_it_is_published_never_is, files_open,
						files_close),
		cmocka_unit_test_setup_teardown(a_text_that_is_too_long_changes_nothing, files_open, files_close),
		cmocka_unit_test_setup_teardown(files_that_are_gone_are_missed, files_open, files_close),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test_setup_teardown(failures_leave_one_of_the_two, files_open, files_close),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
