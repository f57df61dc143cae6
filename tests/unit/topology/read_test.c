/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "topology/internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FIRST "tributary-topology 1\n"
#define TWO   FIRST "vertex gpu gpu0\nvertex cpu cpu0\n"
#define LINK  TWO "link pci gpu0 cpu0\n" /* what follows is line 5 */

static int read_text(const char *text, struct topology *ret, struct diag *diag)
{
	size_t bytes = strlen(text);
	char *exact = malloc(bytes ? bytes : 1);
	int r;

	/* A block without a NUL behind it, so that a byte read beyond it is seen by the sanitizer. */
	assert_non_null(exact);
	memcpy(exact, text, bytes);
	r = topology_read(exact, bytes, ret, diag);
	free(exact);
	return r;
}

static void comments_blanks_and_line_ends_of_others_are_accepted(void **state)
{
	struct topology topology;

	(void)state;
	assert_int_equal(read_text("tributary-topology 1\r\n\r\n# a comment \x80 of any bytes\n  \t# another\n"
				   " vertex\tgpu  gpu0\tsm=86 \r\n\n\"" /* of nothing yet */,
				   &topology, NULL),
			 -EINVAL);
	assert_int_equal(read_text("tributary-topology 1\r\n\r\n# a comment \x80 of any bytes\n  \t# another\n"
				   " vertex\tgpu  gpu0\tsm=86 \r\n\nname \"\"\ndriver a=b",
				   &topology, NULL),
			 0);
	assert_int_equal(topology.vertex_count, 1);
	assert_int_equal(topology.vertices[0].gpu.sm, 86);
	assert_string_equal(topology.name, "");
	assert_string_equal(topology.driver, "a=b");
	topology_fini(&topology);
	assert_int_equal(read_text("tributary-topology 1", &topology, NULL), 0);
	topology_fini(&topology);
}

static void quoted_values_may_hold_anything_but_a_nul(void **state)
{
	struct topology topology;

	(void)state;
	assert_int_equal(read_text(FIRST "name \" \\\"\\\\\\n\\x7f\\xff\xc3\xa9#=\"", &topology, NULL), 0);
	assert_string_equal(topology.name, " \"\\\n\x7f\xff\xc3\xa9#=");
	topology_fini(&topology);
}

struct mistake {
	const char *text;
	int line, column;
	const char *reason; /* part of it */
};

