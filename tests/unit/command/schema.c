/* SPDX-License-Identifier: Apache-2.0 */
#include "schema.h"

#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Where the walk is, and where it first found something wrong. */
struct walk {
	const json_t *file;
	char at[SCHEMA_WHERE_BYTES], *where;
};

static bool fits(struct walk *walk, const json_t *schema, const json_t *value);

static bool is_of_type(const json_t *value, const char *type)
{
	if (!strcmp(type, "number"))
		return json_is_number(value);
	if (!strcmp(type, "integer"))
		return json_is_integer(value);
	if (!strcmp(type, "string"))
		return json_is_string(value);
	if (!strcmp(type, "boolean"))
		return json_is_boolean(value);
	if (!strcmp(type, "null"))
		return json_is_null(value);
	return !strcmp(type, "array") ? json_is_array(value) : !strcmp(type, "object") && json_is_object(value);
}

static bool has_type(const json_t *types, const json_t *value)
{
	bool good = !types || (json_is_string(types) && is_of_type(value, json_string_value(types)));

	for (size_t i = 0; i < json_array_size(types); i++)
		good |= is_of_type(value, json_string_value(json_array_get(types, i)));
	return good;
}

static bool is_one_of(const json_t *words, const json_t *value)
{
	bool found = !words;

	for (size_t i = 0; i < json_array_size(words); i++)
		found |= json_equal(json_array_get(words, i), value) != 0;
	return found;
}

static bool wrong(struct walk *walk)
{
	if (!*walk->where)
		snprintf(walk->where, SCHEMA_WHERE_BYTES, "%s", *walk->at ? walk->at : ".");
	return false;
}

/* What is below the place of the walk, by its name or number there. */
static bool fits_below(struct walk *walk, const char *name, const json_t *schema, const json_t *value)
{
	size_t bytes = strlen(walk->at);
	bool good;

	snprintf(walk->at + bytes, sizeof(walk->at) - bytes, "%s%s", bytes ? "/" : "", name);
	good = value && schema ? fits(walk, schema, value) : wrong(walk);
	walk->at[bytes] = '\0';
	return good;
}

static bool fits_keys(struct walk *walk, const json_t *schema, const json_t *value)
{
	json_t *properties = json_object_get(schema, "properties"),
	       *others = json_object_get(schema, "additionalProperties");
	json_t *required = json_object_get(schema, "required"), *inner;
	bool good = true;
	const char *key;

	for (size_t i = 0; i < json_array_size(required); i++) {
		key = json_string_value(json_array_get(required, i));
		if (!json_object_get(value, key))
			good = fits_below(walk, key, NULL, NULL);
	}
	json_object_foreach((json_t *)value, key, inner)
	{
		const json_t *of = json_object_get(properties, key);

		good &= fits_below(walk, key, of || !json_is_object(others) ? of : others, inner);
	}
	return good;
}

/* As much of JSON Schema as ours use; and no key that the schema does not name, though readers have to bear them. */
static bool fits(struct walk *walk, const json_t *schema, const json_t *value)
{
	const char *reference = json_string_value(json_object_get(schema, "$ref"));
	json_t *any = json_object_get(schema, "anyOf"), *items = json_object_get(schema, "items");
	bool good = true;
	char number[24];

	if (reference) {
		assert_int_equal(strncmp(reference, "#/$defs/", 8), 0);
		schema = json_object_get(json_object_get(walk->file, "$defs"), reference + 8);
		assert_non_null(schema);
		return fits(walk, schema, value);
	}
	if (any) {
		/* null, or else something: that says where it is wrong. */
		assert_int_equal(json_array_size(any), 2);
		return json_is_null(value) || fits(walk, json_array_get(any, 1), value);
	}
	if (!has_type(json_object_get(schema, "type"), value) || !is_one_of(json_object_get(schema, "enum"), value))
		return wrong(walk);
	for (size_t i = 0; items && i < json_array_size(value); i++) {
		snprintf(number, sizeof(number), "%zu", i);
		good &= fits_below(walk, number, items, json_array_get(value, i));
	}
	return json_is_object(value) ? fits_keys(walk, schema, value) : good;
}

bool schema_fits(const json_t *file, const char *definition, const json_t *value, char where[static SCHEMA_WHERE_BYTES])
{
	struct walk walk = { .file = file, .where = where };
	const json_t *schema = *definition ? json_object_get(json_object_get(file, "$defs"), definition) : file;

	where[0] = '\0';
	if (!schema)
		return wrong(&walk);
	return fits(&walk, schema, value);
}

json_t *schema_load(const char *name)
{
	char *text = program_source_text(name);
	json_t *value = json_loads(text, 0, NULL);

	free(text);
	assert_non_null(value);
	return value;
}

json_t *schema_check_output(const char *text)
{
	json_t *file = schema_load("docs/format/command.schema.json"), *value = json_loads(text, 0, NULL);
	const char *format = json_string_value(json_object_get(value, "format"));
	char definition[64], where[SCHEMA_WHERE_BYTES];

	if (!format)
		fail_msg("no JSON, or none with a format: %.200s", text);
	snprintf(definition, sizeof(definition), "%.*s", (int)strcspn(format, " "), format);
	if (!schema_fits(file, definition, value, where))
		fail_msg("%s is not what the schema says at %s", format, where);
	json_decref(file);
	return value;
}
