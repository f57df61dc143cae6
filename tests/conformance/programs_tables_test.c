/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs over NCCL's net contract, compared with its reference model (support/contract_program.h), over TCP through
 * every table of the built plugin.
 *
 * TRIBUTARY_TEST_LONG=1: a million operations over all tables together. TRIBUTARY_TEST_VERSION: one table alone.
 */
#include "plugin_ops.h"
#include "support/contract_program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { VERSIONS = NETPLUGIN_NEWEST - NETPLUGIN_OLDEST + 1 };
#define SHORT_OPERATIONS UINT64_C(70000) /* of all tables together */
#define LONG_OPERATIONS  UINT64_C(1000000)

static unsigned run_version(int version, struct contract_counts *counts)
{
	struct contract_mover mover = { .ops = &plugin_ops };
	struct transport_properties properties;
	char label[16];
	unsigned failed;

	snprintf(label, sizeof(label), "v%d", version);
	mover.label = label;
	mover.first_seed = contract_first_seed((unsigned)(version - NETPLUGIN_OLDEST));
	if (!plugin_ops_has(version))
		return !!runtime_complain(ENOENT, "no table of version %d", version);
	plugin_ops_choose(version);
	if (plugin_ops.open(NULL, &mover.transport) < 0 ||
	    plugin_ops.device_properties(mover.transport, 0, &properties) < 0)
		return !!runtime_complain(EIO, "%s cannot be opened", label);
	mover.max_recvs = (unsigned)properties.max_recvs;
	failed = contract_programs_run(&mover, (runtime_long() ? LONG_OPERATIONS : SHORT_OPERATIONS) / VERSIONS + 1,
				       counts);
	plugin_ops.close(mover.transport);
	return failed;
}

int main(void)
{
	struct contract_counts counts = { 0 };
	const char *only;
	unsigned failed = 0;

	runtime_start("programs_tables_test", 200);
	setenv("TRIBUTARY_TIMEOUT", "30", 1); /* a busy machine is no dead peer */
	only = runtime_setting("TEST_VERSION");
	for (int version = NETPLUGIN_OLDEST; version <= NETPLUGIN_NEWEST; version++)
		if (!only || strtol(only, NULL, 10) == version)
			failed += run_version(version, &counts);
	contract_counts_print("tcp, all tables", &counts);
	return failed != 0;
}
