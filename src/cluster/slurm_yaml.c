/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slurm's topology.yaml (slurm.schedmd.com/topology.yaml.html), from 25.05 on: a list of topologies, of which the one that
 * is the cluster's default counts if it is a tree, else the first tree.
 *
 *     - topology: fabric
 *       cluster_default: true
 *       tree:
 *         switches:
 *           - switch: spine
 *             children: leaf[1-2]
 *           - switch: leaf1
 *             nodes: node[01-16]
 *
 * The plugin reads this and links libc alone, so this is no reader of YAML: lines of "KEY: VALUE" and dashes, indented by
 * spaces, which is how Slurm documents the file and how people write it. Anything else of YAML is refused by its name.
 */
#include "cluster/text.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

/* What the next line, or the rest of it behind a dash, is. */
enum entry_kind { ENTRY_END, ENTRY_DASH, ENTRY_KEY, ENTRY_SCALAR };

struct entry {
	enum entry_kind kind;
	int indent;                     /* columns before it */
	struct cluster_word key, value; /* a scalar: value */
};

struct yaml {
	struct cluster_text *text;
	struct cluster_draft *draft;
	struct cluster_namings *namings;
	struct entry next;
	int topology_count, wanted; /* wanted: the topology whose switches are taken; -1: none, it is only looked for */
	int default_tree, first_tree;
	bool has_default;
};

static int not_read(const struct yaml *yaml, const struct cluster_word *word, const char *what)
{
	return cluster_fail(yaml->text->diag, word,
			    "%s is not read here: write the file as lines of KEY: VALUE, or use what `scontrol show "
			    "topology` prints",
			    what);
}

/* ------------------------------------------------------------------------------------------------------------ entries */

static struct cluster_word here(const struct cluster_text *text)
{
	return (struct cluster_word){ text->text + text->at, 0, text->line, (int)(text->at - text->line_start) + 1 };
}

/* What is left of the line, without blanks at its end and without a comment. */
static struct cluster_word rest_of_line(struct cluster_text *text)
{
	struct cluster_word word = here(text);
	size_t start = text->at;

	for (; !cluster_text_line_ends(text); text->at++)
		if (cluster_text_peek(text) != ' ' && cluster_text_peek(text) != '\t')
			word.bytes = text->at + 1 - start;
	return word;
}

static bool begins(const struct cluster_word *word, const char *with)
{
	return word->bytes >= strlen(with) && !memcmp(word->at, with, strlen(with));
}

/* Between quotes, or as it is. What YAML has beyond that is refused. */
static int unquote(const struct yaml *yaml, struct cluster_word *word)
{
	char first = word->bytes ? word->at[0] : ' ';

	if (first == '"' || first == '\'') {
		if (word->bytes < 2 || word->at[word->bytes - 1] != first)
			return cluster_fail(yaml->text->diag, word, "expected a closing quote in the same line");
		word->at++;
		word->column++;
		word->bytes -= 2;
		return memchr(word->at, '\\', word->bytes) ? not_read(yaml, word, "a backslash in quotes") : 0;
	}
	if (first && strchr("&*!|>{[%@`", first))
		return not_read(yaml, word, "YAML's notation with & * ! | > { or [");
	return 0;
}

/* Splits "KEY: VALUE" or "KEY:"; false: it is neither. */
static bool split(const struct cluster_word *line, struct cluster_word *ret_key, struct cluster_word *ret_value)
{
	size_t at = 0;

	while (at < line->bytes && line->at[at] != ':' && line->at[at] != ' ' && line->at[at] != '"')
		at++;
	if (!at || at == line->bytes || line->at[at] != ':' ||
	    (at + 1 < line->bytes && line->at[at + 1] != ' ' && line->at[at + 1] != '\t'))
		return false;
	*ret_key = *line;
	ret_key->bytes = at++;
	while (at < line->bytes && (line->at[at] == ' ' || line->at[at] == '\t'))
		at++;
	*ret_value = (struct cluster_word){ line->at + at, line->bytes - at, line->line, line->column + (int)at };
	return true;
}

/* To the first word that is no comment. `fresh`: at the beginning of a line. */
static int find_word(struct yaml *yaml, bool fresh)
{
	struct cluster_text *text = yaml->text;

	for (;; fresh = true) {
		while (cluster_text_peek(text) == ' ')
			text->at++;
		if (text->at >= text->bytes)
			return 0;
		if (!cluster_text_line_ends(text)) {
			struct cluster_word word = here(text);

			if (fresh && cluster_text_peek(text) == '\t')
				return not_read(yaml, &word, "a tab at the beginning of a line");
			return 0;
		}
		cluster_text_next_line(text);
	}
}

