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

static uint64_t from_int(int value, int least)
{
	return value < least ? 0 : (uint64_t)value + (least == 0);
}

static uint64_t from_int64(int64_t value)
{
	return value < 0 ? 0 : (uint64_t)value;
}

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
	const void *place = (const char *)object + field->offset;
	uint64_t number = 0, most = field->most;

	switch (field->type) {
	case FIELD_TEXT:
		break;
	case FIELD_INT:
		number = from_int(*(const int *)place, 1);
		break;
	case FIELD_INDEX:
		number = from_int(*(const int *)place, 0);
		most++;
		break;
	case FIELD_UNSIGNED:
	case FIELD_COUNT:
		number = *(const unsigned *)place;
		break;
	case FIELD_U64:
	case FIELD_HEX64:
		number = *(const uint64_t *)place;
		break;
	case FIELD_I64:
		number = from_int64(*(const int64_t *)place);
		break;
	case FIELD_HEX16:
		number = *(const uint16_t *)place;
		break;
	case FIELD_HEX32:
		number = *(const uint32_t *)place;
		break;
	case FIELD_FLAG:
	case FIELD_FLAG_ALWAYS:
		number = *(const bool *)place;
		break;
	case FIELD_SPREAD:
		number = from_spread(*(const double *)place);
		break;
	case FIELD_PROVENANCE:
		number = *(const enum topology_provenance *)place;
		break;
	}
	return number > most ? 0 : number;
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

	switch (field->type) {
	case FIELD_INDEX:
		snprintf(ret, FIELD_VALUE_BYTES, "%" PRIu64, number - 1);
		break;
	case FIELD_HEX16:
		snprintf(ret, FIELD_VALUE_BYTES, "0x%04" PRIx64, number);
		break;
	case FIELD_HEX32:
		snprintf(ret, FIELD_VALUE_BYTES, "0x%06" PRIx64, number); /* a class has six digits */
		break;
	case FIELD_HEX64:
		snprintf(ret, FIELD_VALUE_BYTES, "0x%" PRIx64, number);
		break;
	case FIELD_SPREAD:
		format_spread(number, ret);
		break;
	case FIELD_PROVENANCE:
		snprintf(ret, FIELD_VALUE_BYTES, "%s", topology_provenance_word((enum topology_provenance)number));
		break;
	default:
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

static void store_number(enum field_type type, void *place, uint64_t number)
{
	switch (type) {
	case FIELD_TEXT:
		break;
	case FIELD_INT:
	case FIELD_INDEX:
		*(int *)place = (int)number;
		break;
	case FIELD_UNSIGNED:
	case FIELD_COUNT:
		*(unsigned *)place = (unsigned)number;
		break;
	case FIELD_U64:
	case FIELD_HEX64:
		*(uint64_t *)place = number;
		break;
	case FIELD_I64:
		*(int64_t *)place = (int64_t)number;
		break;
	case FIELD_HEX16:
		*(uint16_t *)place = (uint16_t)number;
		break;
	case FIELD_HEX32:
		*(uint32_t *)place = (uint32_t)number;
		break;
	case FIELD_FLAG:
	case FIELD_FLAG_ALWAYS:
		*(bool *)place = number != 0;
		break;
	case FIELD_SPREAD:
		*(double *)place = (double)number / 1e6;
		break;
	case FIELD_PROVENANCE:
		*(enum topology_provenance *)place = (enum topology_provenance)number;
		break;
	}
}

int fields_set(const struct field *field, void *object, const char *value)
{
	char *place = (char *)object + field->offset;
	size_t bytes = strlen(value);
	uint64_t number;

	if (field->type == FIELD_TEXT) {
		if (bytes >= field->most)
			return -EINVAL;
		memcpy(place, value, bytes + 1);
		return 0;
	}
	if (parse_number(field, value, &number) < 0)
		return -EINVAL;
	store_number(field->type, place, number);
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
