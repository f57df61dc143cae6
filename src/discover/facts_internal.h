/* SPDX-License-Identifier: Apache-2.0 */
/* What facts.c (machine and system) and facts_rdma.c (RDMA) share: facts_text.c. One thread. */
#ifndef TRIBUTARY_DISCOVER_FACTS_INTERNAL_H
#define TRIBUTARY_DISCOVER_FACTS_INTERNAL_H

#include "discover/build.h"

enum { DISCOVER_FACT_BYTES = 512 };
#define DISCOVER_UNKNOWN "unknown"

struct discover_collector {
	struct discover_root *root;
	const struct topology *topology;
	char **lines;
	size_t count;
	int result;
	unsigned translated, identity, untyped; /* devices by the type of their IOMMU group */
};

/* Adds a line. What goes wrong is in result, and nothing is added any more. */
void discover_facts_add(struct discover_collector *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A file's text as one word: what is between is a comma; "unknown" when it cannot be read. */
void discover_facts_word(struct discover_collector *from, char *text, size_t room, const char *folder, const char *name,
			 const char *file);
/* The value of a key in one line of words, which may be NULL; "unknown". */
void discover_facts_value(const char *line, const char *key, char *ret, size_t room);

/* All lines, sorted, in one text. -ENOMEM. */
int discover_facts_join(struct discover_collector *from, struct discover_facts *ret);

/* facts_rdma.c: each RDMA port, its addresses, and how GPUs and NICs reach each other. */
void discover_facts_rdma(struct discover_collector *to);
/* The line "roce" of a RoCE NIC's interface. answer: discover_ethtool_ask's, NULL when there is none. */
void discover_facts_roce(struct discover_collector *to, const char *interface, const char *answer);

#endif
