/* SPDX-License-Identifier: Apache-2.0 */
/* Each check is a function over the document; the table says what its findings mean to a reader. */
#include "ncclxml/lint.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "ncclmodel/limits.h"
#include "ncclxml/link_value.h"
#include "ncclxml/read/reader.h"
#include "ncclxml/read/scan.h"
#include "ncclxml/read/xml.h"

enum lint_check {
	LINT_PARSER,
	LINT_NOT_TOPOLOGY,
	LINT_VERSION,
	LINT_NODES,
	LINT_CHILDREN,
	LINT_LONG_VALUE,
	LINT_MISSING,
	LINT_CPU,
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
	int error;
};

static const struct {
	const char *word;
	enum lint_severity severity;
	const char *remedy;
} checks[LINT_CHECK_COUNT] = {
	[LINT_PARSER] = { "nccl-parser", LINT_ERROR,
			  "Write it as NCCL's own dumps are: elements and comments alone, separated by spaces and "
			  "newlines, every tag on one line." },
	[LINT_NOT_TOPOLOGY] = { "not-a-topology", LINT_ERROR,
				"NCCL_TOPO_FILE takes a file that begins with <system>." },
	[LINT_VERSION] = { "bad-version", LINT_ERROR, "Write version=\"1\"." },
	[LINT_NODES] = { "too-many-nodes", LINT_ERROR,
			 "Leave out devices that no job uses; NCCL finds NICs and GPUs that are missing by itself." },
	[LINT_CHILDREN] = { "too-many-children", LINT_ERROR, "Leave out devices that no job uses." },
	[LINT_LONG_VALUE] = { "long-value", LINT_ERROR, "Shorten the value or leave the attribute out." },
	[LINT_MISSING] = { "missing-attribute", LINT_ERROR, "Add the attribute, or take the element out." },
	[LINT_CPU] = { "incomplete-cpu", LINT_WARNING,
		       "Write the file anew on this machine (tributary export), or add arch, and on x86 vendor, familyid "
		       "and modelid as lscpu says them." },
	[LINT_ATTRIBUTES] = { "too-many-attributes", LINT_WARNING, "Take out what NCCL does not read." },
	[LINT_DUPLICATE] = { "duplicate-busid", LINT_ERROR, "Keep one of them." },
	[LINT_STALE] = { "stale-gpu", LINT_WARNING, "Write the file anew on this machine (tributary export)." },
	[LINT_KEEP] = { "keep-on-gpu", LINT_WARNING, "Take the attribute out; NCCL sets it itself." },
	[LINT_GEN3] = { "gen3-fallback", LINT_WARNING,
			"Write it as the kernel does, with the decimal and the suffix: \"16.0 GT/s PCIe\"." },
	[LINT_FAKE] = { "fake-link", LINT_WARNING,
			"Virtual machines show this for links that they hide. Write the real speed and width, or "
			"measure." },
	[LINT_WIDTH] = { "impossible-width", LINT_WARNING,
			 "Write the slot's width. If a rate is meant, say so in a comment as tributary export does." },
	[LINT_ENCODED] = { "encoded-width", LINT_WARNING, "Write the file anew (tributary export)." },
	[LINT_NET_SPEED] = { "net-without-speed", LINT_WARNING,
			     "Write the speed in Mb/s, or leave the attribute out: NCCL then asks the net plugin." },
	[LINT_NVLINK] = { "nvlink-nowhere", LINT_WARNING,
			  "Take the <nvlink> out, and NCCL asks the driver; or name the peer's bus id." },
	[LINT_UNKNOWN] = { "unknown-element", LINT_WARNING, "Take it out, or move it to where NCCL reads it." },
	[LINT_UNESCAPED] = { "unescaped", LINT_WARNING, "Use no character that XML has to escape." },
};

