/* SPDX-License-Identifier: Apache-2.0 */
/* What was found of a fabric: as a cluster, against a declared one, and in words. */
#include "command/cluster_measure.h"

#include "command/print/units.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Measured goodput is below the line rate by headers; more than that is a contradiction. */
#define RATE_LESS 0.8
#define RATE_MORE 1.15
/* Less is noise. */
#define FLOWS_MORE 1.25

static bool is_known(const struct fabric_direction *at)
{
	return at->known == FABRIC_NARROW || at->known == FABRIC_JOINT;
}

/* ------------------------------------------------------------------------------------------------------------- cluster */

int cluster_found(const struct clusterprobe_result *result, struct cluster **ret, struct diag *diag)
{
	const struct fabric *fabric = &result->fabric;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int r;

	if (!out)
		return -ENOMEM;
	fputs("tributary-cluster 1\nrates measured\n", out);
	if (fabric->leaf_count > 1)
		fputs("switch spine\n", out);
	for (size_t leaf = 0; leaf < fabric->leaf_count; leaf++) {
		const struct fabric_leaf *at = &fabric->leaves[leaf];

		fprintf(out, "switch leaf%zu", leaf + 1);
		if (fabric->leaf_count > 1)
			fputs(" parent=spine", out);
		if (fabric->leaf_count > 1 && is_known(&at->up))
			fprintf(out, " up=%.0f", at->up.rate_Bps);
		if (fabric->leaf_count > 1 && is_known(&at->down))
			fprintf(out, " down=%.0f", at->down.rate_Bps);
		fputc('\n', out);
	}
	for (size_t i = 0; i < fabric->host_count; i++)
		fprintf(out, "host %s leaf=leaf%u rate=%.0f\n", result->names[i], fabric->hosts[i].leaf + 1U,
			fmin(fabric->hosts[i].out_Bps, fabric->hosts[i].in_Bps));
	if (fclose(out) != 0) {
		free(text);
		return -ENOMEM;
	}
	r = cluster_read(text, bytes, ret, diag);
	free(text);
	return r;
}

/* -------------------------------------------------------------------------------------------------------- declared */

static size_t compare_rate(const char *what, double found_Bps, bool known, uint64_t declared_Bps, const char *indent,
			   FILE *out)
{
	double part = declared_Bps ? found_Bps / (double)declared_Bps : 1;
	char found[UNITS_BYTES], declared[UNITS_BYTES];

	/* What is only known to be no less contradicts a lower rate alone. */
	if (part <= RATE_MORE && (part >= RATE_LESS || !known))
		return 0;
	fprintf(out, "%s%s: %s measured, %s declared\n", indent, what, units_bits(found_Bps, found),
		units_bits((double)declared_Bps, declared));
	return 1;
}

static size_t compare_leaf(const struct clusterprobe_result *result, const struct cluster *declared, size_t leaf,
			   int of, const char *indent, FILE *out)
{
	const struct fabric_leaf *at = &result->fabric.leaves[leaf];
	const struct cluster_switch *is = &declared->switches[of];
	char what[320];
	size_t count;

	if (result->fabric.leaf_count < 2)
		return 0;
	snprintf(what, sizeof(what), "uplink of %s (leaf%zu), up", is->name, leaf + 1);
	count = compare_rate(what, at->up.rate_Bps, at->up.known == FABRIC_NARROW, is->up_rate_Bps, indent, out);
	snprintf(what, sizeof(what), "uplink of %s (leaf%zu), down", is->name, leaf + 1);
	return count +
	       compare_rate(what, at->down.rate_Bps, at->down.known == FABRIC_NARROW, is->down_rate_Bps, indent, out);
}

