/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of the same tools that are not read are named, with the one that is; what is read is told by its content. */
#include "declared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void forms_that_are_not_read_are_named(void **state)
{
	static const struct {
		const char *text, *form, *remedy;
	} forms[] = {
		{ "lldp.eth0.via=LLDP\nlldp.eth0.chassis.name=edge7\n", "lldpctl's keyvalue form", "lldpctl -f json" },
		{ "local-chassis.chassis.name=x1\n", "lldpcli's keyvalue form", "lldpctl -f json" },
		{ "-------------------------------\nLLDP neighbors:\n", "lldpctl's plain form", "lldpctl -f json" },
		{ "\nLLDP neighbors:\n", "lldpctl's plain form", "lldpctl -f json" },
		{ "<?xml version=\"1.0\"?>\n<lldp/>\n", "XML", "lldpctl -f json" },
		{ "CA: x1 mlx5_0:\n      0x1      1    1[  ] ==( 4X 25.78125 Gbps Active/  LinkUp)==>", "iblinkinfo",
		  "`ibnetdiscover` prints" },
		{ "Switch: 0x2 edge7:\n  5  1[  ] ==(   Down/ Polling)==>   [  ] \"\" ( )\n", "iblinkinfo",
		  "`ibnetdiscover` prints" },
		{ "0x2 \"edge7\"  5  1[  ] ==( 4X 25.78125 Gbps Active/ LinkUp)==>  0x1  1  1[  ] \"x1\" ( )\n",
		  "iblinkinfo", "`ibnetdiscover` prints" },
		{ "CA    11  1 0xa1 4x HDR - SW     1  1 0x51 ( 'x1 mlx5_0' - 'low-1' )\n", "list of ports",
		  "without -p" },
		{ "\nSW     1  2 0x51 4x SDR                         'low-1'\n", "list of ports", "without -p" },
		{ "{ CA Ports:01 SystemGUID:1 NodeGUID:1 } { SW Ports:28 } PHY=4x LOG=ACT\n", "ibdiagnet",
		  "`ibnetdiscover` prints" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		declared_is_refused(forms[i].text, NULL, 0, forms[i].form);
		declared_is_refused(forms[i].text, NULL, 0, forms[i].remedy);
	}
}

static void what_has_no_form_gets_the_list_of_all(void **state)
{
	static const char more[] = "print is read, too";

	(void)state;
	declared_is_refused("", NULL, 1, "the file is empty: expected tributary-cluster 1");
	declared_is_refused("\n# nothing\n \n", NULL, 4, "empty but for blank lines and comments: expected tributary");
	declared_is_refused("", NULL, 1, more);
	declared_is_refused("# Title\n\nSome text\n", NULL, 3, more);
	declared_is_refused("=\n", NULL, 1, more);
	declared_refuses_exclude("", 1, "the file is empty");
}

static void a_file_of_lines_is_edited_and_not_excluded_from(void **state)
{
	(void)state;
	declared_refuses_exclude("SwitchName=a Nodes=n[1-2]\n", 0, "take out the lines");
	declared_refuses_exclude("tributary-cluster 1\n", 0, "take out the lines");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_that_are_not_read_are_named),
		cmocka_unit_test(what_has_no_form_gets_the_list_of_all),
		cmocka_unit_test(a_file_of_lines_is_edited_and_not_excluded_from),
	};

	return cmocka_run_group_tests_name("cluster_any", tests, NULL, NULL);
}