__attribute__((format(printf, 4, 5))) static void add(struct lint *lint, enum lint_check check, int line,
						      const char *fmt, ...)
{
	struct lint_finding *finding;
	va_list args;

	if (lint->error)
		return;
	lint->error = sys_grow(&lint->findings.at, lint->findings.count, 1, sizeof(*finding));
	if (lint->error)
		return;
	finding = &lint->findings.at[lint->findings.count++];
	memset(finding, 0, sizeof(*finding));
	finding->severity = checks[check].severity;
	finding->check = checks[check].word;
	finding->line = line;
	va_start(args, fmt);
	log_sentence_v(finding->text, sizeof(finding->text), fmt, args);
	va_end(args);
	snprintf(finding->remedy, sizeof(finding->remedy), "%s", checks[check].remedy);
}

/* ------------------------------------------------------------------------------------------------------ one element */

/* Half of NCCL's finest step, and what the comment's three decimals cost. */
#define VALUE_ERROR_GBPS 0.0945

struct remark {
	char name[TOPOLOGY_NAME_BYTES];
	double rate_GBps;
};

/* "tributary: NAME WORD RATE GB/s", as the writer puts it before an element. */
static bool remark_of(const struct ncclxml_element *element, struct remark *ret)
{
	static const char start[] = " tributary: ";
	char word[16], unit[8];

	if (!element->comment || strncmp(element->comment, start, sizeof(start) - 1))
		return false;
	return sscanf(element->comment + sizeof(start) - 1, "%63s %15s %32lf %7s", ret->name, word, &ret->rate_GBps,
		      unit) == 4 &&
	       !strcmp(unit, "GB/s");
}

/* What the graph says of a link that the writer named: by bus id, else by the vertex's name; 0: nothing. */
static double measured_GBps(const struct topology *measured, const char *name)
{
	uint32_t vertex = topology_find_bus_id(measured, name), link;
	uint64_t rate_Bps = 0;

	if (vertex == TOPOLOGY_NONE)
		vertex = topology_find(measured, name);
	if (vertex == TOPOLOGY_NONE)
		return 0;
	/* A CPU that stands for its socket: the least rate to another one. */
	for (uint32_t i = 0; measured->vertices[vertex].kind == TOPOLOGY_CPU && i < measured->link_count; i++) {
		uint64_t one_Bps;

		if (measured->links[i].kind != TOPOLOGY_LINK_SOCKET ||
		    (measured->links[i].lower != vertex && measured->links[i].upper != vertex))
			continue;
		one_Bps = ncclxml_link_rate(&measured->links[i], NULL);
		rate_Bps = one_Bps && (!rate_Bps || one_Bps < rate_Bps) ? one_Bps : rate_Bps;
	}
	link = topology_uplink(measured, vertex);
	if (!rate_Bps && link != TOPOLOGY_NONE)
		rate_Bps = ncclxml_link_rate(&measured->links[link], NULL);
	return (double)rate_Bps / 1e9;
}

static void check_encoded(struct lint *lint, const struct ncclxml_element *pci, const struct remark *remark,
			  double value_GBps)
{
	double off_GBps = value_GBps - remark->rate_GBps, now_GBps;

	if (off_GBps > VALUE_ERROR_GBPS || off_GBps < -VALUE_ERROR_GBPS) {
		/* A rate below one step cannot be told NCCL. */
		if (remark->rate_GBps >= VALUE_ERROR_GBPS)
			add(lint, LINT_ENCODED, pci->line, "the comment says %.3f GB/s, NCCL reads %.4f GB/s",
			    remark->rate_GBps, value_GBps);
		return;
	}
	if (!lint->measured || !strcmp(remark->name, NCCLXML_GPUS))
		return;
	now_GBps = measured_GBps(lint->measured, remark->name);
	if (now_GBps <= 0) {
		add(lint, LINT_ENCODED, pci->line, "%s has a rate in this file, and none in the profile", remark->name);
		return;
	}
	off_GBps = value_GBps - now_GBps;
	if (off_GBps > VALUE_ERROR_GBPS || off_GBps < -VALUE_ERROR_GBPS)
		add(lint, LINT_ENCODED, pci->line, "%s: NCCL reads %.4f GB/s, the profile says %.3f GB/s", remark->name,
		    value_GBps, now_GBps);
}

