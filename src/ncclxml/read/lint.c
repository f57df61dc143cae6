/* Each check is a function over the document; the table says what its findings mean to a reader. */
#include "ncclxml/lint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ncclxml/limits.h"
#include "ncclxml/read/lint_checks.h"
#include "ncclxml/read/scan.h"
#include "ncclxml/read/xml.h"

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

void lint_add(struct lint *lint, enum lint_check check, int line, const char *fmt, ...)
{
	struct lint_finding *finding;
	va_list args;

	if (lint->error)
		return;
	if (lint->findings.count == lint->room) {
		size_t room = 2 * lint->room + 16;
		struct lint_finding *grown = realloc(lint->findings.at, room * sizeof(*grown));

		if (!grown) {
			lint->error = -ENOMEM;
			return;
		}
		lint->findings.at = grown;
		lint->room = room;
	}
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

static int by_line(const void *left, const void *right)
{
	const struct lint_finding *a = left, *b = right;

	if (a->line != b->line)
		return a->line < b->line ? -1 : 1;
	return strcmp(a->check, b->check);
}

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
			lint_add(lint, LINT_UNKNOWN, at->line,
				 "NCCL does not read <%.40s> in <%.40s>, nor what is in it", at->name,
				 at->parent->name);
	}
}

static void check_limits(struct lint *lint, const struct ncclxml_element *at, size_t *nodes)
{
	size_t children = 0;

	if (++*nodes == NCCLXML_NODE_MAX + 1)
		lint_add(lint, LINT_NODES, at->line, "element %zu: NCCL reads %d, and fails here", *nodes,
			 NCCLXML_NODE_MAX);
	for (const struct ncclxml_element *child = at->first; child; child = child->next) {
		children += child->user;
		if (child->user && children == NCCLXML_CHILD_MAX + 1)
			lint_add(lint, LINT_CHILDREN, child->line,
				 "child %zu of <%s>: NCCL before 2.29 reads %d, and fails here", children, at->name,
				 NCCLXML_CHILD_MAX);
	}
	if (at->attribute_count > NCCLXML_ATTRIBUTE_MAX)
		lint_add(lint, LINT_ATTRIBUTES, at->line, "<%s> has %zu attributes: NCCL forgets all after %d",
			 at->name, at->attribute_count, NCCLXML_ATTRIBUTE_MAX);
	for (size_t i = 0; i < at->attribute_count; i++) {
		const struct ncclxml_attribute *attribute = &at->attributes[i];

		if (strlen(attribute->value) > NCCLXML_VALUE_MAX)
			lint_add(lint, LINT_LONG_VALUE, at->line,
				 "%.40s has %zu characters: NCCL reads %d, and fails here", attribute->name,
				 strlen(attribute->value), NCCLXML_VALUE_MAX);
	}
}

static void on_escape(void *arg, int line)
{
	lint_add(arg, LINT_UNESCAPED, line, "a value with an '&': NCCL takes \"&amp;\" as it is written");
}

static void check_root(struct lint *lint, const struct ncclxml_element *root)
{
	const char *version = ncclxml_attribute(root, "version");

	if (!strcmp(root->name, "graphs"))
		lint_add(lint, LINT_NOT_TOPOLOGY, root->line, "this is an NCCL graph file, not a topology");
	else if (!strcmp(root->name, "topology"))
		lint_add(lint, LINT_NOT_TOPOLOGY, root->line, "this is hwloc's own format, not an NCCL topology");
	else if (strcmp(root->name, "system"))
		lint_add(lint, LINT_NOT_TOPOLOGY, root->line, "<%.40s> is no NCCL topology", root->name);
	else if (!version || ncclxml_number(version) != NCCLXML_VERSION)
		lint_add(lint, LINT_VERSION, root->line, "version \"%.40s\": NCCL reads version %d only",
			 version ? version : "", NCCLXML_VERSION);
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
		lint_check_element(lint, at);
	}
	lint_check_duplicates(lint, root);
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
		lint_add(&lint, LINT_PARSER, line, "NCCL's parser gives up at %s", reason);
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
