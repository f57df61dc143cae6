/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/hwloc_xml.h"

#include "base/parse.h"
#include "base/sys.h"
#include "discover/hwloc_nodes.h"

#include <ctype.h>
#include <errno.h>
#include <expat.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an open element passes on to what is in it. */
struct level {
	uint32_t object; /* the nearest kept one, itself included; HWLOC_NONE */
	bool own;        /* it is this element's */
	struct hwloc_set near;
};

struct reader {
	XML_Parser parser;
	struct discover_tree *tree;
	struct hwloc_nodes nodes;
	struct diag *diag;
	int result;
	int version; /* 1, 2, 3 */
	unsigned depth;
	struct level levels[HWLOC_DEPTH_MOST];
	unsigned root_depth_infos;
	enum { MATRIX_NONE, MATRIX_OTHER, MATRIX_NVLINK } matrix;
	bool in_indexes, in_values;
	uint32_t *numbers; /* of the matrix: gp_index of each end */
	bool *is_pci;
	size_t number_count, value_count;
	uint64_t *values;
	char text[1024]; /* of an element, as far as it fits */
	size_t text_bytes;
};

static void fail(struct reader *reader, int result, const char *reason, const char *what)
{
	if (reader->result < 0)
		return;
	reader->result = result;
	diag_set(reader->diag, (int)XML_GetCurrentLineNumber(reader->parser),
		 (int)XML_GetCurrentColumnNumber(reader->parser) + 1, "hwloc XML: %s%s%.80s", reason, *what ? ": " : "",
		 what);
	XML_StopParser(reader->parser, XML_FALSE);
}

static const char *attribute(const char **attributes, const char *name)
{
	for (; *attributes; attributes += 2)
		if (!strcmp(attributes[0], name))
			return attributes[1];
	return NULL;
}

static uint64_t number(const char *text, uint64_t most, uint64_t otherwise)
{
	uint64_t value;

	return text && !parse_u64(text, 0, most, &value) ? value : otherwise;
}

/* A copy that fits, without what a name in our text form may not have. */
static void copy(char *to, size_t room, const char *from)
{
	size_t used = 0;

	for (; *from && used + 1 < room; from++)
		to[used++] = iscntrl((unsigned char)*from) ? ' ' : *from;
	to[used] = '\0';
	parse_trim(to);
}

/* ------------------------------------------------------------------------------------------------------------- objects */

static bool type_of(const char *word, enum hwloc_xml_type *ret)
{
	static const struct {
		const char *word;
		enum hwloc_xml_type type;
	} types[] = {
		{ "Package", HWLOC_XML_PACKAGE }, { "Socket", HWLOC_XML_PACKAGE }, { "NUMANode", HWLOC_XML_NODE },
		{ "Bridge", HWLOC_XML_BRIDGE },   { "PCIDev", HWLOC_XML_PCI },     { "OSDev", HWLOC_XML_DEVICE },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (!strcmp(word, types[i].word)) {
			*ret = types[i].type;
			return true;
		}
	}
	return false;
}

static int add_object(struct discover_tree *tree, const struct discover_object *object)
{
	if (tree->count == HWLOC_OBJECTS_MOST)
		return -E2BIG;
	if (sys_grow(&tree->at, tree->count, 1, sizeof(*tree->at)) < 0)
		return -ENOMEM;
	tree->at[tree->count++] = *object;
	return 0;
}

static bool read_bus_id(const char *text, char ret[static TOPOLOGY_BUS_ID_BYTES])
{
	unsigned domain, bus, device, function;
	int used = 0;

	if (!text || sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) != 4 || text[used] ||
	    device > 31 || function > 7 || strspn(text, "0123456789abcdefABCDEF:.") != strlen(text))
		return false;
	return snprintf(ret, TOPOLOGY_BUS_ID_BYTES, "%04x:%02x:%02x.%x", domain, bus, device, function) <
	       TOPOLOGY_BUS_ID_BYTES;
}