static void check_link(struct lint *lint, const struct ncclxml_element *pci)
{
	const char *speed = ncclxml_attribute(pci, "link_speed"), *width = ncclxml_attribute(pci, "link_width");
	int lanes = width ? ncclxml_number(width) : 0;
	struct remark remark;
	bool known_speed = true;
	unsigned generation = 0;

	if (speed)
		generation = ncclmodel_generation(speed, &known_speed);
	if (!known_speed)
		add(lint, LINT_GEN3, pci->line, "link_speed \"%.40s\" means generation %d to NCCL, whatever was meant",
		    speed, NCCLMODEL_GENERATION_FALLBACK);
	if (!speed || !width)
		return;
	if (remark_of(pci, &remark)) {
		check_encoded(lint, pci, &remark, (double)ncclmodel_pci_Bps(speed, lanes) / 1e9);
		return;
	}
	if (generation == 1 && known_speed && lanes == 1)
		add(lint, LINT_FAKE, pci->line, "2.5 GT/s x1: NCCL plans with 0.1875 GB/s for this link");
	/* 0 means 16. */
	if (lanes && (lanes < 0 || !ncclxml_lanes_natural((uint64_t)lanes)))
		add(lint, LINT_WIDTH, pci->line, "no slot has %d lanes: NCCL plans with %.4f GB/s", lanes,
		    (double)ncclmodel_pci_Bps(speed, lanes) / 1e9);
}

static void need(struct lint *lint, const struct ncclxml_element *element, const char *name)
{
	if (!ncclxml_attribute(element, name))
		add(lint, LINT_MISSING, element->line, "<%s> without %s: NCCL cannot use the file", element->name,
		    name);
}

/* NCCL compares the beginnings of these words. */
static bool is_one_of(const char *text, const char *const *words)
{
	while (*words && strncmp(text, *words, strlen(*words)) != 0)
		words++;
	return *words;
}

/* What topo.cc demands of a CPU once the file is read; NCCL adds it only above devices that the process looks at. */
static void check_cpu(struct lint *lint, const struct ncclxml_element *cpu)
{
	static const char *const archs[] = { "x86_64", "arm64", "ppc64", NULL };
	static const char *const with_models[] = { "GenuineIntel", "CentaurHauls", "  Shanghai  ", NULL };
	const char *arch = ncclxml_attribute(cpu, "arch"), *vendor = ncclxml_attribute(cpu, "vendor"), *lacks = NULL;

	need(lint, cpu, "numaid");
	if (arch && !is_one_of(arch, archs)) {
		add(lint, LINT_CPU, cpu->line, "arch \"%.40s\" is unknown to NCCL, which knows x86_64, arm64 and ppc64",
		    arch);
		return;
	}
	if (!arch)
		lacks = "arch";
	else if (!strncmp(arch, archs[0], strlen(archs[0])))
		lacks = !vendor                               ? "vendor"
			: !is_one_of(vendor, with_models)     ? NULL
			: !ncclxml_attribute(cpu, "familyid") ? "familyid"
			: !ncclxml_attribute(cpu, "modelid")  ? "modelid"
							      : NULL;
	if (lacks)
		add(lint, LINT_CPU, cpu->line,
		    "<cpu> without %s: NCCL adds it only where a process looks at a device below this CPU, and otherwise "
		    "init fails (\"Attribute %s of node cpu not found\")",
		    lacks, lacks);
}

static void check_pci(struct lint *lint, const struct ncclxml_element *pci)
{
	need(lint, pci, "busid");
	check_link(lint, pci);
}

