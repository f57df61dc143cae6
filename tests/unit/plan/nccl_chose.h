/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real machines and what NCCL 2.28.9 chose for them: NCCL topology files in a folder outside the repository, and in its
 * nccl-chose/ what NCCL dumped on each. For tests that TRIBUTARY_TEST_TOPOLOGIES names the folder to.
 */
#ifndef TRIBUTARY_TESTS_UNIT_PLAN_NCCL_CHOSE_H
#define TRIBUTARY_TESTS_UNIT_PLAN_NCCL_CHOSE_H

#include "tributary/plan.h"

#include <stdbool.h>
#include <stddef.h>

struct nccl_chose {
	const char *graph, *machine; /* files: nccl-chose/GRAPH.graph.xml, MACHINE.xml */
	bool told;  /* the file has no NVLinks and no NICs; NCCL was told of A100, 12 × 20 GB/s, and 8 × 200 Gbit/s */
	bool given; /* NCCL was given these channels, and chose nothing */
};
extern const struct nccl_chose nccl_chose_cases[];
extern const size_t nccl_chose_count;

/* NULL: there is no such file. Else malloc'ed and NUL-terminated. */
char *nccl_chose_machine_text(const char *folder, const struct nccl_chose *which, size_t *ret_bytes);
char *nccl_chose_graph_text(const char *folder, const struct nccl_chose *which, size_t *ret_bytes);
/* The machine with all that NCCL was told, and a request for all of it on as many hosts as NCCL had. Asserts. */
void nccl_chose_load(const struct nccl_chose *which, const char *machine_text, size_t bytes, struct topology *ret,
		     struct plan_request *ret_request);

#endif