/* "0302 [10de:1db8] [10de:131d] a1 00": class, device, subsystem, revision and, since 2.x, programming interface. */
static void read_pci_type(const char *text, struct topology_pci *pci)
{
	unsigned class_code, vendor, device, subvendor, subdevice, revision, interface = 0;
	int count;

	if (!text)
		return;
	count = sscanf(text, "%4x [%4x:%4x] [%4x:%4x] %2x %2x", &class_code, &vendor, &device, &subvendor, &subdevice,
		       &revision, &interface);
	if (count < 5)
		return;
	pci->class_code = class_code << 8 | (count == 7 ? interface : 0);
	pci->vendor = (uint16_t)vendor;
	pci->device = (uint16_t)device;
	pci->subsystem_vendor = (uint16_t)subvendor;
	pci->subsystem_device = (uint16_t)subdevice;
}

static bool read_bridge(const char **attributes, struct discover_object *object)
{
	const char *kind = attribute(attributes, "bridge_type"), *below = attribute(attributes, "bridge_pci");
	unsigned last;

	if (!kind || !below || sscanf(below, "%8x:[%2x-%2x]", &object->domain, &object->secondary, &last) != 3)
		return false;
	object->host_bridge = !strncmp(kind, "0-", 2);
	return true;
}

static double read_speed(const char *text)
{
	char *end;
	double value;

	if (!text)
		return 0;
	value = strtod(text, &end);
	return *end || !isfinite(value) || value < 0 || value > 1e4 ? 0 : value;
}

/* "nvml3" for "nvml". */
static bool is_numbered(const char *name, const char *prefix)
{
	size_t bytes = strlen(prefix);
	uint64_t number;

	return !strncmp(name, prefix, bytes) && !parse_u64(name + bytes, 0, 4095, &number);
}

/*
 * osdev_type is a number until 2.x. From 3 on it is a set of bits, and an RDMA device is an OpenFabrics device and a
 * network device at once. BXI has no verbs: hwloc 3 calls it a network device alone, and so it is one here in any version.
 */
static enum hwloc_xml_device device_of(int version, const char *kind, const char *name)
{
	enum { V2_NETWORK = 2, V2_OPENFABRICS = 3, NETWORK = 1 << 4, OPENFABRICS = 1 << 5 };
	uint64_t types = number(kind, UINT32_MAX, 0);

	if (is_numbered(name, "nvml"))
		return HWLOC_XML_NVML;
	if (version < 3)
		types = types == V2_NETWORK ? NETWORK : types == V2_OPENFABRICS ? OPENFABRICS : 0;
	if (types & OPENFABRICS)
		return is_numbered(name, "bxi") ? HWLOC_XML_FABRIC : HWLOC_XML_RDMA;
	if (!(types & NETWORK))
		return HWLOC_XML_OTHER_DEVICE;
	return is_numbered(name, "bxi") || is_numbered(name, "cxi") ? HWLOC_XML_FABRIC : HWLOC_XML_NETWORK;
}

/* NULL: taken; otherwise what is wrong with it. */
static const char *read_object(struct reader *reader, const char **attributes, struct discover_object *object)
{
	const char *name = attribute(attributes, "name");
	int r;

	object->os_index = (int)number(attribute(attributes, "os_index"), 4095, UINT64_MAX);
	object->number = (uint32_t)number(attribute(attributes, "gp_index"), UINT32_MAX - 1, HWLOC_NONE);
	switch (object->type) {
	case HWLOC_XML_NODE:
		if (object->os_index < 0)
			return "a NUMA node without a number";
		object->memory_bytes = number(attribute(attributes, "local_memory"), INT64_MAX, 0);
		r = hwloc_nodes_add(&reader->nodes, reader->tree->count, object->os_index,
				    attribute(attributes, "cpuset"), attribute(attributes, "subtype"), object->cpus);
		if (r < 0)
			return r == -EEXIST ? "two NUMA nodes of the same number" : strerror(-r);
		break;
	case HWLOC_XML_BRIDGE:
		if (!read_bridge(attributes, object))
			return "a bridge without its buses";
		if (!object->host_bridge && !read_bus_id(attribute(attributes, "pci_busid"), object->bus_id))
			return "a bridge without a bus id";
		break;
	case HWLOC_XML_PCI:
		if (!read_bus_id(attribute(attributes, "pci_busid"), object->bus_id))
			return "a PCI device without a bus id";
		break;
	case HWLOC_XML_DEVICE:
		if (!name)
			return "a device without a name";
		copy(object->name, sizeof(object->name), name);
		object->device = device_of(reader->version, attribute(attributes, "osdev_type"), object->name);
		break;
	default:
		break;
	}
	read_pci_type(attribute(attributes, "pci_type"), &object->pci);
	object->link_GBps = read_speed(attribute(attributes, "pci_link_speed"));
	return NULL;
}

