/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/fields.h"

#include "base/parse.h"
#include "topology/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define KIND(kind)         (1U << (kind))
/* The place of a member, and its size for a text. */
#define AT(type, member)   offsetof(struct type, member)
#define SIZE(type, member) sizeof(((struct type *)0)->member)

enum { SPREAD_MOST = 1000000000 }; /* millionths: a thousand times the rate */

enum {
	CPUS = KIND(TOPOLOGY_CPU) | KIND(TOPOLOGY_HOST),
	DOMAINS = CPUS | KIND(TOPOLOGY_MEMORY),
	SIZED = KIND(TOPOLOGY_MEMORY) | KIND(TOPOLOGY_GPU),
	GPUS = KIND(TOPOLOGY_GPU),
	NICS = KIND(TOPOLOGY_NIC),
};

const struct field topology_vertex_fields[] = {
	{ "bus", FIELD_TEXT, 0, AT(topology_vertex, bus_id), SIZE(topology_vertex, bus_id) },
	{ "model", FIELD_TEXT, 0, AT(topology_vertex, model), SIZE(topology_vertex, model) },
	{ "class", FIELD_HEX32, 0, AT(topology_vertex, pci.class_code), UINT32_MAX },
	{ "vendor", FIELD_HEX16, 0, AT(topology_vertex, pci.vendor), UINT16_MAX },
	{ "device", FIELD_HEX16, 0, AT(topology_vertex, pci.device), UINT16_MAX },
	{ "subsystem_vendor", FIELD_HEX16, 0, AT(topology_vertex, pci.subsystem_vendor), UINT16_MAX },
	{ "subsystem_device", FIELD_HEX16, 0, AT(topology_vertex, pci.subsystem_device), UINT16_MAX },
	{ "index", FIELD_INDEX, GPUS, AT(topology_vertex, gpu.index), INT_MAX },
	{ "sm", FIELD_INT, GPUS, AT(topology_vertex, gpu.sm), INT_MAX },
	{ "mig", FIELD_INDEX, GPUS, AT(topology_vertex, gpu.mig), INT_MAX },
	{ "gdr", FIELD_FLAG, GPUS, AT(topology_vertex, gpu.gdr), 1 },
	{ "bar1_bytes", FIELD_U64, GPUS, AT(topology_vertex, gpu.bar1_bytes), INT64_MAX },
	{ "interface", FIELD_TEXT, NICS, AT(topology_vertex, nic.interface), SIZE(topology_vertex, nic.interface) },
	{ "port", FIELD_INT, NICS, AT(topology_vertex, nic.port), INT_MAX },
	{ "guid", FIELD_HEX64, NICS, AT(topology_vertex, nic.guid), UINT64_MAX },
	{ "speed_Bps", FIELD_U64, NICS, AT(topology_vertex, nic.speed_Bps), INT64_MAX },
	{ "latency_ns", FIELD_U64, NICS, AT(topology_vertex, nic.latency_ns), INT64_MAX },
	{ "max_connections", FIELD_INT, NICS, AT(topology_vertex, nic.max_connections), INT_MAX },
	{ "gdr", FIELD_FLAG, NICS, AT(topology_vertex, nic.gdr), 1 },
	{ "collnet", FIELD_FLAG, NICS, AT(topology_vertex, nic.collnet), 1 },
	{ "rdma", FIELD_FLAG, NICS, AT(topology_vertex, nic.rdma), 1 },
	{ "numa", FIELD_INDEX, DOMAINS, AT(topology_vertex, cpu.numa), INT_MAX },
	{ "architecture", FIELD_TEXT, CPUS, AT(topology_vertex, cpu.architecture),
	  SIZE(topology_vertex, cpu.architecture) },
	{ "cpu_vendor", FIELD_TEXT, CPUS, AT(topology_vertex, cpu.vendor), SIZE(topology_vertex, cpu.vendor) },
	{ "cpu_family", FIELD_INDEX, CPUS, AT(topology_vertex, cpu.family), INT_MAX },
	{ "cpu_model", FIELD_INDEX, CPUS, AT(topology_vertex, cpu.model), INT_MAX },
	{ "affinity", FIELD_TEXT, CPUS, AT(topology_vertex, cpu.affinity), SIZE(topology_vertex, cpu.affinity) },
	{ "memory_bytes", FIELD_U64, SIZED, AT(topology_vertex, memory_bytes), INT64_MAX },
	{ NULL, FIELD_TEXT, 0, 0, 0 },
};

