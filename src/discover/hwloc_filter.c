/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/hwloc_xml.h"

#include <errno.h>
#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct filter {
	FILE *out;
	const char *(*alias)(void *arg, const char *name);
	void *arg;
	unsigned dropped; /* depth below an element that is left out; 0: none */
};

static bool any_of(const char *word, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(word, *words))
			return true;
	return false;
}

static const char *value_of(const char **attributes, const char *name)
{
	for (; *attributes; attributes += 2)
		if (!strcmp(attributes[0], name))
			return attributes[1];
	return "";
}

/* Only what is known to be harmless, so that what a later hwloc adds is left out until somebody has looked at it. */
static bool kept(const char *element, const char **attributes)
{
	static const char *const elements[] = { "topology",         "object",  "info",      "distances2",
						"distances2hetero", "indexes", "u64values", NULL };
	static const char *const infos[] = { "Architecture", "CPUVendor", "CPUFamilyNumber", "CPUModelNumber",
					     "CPUModel",     "GPUModel",  "PCIVendor",       "PCIDevice",
					     "Backend",      NULL };
	static const char *const types[] = { "Machine", "Package",  "Die",     "Group",   "NUMANode", "MemCache",
					     "Core",    "PU",       "L1Cache", "L2Cache", "L3Cache",  "L4Cache",
					     "L5Cache", "L1iCache", "Bridge",  "PCIDev",  "OSDev",    NULL };

	if (!any_of(element, elements))
		return false;
	if (!strcmp(element, "info"))
		return any_of(value_of(attributes, "name"), infos);
	if (!strcmp(element, "object"))
		return any_of(value_of(attributes, "type"), types);
	return true;
}

static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			if ((unsigned char)*text < ' ')
				fprintf(out, "&#%d;", *text);
			else
				fputc(*text, out);
		}
	}
}

static void XMLCALL on_begin(void *arg, const char *element, const char **attributes)
{
	struct filter *filter = arg;
	bool object = !strcmp(element, "object");

	if (filter->dropped || !kept(element, attributes)) {
		filter->dropped++;
		return;
	}
	fprintf(filter->out, "<%s", element);
	for (; *attributes; attributes += 2) {
		fprintf(filter->out, " %s=\"", attributes[0]);
		put_escaped(filter->out, object && !strcmp(attributes[0], "name")
						 ? filter->alias(filter->arg, attributes[1])
						 : attributes[1]);
		fputc('"', filter->out);
	}
	fputc('>', filter->out);
}

static void XMLCALL on_end(void *arg, const char *element)
{
	struct filter *filter = arg;

	if (filter->dropped) {
		filter->dropped--;
		return;
	}
	fprintf(filter->out, "</%s>", element);
}

static void XMLCALL on_text(void *arg, const char *text, int bytes)
{
	struct filter *filter = arg;

	/* Only numbers and the space between elements are text in this format. */
	if (!filter->dropped)
		fwrite(text, 1, (size_t)bytes, filter->out);
}

int discover_hwloc_filter(const char *text, size_t bytes, const char *(*alias)(void *arg, const char *name), void *arg,
			  char **ret, size_t *ret_bytes, struct diag *diag)
{
	struct filter filter = { .alias = alias, .arg = arg };
	XML_Parser parser = NULL;
	char *out = NULL;
	size_t out_bytes = 0;
	int r = -ENOMEM;

	if (bytes > HWLOC_XML_MOST) {
		diag_set(diag, 0, 0, "hwloc XML: longer than %d MiB", HWLOC_XML_MOST >> 20);
		return -EINVAL;
	}
	filter.out = open_memstream(&out, &out_bytes);
	parser = XML_ParserCreate(NULL);
	if (filter.out && parser) {
		XML_SetUserData(parser, &filter);
		XML_SetElementHandler(parser, on_begin, on_end);
		XML_SetCharacterDataHandler(parser, on_text);
		fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n",
		      filter.out);
		r = XML_Parse(parser, text, (int)bytes, 1) == XML_STATUS_OK ? 0 : -EINVAL;
		if (r < 0)
			diag_set(diag, (int)XML_GetCurrentLineNumber(parser), 0, "hwloc XML: %s",
				 XML_ErrorString(XML_GetErrorCode(parser)));
		fputc('\n', filter.out);
	}
	if (parser)
		XML_ParserFree(parser);
	if (filter.out && fclose(filter.out) && !r)
		r = -ENOMEM;
	if (r < 0) {
		free(out);
		return r;
	}
	*ret = out;
	*ret_bytes = out_bytes;
	return 0;
}
