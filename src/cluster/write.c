/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical text of a cluster: switches from the top down, then hosts by leaf, those whose names differ in a number
 * alone in one line, then aggregators. Two files that mean the same give the same text.
 */
#include "cluster/text.h"

#include "base/sys.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* In the largest unit in which it is a whole number; 0 is left out. */
static void put_rate(struct text *text, const char *key, uint64_t rate_Bps)
{
	uint64_t bits = rate_Bps * 8;

	if (!rate_Bps)
		return;
	if (bits % 1000000000 == 0)
		text_put(text, " %s=%" PRIu64 "Gbit/s", key, bits / 1000000000);
	else if (bits % 1000000 == 0)
		text_put(text, " %s=%" PRIu64 "Mbit/s", key, bits / 1000000);
	else
		text_put(text, " %s=%" PRIu64 "B/s", key, rate_Bps);
}

static void put_switch(struct text *text, const struct cluster *cluster, const struct cluster_switch *at)
{
	text_put(text, "switch %s", at->name);
	if (at->parent != CLUSTER_NONE)
		text_put(text, " parent=%s", cluster->switches[at->parent].name);
	if (at->up_rate_Bps == at->down_rate_Bps) {
		put_rate(text, "rate", at->up_rate_Bps);
	} else {
		put_rate(text, "up", at->up_rate_Bps);
		put_rate(text, "down", at->down_rate_Bps);
	}
	text_put(text, "\n");
}

/* A name in which one number counts: "node", "07", ".example.org". digits 0: there is none. */
struct numbered {
	size_t prefix, digits;
	uint64_t number;
};

/* The last number before the first dot. */
static struct numbered numbered_of(const char *name)
{
	size_t end = strcspn(name, ".");
	struct numbered ret = { 0 };

	while (end && (name[end - 1] < '0' || name[end - 1] > '9'))
		end--;
	ret.prefix = end;
	while (ret.prefix && name[ret.prefix - 1] >= '0' && name[ret.prefix - 1] <= '9')
		ret.prefix--;
	ret.digits = end - ret.prefix;
	if (ret.digits > 9)
		ret.digits = 0;
	for (size_t i = ret.prefix; ret.digits && i < end; i++)
		ret.number = ret.number * 10 + (uint64_t)(name[i] - '0');
	return ret;
}

/* May stand in one line: all but the number is the same. */
static bool same_line(const struct cluster_host *a, const struct cluster_host *b)
{
	struct numbered first = numbered_of(a->name), second = numbered_of(b->name);

	return a->rate_Bps == b->rate_Bps && first.digits && second.digits && first.prefix == second.prefix &&
	       !memcmp(a->name, b->name, first.prefix) &&
	       !strcmp(a->name + first.prefix + first.digits, b->name + second.prefix + second.digits);
}

/* The next of the same leaf. */
static size_t next_in_leaf(const struct cluster *cluster, size_t i, int leaf)
{
	while (i < cluster->host_count && cluster->hosts[i].leaf != leaf)
		i++;
	return i;
}

/* b is what a list would count to after a, whose range began with a number of so many digits. */
static bool counts_on(const char *a, const char *b, size_t width)
{
	struct numbered first = numbered_of(a), second = numbered_of(b);
	char text[16];

	if (second.number != first.number + 1)
		return false;
	snprintf(text, sizeof(text), "%0*" PRIu64, (int)width, second.number);
	return strlen(text) == second.digits;
}

/* The ranges from host `i` on, as far as one line goes; *ret is the first host behind. */
static void put_ranges(struct text *text, const struct cluster *cluster, size_t i, size_t *ret)
{
	const struct cluster_host *first = &cluster->hosts[i];

	for (const char *comma = "";; comma = ",") {
		const struct cluster_host *low = &cluster->hosts[i], *high = low;
		struct numbered number = numbered_of(low->name);
		size_t next = next_in_leaf(cluster, i + 1, first->leaf);

		while (next < cluster->host_count && same_line(first, &cluster->hosts[next]) &&
		       counts_on(high->name, cluster->hosts[next].name, number.digits)) {
			high = &cluster->hosts[next];
			next = next_in_leaf(cluster, next + 1, first->leaf);
		}
		text_put(text, "%s%.*s", comma, (int)number.digits, low->name + number.prefix);
		if (high != low) {
			struct numbered last = numbered_of(high->name);

			text_put(text, "-%.*s", (int)last.digits, high->name + last.prefix);
		}
		i = next;
		if (i >= cluster->host_count || !same_line(first, &cluster->hosts[i]))
			break;
	}
	*ret = i;
}

