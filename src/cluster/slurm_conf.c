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
	static const char *const of_slurm_conf[] = { "ClusterName", "SlurmctldHost", "ControlMachine", "AuthType",
						     "NodeName",    "PartitionName", "SlurmUser" };

	for (int i = 0; i < KEY_COUNT; i++)
		if (cluster_word_is(word, key_words[i], true))
			return i;
	if (cluster_word_is(word, "BlockName", true) || cluster_word_is(word, "BlockSizes", true))
		return cluster_fail(diag, word,
				    "this is Slurm's topology/block, which says nothing of switches: name a file with "
				    "SwitchName= lines, or one in Tributary's own form (docs/format/cluster-file.md)");
	for (size_t i = 0; i < sizeof(of_slurm_conf) / sizeof(of_slurm_conf[0]); i++)
		if (cluster_word_is(word, of_slurm_conf[i], true))
			return cluster_fail(diag, word,
					    "this is Slurm's slurm.conf, which says nothing of switches: name its "
					    "topology.conf or topology.yaml, or what `scontrol show topology` prints");
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
		return cluster_slurm_nodes(slurm->draft, value, slurm->at);
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
