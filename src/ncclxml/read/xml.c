/* SPDX-License-Identifier: Apache-2.0 */
#include "ncclxml/read/xml.h"

#include <errno.h>
#include <expat.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct parse {
	XML_Parser parser;
	struct ncclxml_document document;
	struct ncclxml_element *open; /* the innermost that is not closed yet */
	unsigned depth;
	char *comment;
	struct diag *diag;
	int error;
};

static int line_of(XML_Parser parser)
{
	XML_Size line = XML_GetCurrentLineNumber(parser);

	return line > INT_MAX ? INT_MAX : (int)line;
}

static int column_of(XML_Parser parser)
{
	XML_Size column = XML_GetCurrentColumnNumber(parser);

	return column >= INT_MAX ? INT_MAX : (int)column + 1;
}

static void stop(struct parse *parse, int error, const char *reason)
{
	if (parse->error)
		return;
	parse->error = error;
	diag_set(parse->diag, line_of(parse->parser), column_of(parse->parser), "%s", reason);
	XML_StopParser(parse->parser, XML_FALSE);
}

static char *copy_of(struct parse *parse, const char *text)
{
	char *copy;

	if (strlen(text) > NCCLXML_XML_VALUE_MAX) {
		stop(parse, -EINVAL, "a name or value of more than 64 KiB");
		return NULL;
	}
	copy = strdup(text);
	if (!copy)
		stop(parse, -ENOMEM, "no memory");
	return copy;
}

static void element_free(struct ncclxml_element *element)
{
	for (size_t i = 0; i < element->attribute_count; i++) {
		free(element->attributes[i].name);
		free(element->attributes[i].value);
	}
	free(element->attributes);
	free(element->comment);
	free(element->name);
	free(element);
}

static void comment_drop(struct parse *parse)
{
	free(parse->comment);
	parse->comment = NULL;
}

static void attach(struct parse *parse, struct ncclxml_element *element)
{
	struct ncclxml_element *parent = parse->open;

	element->parent = parent;
	if (!parent) {
		parse->document.root = element;
	} else {
		if (parent->last)
			parent->last->next = element;
		else
			parent->first = element;
		parent->last = element;
		parent->child_count++;
	}
	parse->document.element_count++;
	parse->open = element;
	parse->depth++;
}

static void attributes_copy(struct parse *parse, struct ncclxml_element *element, const XML_Char **attributes)
{
	size_t count = 0;

	while (attributes[2 * count])
		count++;
	if (count > NCCLXML_XML_ATTRIBUTE_MAX) {
		stop(parse, -EINVAL, "more than 64 attributes");
		return;
	}
	element->attributes = calloc(count + 1, sizeof(element->attributes[0]));
	if (!element->attributes) {
		stop(parse, -ENOMEM, "no memory");
		return;
	}
	for (size_t i = 0; i < count && !parse->error; i++) {
		element->attribute_count = i + 1;
		element->attributes[i].name = copy_of(parse, attributes[2 * i]);
		element->attributes[i].value = copy_of(parse, attributes[2 * i + 1]);
	}
}

static void XMLCALL on_start(void *user, const XML_Char *name, const XML_Char **attributes)
{
	struct parse *parse = user;
	struct ncclxml_element *element;

	/* Expat may go on with events of what it has already read after it was stopped. */
	if (parse->error)
		return;
	if (parse->document.element_count == NCCLXML_XML_ELEMENT_MAX) {
		stop(parse, -EINVAL, "more than 65536 elements");
		return;
	}
	if (parse->depth == NCCLXML_XML_DEPTH_MAX) {
		stop(parse, -EINVAL, "more than 128 elements inside each other");
		return;
	}
	element = calloc(1, sizeof(*element));
	if (!element) {
		stop(parse, -ENOMEM, "no memory");
		return;
	}
	attach(parse, element);
	element->line = line_of(parse->parser);
	element->comment = parse->comment;
	parse->comment = NULL;
	element->name = copy_of(parse, name);
	if (!parse->error)
		attributes_copy(parse, element, attributes);
}

static void XMLCALL on_end(void *user, const XML_Char *name)
{
	struct parse *parse = user;

	(void)name;
	comment_drop(parse);
	if (parse->error)
		return;
	parse->open = parse->open->parent;
	parse->depth--;
}