static void begin_object(struct reader *reader, const char **attributes)
{
	struct discover_object object = { .os_index = -1, .node = -1, .family = -1, .cpu_model = -1 };
	const char *type = attribute(attributes, "type"), *wrong;
	struct level *level = &reader->levels[reader->depth];
	int r;

	if (!type) {
		fail(reader, -EINVAL, "an object without a type", "");
		return;
	}
	hwloc_set_read(attribute(attributes, "nodeset"), &level->near);
	if (!type_of(type, &object.type))
		return;
	object.parent = level->object;
	wrong = read_object(reader, attributes, &object);
	if (wrong) {
		fail(reader, -EINVAL, wrong, "");
		return;
	}
	level->object = reader->tree->count;
	level->own = true;
	r = add_object(reader->tree, &object);
	if (!r)
		r = hwloc_nodes_add_near(&reader->nodes, &level->near);
	if (r < 0)
		fail(reader, r == -E2BIG ? -EINVAL : r, r == -E2BIG ? "more objects than a machine has" : strerror(-r),
		     "");
}

static void read_info(struct reader *reader, const char **attributes)
{
	const char *name = attribute(attributes, "name"), *value = attribute(attributes, "value");
	const struct level *level = &reader->levels[reader->depth - 1];
	struct discover_object *object;

	if (!name || !value)
		return;
	if (!strcmp(name, "Architecture"))
		copy(reader->tree->architecture, sizeof(reader->tree->architecture), value);
	if (!level->own)
		return;
	object = &reader->tree->at[level->object];
	if (!strcmp(name, "CPUVendor"))
		copy(object->vendor, sizeof(object->vendor), value);
	else if (!strcmp(name, "CPUFamilyNumber"))
		object->family = (int)number(value, INT_MAX, UINT64_MAX);
	else if (!strcmp(name, "CPUModelNumber"))
		object->cpu_model = (int)number(value, INT_MAX, UINT64_MAX);
	else if (!strcmp(name, "CPUModel") || !strcmp(name, "GPUModel") || !strcmp(name, "PCIDevice"))
		copy(object->model, sizeof(object->model), value);
}

/* ------------------------------------------------------------------------------------------------- NVLinks, as a matrix */

static void free_matrix(struct reader *reader)
{
	free(reader->numbers);
	free(reader->is_pci);
	free(reader->values);
	reader->numbers = NULL;
	reader->is_pci = NULL;
	reader->values = NULL;
}

static void begin_matrix(struct reader *reader, const char **attributes)
{
	const char *name = attribute(attributes, "name");
	size_t count = (size_t)number(attribute(attributes, "nbobjs"), HWLOC_NVLINKS_MOST, 0);

	reader->matrix = MATRIX_OTHER;
	if (!name || strcmp(name, "NVLinkBandwidth") || !count || reader->values || reader->tree->nvlink_count)
		return;
	reader->numbers = calloc(count, sizeof(*reader->numbers));
	reader->is_pci = calloc(count, sizeof(*reader->is_pci));
	reader->values = calloc(count * count, sizeof(*reader->values));
	if (!reader->numbers || !reader->is_pci || !reader->values) {
		fail(reader, -ENOMEM, strerror(ENOMEM), "");
		return;
	}
	reader->matrix = MATRIX_NVLINK;
	reader->number_count = reader->value_count = 0;
	reader->tree->nvlink_count = count;
}