const struct field topology_link_fields[] = {
	{ "count", FIELD_COUNT, 0, AT(topology_link, count), TOPOLOGY_COUNT_MAX },
	{ "generation", FIELD_UNSIGNED, 0, AT(topology_link, pci.generation), TOPOLOGY_GENERATION_MAX },
	{ "lanes", FIELD_UNSIGNED, 0, AT(topology_link, pci.lanes), TOPOLOGY_LANES_MAX },
	{ "most_generation", FIELD_UNSIGNED, 0, AT(topology_link, pci.most_generation), TOPOLOGY_GENERATION_MAX },
	{ "most_lanes", FIELD_UNSIGNED, 0, AT(topology_link, pci.most_lanes), TOPOLOGY_LANES_MAX },
	{ "port", FIELD_TEXT, 0, AT(topology_link, pci.port), SIZE(topology_link, pci.port) },
	{ "nominal_Bps", FIELD_U64, 0, AT(topology_link, nominal_Bps), INT64_MAX },
	{ NULL, FIELD_TEXT, 0, 0, 0 },
};

const struct field topology_capacity_fields[] = {
	{ "latency_ns", FIELD_U64, 0, AT(topology_capacity, latency_ns), INT64_MAX },
	{ "spread", FIELD_SPREAD, 0, AT(topology_capacity, spread), SPREAD_MOST },
	{ "date", FIELD_I64, 0, AT(topology_capacity, date_s), INT64_MAX },
	{ NULL, FIELD_TEXT, 0, 0, 0 },
};

const struct field topology_pair_fields[] = {
	{ "p2p_works", FIELD_FLAG_ALWAYS, 0, AT(topology_pair, p2p_works), 1 },
	{ "p2p_Bps", FIELD_U64, 0, AT(topology_pair, p2p.rate_Bps), INT64_MAX },
	{ "p2p_provenance", FIELD_PROVENANCE, 0, AT(topology_pair, p2p.provenance), TOPOLOGY_PROVENANCE_COUNT - 1 },
	{ "p2p_latency_ns", FIELD_U64, 0, AT(topology_pair, p2p.latency_ns), INT64_MAX },
	{ "p2p_spread", FIELD_SPREAD, 0, AT(topology_pair, p2p.spread), SPREAD_MOST },
	{ "p2p_date", FIELD_I64, 0, AT(topology_pair, p2p.date_s), INT64_MAX },
	{ "host_Bps", FIELD_U64, 0, AT(topology_pair, host.rate_Bps), INT64_MAX },
	{ "host_provenance", FIELD_PROVENANCE, 0, AT(topology_pair, host.provenance), TOPOLOGY_PROVENANCE_COUNT - 1 },
	{ "host_latency_ns", FIELD_U64, 0, AT(topology_pair, host.latency_ns), INT64_MAX },
	{ "host_spread", FIELD_SPREAD, 0, AT(topology_pair, host.spread), SPREAD_MOST },
	{ "host_date", FIELD_I64, 0, AT(topology_pair, host.date_s), INT64_MAX },
	{ NULL, FIELD_TEXT, 0, 0, 0 },
};

struct topology_capacity fields_canonical(const struct topology_capacity *capacity)
{
	struct topology_capacity canonical = *capacity;

