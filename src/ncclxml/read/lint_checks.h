/* What lint.c (the table, the form of the file) and lint_checks.c (what the elements say) share. Pure. */
#ifndef TRIBUTARY_NCCLXML_READ_LINT_CHECKS_H
#define TRIBUTARY_NCCLXML_READ_LINT_CHECKS_H

#include <stddef.h>

#include "ncclxml/lint.h"

struct ncclxml_element;

enum lint_check {
	LINT_PARSER,
	LINT_NOT_TOPOLOGY,
	LINT_VERSION,
	LINT_NODES,
	LINT_CHILDREN,
	LINT_LONG_VALUE,
	LINT_MISSING,
	LINT_ATTRIBUTES,
	LINT_DUPLICATE,
	LINT_STALE,
	LINT_KEEP,
	LINT_GEN3,
	LINT_FAKE,
	LINT_WIDTH,
	LINT_ENCODED,
	LINT_NET_SPEED,
	LINT_NVLINK,
	LINT_UNKNOWN,
	LINT_UNESCAPED,
	LINT_CHECK_COUNT
};

struct lint {
	const struct topology *measured; /* NULL: none */
	size_t elements;                 /* of the document */
	struct lint_findings findings;
	size_t room;
	int error;
};

void lint_add(struct lint *lint, enum lint_check check, int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void lint_check_element(struct lint *lint, const struct ncclxml_element *element);
/* Bus ids and GPU numbers that occur twice, NVLinks that lead nowhere: what one element alone does not show. */
void lint_check_duplicates(struct lint *lint, const struct ncclxml_element *root);

#endif