/* "OSDev:802 PCIDev:449 ", part of the list. */
static void add_indexes(struct reader *reader)
{
	const char *rest = reader->text, *item;
	size_t bytes;

	while (parse_list_next(&rest, ' ', &item, &bytes)) {
		char word[32];
		const char *colon;

		if (bytes >= sizeof(word) || reader->number_count == reader->tree->nvlink_count)
			return;
		snprintf(word, sizeof(word), "%.*s", (int)bytes, item);
		colon = strchr(word, ':');
		reader->is_pci[reader->number_count] = !strncmp(word, "PCIDev:", 7);
		reader->numbers[reader->number_count++] = (uint32_t)number(colon ? colon + 1 : word, UINT32_MAX - 1,
									   HWLOC_NONE);
	}
}

static void add_values(struct reader *reader)
{
	const char *rest = reader->text, *item;
	size_t bytes, most = reader->tree->nvlink_count * reader->tree->nvlink_count;

	while (parse_list_next(&rest, ' ', &item, &bytes)) {
		char word[24];

		if (bytes >= sizeof(word) || reader->value_count == most)
			return;
		snprintf(word, sizeof(word), "%.*s", (int)bytes, item);
		reader->values[reader->value_count++] = number(word, 100000000, 0);
	}
}

static uint32_t find_number(const struct discover_tree *tree, uint32_t wanted, bool pci)
{
	for (uint32_t i = 0; wanted != HWLOC_NONE && i < tree->count; i++)
		if (tree->at[i].number == wanted && (tree->at[i].type == HWLOC_XML_PCI) == pci)
			return i;
	return HWLOC_NONE;
}

/* A matrix that is cut short says nothing that could be trusted. */
static void end_matrix(struct reader *reader)
{
	struct discover_tree *tree = reader->tree;
	size_t count = tree->nvlink_count;
	enum { FULL, SHORT } state;

	if (reader->matrix != MATRIX_NVLINK)
		return;
	state = reader->number_count == count && reader->value_count == count * count ? FULL : SHORT;
	if (state == SHORT) {
		tree->nvlink_count = 0;
		free_matrix(reader);
		return;
	}
	for (size_t i = 0; i < count; i++)
		reader->numbers[i] = find_number(tree, reader->numbers[i], reader->is_pci[i]);
	tree->nvlink_ends = reader->numbers;
	tree->nvlink_MBps = reader->values;
	reader->numbers = NULL;
	reader->values = NULL;
	free_matrix(reader);
}

/* -------------------------------------------------------------------------------------------------------------- parser */

static void begin_topology(struct reader *reader, const char *element, const char **attributes)
{
	const char *version = attribute(attributes, "version");

	if (strcmp(element, "topology"))
		fail(reader, -EINVAL, "the file begins with another element", element);
	else
		reader->version = !version ? 1 : version[0] >= '3' ? 3 : version[0] == '2' ? 2 : 1;
}

static void XMLCALL on_begin(void *arg, const char *element, const char **attributes)
{
	struct reader *reader = arg;
	struct level *level = &reader->levels[reader->depth];

	if (reader->depth + 1 >= HWLOC_DEPTH_MOST) {
		fail(reader, -EINVAL, "nested deeper than a machine is", element);
		return;
	}
	*level = reader->depth ? level[-1] : (struct level){ .object = HWLOC_NONE };
	level->own = false;
	reader->text_bytes = 0;
	reader->text[0] = '\0';
	if (!reader->depth)
		begin_topology(reader, element, attributes);
	else if (!strcmp(element, "object"))
		begin_object(reader, attributes);
	else if (!strcmp(element, "info"))
		read_info(reader, attributes);
	else if (!strcmp(element, "distances2") || !strcmp(element, "distances2hetero"))
		begin_matrix(reader, attributes);
	reader->depth++;
}