static const struct mistake mistakes[] = {
	{ "", 1, 1, "expected tributary-topology 1, the line ends here" },
	{ "tributary-profile 1\n", 1, 1, "expected tributary-topology 1, found tributary-profile" },
	{ "tributary-topology 2\n", 1, 20, "version 1 of the form, found 2" },
	{ "tributary-topology\n1\n", 1, 19, "version 1 of the form, the line ends here" },
	{ "tributary-topology 1 x\n", 1, 22, "the end of the line, found x" },
	{ "\ntributary-topology 1\n", 1, 1, "tributary-topology 1" },
	{ FIRST "vertx gpu gpu0\n", 2, 1, "name, driver, vertex, link, rate, limit, pair or #, found vertx" },
	{ FIRST "a-very-long-first-word gpu gpu0\n", 2, 1, "found a-very-long-first-word" },
	{ FIRST "\x1b[2J\n", 2, 1, "found byte 0x1b" },
	{ FIRST "name a b\n", 2, 8, "the end of the line, found b" },
	{ FIRST "name a\nname b\n", 3, 6, "a line above has said this already" },
	{ FIRST "name \"a\nb\"\n", 2, 8, "the closing quote, the line ends here" },
	{ FIRST "name \"a", 2, 8, "the closing quote, the line ends here" },
	{ FIRST "name \"a\"b\n", 2, 9, "a blank after the closing quote" },
	{ FIRST "name \"\\t\"\n", 2, 7, "expected one of" },
	{ FIRST "name \"\\x00\"\n", 2, 7, "expected one of" },
	{ FIRST "name \"\\x", 2, 7, "expected one of" },
	{ FIRST "name \"\\", 2, 7, "expected one of" },
	{ FIRST "name 0123456789012345678901234567890123456789012345678901234567890123\n", 2, 6, "at most 63 bytes" },
	{ FIRST "name \"0123456789012345678901234567890123456789012345678901234567890123\"\n", 2, 6,
	  "at most 63 bytes" },
	{ FIRST "vertex\n", 2, 7, "gpu, nic, switch" },
	{ FIRST "vertex tpu tpu0\n", 2, 8, "found tpu" },
	{ FIRST "vertex gpu\n", 2, 11, "a name of at most 63 bytes" },
	{ FIRST "vertex gpu a>b\n", 2, 12, "a name without quotes" },
	{ FIRST "vertex gpu \"gpu0\"\n", 2, 12, "a name without quotes" },
	{ FIRST "vertex gpu gpu0 sm\n", 2, 17, "key=value, found sm" },
	{ FIRST "vertex gpu gpu0 =5\n", 2, 17, "key=value, found =5" },
	{ FIRST "vertex gpu gpu0 numa=0\n", 2, 17, "a key of this kind of line, found numa=0" },
	{ FIRST "vertex gpu gpu0 sm=86 sm=86\n", 2, 23, "a second time in this line: sm" },
	{ FIRST "vertex gpu gpu0 sm=8.6\n", 2, 20, "sm= with a whole number from 1 to 2147483647, found 8.6" },
	{ FIRST "vertex gpu gpu0 sm=0\n", 2, 20, "found 0" },
	{ FIRST "vertex gpu gpu0 sm=\n", 2, 20, "the line ends here" },
	{ FIRST "vertex gpu gpu0 sm=99999999999999999999999\n", 2, 20, "found 9999" },
	{ FIRST "vertex gpu gpu0 index=-1\n", 2, 23, "a whole number from 0" },
	{ FIRST "vertex gpu gpu0 gdr=yes\n", 2, 21, "gdr= with 0 or 1, found yes" },
	{ FIRST "vertex gpu gpu0 vendor=0x10000\n", 2, 24, "from 0x1 to 0xffff" },
	{ FIRST "vertex gpu gpu0 vendor=nvidia\n", 2, 24, "a hexadecimal number" },
	{ FIRST "vertex gpu gpu0 bus=00000000:00:00.0:000000000\n", 2, 21, "a text of at most 23 bytes" },
	{ TWO "vertex gpu cpu0\n", 4, 12, "a line above has said this already" },
	{ TWO "link gpu0 cpu0\n", 4, 6, "pci, nvlink" },
	{ TWO "link pci gpu0\n", 4, 14, "the link's upper vertex" },
	{ TWO "link pci gpu0 cpu1\n", 4, 15, "no vertex line above has the name cpu1" },
	{ TWO "link pci gpu0 gpu0\n", 4, 10, "two different vertices" },
	{ TWO "link pci gpu0 cpu0 count=0\n", 4, 26, "from 1 to 1024" },
	{ TWO "link pci gpu0 cpu0 generation=8\n", 4, 31, "from 1 to 7" },
	{ TWO "rate gpu0>cpu0 5 measured\n", 4, 6, "no link line above joins gpu0>cpu0" },
	{ LINK "rate gpu0 5 measured\n", 5, 6, "no link line above joins gpu0" },
	{ LINK "rate gpu0>cpu0#2 5 measured\n", 5, 6, "no link line above joins gpu0>cpu0#2" },
	{ LINK "rate gpu0>cpu0\n", 5, 15, "a rate in bytes/s" },
	{ LINK "rate gpu0>cpu0 -5 measured\n", 5, 16, "a rate in bytes/s, found -5" },
	{ LINK "rate gpu0>cpu0 18446744073709551615 measured\n", 5, 16, "a rate in bytes/s" },
	{ LINK "rate gpu0>cpu0 5\n", 5, 17, "at_least or measured" },
	{ LINK "rate gpu0>cpu0 5 guessed\n", 5, 18, "found guessed" },
	{ LINK "rate gpu0>cpu0 5 unknown\n", 5, 18, "a rate of 0 before unknown" },
	{ LINK "rate gpu0>cpu0 0 measured\n", 5, 18, "unknown after a rate of 0" },
	{ LINK "rate gpu0>cpu0 5 measured spread=0,1\n", 5, 34, "at most six decimals" },
	{ LINK "rate gpu0>cpu0 5 measured spread=0.0000001\n", 5, 34, "at most six decimals" },
	{ LINK "rate gpu0>cpu0 5 measured spread=nan\n", 5, 34, "at most six decimals" },
	{ LINK "rate gpu0>cpu0 5 measured date=2025-11-21\n", 5, 32, "a whole number" },
	{ LINK "rate gpu0>cpu0 5 measured\nrate gpu0>cpu0 5 measured\n", 6, 6, "a line above has said this already" },
	{ LINK "rate gpu0>cpu0 5 measured members=gpu0>cpu0\n", 5, 27, "a key of this kind of line" },
	{ LINK "limit x 5 measured members=\n", 5, 28, "LOWER>UPPER" },
	{ LINK "limit x 5 measured members=gpu0>cpu0,\n", 5, 38, "LOWER>UPPER" },
	{ LINK "limit x 5 measured members=gpu0>cpu0,gpu0>cpu0\n", 5, 38, "a member of this limit already" },
	{ LINK "limit x 5 measured members=gpu0>cpu0 date=1\n", 5, 38, "the end of the line" },
	{ LINK "limit x 5 measured\nlimit x 5 measured\n", 6, 7, "a line above has said this already" },
	{ LINK "limit \"x\" 5 measured\n", 5, 7, "a name without quotes" },
	{ LINK "pair gpu0\n", 5, 10, "the vertex that data goes to" },
	{ LINK "pair gpu0 gpu1 p2p_works=1\n", 5, 11, "no vertex line above has the name gpu1" },
	{ LINK "pair gpu0 gpu0 p2p_works=1\n", 5, 6, "two different vertices" },
	{ LINK "pair gpu0 cpu0 host_Bps=1\n", 5, 16, "p2p_works=0 or p2p_works=1" },
	{ LINK "pair gpu0 cpu0\n", 5, 15, "p2p_works=0 or p2p_works=1" },
	{ LINK "pair gpu0 cpu0 p2p_works=2\n", 5, 26, "0 or 1" },
	{ LINK "pair gpu0 cpu0 p2p_works=1 p2p_Bps=5\n", 5, 16, "both p2p_Bps= and p2p_provenance=" },
	{ LINK "pair gpu0 cpu0 p2p_works=1 host_provenance=nominal\n", 5, 16, "both host_Bps= and host_provenance=" },
	{ LINK "pair gpu0 cpu0 p2p_works=1\npair gpu0 cpu0 p2p_works=1\n", 6, 6, "a line above has said this already" },
};

