/* SPDX-License-Identifier: Apache-2.0 */
/* Problems that NCCL would have with a topology file: docs/format/nccl-files.md. Pure; command alone. */
#ifndef TRIBUTARY_NCCLXML_LINT_H
#define TRIBUTARY_NCCLXML_LINT_H

#include "base/log.h"
#include "tributary/topology.h"

enum lint_severity { LINT_NOTE, LINT_WARNING, LINT_ERROR, LINT_SEVERITY_COUNT };

struct lint_finding {
	enum lint_severity severity;
	const char *check; /* a stable word: "gen3-fallback"; of the table of checks */
	int line;
	char text[400]; /* what is there, what NCCL makes of it */
	char remedy[160];
};
struct lint_findings {
	struct lint_finding *at; /* malloc'ed */
	size_t count;
};

/* measured: a machine to check our own encoded widths against; NULL: none. -EINVAL: not XML at all, in *diag. */
int lint_topology_xml(const char *text, size_t bytes, const struct topology *measured, struct lint_findings *ret,
		      struct diag *diag);
void lint_findings_fini(struct lint_findings *findings);

#endif