/* Two hosts at a time would be many lines: each host is compared with the first of its leaf, either way. */
static size_t compare_host(const struct clusterprobe_result *result, const struct cluster_host *const *declared,
			   size_t host, const struct cluster *cluster, const char *indent, FILE *out)
{
	const struct fabric *fabric = &result->fabric;
	size_t count = 0;

	for (size_t i = 0; i < host && fabric->leaf_count > 1; i++) {
		if (!declared[i] || fabric->hosts[i].leaf != fabric->hosts[host].leaf)
			continue;
		if (declared[i]->leaf != declared[host]->leaf) {
			fprintf(out, "%s%s and %s share a leaf; declared on %s and %s\n", indent, result->names[i],
				result->names[host], cluster->switches[declared[i]->leaf].name,
				cluster->switches[declared[host]->leaf].name);
			count++;
		}
		break;
	}
	for (size_t i = 0; i < host; i++) {
		if (!declared[i] || declared[i]->leaf != declared[host]->leaf)
			continue;
		if (fabric->hosts[i].leaf != fabric->hosts[host].leaf) {
			fprintf(out, "%s%s and %s are both declared on %s; a narrow link is between them\n", indent,
				result->names[i], result->names[host], cluster->switches[declared[host]->leaf].name);
			count++;
		}
		break;
	}
	return count;
}

size_t cluster_contradictions(const struct clusterprobe_result *result, const struct cluster *declared,
			      const char *indent, FILE *out)
{
	const struct fabric *fabric = &result->fabric;
	const struct cluster_host **known = calloc(fabric->host_count, sizeof(struct cluster_host *));
	size_t count = 0;

	for (size_t i = 0; known && i < fabric->host_count; i++) {
		known[i] = cluster_find(declared, result->names[i]);
		if (!known[i]) {
			fprintf(out, "%s%s is measured, and not declared\n", indent, result->names[i]);
			count++;
			continue;
		}
		count += compare_host(result, known, i, declared, indent, out);
		count += compare_rate(result->names[i], fmin(fabric->hosts[i].out_Bps, fabric->hosts[i].in_Bps),
				      !fabric->hosts[i].alone, known[i]->rate_Bps, indent, out);
	}
	for (size_t leaf = 0; known && leaf < fabric->leaf_count; leaf++)
		for (size_t i = 0; i < fabric->host_count; i++)
			if (fabric->hosts[i].leaf == leaf && known[i]) {
				count += compare_leaf(result, declared, leaf, known[i]->leaf, indent, out);
				break;
			}
	free(known);
	return count;
}

/* --------------------------------------------------------------------------------------------------------------- words */

static void print_direction(const char *way, const struct fabric_direction *at, FILE *out)
{
	char rate[UNITS_BYTES], hosts[UNITS_BYTES], others[UNITS_BYTES];

	units_bits(at->hosts_Bps, hosts);
	fprintf(out, "    %-4s %s%s", way, is_known(at) ? "" : "at least ", units_bits(at->rate_Bps, rate));
	switch (at->known) {
	case FABRIC_NARROW:
		fprintf(out, ": its hosts carry %s together, the others %s", hosts, units_bits(at->others_Bps, others));
		break;
	case FABRIC_JOINT:
		fprintf(out,
			", this uplink or the other leaf's: with two leaves it cannot be told which; its hosts carry "
			"%s",
			hosts);
		break;
	case FABRIC_HOSTS:
		fputs(": all that its hosts carry", out);
		break;
	case FABRIC_OTHERS:
		fputs(": all that the other leaves let through; how much more cannot be told", out);
		break;
	}
	fprintf(out, " (%u rounds)\n", at->rounds);
}

static void print_leaf(const struct clusterprobe_result *result, size_t leaf, FILE *out)
{
	const struct fabric_leaf *at = &result->fabric.leaves[leaf];

	fprintf(out, "  leaf%zu:", leaf + 1);
	for (size_t i = 0; i < result->host_count; i++)
		if (result->fabric.hosts[i].leaf == leaf)
			fprintf(out, " %s", result->names[i]);
	fputc('\n', out);
	if (result->fabric.leaf_count < 2)
		return;
	print_direction("up", &at->up, out);
	print_direction("down", &at->down, out);
	if (at->inside_count && at->outside_count)
		fprintf(out,
			"    with its uplink full, %zu flows inside had %.0f %% of their NICs' rate, %zu flows out "
			"or in %.0f %%\n",
			at->inside_count, 100 * at->inside_part, at->outside_count, 100 * at->outside_part);
	if (at->asymmetric)
		fputs("    asymmetric: one direction carries far less than the other\n", out);
}