static void mistakes_are_told_with_their_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		const struct mistake *mistake = &mistakes[i];
		struct topology topology;
		struct diag diag = { 0 };
		int r = read_text(mistake->text, &topology, &diag);

		if (r != -EINVAL || diag.line != mistake->line || diag.column != mistake->column ||
		    !strstr(diag.text, mistake->reason))
			fail_msg("%d: %d:%d: %s, not %d:%d: %s, for\n%s", r, diag.line, diag.column, diag.text,
				 mistake->line, mistake->column, mistake->reason, mistake->text);
		assert_true(!topology.vertices && !topology.vertex_count && !topology.links);
		assert_int_equal(read_text(mistake->text, &topology, NULL), -EINVAL);
	}
}

static void a_nul_is_a_mistake_like_another(void **state)
{
	static const char text[] = "tributary-topology 1\nname a\0b\n";
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(topology_read(text, sizeof(text) - 1, &topology, &diag), -EINVAL);
	assert_int_equal(diag.line, 2);
	assert_int_equal(diag.column, 7);
	assert_string_equal(diag.text, "expected the end of the line, found byte 0x00");
}

static void every_beginning_of_a_text_is_read_or_refused(void **state)
{
	static const char text[] = LINK
		"link pci gpu0 cpu0 lanes=16\nrate gpu0>cpu0#2 7 at_least latency_ns=3\n"
		"limit x 5 measured spread=0.5 members=gpu0>cpu0,gpu0>cpu0#2\r\n"
		"name \"\\x01\\n\"\npair gpu0 cpu0 p2p_works=1 p2p_Bps=5 p2p_provenance=nominal\n";
	size_t whole = 0;

	(void)state;
	for (size_t bytes = 0; bytes < sizeof(text); bytes++) {
		struct topology topology;
		char *part = malloc(bytes ? bytes : 1);
		int r;

		assert_non_null(part);
		memcpy(part, text, bytes);
		r = topology_read(part, bytes, &topology, NULL);
		assert_true(r == 0 || r == -EINVAL);
		whole += r == 0;
		topology_fini(&topology);
		free(part);
	}
	assert_true(whole > 9);
}