	if (!topology_known(capacity) || capacity->rate_Bps > FIELD_RATE_MOST ||
	    (unsigned)capacity->provenance >= TOPOLOGY_PROVENANCE_COUNT) {
		canonical.rate_Bps = 0;
		canonical.provenance = TOPOLOGY_UNKNOWN;
	}
	return canonical;
}

bool fields_of_kind(const struct field *field, enum topology_kind kind)
{
	return !field->kinds || (field->kinds & KIND(kind));
}

const char *fields_text(const struct field *field, const void *object)
{
	return (const char *)object + field->offset;
}

/* How a number lies in memory, and with how many digits it is written in hexadecimal; 0: in decimal. */
static const struct {
	uint8_t bytes;
	bool is_signed; /* negative: not known */
	uint8_t digits;
} types[] = {
	[FIELD_INT] = { .bytes = sizeof(int), .is_signed = true },
	[FIELD_INDEX] = { .bytes = sizeof(int), .is_signed = true },
	[FIELD_UNSIGNED] = { .bytes = sizeof(unsigned) },
	[FIELD_COUNT] = { .bytes = sizeof(unsigned) },
	[FIELD_U64] = { .bytes = sizeof(uint64_t) },
	[FIELD_I64] = { .bytes = sizeof(int64_t), .is_signed = true },
	[FIELD_HEX16] = { .bytes = sizeof(uint16_t), .digits = 4 },
	[FIELD_HEX32] = { .bytes = sizeof(uint32_t), .digits = 6 }, /* a class has six */
	[FIELD_HEX64] = { .bytes = sizeof(uint64_t), .digits = 1 },
	[FIELD_FLAG] = { .bytes = sizeof(bool) },
	[FIELD_FLAG_ALWAYS] = { .bytes = sizeof(bool) },
	[FIELD_SPREAD] = { .bytes = sizeof(double) },
	[FIELD_PROVENANCE] = { .bytes = sizeof(enum topology_provenance) },
};
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first bytes of a number are its low ones");

static uint64_t from_spread(double value)
{
	/* Also false for what is not a number. */
	if (!(value > 0) || value > (double)SPREAD_MOST / 1e6)
		return 0;
	return (uint64_t)(value * 1e6 + 0.5);
}

/* The value as it is written, of every type but FIELD_TEXT; 0: not known. FIELD_INDEX: one more than the index. */
static uint64_t field_number(const struct field *field, const void *object)
{
	const char *place = (const char *)object + field->offset;
	unsigned bytes = types[field->type].bytes;
	bool index = field->type == FIELD_INDEX;
	uint64_t number = 0;
	double spread;

	if (field->type == FIELD_SPREAD) {
		memcpy(&spread, place, sizeof(spread));
		return from_spread(spread);
	}
	memcpy(&number, place, bytes);
	if (types[field->type].is_signed && number >> (8 * bytes - 1))
		return 0;
	return number > field->most ? 0 : number + index;
}

bool fields_known(const struct field *field, const void *object)
{
	switch (field->type) {
	case FIELD_TEXT:
		return *fields_text(field, object) != '\0';
	case FIELD_COUNT:
		return field_number(field, object) > 1;
	case FIELD_FLAG_ALWAYS:
		return true;
	default:
		return field_number(field, object) > 0;
	}
}

int fields_compare(const struct field *field, const void *a, const void *b)
{
	uint64_t first, second;

	if (field->type == FIELD_TEXT)
		return strcmp(fields_text(field, a), fields_text(field, b));
	first = field_number(field, a);
	second = field_number(field, b);
	return (first > second) - (first < second);
}

/* Millionths as a decimal number without zeros at its end. No printf of a double: its point depends on the locale. */
static void format_spread(uint64_t millionths, char *ret)
{
	int bytes = snprintf(ret, FIELD_VALUE_BYTES, "%" PRIu64 ".%06" PRIu64, millionths / 1000000,
			     millionths % 1000000);

	while (ret[bytes - 1] == '0')
		ret[--bytes] = '\0';
	if (ret[bytes - 1] == '.')
		ret[--bytes] = '\0';
}