/* Sets yaml->next. */
static int advance(struct yaml *yaml)
{
	struct cluster_text *text = yaml->text;
	struct entry *next = &yaml->next;
	bool behind_dash = next->kind == ENTRY_DASH;
	struct cluster_word word;
	int r = find_word(yaml, !behind_dash);

	*next = (struct entry){ .kind = ENTRY_END };
	if (r < 0 || text->at >= text->bytes) {
		next->value = here(text);
		return r;
	}
	next->indent = (int)(text->at - text->line_start);
	word = here(text);
	if (cluster_text_peek(text) == '-' &&
	    (text->at + 1 >= text->bytes || strchr(" \r\n", text->text[text->at + 1]))) {
		text->at++;
		next->kind = ENTRY_DASH;
		next->value = word;
		return 0;
	}
	word = rest_of_line(text);
	if (!next->indent && (begins(&word, "---") || begins(&word, "...")))
		return not_read(yaml, &word, "more than one document");
	if (split(&word, &next->key, &next->value)) {
		next->kind = ENTRY_KEY;
		return 0;
	}
	next->kind = ENTRY_SCALAR;
	next->value = word;
	return 0;
}

static int expected(const struct yaml *yaml, const char *what)
{
	const struct entry *next = &yaml->next;

	return cluster_fail_expected(yaml->text->diag, next->kind == ENTRY_KEY ? &next->key : &next->value, what);
}

/* All that belongs to a key that stands `indent` columns in. A list may begin below its key, without being indented. */
static int skip_value(struct yaml *yaml, int indent)
{
	int r = advance(yaml);

	while (r == 0 && yaml->next.kind != ENTRY_END &&
	       (yaml->next.indent > indent || (yaml->next.indent == indent && yaml->next.kind == ENTRY_DASH)))
		r = advance(yaml);
	return r;
}

/* The keys of one map, whose first is next and which ends with an entry that stands no further in than `outer`. */
static bool next_key(const struct yaml *yaml, int outer)
{
	return yaml->next.kind == ENTRY_KEY && yaml->next.indent > outer;
}

static int check_indent(const struct yaml *yaml, int *indent)
{
	if (*indent < 0)
		*indent = yaml->next.indent;
	if (yaml->next.indent == *indent)
		return 0;
	return cluster_fail(yaml->text->diag, &yaml->next.key, "this key is not below the others of its list entry");
}

/* ----------------------------------------------------------------------------------------------------------- switches */

enum key { SWITCH, NODES, CHILDREN, KEY_COUNT };

static int make_switch(struct yaml *yaml, const struct cluster_word *where, const struct cluster_word *values)
{
	int index, r;

	if (!values[SWITCH].at)
		return cluster_fail(yaml->text->diag, where, "an entry of switches must have switch: NAME");
	if (yaml->topology_count - 1 != yaml->wanted)
		return 0;
	r = cluster_draft_switch(yaml->draft, &values[SWITCH], &index);
	if (r == 0 && values[NODES].bytes)
		r = cluster_slurm_nodes(yaml->draft, &values[NODES], index);
	if (r == 0 && values[CHILDREN].bytes)
		r = cluster_namings_add(yaml->namings, yaml->draft, index, &values[CHILDREN]);
	return r;
}

/* - switch: NAME … */
static int read_switch(struct yaml *yaml)
{
	static const char *const words[KEY_COUNT] = { "switch", "nodes", "children" };
	struct cluster_word values[KEY_COUNT] = { 0 }, where = yaml->next.value;
	int dash = yaml->next.indent, indent = -1, r = advance(yaml);

	while (r == 0 && next_key(yaml, dash)) {
		int which = 0;

		r = check_indent(yaml, &indent);
		if (r < 0)
			return r;
		while (which < KEY_COUNT && !cluster_word_is(&yaml->next.key, words[which], false))
			which++;
		if (which < KEY_COUNT && values[which].at)
			return cluster_fail(yaml->text->diag, &yaml->next.key,
					    "%s: stands in this entry already: each entry begins with a dash",
					    words[which]);
		if (which < KEY_COUNT) {
			r = unquote(yaml, &yaml->next.value);
			values[which] = yaml->next.value;
		}
		if (r < 0)
			return r;
		if (which == SWITCH && !values[SWITCH].bytes)
			return cluster_fail_expected(yaml->text->diag, &values[SWITCH], "the name of a switch");
		r = which < KEY_COUNT ? advance(yaml) : skip_value(yaml, indent);
	}
	if (r == 0 && yaml->next.kind != ENTRY_END && yaml->next.indent > dash)
		return expected(yaml, "switch: NAME, nodes: LIST or children: LIST");
	return r < 0 ? r : make_switch(yaml, &where, values);
}

static int read_switches(struct yaml *yaml, int key_indent)
{
	int dash = -1, r = unquote(yaml, &yaml->next.value);

	if (r == 0)
		r = advance(yaml);

	while (r == 0 && yaml->next.kind == ENTRY_DASH && yaml->next.indent >= key_indent) {
		if (dash >= 0 && yaml->next.indent != dash)
			return expected(yaml, "the dashes of a list below each other");
		dash = yaml->next.indent;
		r = read_switch(yaml);
	}
	if (r == 0 && dash < 0)
		return expected(yaml, "a list of switches below switches:, as - switch: NAME");
	return r;
}

