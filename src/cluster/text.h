/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the readers of cluster files share: words with their places, lists of hosts, and the cluster as far as it has
 * been read. Pure.
 */
#ifndef TRIBUTARY_CLUSTER_TEXT_H
#define TRIBUTARY_CLUSTER_TEXT_H

#include "tributary/cluster.h"

#include "base/log.h"

#include <stdbool.h>

enum {
	CLUSTER_NAME_MAX = 253,           /* bytes of a name: the longest of DNS */
	CLUSTER_EXPRESSION_PARTS_MAX = 8, /* brackets in one expression */
};
#define CLUSTER_RATE_MAX UINT64_C(1000000000000000) /* bytes/s */

/* ------------------------------------------------------------------------------------------------------------ words */

/* A piece of the text, and where it stands. */
struct cluster_word {
	const char *at;
	size_t bytes;
	int line, column;
};

struct cluster_text {
	const char *text;
	size_t bytes, at, line_start;
	int line;
	bool continues; /* a line whose last character is a backslash goes on in the next */
	struct diag *diag;
};

/* The next byte; a newline at the end of the text. */
char cluster_text_peek(const struct cluster_text *text);
void cluster_text_skip_blanks(struct cluster_text *text);
/* The line ends here, or the rest of it is a comment. */
bool cluster_text_line_ends(const struct cluster_text *text);
void cluster_text_next_line(struct cluster_text *text);
/* Up to a blank, a comment or one of `stops`; may be empty. */
struct cluster_word cluster_text_word(struct cluster_text *text, const char *stops);

/* Always -EINVAL. `expected` is what should be in the place of the word; the remedy is a clause, or NULL. */
int cluster_fail(struct diag *diag, const struct cluster_word *word, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int cluster_fail_expected(struct diag *diag, const struct cluster_word *word, const char *expected);

/* In any case of letters, if `any_case`. */
bool cluster_word_is(const struct cluster_word *word, const char *other, bool any_case);
/* Letters, digits, dot, dash and underscore, at most CLUSTER_NAME_MAX. */
int cluster_word_name(const struct cluster_word *word, const char *what, struct diag *diag);
int cluster_word_rate(const struct cluster_word *word, struct diag *diag, uint64_t *ret_Bps);

/*
 * node[01-16,20],login, rack[0-3]_blade[1-8]: each name, with its length, in the order of the list, until `take` returns
 * an error, which is returned. The words in brackets are numbers of at most nine digits; all have the width of the first
 * at least.
 */
int cluster_expand(const struct cluster_word *list, const char *what, struct diag *diag,
		   int (*take)(void *arg, const char *name, size_t bytes), void *arg);

/* ------------------------------------------------------------------------------------------------------------ draft */

struct draft_switch {
	size_t name; /* offset in names */
	int parent;
	uint64_t up_rate_Bps, down_rate_Bps;
	struct cluster_word where;
};
struct draft_host {
	size_t name;
	int leaf;
	uint64_t rate_Bps;
	struct cluster_word where;
};
struct draft_aggregator {
	size_t address;
	uint16_t port;
	int leaf;
	uint64_t rate_Bps;
	struct cluster_word where;
};

struct cluster_draft {
	struct diag *diag;
	char *names; /* each ends with a NUL */
	size_t names_bytes;
	struct draft_switch *switches;
	struct draft_host *hosts;
	struct draft_aggregator *aggregators;
	size_t switch_count, host_count, aggregator_count;
	bool measured;
};

/* -ENOMEM. cluster_draft_fini accepts a zeroed one. */
int cluster_draft_init(struct cluster_draft *draft, struct diag *diag);
void cluster_draft_fini(struct cluster_draft *draft);

/* *ret: its offset in names. -ENOMEM. */
int cluster_draft_keep_name(struct cluster_draft *draft, const char *name, size_t bytes, size_t *ret);

/* All: 0, -ENOMEM, or -EINVAL after saying what is wrong with the place `where`. *ret: its index. */
int cluster_draft_switch(struct cluster_draft *draft, const struct cluster_word *name, int *ret);
int cluster_draft_hosts(struct cluster_draft *draft, const struct cluster_word *list, int leaf, uint64_t rate_Bps);
int cluster_draft_aggregator(struct cluster_draft *draft, const struct cluster_word *where,
			     const struct cluster_word *address, uint16_t port, int leaf, uint64_t rate_Bps);
/* CLUSTER_NONE: there is none of that name yet. */
int cluster_draft_find_switch(const struct cluster_draft *draft, const char *name, size_t bytes);
/* Checks the whole, puts it in order and makes the cluster of it. */
int cluster_draft_finish(struct cluster_draft *draft, struct cluster **ret);

/* ---------------------------------------------------------------------------------------------------------- readers */

/* slurm_conf.c, slurm_yaml.c. The text is at its beginning, or at its first word. */
int cluster_read_slurm(struct cluster_text *text, struct cluster_draft *draft);
int cluster_read_yaml(struct cluster_text *text, struct cluster_draft *draft);
/* By the first word of the text. */
bool cluster_is_yaml(const struct cluster_word *first);

/*
 * slurm_tree.c: in Slurm's files a switch names those below it, which may be defined before or behind it. Zeroed: none. Of
 * several above the same switch cluster_namings_join makes one, and of leaves with the same hosts.
 */
struct cluster_namings {
	struct naming *at;
	size_t count;
};
/* Both: 0, -ENOMEM, or -EINVAL after saying what is wrong. */
int cluster_namings_add(struct cluster_namings *namings, struct cluster_draft *draft, int parent,
			const struct cluster_word *list);
int cluster_namings_join(const struct cluster_namings *namings, struct cluster_draft *draft);
void cluster_namings_fini(struct cluster_namings *namings);
/* The list of a leaf's nodes, which cannot be ALL. */
int cluster_slurm_nodes(struct cluster_draft *draft, const struct cluster_word *list, int leaf);

#endif