/* So many facts that looking at all of them for each of them would take minutes. */
static void a_large_text_is_read_in_no_time(void **state)
{
	const size_t room = 8 << 20;
	struct topology topology;
	char *text = malloc(room);
	size_t bytes;

	(void)state;
	assert_non_null(text);
	bytes = (size_t)snprintf(text, room, FIRST "vertex gpu gpu0\n");
	for (unsigned i = 1; i < TOPOLOGY_VERTICES_MAX; i++)
		bytes += (size_t)snprintf(text + bytes, room - bytes, "vertex gpu gpu%u\n", i);
	for (unsigned i = 0; i < TOPOLOGY_LINKS_MAX; i++)
		bytes += (size_t)snprintf(text + bytes, room - bytes, "link nvlink gpu4094 gpu4095\n");
	for (unsigned i = 2; i <= TOPOLOGY_LINKS_MAX; i++)
		bytes += (size_t)snprintf(text + bytes, room - bytes, "rate gpu4095>gpu4094#%u 7 measured\n", i);
	for (unsigned i = 0; i < 4; i++) {
		bytes += (size_t)snprintf(text + bytes, room - bytes, "limit l%u 7 measured members=gpu4094>gpu4095",
					  i);
		for (unsigned j = 2; j <= TOPOLOGY_LINKS_MAX; j++)
			bytes += (size_t)snprintf(text + bytes, room - bytes, ",gpu4094>gpu4095#%u", j);
		bytes += (size_t)snprintf(text + bytes, room - bytes, "\n");
	}
	assert_true(bytes < room - 1);
	assert_int_equal(topology_read(text, bytes, &topology, NULL), 0);
	assert_int_equal(topology.limits[3].member_count, TOPOLOGY_LINKS_MAX);
	topology_fini(&topology);
	bytes += (size_t)snprintf(text + bytes, room - bytes, "link nvlink gpu0 gpu1\n");
	{
		struct diag diag;

		assert_int_equal(topology_read(text, bytes, &topology, &diag), -EINVAL);
		assert_non_null(strstr(diag.text, "more than any machine has"));
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comments_blanks_and_line_ends_of_others_are_accepted),
		cmocka_unit_test(quoted_values_may_hold_anything_but_a_nul),
		cmocka_unit_test(mistakes_are_told_with_their_place),
		cmocka_unit_test(a_nul_is_a_mistake_like_another),
		cmocka_unit_test(every_beginning_of_a_text_is_read_or_refused),
		cmocka_unit_test(a_large_text_is_read_in_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