/* ---------------------------------------------------------------------------------------------------------- topologies */

static int read_tree(struct yaml *yaml, int outer)
{
	int indent = -1, r = unquote(yaml, &yaml->next.value);
	bool any = false;

	if (r == 0)
		r = advance(yaml);
	while (r == 0 && next_key(yaml, outer)) {
		r = check_indent(yaml, &indent);
		if (r < 0)
			return r;
		any = any || cluster_word_is(&yaml->next.key, "switches", false);
		r = cluster_word_is(&yaml->next.key, "switches", false) ? read_switches(yaml, indent)
									: skip_value(yaml, indent);
	}
	return r == 0 && !any ? expected(yaml, "switches: below tree:") : r;
}

static int read_flag(const struct yaml *yaml, bool *ret)
{
	static const char *const words[] = { "true", "yes", "on", "false", "no", "off" };
	const size_t count = sizeof(words) / sizeof(words[0]);

	for (size_t i = 0; i < count; i++)
		if (cluster_word_is(&yaml->next.value, words[i], true)) {
			*ret = i < count / 2;
			return 0;
		}
	return cluster_fail_expected(yaml->text->diag, &yaml->next.value, "true or false");
}

/* - topology: NAME … */
static int read_topology(struct yaml *yaml)
{
	int dash = yaml->next.indent, indent = -1, number = yaml->topology_count++, r = advance(yaml);
	bool is_default = false, is_tree = false;

	while (r == 0 && next_key(yaml, dash)) {
		const struct cluster_word *key = &yaml->next.key;

		r = check_indent(yaml, &indent);
		if (r == 0 && cluster_word_is(key, "cluster_default", false))
			r = read_flag(yaml, &is_default);
		if (r < 0)
			return r;
		if (cluster_word_is(key, "tree", false)) {
			is_tree = true;
			r = read_tree(yaml, indent);
		} else {
			r = skip_value(yaml, indent);
		}
	}
	if (r == 0 && yaml->next.kind != ENTRY_END && yaml->next.indent > dash)
		return expected(yaml, "a key of this topology, as tree: or cluster_default:");
	if (is_tree && yaml->first_tree < 0)
		yaml->first_tree = number;
	if (is_default && !yaml->has_default) {
		yaml->has_default = true;
		yaml->default_tree = is_tree ? number : -1;
	}
	return r;
}

static int read_all(struct yaml *yaml)
{
	int r;

	yaml->topology_count = 0;
	yaml->next = (struct entry){ .kind = ENTRY_END };
	r = advance(yaml);
	while (r == 0 && yaml->next.kind == ENTRY_DASH && !yaml->next.indent)
		r = read_topology(yaml);
	return r == 0 && yaml->next.kind != ENTRY_END ? expected(yaml, "- topology: NAME, as in Slurm's topology.yaml")
						      : r;
}

/* Directives and the mark of a document's beginning. */
static void skip_head(struct cluster_text *text)
{
	for (;;) {
		struct cluster_text line = *text;
		struct cluster_word word;

		cluster_text_skip_blanks(&line);
		if (cluster_text_line_ends(&line) && line.at < line.bytes) {
			cluster_text_next_line(text);
			continue;
		}
		word = rest_of_line(&line);
		if (!begins(&word, "%") && !cluster_word_is(&word, "---", false))
			return;
		cluster_text_next_line(text);
		if (!begins(&word, "%"))
			return;
	}
}

bool cluster_is_yaml(const struct cluster_word *first)
{
	return cluster_word_is(first, "---", false) || begins(first, "%YAML") || cluster_word_is(first, "-", false);
}

int cluster_read_yaml(struct cluster_text *text, struct cluster_draft *draft)
{
	struct cluster_namings namings = { 0 };
	struct yaml yaml = { .text = text, .draft = draft, .namings = &namings };
	struct cluster_text start;
	int r;

	skip_head(text);
	start = *text;
	yaml.wanted = yaml.default_tree = yaml.first_tree = -1;
	r = read_all(&yaml);
	if (r < 0)
		return r;
	if (yaml.first_tree < 0)
		return cluster_fail(
			text->diag, &(struct cluster_word){ .line = start.line, .column = 1 },
			"no topology in it is a tree, and a block or flat one says nothing of switches: "
			"name a file with a tree, or one in Tributary's own form (docs/format/cluster-file.md)");
	*text = start;
	yaml.wanted = yaml.default_tree >= 0 ? yaml.default_tree : yaml.first_tree;
	r = read_all(&yaml);
	if (r == 0)
		r = cluster_namings_join(&namings, draft);
	cluster_namings_fini(&namings);
	return r;
}
