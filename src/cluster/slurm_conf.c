/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slurm's topology.conf, as topology/tree has it (slurm.schedmd.com/topology.conf.html): lines of Key=Value with keys in
 * any case, comments, lines that continue behind a backslash. What `scontrol show topology` prints is the same with Level=,
 * and there a switch above the leaves has all nodes below it in Nodes=, which is left aside.
 *
 *     SwitchName=leaf1 Nodes=node[01-16,20]
 *     SwitchName=spine Switches=leaf[1-2] LinkSpeed=…
 *
 * A switch may stand above or below the one that names it. LinkSpeed is of the link to the switch above; Slurm gives it no
 * unit and makes no use of it, so a number without a unit says nothing here.
 */
#include "cluster/text.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

enum key { SWITCH_NAME, LEVEL, NODES, SWITCHES, LINK_SPEED, KEY_COUNT };

static const char *const key_words[KEY_COUNT] = { "SwitchName", "Level", "Nodes", "Switches", "LinkSpeed" };

struct slurm {
	struct cluster_text *text;
	struct cluster_draft *draft;
	struct cluster_namings namings;
	int at; /* the switch of the line */
};

/* ----------------------------------------------------------------------------------------------------------- children */

/* A switch names those below it. */
struct naming {
	int parent;
	size_t name; /* offset in the draft's names */
	struct cluster_word where;
};

struct list_of_children {
	struct cluster_namings *namings;
	struct cluster_draft *draft;
	const struct cluster_word *list;
	int parent;
};

static int take_child(void *arg, const char *name, size_t bytes)
{
	const struct list_of_children *of = arg;
	struct cluster_namings *namings = of->namings;
	struct naming *naming;
	int r;

	if (namings->count == CLUSTER_SWITCHES_MAX)
		return cluster_fail(of->draft->diag, of->list, "more than %d switches are named as below another",
				    CLUSTER_SWITCHES_MAX);
	naming = &namings->at[namings->count];
	*naming = (struct naming){ .parent = of->parent, .where = *of->list };
	r = cluster_draft_keep_name(of->draft, name, bytes, &naming->name);
	if (r < 0)
		return r;
	namings->count++;
	return 0;
}

int cluster_namings_add(struct cluster_namings *namings, struct cluster_draft *draft, int parent,
			const struct cluster_word *list)
{
	struct list_of_children of = { namings, draft, list, parent };

	if (!namings->at)
		namings->at = sys_zalloc(CLUSTER_SWITCHES_MAX * sizeof(*namings->at));
	return namings->at ? cluster_expand(list, "a switch", draft->diag, take_child, &of) : -ENOMEM;
}

int cluster_namings_join(const struct cluster_namings *namings, struct cluster_draft *draft)
{
	for (size_t i = 0; i < namings->count; i++) {
		const struct naming *naming = &namings->at[i];
		const char *name = draft->names + naming->name;
		int child = cluster_draft_find_switch(draft, name, strlen(name)), r;

		if (child == CLUSTER_NONE)
			return cluster_fail(draft->diag, &naming->where,
					    "the switch %.60s is named here and nowhere defined: add it, or take its "
					    "name out of this list",
					    name);
		r = cluster_draft_parent(draft, &naming->where, child, naming->parent);
		if (r < 0)
			return r;
	}
	return 0;
}

void cluster_namings_fini(struct cluster_namings *namings)
{
	sys_free(namings->at);
}

/* -------------------------------------------------------------------------------------------------------------- lines */

static bool is_blank(const struct cluster_word *word)
{
	return !word->bytes;
}

/* Key = value, or Key="value". Slurm's Include has no "=". */
static int read_pair(struct cluster_text *text, struct cluster_word *ret_key, struct cluster_word *ret_value)
{
	cluster_text_skip_blanks(text);
	*ret_key = cluster_text_word(text, "=");
	cluster_text_skip_blanks(text);
	if (cluster_word_is(ret_key, "Include", true))
		return cluster_fail(text->diag, ret_key,
				    "topology.conf's Include is not followed, because one file must say the same on "
				    "every host: put the lines of that file here, or use what `scontrol show topology` "
				    "prints, which has all of them");
	if (is_blank(ret_key) || cluster_text_peek(text) != '=')
		return cluster_fail_expected(text->diag, ret_key,
					     "a line of Key=Value, as SwitchName=leaf1 Nodes=node[1-8]");
	text->at++;
	cluster_text_skip_blanks(text);
	if (cluster_text_peek(text) != '"') {
		*ret_value = cluster_text_word(text, "");
	} else {
		text->at++;
		*ret_value = cluster_text_word(text, "\"");
		if (cluster_text_peek(text) != '"')
			return cluster_fail(text->diag, ret_value, "expected a closing quote, and no blank before it");
		text->at++;
	}
	return is_blank(ret_value) ? cluster_fail_expected(text->diag, ret_value, "a value behind the key") : 0;
}