static void check_gpu(struct lint *lint, const struct ncclxml_element *gpu)
{
	const char *bus_id = ncclxml_attribute(gpu->parent, "busid");
	char lower[TOPOLOGY_BUS_ID_BYTES];
	uint32_t vertex;

	if (ncclxml_attribute(gpu, "keep"))
		add(lint, LINT_KEEP, gpu->line,
		    "keep on a <gpu>: NCCL keeps the GPU, with the rank that stands here, in jobs without it");
	if (!lint->measured || !bus_id || !ncclxml_reader_bus_id(bus_id, lower))
		return;
	vertex = topology_find_bus_id(lint->measured, lower);
	if (vertex == TOPOLOGY_NONE || lint->measured->vertices[vertex].kind != TOPOLOGY_GPU)
		add(lint, LINT_STALE, gpu->line, "this machine has no GPU %s", lower);
}

static void check_net(struct lint *lint, const struct ncclxml_element *net)
{
	const char *speed = ncclxml_attribute(net, "speed");

	need(lint, net, "name");
	if (speed && ncclxml_number(speed) <= 0)
		add(lint, LINT_NET_SPEED, net->line, "speed \"%.40s\" means %d Mb/s to NCCL", speed,
		    NCCLMODEL_NET_FALLBACK_MBPS);
}

static void check_element(struct lint *lint, const struct ncclxml_element *element)
{
	if (!strcmp(element->name, "cpu"))
		check_cpu(lint, element);
	else if (!strcmp(element->name, "pci"))
		check_pci(lint, element);
	else if (!strcmp(element->name, "gpu"))
		check_gpu(lint, element);
	else if (!strcmp(element->name, "net"))
		check_net(lint, element);
	else if (!strcmp(element->name, "nvlink") || !strcmp(element->name, "c2c"))
		need(lint, element, "count");
}

/* ------------------------------------------------------------------------------------------------- between elements */

struct entry {
	const struct ncclxml_element *element;
	char bus_id[TOPOLOGY_BUS_ID_BYTES];
	int dev;
	bool has_gpu;
};

static int by_bus_id(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	int order = strcmp(a->bus_id, b->bus_id);

	return order ? order : (a->element->line > b->element->line) - (a->element->line < b->element->line);
}

static int by_dev(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (a->dev != b->dev)
		return a->dev < b->dev ? -1 : 1;
	return (a->element->line > b->element->line) - (a->element->line < b->element->line);
}

/* All <pci>s with a bus id, or all <gpu>s with a number. */
static size_t list_entries(const struct ncclxml_element *root, const char *name, struct entry *entries)
{
	struct ncclxml_element *at = root->first;
	size_t count = 0;

	for (; at; at = ncclxml_next(root, at)) {
		const char *bus_id = ncclxml_attribute(at, "busid"), *dev = ncclxml_attribute(at, "dev");
		struct entry *entry = &entries[count];

		if (!at->user || strcmp(at->name, name))
			continue;
		memset(entry, 0, sizeof(*entry));
		entry->element = at;
		if (!strcmp(name, "gpu")) {
			/* The parts of one GPU share its number, and say so. */
			if (!dev || ncclxml_attribute(at, "mlopart"))
				continue;
			entry->dev = ncclxml_number(dev);
		} else {
			if (!bus_id || !ncclxml_reader_bus_id(bus_id, entry->bus_id))
				continue;
			for (const struct ncclxml_element *child = at->first; child; child = child->next)
				entry->has_gpu = entry->has_gpu || !strcmp(child->name, "gpu");
		}
		count++;
	}
	return count;
}