/* The hosts from `i` on that one line has, as a list; *ret is the first host behind. */
static void put_list(struct text *text, const struct cluster *cluster, size_t i, size_t *ret)
{
	const struct cluster_host *first = &cluster->hosts[i];
	size_t next = next_in_leaf(cluster, i + 1, first->leaf);
	struct numbered number = numbered_of(first->name);

	*ret = next;
	if (next >= cluster->host_count || !same_line(first, &cluster->hosts[next])) {
		text_put(text, "%s", first->name);
		return;
	}
	text_put(text, "%.*s[", (int)number.prefix, first->name);
	put_ranges(text, cluster, i, ret);
	text_put(text, "]%s", first->name + number.prefix + number.digits);
}

static void put_hosts(struct text *text, const struct cluster *cluster, int leaf)
{
	for (size_t i = next_in_leaf(cluster, 0, leaf); i < cluster->host_count;) {
		const struct cluster_host *first = &cluster->hosts[i];

		text_put(text, "host ");
		put_list(text, cluster, i, &i);
		text_put(text, " leaf=%s", cluster->switches[leaf].name);
		put_rate(text, "rate", first->rate_Bps);
		text_put(text, "\n");
	}
}

static void put_aggregator(struct text *text, const struct cluster *cluster, const struct cluster_aggregator *at)
{
	bool v6 = strchr(at->address, ':') != NULL;

	text_put(text, "aggregator %s%s%s:%u leaf=%s", v6 ? "[" : "", at->address, v6 ? "]" : "", at->port,
		 cluster->switches[at->leaf].name);
	put_rate(text, "rate", at->rate_Bps);
	text_put(text, "\n");
}

int cluster_format(const struct cluster *cluster, char **ret, size_t *ret_bytes)
{
	struct text text = { 0 };

	text_put(&text, "tributary-cluster 1\n%s", cluster->measured ? "rates measured\n" : "");
	for (size_t i = 0; i < cluster->switch_count; i++)
		put_switch(&text, cluster, &cluster->switches[i]);
	for (size_t i = 0; i < cluster->switch_count; i++)
		put_hosts(&text, cluster, (int)i);
	for (size_t i = 0; i < cluster->aggregator_count; i++)
		put_aggregator(&text, cluster, &cluster->aggregators[i]);
	return text_take(&text, ret, ret_bytes);
}

static int write_out(char *text, size_t bytes, FILE *out)
{
	int r = fwrite(text, 1, bytes, out) == bytes ? 0 : -EIO;

	sys_free(text);
	return r;
}

int cluster_write(const struct cluster *cluster, FILE *out)
{
	size_t bytes = 0;
	char *text;
	int r = cluster_format(cluster, &text, &bytes);

	return r < 0 ? r : write_out(text, bytes, out);
}

/* ------------------------------------------------------------------------------------------------------------- Slurm */

/* In Slurm a switch has hosts or switches, so one that has both has its hosts on another below it. */
static const char own_hosts[] = "-hosts";

static int next_below(const struct cluster *cluster, size_t i, int parent)
{
	while (i < cluster->switch_count && cluster->switches[i].parent != parent)
		i++;
	return (int)i;
}

static bool has_hosts_below(const struct cluster *cluster, int of)
{
	if (next_in_leaf(cluster, 0, of) < cluster->host_count)
		return true;
	for (int i = next_below(cluster, 0, of); (size_t)i < cluster->switch_count;
	     i = next_below(cluster, (size_t)i + 1, of))
		if (has_hosts_below(cluster, i))
			return true;
	return false;
}

static void put_slurm_switch(struct text *text, const struct cluster *cluster, int of)
{
	const char *name = cluster->switches[of].name, *comma = "";
	size_t host = next_in_leaf(cluster, 0, of);
	bool hosts = host < cluster->host_count, switches = false;

	for (int i = next_below(cluster, 0, of); (size_t)i < cluster->switch_count;
	     i = next_below(cluster, (size_t)i + 1, of)) {
		if (!has_hosts_below(cluster, i))
			continue;
		if (!switches)
			text_put(text, "SwitchName=%s Switches=", name);
		text_put(text, "%s%s", switches ? "," : "", cluster->switches[i].name);
		switches = true;
	}
	if (switches && hosts)
		text_put(text, ",%s%s", name, own_hosts);
	if (switches)
		text_put(text, "\n");
	if (!hosts)
		return;
	text_put(text, "SwitchName=%s%s Nodes=", name, switches ? own_hosts : "");
	for (; host < cluster->host_count; comma = ",") {
		text_put(text, "%s", comma);
		put_list(text, cluster, host, &host);
	}
	text_put(text, "\n");
}

int cluster_write_slurm(const struct cluster *cluster, FILE *out)
{
	struct text text = { 0 };
	size_t bytes = 0;
	char *lines;
	int r;

	for (size_t i = 0; i < cluster->switch_count; i++)
		put_slurm_switch(&text, cluster, (int)i);
	r = text_take(&text, &lines, &bytes);
	return r < 0 ? r : write_out(lines, bytes, out);
}