static void XMLCALL on_end(void *arg, const char *element)
{
	struct reader *reader = arg;

	reader->depth--;
	if (reader->matrix == MATRIX_NVLINK && !strcmp(element, "indexes"))
		add_indexes(reader);
	else if (reader->matrix == MATRIX_NVLINK && !strcmp(element, "u64values"))
		add_values(reader);
	if (!strcmp(element, "distances2") || !strcmp(element, "distances2hetero")) {
		end_matrix(reader);
		reader->matrix = MATRIX_NONE;
	}
	reader->text_bytes = 0;
	reader->text[0] = '\0';
}

static void XMLCALL on_text(void *arg, const char *text, int bytes)
{
	struct reader *reader = arg;
	size_t room = sizeof(reader->text) - 1 - reader->text_bytes,
	       taken = (size_t)bytes < room ? (size_t)bytes : room;

	if (reader->matrix != MATRIX_NVLINK)
		return;
	memcpy(reader->text + reader->text_bytes, text, taken);
	reader->text_bytes += taken;
	reader->text[reader->text_bytes] = '\0';
}

/* Entities of a file's own are how small files become huge ones; hwloc writes none. */
static void XMLCALL on_entity(void *arg, const XML_Char *name, int is_parameter, const XML_Char *value, int value_bytes,
			      const XML_Char *base, const XML_Char *system_id, const XML_Char *public_id,
			      const XML_Char *notation)
{
	(void)is_parameter;
	(void)value;
	(void)value_bytes;
	(void)base;
	(void)system_id;
	(void)public_id;
	(void)notation;
	fail(arg, -EINVAL, "it declares an entity", name);
}

static int parse(struct reader *reader, const char *text, size_t bytes)
{
	enum XML_Status status;

	if (bytes > HWLOC_XML_MOST) {
		diag_set(reader->diag, 0, 0, "hwloc XML: longer than %d MiB", HWLOC_XML_MOST >> 20);
		return -EINVAL;
	}
	reader->parser = XML_ParserCreate(NULL);
	if (!reader->parser)
		return -ENOMEM;
	XML_SetUserData(reader->parser, reader);
	XML_SetElementHandler(reader->parser, on_begin, on_end);
	XML_SetCharacterDataHandler(reader->parser, on_text);
	XML_SetEntityDeclHandler(reader->parser, on_entity);
	status = XML_Parse(reader->parser, text, (int)bytes, 1);
	if (!reader->result && status != XML_STATUS_OK &&
	    XML_GetErrorCode(reader->parser) == XML_ERROR_JUNK_AFTER_DOC_ELEMENT)
		fail(reader, -EINVAL,
		     "something follows the topology: where it is another machine's, give the file of one alone", "");
	else if (!reader->result && status != XML_STATUS_OK)
		fail(reader, XML_GetErrorCode(reader->parser) == XML_ERROR_NO_MEMORY ? -ENOMEM : -EINVAL,
		     XML_ErrorString(XML_GetErrorCode(reader->parser)), "");
	XML_ParserFree(reader->parser);
	return reader->result;
}

int discover_hwloc_read(const char *text, size_t bytes, struct discover_tree *ret, struct diag *diag)
{
	struct discover_tree tree = { .at = NULL };
	struct reader *reader = calloc(1, sizeof(*reader));
	int r = -ENOMEM;

	*ret = tree;
	if (reader) {
		reader->tree = &tree;
		reader->diag = diag;
		r = parse(reader, text, bytes);
		if (!r && tree.nvlink_count && !tree.nvlink_ends)
			tree.nvlink_count = 0;
		if (!r)
			r = hwloc_nodes_finish(&reader->nodes, &tree);
		hwloc_nodes_fini(&reader->nodes);
		free_matrix(reader);
		free(reader);
	}
	if (r < 0) {
		discover_tree_fini(&tree);
		return r;
	}
	*ret = tree;
	return 0;
}

void discover_tree_fini(struct discover_tree *tree)
{
	free(tree->at);
	free(tree->nvlink_ends);
	free(tree->nvlink_MBps);
	*tree = (struct discover_tree){ .at = NULL };
}