static void check_nvlinks(struct lint *lint, const struct ncclxml_element *root, const struct entry *pcis, size_t count)
{
	struct ncclxml_element *at = root->first;

	for (; at; at = ncclxml_next(root, at)) {
		const char *class_text = ncclxml_attribute(at, "tclass"), *target = ncclxml_attribute(at, "target");
		const char *own = at->parent->parent ? ncclxml_attribute(at->parent->parent, "busid") : NULL;
		struct entry wanted = { .element = at };
		const struct entry *found;
		char bus_id[TOPOLOGY_BUS_ID_BYTES];

		if (!at->user || strcmp(at->name, "nvlink") || !class_text ||
		    strncmp(class_text, NCCLMODEL_CLASS_GPU, strlen(NCCLMODEL_CLASS_GPU)))
			continue;
		if (!target || !ncclxml_reader_bus_id(target, wanted.bus_id)) {
			add(lint, LINT_NVLINK, at->line, "NVLink to \"%.40s\", which is no bus id",
			    target ? target : "");
			continue;
		}
		if (own && ncclxml_reader_bus_id(own, bus_id) && !strcmp(bus_id, wanted.bus_id)) {
			add(lint, LINT_NVLINK, at->line,
			    "NVLink from the GPU to itself: NCCL makes no use of it, and no longer looks for real "
			    "ones");
			continue;
		}
		/* Any entry of that bus id; its line is no matter. */
		found = NULL;
		for (size_t low = 0, high = count; low < high;) {
			size_t middle = (low + high) / 2;
			int order = strcmp(pcis[middle].bus_id, wanted.bus_id);

			if (!order) {
				found = &pcis[middle];
				break;
			}
			if (order < 0)
				low = middle + 1;
			else
				high = middle;
		}
		if (!found || !found->has_gpu)
			add(lint, LINT_NVLINK, at->line, "NVLink to %s, which is no GPU of this file: NCCL drops it",
			    wanted.bus_id);
	}
}

/* Bus ids and GPU numbers that occur twice, NVLinks that lead nowhere: what one element alone does not show. */
static void check_duplicates(struct lint *lint, const struct ncclxml_element *root)
{
	struct entry *entries = calloc(lint->elements + 1, sizeof(*entries));
	size_t count;

	if (!entries) {
		lint->error = -ENOMEM;
		return;
	}
	count = list_entries(root, "gpu", entries);
	qsort(entries, count, sizeof(*entries), by_dev);
	for (size_t i = 1; i < count; i++)
		if (entries[i].dev == entries[i - 1].dev)
			add(lint, LINT_STALE, entries[i].element->line, "GPU %d is also on line %d", entries[i].dev,
			    entries[i - 1].element->line);
	count = list_entries(root, "pci", entries);
	qsort(entries, count, sizeof(*entries), by_bus_id);
	for (size_t i = 1; i < count; i++)
		if (!strcmp(entries[i].bus_id, entries[i - 1].bus_id))
			add(lint, LINT_DUPLICATE, entries[i].element->line, "%s is also on line %d", entries[i].bus_id,
			    entries[i - 1].element->line);
	check_nvlinks(lint, root, entries, count);
	free(entries);
}

/* --------------------------------------------------------------------------------------------- the form of the file */

