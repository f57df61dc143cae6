/* SPDX-License-Identifier: Apache-2.0 */
/* That ranks of the job in another registry on this host are seen. */
#include "plugin/steer/elsewhere.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HOST = 7 };

static void sockets_of_other_folders_are_seen(void **state)
{
	struct process_identity self;
	struct steer_elsewhere here, other;
	struct diag diag;
	int own = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int folder = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t job = (uint64_t)getpid();

	(void)state;
	assert_true(own >= 0 && folder >= 0);
	assert_int_equal(process_identity(&self), 0);
	assert_int_equal(steer_elsewhere_open(&self, job, HOST, own, &here), 0);
	assert_false(steer_elsewhere_is(&here, &diag));
	assert_int_equal(steer_elsewhere_open(&self, job + 1, HOST, folder, &other), 0);
	assert_false(steer_elsewhere_is(&here, &diag)); /* another job */
	steer_elsewhere_close(&other);
	assert_int_equal(steer_elsewhere_open(&self, job, HOST + 1, folder, &other), 0);
	assert_false(steer_elsewhere_is(&here, &diag)); /* on what NCCL takes for another host */
	steer_elsewhere_close(&other);
	assert_int_equal(steer_elsewhere_open(&self, job, HOST, folder, &other), 0);
	assert_true(steer_elsewhere_is(&here, &diag));
	assert_non_null(strstr(diag.text, "TRIBUTARY_SHARED_DIR"));
	assert_true(steer_elsewhere_is(&other, &diag)); /* and these see it */
	steer_elsewhere_close(&other);
	assert_false(steer_elsewhere_is(&here, &diag));
	steer_elsewhere_close(&here);
	close(folder);
	close(own);
}

/* Another process of this registry, before and behind those of others. */
static void every_line_is_looked_at(void **state)
{
	static const struct steer_elsewhere here = { .fd = -1, .own = "@tributary.1.2.3.4.", .job = "@tributary.1.2." };

	(void)state;
	assert_false(steer_elsewhere_in_text(&here, ""));
	assert_false(steer_elsewhere_in_text(&here, "Num\n0: @tributary.1.2.3.4.17\n1: @tributary.1.2.3.4.18\n"));
	assert_false(steer_elsewhere_in_text(&here, "0: @tributary.1.3.3.4.17\n1: @tributary.2.2.3.4.17\n"));
	assert_true(steer_elsewhere_in_text(&here, "0: @tributary.1.2.3.4.17\n1: @tributary.1.2.3.5.17\n"));
	assert_true(steer_elsewhere_in_text(&here, "0: @tributary.1.2.9.4.17\n1: @tributary.1.2.3.4.17\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockets_of_other_folders_are_seen),
		cmocka_unit_test(every_line_is_looked_at),
	};

	return cmocka_run_group_tests_name("plugin/steer/elsewhere", tests, NULL, NULL);
}