static int key_of(const struct cluster_word *word, struct diag *diag)
{
	for (int i = 0; i < KEY_COUNT; i++)
		if (cluster_word_is(word, key_words[i], true))
			return i;
	if (cluster_word_is(word, "BlockName", true) || cluster_word_is(word, "BlockSizes", true))
		return cluster_fail(diag, word,
				    "this is Slurm's topology/block, which says nothing of switches: name a file with "
				    "SwitchName= lines, or one in Tributary's own form (docs/format/cluster-file.md)");
	return cluster_fail_expected(diag, word, "one of SwitchName=, Nodes=, Switches=, LinkSpeed=");
}

/* A whole number without a unit is what Slurm takes. */
static bool is_number(const struct cluster_word *word)
{
	for (size_t i = 0; i < word->bytes; i++)
		if (word->at[i] < '0' || word->at[i] > '9')
			return false;
	return true;
}

/* Of a number. */
static bool is_zero(const struct cluster_word *word)
{
	size_t zeros = 0;

	while (zeros < word->bytes && word->at[zeros] == '0')
		zeros++;
	return zeros == word->bytes;
}

static int take_value(struct slurm *slurm, enum key key, const struct cluster_word *value)
{
	struct draft_switch *at = &slurm->draft->switches[slurm->at];
	int r;

	switch (key) {
	case NODES:
		return cluster_draft_hosts(slurm->draft, value, slurm->at, 0);
	case SWITCHES:
		return cluster_namings_add(&slurm->namings, slurm->draft, slurm->at, value);
	case LINK_SPEED:
		if (is_number(value))
			return 0;
		r = cluster_word_rate(value, slurm->draft->diag, &at->up_rate_Bps);
		at->down_rate_Bps = at->up_rate_Bps;
		return r;
	default:
		return 0;
	}
}

/* The keys of a line may come in any order, so the name is looked for first. */
static int read_line(struct slurm *slurm)
{
	struct cluster_word values[KEY_COUNT] = { 0 }, key, value;
	struct cluster_text *text = slurm->text;
	int r;

	do {
		int which;

		r = read_pair(text, &key, &value);
		which = r < 0 ? r : key_of(&key, text->diag);
		if (which < 0)
			return which;
		if (values[which].at)
			return cluster_fail(text->diag, &key, "%s= stands in this line already", key_words[which]);
		values[which] = value;
		cluster_text_skip_blanks(text);
	} while (!cluster_text_line_ends(text));
	if (!values[SWITCH_NAME].at)
		return cluster_fail(text->diag, &key, "a line must have SwitchName=");
	if (values[LEVEL].at && !is_number(&values[LEVEL]))
		return cluster_fail_expected(text->diag, &values[LEVEL],
					     "a number, as `scontrol show topology` prints it");
	r = cluster_draft_switch(slurm->draft, &values[SWITCH_NAME], &slurm->at);
	for (int i = NODES; r == 0 && i < KEY_COUNT; i++) {
		if (!values[i].at || cluster_word_is(&values[i], "(null)", false))
			continue;
		if (i != NODES || !values[LEVEL].at || is_zero(&values[LEVEL]))
			r = take_value(slurm, (enum key)i, &values[i]);
	}
	return r;
}

int cluster_read_slurm(struct cluster_text *text, struct cluster_draft *draft)
{
	struct slurm slurm = { .text = text, .draft = draft };
	int r = 0;

	text->continues = true;
	for (; r == 0 && text->at < text->bytes; cluster_text_next_line(text)) {
		cluster_text_skip_blanks(text);
		if (!cluster_text_line_ends(text))
			r = read_line(&slurm);
	}
	if (r == 0)
		r = cluster_namings_join(&slurm.namings, draft);
	cluster_namings_fini(&slurm.namings);
	return r;
}