/* What stands inside what; an element that is not here NCCL passes over with all that is in it. */
static bool known(const struct ncclxml_element *element)
{
	static const char *const places[][2] = {
		{ "cpu", "system" }, { "pci", "cpu" },     { "nic", "cpu" }, { "pci", "pci" },    { "gpu", "pci" },
		{ "nic", "pci" },    { "pcilink", "pci" }, { "net", "nic" }, { "nvlink", "gpu" }, { "c2c", "gpu" },
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (!strcmp(element->name, places[i][0]) && !strcmp(element->parent->name, places[i][1]))
			return true;
	return false;
}

/* Marks what NCCL reads with user = 1. */
static void mark(struct lint *lint, struct ncclxml_element *root)
{
	root->user = 1;
	for (struct ncclxml_element *at = ncclxml_next(root, root); at; at = ncclxml_next(root, at)) {
		if (!at->parent->user)
			continue;
		if (known(at))
			at->user = 1;
		else
			add(lint, LINT_UNKNOWN, at->line, "NCCL does not read <%.40s> in <%.40s>, nor what is in it",
			    at->name, at->parent->name);
	}
}

static void check_limits(struct lint *lint, const struct ncclxml_element *at, size_t *nodes)
{
	size_t children = 0;

	if (++*nodes == NCCLMODEL_NODE_MAX + 1)
		add(lint, LINT_NODES, at->line, "element %zu: NCCL reads %d, and fails here", *nodes,
		    NCCLMODEL_NODE_MAX);
	for (const struct ncclxml_element *child = at->first; child; child = child->next) {
		children += child->user;
		if (child->user && children == NCCLMODEL_CHILD_MAX + 1)
			add(lint, LINT_CHILDREN, child->line,
			    "child %zu of <%s>: NCCL before 2.29 reads %d, and fails here", children, at->name,
			    NCCLMODEL_CHILD_MAX);
	}
	if (at->attribute_count > NCCLMODEL_ATTRIBUTE_MAX)
		add(lint, LINT_ATTRIBUTES, at->line, "<%s> has %zu attributes: NCCL forgets all after %d", at->name,
		    at->attribute_count, NCCLMODEL_ATTRIBUTE_MAX);
	for (size_t i = 0; i < at->attribute_count; i++) {
		const struct ncclxml_attribute *attribute = &at->attributes[i];

		if (strlen(attribute->value) > NCCLMODEL_VALUE_MAX)
			add(lint, LINT_LONG_VALUE, at->line, "%.40s has %zu characters: NCCL reads %d, and fails here",
			    attribute->name, strlen(attribute->value), NCCLMODEL_VALUE_MAX);
	}
}

static void on_escape(void *arg, int line)
{
	add(arg, LINT_UNESCAPED, line, "a value with an '&': NCCL takes \"&amp;\" as it is written");
}

static void check_root(struct lint *lint, const struct ncclxml_element *root)
{
	const char *version = ncclxml_attribute(root, "version");

	if (!strcmp(root->name, "graphs"))
		add(lint, LINT_NOT_TOPOLOGY, root->line, "this is an NCCL graph file, not a topology");
	else if (!strcmp(root->name, "topology"))
		add(lint, LINT_NOT_TOPOLOGY, root->line, "this is hwloc's own format, not an NCCL topology");
	else if (strcmp(root->name, "system"))
		add(lint, LINT_NOT_TOPOLOGY, root->line, "<%.40s> is no NCCL topology", root->name);
	else if (!version || ncclxml_number(version) != NCCLMODEL_VERSION)
		add(lint, LINT_VERSION, root->line, "version \"%.40s\": NCCL reads version %d only",
		    version ? version : "", NCCLMODEL_VERSION);
}

static void check_document(struct lint *lint, struct ncclxml_element *root)
{
	size_t nodes = 0;

	check_root(lint, root);
	if (strcmp(root->name, "system"))
		return;
	mark(lint, root);
	for (struct ncclxml_element *at = root; at; at = ncclxml_next(root, at)) {
		if (!at->user)
			continue;
		check_limits(lint, at, &nodes);
		check_element(lint, at);
	}
	check_duplicates(lint, root);
}

static int by_line(const void *left, const void *right)
{
	const struct lint_finding *a = left, *b = right;

	if (a->line != b->line)
		return a->line < b->line ? -1 : 1;
	return strcmp(a->check, b->check);
}

int lint_topology_xml(const char *text, size_t bytes, const struct topology *measured, struct lint_findings *ret,
		      struct diag *diag)
{
	struct lint lint = { .measured = measured };
	struct ncclxml_document document;
	const char *reason;
	int line, r;

	r = ncclxml_document_read(text, bytes, &document, diag);
	if (r < 0)
		return r;
	lint.elements = document.element_count;
	check_document(&lint, document.root);
	/* What is no topology at all is not worth more words. */
	line = strcmp(document.root->name, "system") ? 0 : ncclxml_scan(text, bytes, on_escape, &lint, &reason);
	if (line)
		add(&lint, LINT_PARSER, line, "NCCL's parser gives up at %s", reason);
	ncclxml_document_fini(&document);
	if (lint.error) {
		lint_findings_fini(&lint.findings);
		return lint.error;
	}
	if (lint.findings.count)
		qsort(lint.findings.at, lint.findings.count, sizeof(lint.findings.at[0]), by_line);
	*ret = lint.findings;
	return 0;
}

void lint_findings_fini(struct lint_findings *findings)
{
	free(findings->at);
	memset(findings, 0, sizeof(*findings));
}