static void XMLCALL on_comment(void *user, const XML_Char *text)
{
	struct parse *parse = user;

	comment_drop(parse);
	if (!parse->error)
		parse->comment = copy_of(parse, text);
}

static void XMLCALL on_text(void *user, const XML_Char *text, int bytes)
{
	struct parse *parse = user;

	for (int i = 0; i < bytes; i++) {
		if (!strchr(" \t\r\n", text[i])) {
			comment_drop(parse);
			return;
		}
	}
}

/* An entity can stand for more text than any bound of ours sees; no file of ours has one. */
static void XMLCALL on_entity(void *user, const XML_Char *name, int is_parameter, const XML_Char *value, int bytes,
			      const XML_Char *base, const XML_Char *system, const XML_Char *public,
			      const XML_Char *notation)
{
	(void)name, (void)is_parameter, (void)value, (void)bytes, (void)base, (void)system, (void)public,
		(void)notation;
	stop(user, -EINVAL, "it declares an entity, which is not accepted");
}

int ncclxml_document_read(const char *text, size_t bytes, struct ncclxml_document *ret, struct diag *diag)
{
	struct parse parse = { .diag = diag };

	if (bytes > NCCLXML_XML_BYTES_MAX) {
		diag_set(diag, 0, 0, "more than 16 MiB");
		return -EINVAL;
	}
	parse.parser = XML_ParserCreate("UTF-8");
	if (!parse.parser)
		return -ENOMEM;
	XML_SetUserData(parse.parser, &parse);
	XML_SetElementHandler(parse.parser, on_start, on_end);
	XML_SetCommentHandler(parse.parser, on_comment);
	XML_SetCharacterDataHandler(parse.parser, on_text);
	XML_SetEntityDeclHandler(parse.parser, on_entity);
	if (XML_Parse(parse.parser, text, (int)bytes, 1) != XML_STATUS_OK && !parse.error) {
		enum XML_Error error = XML_GetErrorCode(parse.parser);

		parse.error = error == XML_ERROR_NO_MEMORY ? -ENOMEM : -EINVAL;
		if (error == XML_ERROR_JUNK_AFTER_DOC_ELEMENT)
			diag_set(
				diag, line_of(parse.parser), column_of(parse.parser),
				"something follows what the file began with: where it is another machine's, give the file of "
				"one alone");
		else
			diag_set(diag, line_of(parse.parser), column_of(parse.parser), "not XML: %s",
				 XML_ErrorString(error));
	}
	XML_ParserFree(parse.parser);
	comment_drop(&parse);
	if (parse.error) {
		ncclxml_document_fini(&parse.document);
		return parse.error;
	}
	*ret = parse.document;
	return 0;
}

void ncclxml_document_fini(struct ncclxml_document *document)
{
	struct ncclxml_element *at = document->root;

	/* Children first, without recursion: down to the first leaf, which then is taken off its parent. */
	while (at) {
		struct ncclxml_element *parent = at->parent;

		if (at->first) {
			at = at->first;
			continue;
		}
		if (parent)
			parent->first = at->next;
		element_free(at);
		at = parent;
	}
	memset(document, 0, sizeof(*document));
}

const char *ncclxml_attribute(const struct ncclxml_element *element, const char *name)
{
	for (size_t i = 0; i < element->attribute_count; i++)
		if (!strcmp(element->attributes[i].name, name))
			return element->attributes[i].value;
	return NULL;
}

int ncclxml_number(const char *text)
{
	long value = strtol(text, NULL, 0);

	return value > INT_MAX ? INT_MAX : value < INT_MIN ? INT_MIN : (int)value;
}

int ncclxml_number_of(const struct ncclxml_element *element, const char *name, int otherwise)
{
	const char *value = ncclxml_attribute(element, name);

	return value ? ncclxml_number(value) : otherwise;
}

struct ncclxml_element *ncclxml_next(const struct ncclxml_element *root, struct ncclxml_element *at)
{
	if (at->first)
		return at->first;
	while (at != root && !at->next)
		at = at->parent;
	return at == root ? NULL : at->next;
}