static void print_hosts(const struct clusterprobe_result *result, FILE *out)
{
	const struct fabric *fabric = &result->fabric;
	char median[UNITS_BYTES], least[UNITS_BYTES], most[UNITS_BYTES];
	double low = INFINITY, high = 0;

	for (size_t i = 0; i < fabric->host_count; i++) {
		low = fmin(low, fmin(fabric->hosts[i].out_Bps, fabric->hosts[i].in_Bps));
		high = fmax(high, fmax(fabric->hosts[i].out_Bps, fabric->hosts[i].in_Bps));
	}
	fprintf(out, "NICs: median %s, from %s to %s\n", units_bits(fabric->median_Bps, median), units_bits(low, least),
		units_bits(high, most));
	for (size_t i = 0; i < fabric->host_count; i++) {
		const struct fabric_host *at = &fabric->hosts[i];

		if (!at->slow)
			continue;
		fprintf(out, "  %s is slow: %s out, %s in, whoever it talks to%s\n", result->names[i],
			units_bits(at->out_Bps, least), units_bits(at->in_Bps, most),
			at->alone ? "; alone in its leaf, so it may be a narrow uplink" : "");
	}
}

static void print_flows(const struct clusterprobe_result *result, FILE *out)
{
	const struct clusterprobe_flows *at = &result->flows;
	char one[UNITS_BYTES], all[UNITS_BYTES];

	if (at->count && at->all_Bps > FLOWS_MORE * at->one_Bps)
		fprintf(out,
			"One connection from %s to %s carries %s, %u carry %s: NICs and uplinks may carry more than is "
			"said here, which --streams %u shows\n",
			result->names[at->from], result->names[at->to], units_bits(at->one_Bps, one), at->count,
			units_bits(at->all_Bps, all), at->count);
}

static int compare(const void *a, const void *b)
{
	const double *first = a, *second = b;

	return (*first > *second) - (*first < *second);
}

static void print_latency(const struct clusterprobe_result *result, bool across, const char *what, FILE *out)
{
	double *medians = calloc(result->latency_count + 1, sizeof(*medians)), least = INFINITY;
	char median[UNITS_BYTES], fastest[UNITS_BYTES];
	size_t count = 0;

	for (size_t i = 0; medians && i < result->latency_count; i++) {
		const struct clusterprobe_latency *at = &result->latencies[i];

		if ((result->fabric.hosts[at->from].leaf != result->fabric.hosts[at->to].leaf) != across)
			continue;
		medians[count++] = (double)at->median_ns;
		least = fmin(least, (double)at->least_ns);
	}
	if (count) {
		qsort(medians, count, sizeof(*medians), compare);
		fprintf(out, "Round trip of a byte, %s: median %s, least %s (%zu pairs)\n", what,
			units_time(medians[count / 2] / 1e9, median), units_time(least / 1e9, fastest), count);
	}
	free(medians);
}

void cluster_found_print(const struct clusterprobe_result *result, FILE *out)
{
	const struct fabric *fabric = &result->fabric;

	fprintf(out, "%zu hosts, %zu rounds in %.0f s\n", result->host_count, fabric->round_count, result->seconds);
	if (fabric->leaf_count < 2)
		fprintf(out,
			"Cannot tell the leaves: no narrow link was found. %.1f %% of all flows had the full rate "
			"of their NICs, and in the round that filled most, all hosts together %.1f %%.\n",
			100 * fabric->full_part, 100 * fabric->loaded_part);
	else
		fprintf(out, "%zu leaves with narrow links between them\n", fabric->leaf_count);
	for (size_t leaf = 0; leaf < fabric->leaf_count; leaf++)
		print_leaf(result, leaf, out);
	print_hosts(result, out);
	print_flows(result, out);
	print_latency(result, false, fabric->leaf_count < 2 ? "any pair" : "inside leaves", out);
	print_latency(result, true, "between leaves", out);
}