void fields_format(const struct field *field, const void *object, char *ret)
{
	uint64_t number = field_number(field, object);
	int digits = types[field->type].digits;

	switch (field->type) {
	case FIELD_INDEX:
		snprintf(ret, FIELD_VALUE_BYTES, "%" PRIu64, number - 1);
		break;
	case FIELD_SPREAD:
		format_spread(number, ret);
		break;
	case FIELD_PROVENANCE:
		snprintf(ret, FIELD_VALUE_BYTES, "%s", topology_provenance_word((enum topology_provenance)number));
		break;
	default:
		if (digits)
			snprintf(ret, FIELD_VALUE_BYTES, "0x%0*" PRIx64, digits, number);
		else
			snprintf(ret, FIELD_VALUE_BYTES, "%" PRIu64, number);
	}
}

/* At most six decimals, as they are written. */
static int parse_millionths(const char *text, uint64_t most, uint64_t *ret)
{
	uint64_t ns;

	/* Nine decimals of seconds are read alike; the last three are zero here. */
	if (parse_seconds(text, 1000, most * 1000, &ns) < 0 || ns % 1000)
		return -EINVAL;
	*ret = ns / 1000;
	return 0;
}

static int parse_number(const struct field *field, const char *value, uint64_t *ret)
{
	enum topology_provenance provenance;

	switch (field->type) {
	case FIELD_INDEX:
	case FIELD_FLAG:
	case FIELD_FLAG_ALWAYS:
		return parse_u64(value, 0, field->most, ret);
	case FIELD_HEX16:
	case FIELD_HEX32:
	case FIELD_HEX64:
		return parse_hex64(value, ret) < 0 || !*ret || *ret > field->most ? -EINVAL : 0;
	case FIELD_SPREAD:
		return parse_millionths(value, field->most, ret);
	case FIELD_PROVENANCE:
		if (!topology_provenance_of_word(value, &provenance))
			return -EINVAL;
		*ret = (uint64_t)provenance;
		return 0;
	default:
		return parse_u64(value, 1, field->most, ret);
	}
}

int fields_set(const struct field *field, void *object, const char *value)
{
	char *place = (char *)object + field->offset;
	size_t bytes = strlen(value);
	uint64_t number;
	double spread;

	if (field->type == FIELD_TEXT) {
		if (bytes >= field->most)
			return -EINVAL;
		memcpy(place, value, bytes + 1);
		return 0;
	}
	if (parse_number(field, value, &number) < 0)
		return -EINVAL;
	spread = (double)number / 1e6;
	memcpy(place, field->type == FIELD_SPREAD ? (void *)&spread : &number, types[field->type].bytes);
	return 0;
}

void fields_expected(const struct field *field, char *text, size_t text_bytes)
{
	switch (field->type) {
	case FIELD_TEXT:
		snprintf(text, text_bytes, "a text of at most %" PRIu64 " bytes", field->most - 1);
		break;
	case FIELD_INDEX:
		snprintf(text, text_bytes, "a whole number from 0 to %" PRIu64, field->most);
		break;
	case FIELD_FLAG:
	case FIELD_FLAG_ALWAYS:
		snprintf(text, text_bytes, "0 or 1");
		break;
	case FIELD_HEX16:
	case FIELD_HEX32:
	case FIELD_HEX64:
		snprintf(text, text_bytes, "a hexadecimal number from 0x1 to 0x%" PRIx64, field->most);
		break;
	case FIELD_SPREAD:
		snprintf(text, text_bytes, "a number above 0 with at most six decimals, at most %" PRIu64,
			 field->most / 1000000);
		break;
	case FIELD_PROVENANCE:
		snprintf(text, text_bytes, "unknown, assumed, nominal, at_least or measured");
		break;
	default:
		snprintf(text, text_bytes, "a whole number from 1 to %" PRIu64, field->most);
	}
}
