/* SPDX-License-Identifier: Apache-2.0 */
#include "base/params.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

#define REPLACE_LEAST_NS (10 * NS_PER_S) /* or all of the time-out */

enum param_kind {
	KIND_CHOICE,
	KIND_BOOL,
	KIND_TEXT,
	KIND_PORTS,
	KIND_NUMBER,
	KIND_INDEX,
	KIND_SECONDS,
	KIND_SIZE,
	KIND_TUNING,
};

struct param_form {
	enum param_kind kind;
	size_t offset;              /* of the field in struct params; for KIND_PORTS the two are neighbours */
	uint64_t min, max;          /* nanoseconds for KIND_SECONDS */
	bool zero_too;              /* 0 is valid although it is below min */
	const char *const *choices; /* by the field's enum value, ends with NULL */
	const char *instead;        /* the variable of NCCL that counts when this one is unset, or NULL */
	const char *const *instead_choices;
};

struct param_row {
	struct param_info info;
	struct param_form form;
};

static const char *const net_names[] = {
	[NET_CHOICE_AUTO] = "auto", [NET_CHOICE_TCP] = "tcp",  [NET_CHOICE_VERBS] = "verbs",
	[NET_CHOICE_OFF] = "off",   [NET_CHOICE_COUNT] = NULL,
};
static const char *const steer_names[] = {
	[STEER_OFF] = "off",
	[STEER_TOPOLOGY] = "topology",
	[STEER_FULL] = "full",
	[STEER_COUNT] = NULL,
};
static const char *const profiler_names[] = {
	[PROFILER_OFF] = "off",
	[PROFILER_COUNT] = "count",
	[PROFILER_TIME] = "time",
	[PROFILER_CHOICE_COUNT] = NULL,
};
static const char *const family_names[] = {
	[FAMILY_AUTO] = "auto",
	[FAMILY_IPV4] = "ipv4",
	[FAMILY_IPV6] = "ipv6",
	[FAMILY_COUNT] = NULL,
};
static const char *const join_names[] = {
	[JOIN_AUTO] = "auto",
	[JOIN_ALWAYS] = "always",
	[JOIN_NEVER] = "never",
	[JOIN_CHOICE_COUNT] = NULL,
};
static const char *const simd_names[] = {
	[SIMD_AUTO] = "auto",     [SIMD_SCALAR] = "scalar", [SIMD_AVX2] = "avx2",
	[SIMD_AVX512] = "avx512", [SIMD_NEON] = "neon",     [SIMD_COUNT] = NULL,
};
/* NCCL's words for the same; it has none for auto but being unset. */
static const char *const nccl_family_names[] = {
	[FAMILY_AUTO] = "",
	[FAMILY_IPV4] = "AF_INET",
	[FAMILY_IPV6] = "AF_INET6",
	[FAMILY_COUNT] = NULL,
};

#define FIELD(name) .offset = offsetof(struct params, name)

/* The defaults are in default_text alone and are parsed like anything else. */
static const struct param_row rows[] = {
	{ { "TRIBUTARY_NET", "choice", "", "auto, tcp, verbs, off", "auto",
	    "Transport that carries NCCL's traffic. auto: NCCL's own where it would take RDMA, else "
	    "TCP. verbs: our own RDMA transport, on all hosts; TCP where it cannot be had. off: leave the "
	    "network to NCCL." },
	  { KIND_CHOICE, FIELD(net), .choices = net_names } },
	{ { "TRIBUTARY_DISABLE", "boolean", "", "0, 1", "0", "1: switch off everything that the plugin does." },
	  { KIND_BOOL, FIELD(disable) } },
	{ { "TRIBUTARY_IF", "text", "", "list of interfaces, at most 255 characters", "",
	    "Interfaces for TCP, and of an RDMA port's addresses those to prefer, in the syntax of "
	    "NCCL_SOCKET_IFNAME: eth (names that begin so), =eth0 (this name), ^docker (all but these), several "
	    "with commas. Unset: NCCL_SOCKET_IFNAME, or else every suitable one." },
	  { KIND_TEXT, FIELD(interfaces), .instead = "NCCL_SOCKET_IFNAME" } },
	{ { "TRIBUTARY_FAMILY", "choice", "", "auto, ipv4, ipv6", "auto",
	    "Family of the addresses used. Unset: NCCL_SOCKET_FAMILY, or else whichever an interface has, IPv4 "
	    "first." },
	  { KIND_CHOICE, FIELD(family), .choices = family_names, .instead = "NCCL_SOCKET_FAMILY",
	    .instead_choices = nccl_family_names } },
	{ { "TRIBUTARY_JOIN", "choice", "", "auto, always, never", "auto",
	    "Which interfaces NCCL may join in one device. auto: those with a PCI path; virtual ones stay apart, "
	    "because NCCL finds no way from a GPU to them once they are joined." },
	  { KIND_CHOICE, FIELD(join), .choices = join_names } },
	{ { "TRIBUTARY_PORTS", "range", "", "low-high within 1024-65535, or any", "any",
	    "TCP ports to listen on, for hosts behind a firewall." },
	  { KIND_PORTS, FIELD(port_low), .min = 1024, .max = 65535 } },
	{ { "TRIBUTARY_STREAMS", "number", "", "0 to 32", "0", "TCP streams of a connection on each rail. 0: choose." },
	  { KIND_NUMBER, FIELD(streams), .max = 32 } },
	{ { "TRIBUTARY_MOVERS", "number", "", "auto, or 0 to 16", "auto",
	    "Threads that send and receive long messages over TCP for NCCL's own. 0: none. auto: as many as bring something, "
	    "once that one has no time left." },
	  { KIND_INDEX, FIELD(movers), .max = 16 } },
	{ { "TRIBUTARY_TIMEOUT", "seconds", "s", "0.1 to 3600", "30",
	    "How long a peer may show no sign of life before its connections fail. What another can replace (a stream, "
	    "an aggregator) is given up after a third of it, or 10 s where that is more." },
	  { KIND_SECONDS, FIELD(timeout_ns), .min = NS_PER_S / 10, .max = 3600 * NS_PER_S } },
	{ { "TRIBUTARY_REPORT_AFTER", "seconds", "s", "1 to 86400", "30",
	    "After this wait one line of the log says who waits for whom." },
	  { KIND_SECONDS, FIELD(report_after_ns), .min = NS_PER_S, .max = 86400 * NS_PER_S } },
	{ { "TRIBUTARY_EAGER_BYTES", "size", "bytes", "0 to 16K", "16K",
	    "The longest message that is sent before its receiver has asked for it." },
	  { KIND_SIZE, FIELD(eager_bytes), .max = 16 * KIB } },
	{ { "TRIBUTARY_SEGMENT_BYTES", "size", "bytes", "4K to 16M", "128K",
	    "The longest piece of a message that travels as one frame on one stream." },
	  { KIND_SIZE, FIELD(segment_bytes), .min = 4 * KIB, .max = 16 * MIB } },
	{ { "TRIBUTARY_PACE", "boolean", "", "0, 1", "1",
	    "1: a receiving host grants no more bytes at a time than its network card takes in." },
	  { KIND_BOOL, FIELD(pace) } },
	{ { "TRIBUTARY_PACE_BUDGET", "size", "bytes", "0, or 4K to 1G", "0",
	    "Bytes granted and not yet received, for each network card of the host. 0: measured." },
	  { KIND_SIZE, FIELD(pace_budget_bytes), .min = 4 * KIB, .max = GIB, .zero_too = true } },
	{ { "TRIBUTARY_STEER", "choice", "", "off, topology, full", "full",
	    "What NCCL is told of the measured machine. topology: what its links carry. full: also the channels "
	    "of each communicator, which needs NCCL_ENV_PLUGIN=tributary. Nothing without a profile, and never "
	    "against NCCL_TOPO_FILE or NCCL_GRAPH_FILE." },
	  { KIND_CHOICE, FIELD(steer), .choices = steer_names } },
	{ { "TRIBUTARY_LOCAL_PROCESSES", "number", "", "0 to 1024", "0",
	    "How many processes the job has on this host, all of them with this plugin. 0: as the launcher says; where "
	    "none does, only ranks that have all GPUs, or that NVML shows to be alone, get planned channels." },
	  { KIND_NUMBER, FIELD(local_processes), .max = 1024 } },
	{ { "TRIBUTARY_SHARED_DIR", "text", "", "folder, at most 255 characters", "/dev/shm",
	    "Folder in memory where the processes of a host meet. All of a job must see the same one." },
	  { KIND_TEXT, FIELD(shared_dir) } },
	{ { "TRIBUTARY_DUMP_DIR", "text", "", "folder, at most 255 characters", "",
	    "Folder for what NCCL was given for each communicator, and for a file with the whole state of the plugin "
	    "when something waits too long. Unset: none." },
	  { KIND_TEXT, FIELD(dump_dir) } },
	{ { "TRIBUTARY_METRICS", "text", "", "folder as a path from /, at most 255 characters", "",
	    "Folder for a file of metrics of each process, for the textfile collector of Prometheus' node exporter and "
	    "`tributary top`. Unset: none." },
	  { KIND_TEXT, FIELD(metrics) } },
	{ { "TRIBUTARY_PROFILER", "choice", "", "off, count, time", "count",
	    "What is kept of NCCL's operations. count: how often each ran, at which size, and how NCCL ran it. time: for "
	    "a second of each minute also how long they took, until a CUDA graph is captured (NCCL 2.28 and later)." },
	  { KIND_CHOICE, FIELD(profiler), .choices = profiler_names } },
	{ { "TRIBUTARY_TUNER", "boolean", "", "0, 1", "1",
	    "1: on communicators of one host that run planned channels, tell NCCL what those cost. 0 (or off): leave "
	    "NCCL's costs alone. The same on all ranks." },
	  { KIND_BOOL, FIELD(tuner) } },
	{ { "TRIBUTARY_TUNING", "text", "", "auto, off, or the 16 digits of a table", "auto",
	    "Which tuning table NCCL's choices follow: one that `tributary tune --measure` has kept. auto: one for the "
	    "communicator's shape, where all ranks are known to have the same ones. Digits: that table, on all ranks, or "
	    "they fail." },
	  { KIND_TUNING, FIELD(tuning) } },
	{ { "TRIBUTARY_COLLNET", "boolean", "", "0, 1", "1",
	    "1: offer NCCL collnet, by which AllReduce is aggregated in the hosts where NCCL_COLLNET_ENABLE=1 "
	    "asks for it. 0: as if the plugin had none. The same on all ranks." },
	  { KIND_BOOL, FIELD(collnet) } },
	{ { "TRIBUTARY_AGGREGATE_DIRECT", "size", "bytes", "0, or 1K to 64K", "0",
	    "Aggregation: the longest operation for which all hosts send to all; of six hosts and more the shortest "
	    "quarter goes through one of them. The largest value of the hosts counts. 0: by the network cards' rate." },
	  { KIND_SIZE, FIELD(aggregate_flat_bytes), .min = KIB, .max = 64 * KIB, .zero_too = true } },
	{ { "TRIBUTARY_AGGREGATE_SEGMENT", "size", "bytes", "0, or 1K to 512K", "0",
	    "Aggregation: the least piece of an operation for which one host does the sum, unless the operation "
	    "is shorter. The largest value of the hosts counts. 0: chosen by the rate of the network cards." },
	  { KIND_SIZE, FIELD(aggregate_segment_bytes), .min = KIB, .max = 512 * KIB, .zero_too = true } },
	{ { "TRIBUTARY_AGGREGATE_MEASURE", "boolean", "", "0, 1", "1",
	    "Aggregation: 1: a group tries its aggregators when it comes together, and gives them work by what they "
	    "did. 0: by what the cluster file and their cards say; it is enough that one host asks for that." },
	  { KIND_BOOL, FIELD(aggregate_measure) } },
	{ { "TRIBUTARY_VERIFY", "boolean", "", "0, 1", "0",
	    "1: hosts that reduce together compare checksums of results and fail where they differ; if one asks, all do." },
	  { KIND_BOOL, FIELD(verify) } },
	{ { "TRIBUTARY_PROFILE", "text", "", "file, at most 255 characters", "",
	    "The profile of this machine, as `tributary measure` wrote it. Unset: the one in the state directory that "
	    "fits the machine." },
	  { KIND_TEXT, FIELD(profile) } },
	{ { "TRIBUTARY_CLUSTER", "text", "", "file, at most 255 characters", "",
	    "Which host is on which leaf switch: a cluster file, or Slurm's topology.conf. The same on all ranks. "
	    "Unset: as the profile says, or all hosts on one switch." },
	  { KIND_TEXT, FIELD(cluster) } },
	{ { "TRIBUTARY_STATE_DIR", "text", "", "folder, at most 255 characters", "",
	    "Folder of the profiles. Unset: /var/lib/tributary for root; for others tributary in XDG_STATE_HOME, or in "
	    ".local/state of the home folder." },
	  { KIND_TEXT, FIELD(state_dir) } },
	{ { "TRIBUTARY_SIMD", "choice", "", "auto, scalar, avx2, avx512, neon", "auto",
	    "Instructions that sum in host memory. auto: the best that this CPU has. All give the same bits." },
	  { KIND_CHOICE, FIELD(simd), .choices = simd_names } },
	{ { "TRIBUTARY_SECRET", "text", "", "file, at most 255 characters", "",
	    "File with the secret that this job shares with the aggregators of the cluster (tributaryd), readable "
	    "by its owner alone. Unset: aggregators are not used." },
	  { KIND_TEXT, FIELD(secret) } },
	{ { "TRIBUTARY_HCA", "text", "", "list of RDMA devices, at most 255 characters", "",
	    "RDMA devices for TRIBUTARY_NET=verbs, in the syntax of NCCL_IB_HCA: mlx5 (names that begin so), mlx5_0:1 "
	    "(that port), =mlx5_0 (this name), ^mlx5_1 (all but these), several with commas. Unset: NCCL_IB_HCA, or "
	    "else all." },
	  { KIND_TEXT, FIELD(hca), .instead = "NCCL_IB_HCA" } },
	{ { "TRIBUTARY_GID_INDEX", "number", "", "auto, or 0 to 255", "auto",
	    "Row of the RDMA port's table of addresses. auto: RoCE version 2 with an IPv4 address before all others. "
	    "Unset: NCCL_IB_GID_INDEX." },
	  { KIND_INDEX, FIELD(gid_index), .max = 255, .instead = "NCCL_IB_GID_INDEX" } },
	{ { "TRIBUTARY_TRAFFIC_CLASS", "number", "", "auto, or 0 to 255", "auto",
	    "Traffic class of RDMA packets over Ethernet (RoCE). auto: the communicator's. Unset: NCCL_IB_TC." },
	  { KIND_INDEX, FIELD(traffic_class), .max = 255, .instead = "NCCL_IB_TC" } },
	{ { "TRIBUTARY_SERVICE_LEVEL", "number", "", "auto, or 0 to 15", "auto",
	    "Service level of RDMA packets. auto: the communicator's traffic class, or 0. Unset: NCCL_IB_SL." },
	  { KIND_INDEX, FIELD(service_level), .max = 15, .instead = "NCCL_IB_SL" } },
	{ { "TRIBUTARY_QPS", "number", "", "1 to 16", "1",
	    "RDMA queue pairs of a connection on each rail. Unset: NCCL_IB_QPS_PER_CONNECTION." },
	  { KIND_NUMBER, FIELD(qps), .min = 1, .max = 16, .instead = "NCCL_IB_QPS_PER_CONNECTION" } },
	{ { "TRIBUTARY_RDMA_RESERVE", "boolean", "", "0, 1", "1",
	    "1: a port of another card of the host stands by, and carries when the device's own ports carry nothing." },
	  { KIND_BOOL, FIELD(rdma_reserve) } },
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };
_Static_assert(ROW_COUNT <= 64, "struct params has a bit for each");

/* Each writes the row's field on success only; 0 or -errno as parse.h has them. */

static int parse_text(const char *text, void *field)
{
	size_t bytes = strlen(text);

	if (bytes >= PARAMS_STRING_BYTES)
		return -ERANGE;
	memcpy(field, text, bytes + 1);
	return 0;
}

static int parse_ports(const struct param_form *form, const char *text, void *field)
{
	uint64_t low = 0, high = 0;
	uint16_t *ports = field;
	int r = strcmp(text, "any") ? parse_range(text, form->min, form->max, &low, &high) : 0;

	if (r < 0)
		return r;
	ports[0] = (uint16_t)low;
	ports[1] = (uint16_t)high;
	return 0;
}

/* -1 for auto, and for NCCL's own -1, which means the same. */
static int parse_index(const struct param_form *form, const char *text, void *field)
{
	uint64_t value;
	int r = strcmp(text, "auto") && strcmp(text, "-1") ? parse_u64(text, form->min, form->max, &value) : 1;

	if (r >= 0)
		*(int *)field = r ? -1 : (int)value;
	return r < 0 ? r : 0;
}

static int parse_size_of(const struct param_form *form, const char *text, void *field)
{
	uint64_t value;
	int r = parse_size(text, form->zero_too ? 0 : form->min, form->max, &value);

	if (r < 0)
		return r;
	if (value < form->min && value)
		return -ERANGE;
	*(size_t *)field = (size_t)value;
	return 0;
}

static int parse_tuning(const char *text, void *field)
{
	uint64_t *tuning = field;

	if (!strcmp(text, "auto") || !strcmp(text, "off")) {
		*tuning = text[0] == 'a' ? PARAMS_TUNING_AUTO : PARAMS_TUNING_OFF;
		return 0;
	}
	return parse_digest(text, tuning);
}

static int parse_form(const struct param_form *form, const char *text, void *field)
{
	uint64_t value = 0;
	size_t index = 0;
	int r;

	switch (form->kind) {
	case KIND_CHOICE:
		r = parse_choice(text, form->choices, &index);
		if (!r)
			*(unsigned *)field = (unsigned)index;
		return r;
	case KIND_BOOL:
		return parse_bool(text, field);
	case KIND_TEXT:
		return parse_text(text, field);
	case KIND_PORTS:
		return parse_ports(form, text, field);
	case KIND_NUMBER:
		r = parse_u64(text, form->min, form->max, &value);
		if (!r)
			*(unsigned *)field = (unsigned)value;
		return r;
	case KIND_INDEX:
		return parse_index(form, text, field);
	case KIND_SECONDS:
		return parse_seconds(text, form->min, form->max, field);
	case KIND_SIZE:
		return parse_size_of(form, text, field);
	case KIND_TUNING:
		return parse_tuning(text, field);
	}
	return -EINVAL;
}

/* Each returns what snprintf does. */

static int format_seconds(const void *field, char *text, size_t bytes)
{
	uint64_t value_ns = *(const uint64_t *)field, fraction_ns = value_ns % NS_PER_S;
	int digits = 9;

	if (!fraction_ns)
		return snprintf(text, bytes, "%" PRIu64, value_ns / NS_PER_S);
	for (; fraction_ns % 10 == 0; digits--)
		fraction_ns /= 10;
	return snprintf(text, bytes, "%" PRIu64 ".%0*" PRIu64, value_ns / NS_PER_S, digits, fraction_ns);
}

static int format_size(const void *field, char *text, size_t bytes)
{
	static const char units[][2] = { "", "K", "M", "G" };
	size_t value = *(const size_t *)field, unit = 0;

	for (; value && value % KIB == 0 && unit < 3; unit++)
		value /= KIB;
	return snprintf(text, bytes, "%zu%s", value, units[unit]);
}

static int format_tuning(const void *field, char *text, size_t bytes)
{
	const uint64_t value = *(const uint64_t *)field;

	if (value <= PARAMS_TUNING_AUTO)
		return snprintf(text, bytes, "%s", value == PARAMS_TUNING_AUTO ? "auto" : "off");
	return snprintf(text, bytes, "%016" PRIx64, value);
}

static int format_form(const struct param_form *form, const void *field, char *text, size_t bytes)
{
	const uint16_t *ports = field;
	const int *index = field;

	switch (form->kind) {
	case KIND_CHOICE:
		return snprintf(text, bytes, "%s", form->choices[*(const unsigned *)field]);
	case KIND_BOOL:
		return snprintf(text, bytes, "%d", *(const bool *)field ? 1 : 0);
	case KIND_TEXT:
		return snprintf(text, bytes, "%s", (const char *)field);
	case KIND_PORTS:
		return ports[0] ? snprintf(text, bytes, "%u-%u", (unsigned)ports[0], (unsigned)ports[1])
				: snprintf(text, bytes, "any");
	case KIND_NUMBER:
		return snprintf(text, bytes, "%u", *(const unsigned *)field);
	case KIND_INDEX:
		return *index < 0 ? snprintf(text, bytes, "auto") : snprintf(text, bytes, "%d", *index);
	case KIND_SECONDS:
		return format_seconds(field, text, bytes);
	case KIND_SIZE:
		return format_size(field, text, bytes);
	case KIND_TUNING:
		return format_tuning(field, text, bytes);
	}
	return -EINVAL;
}

_Static_assert(sizeof(enum net_choice) == sizeof(unsigned), "choices are written as unsigned");
_Static_assert(sizeof(enum steer_choice) == sizeof(unsigned), "choices are written as unsigned");
_Static_assert(sizeof(enum simd_choice) == sizeof(unsigned), "choices are written as unsigned");
_Static_assert(sizeof(enum family_choice) == sizeof(unsigned), "choices are written as unsigned");
_Static_assert(offsetof(struct params, port_high) == offsetof(struct params, port_low) + sizeof(uint16_t),
	       "the two ports are written as an array");

struct complaint {
	void (*complain)(void *arg, const char *sentence);
	void *arg;
};

static void say(const struct complaint *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct complaint *to, const char *fmt, ...)
{
	char sentence[1024];
	va_list args;

	va_start(args, fmt);
	log_sentence_v(sentence, sizeof(sentence), fmt, args);
	va_end(args);
	if (to->complain)
		to->complain(to->arg, sentence);
}

/* A text of the environment as a log may show it: cut, and with no control characters. */
static const char *shown(const char *text, size_t text_bytes, char out[static 80])
{
	size_t bytes = text_bytes < 72 ? text_bytes : 72;

	for (size_t i = 0; i < bytes; i++)
		out[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
	memcpy(out + bytes, text_bytes > bytes ? "..." : "", text_bytes > bytes ? 4 : 1);
	return out;
}

/* As NCCL reads numbers: 0x6a and 0152 are 106; -1 is its word for auto, or for none. NULL: it is none. */
static const char *nccls_number(const struct param_form *form, const char *value, char text[static 24])
{
	long long number;
	char *end;

	if (form->kind != KIND_NUMBER && form->kind != KIND_INDEX)
		return value;
	errno = 0;
	number = strtoll(value, &end, 0);
	if (errno || end == value || *end)
		return value; /* refused below */
	if (number == -1 && form->kind == KIND_NUMBER)
		return NULL;
	snprintf(text, 24, "%lld", number);
	return text;
}

static void load_row(const struct param_row *row, const struct params_source *source, const struct complaint *to,
		     struct params *params)
{
	const char *name = row->info.name, *value = source->get(name), *const *choices = row->form.choices;
	struct param_form as = row->form;
	char text[80], number[24];

	if ((!value || !*value) && row->form.instead) {
		name = row->form.instead;
		value = source->get(name);
		if (value && *value)
			value = nccls_number(&row->form, value, number);
		if (row->form.instead_choices)
			choices = row->form.instead_choices;
	}
	if (!value || !*value) /* NAME= is how a job script unsets a variable */
		return;
	as.choices = choices;
	if (!parse_form(&as, value, (char *)params + row->form.offset)) {
		params->given |= UINT64_C(1) << (row - rows);
		if (name != row->info.name)
			params->from_nccl |= UINT64_C(1) << (row - rows);
		return;
	}
	shown(value, strlen(value), text);
	if (choices != row->form.choices)
		say(to, "%s=%s is not valid: expected AF_INET or AF_INET6; the default of %s, %s, is used.", name, text,
		    row->info.name, row->info.default_text);
	else
		say(to, "%s=%s is not valid: expected %s; the default, %s, is used.", name, text, row->info.range,
		    *row->info.default_text ? row->info.default_text : "unset");
}

static void check_name(const char *entry, const struct complaint *to)
{
	enum { FAR = 4 };
	const char *end = strchr(entry, '='), *nearest = NULL;
	size_t bytes = end ? (size_t)(end - entry) : strlen(entry);
	unsigned best = FAR;
	char name[80];

	if (strncmp(entry, "TRIBUTARY_", strlen("TRIBUTARY_")))
		return;
	shown(entry, bytes, name);
	for (size_t i = 0; i < ROW_COUNT; i++) {
		unsigned distance = parse_distance(name, rows[i].info.name, FAR - 1);

		if (!distance)
			return;
		if (distance < best) {
			best = distance;
			nearest = rows[i].info.name;
		}
	}
	if (nearest)
		say(to, "%s is not a variable of Tributary and is ignored; did you mean %s?", name, nearest);
	else
		say(to, "%s is not a variable of Tributary and is ignored; `tributary params` lists them.", name);
}

/* As the XDG base directory specification has it: a relative path is as good as none. */
static void load_state_home(const struct params_source *source, struct params *params)
{
	static const struct {
		const char *name, *below;
	} places[] = { { "XDG_STATE_HOME", "" }, { "HOME", "/.local/state" } };

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *value = source->get(places[i].name);
		size_t bytes = value && *value == '/' ? strlen(value) : 0;

		if (!bytes || bytes + strlen(places[i].below) >= sizeof(params->state_home))
			continue;
		memcpy(params->state_home, value, bytes);
		memcpy(params->state_home + bytes, places[i].below, strlen(places[i].below) + 1);
		return;
	}
}

uint64_t params_replace_ns(uint64_t timeout_ns)
{
	const uint64_t third_ns = timeout_ns / 3;

	if (timeout_ns < REPLACE_LEAST_NS)
		return timeout_ns;
	return third_ns > REPLACE_LEAST_NS ? third_ns : REPLACE_LEAST_NS;
}

void params_load(const struct params_source *source, void (*complain)(void *arg, const char *sentence), void *arg,
		 struct params *ret)
{
	const struct complaint to = { complain, arg };
	struct params params;

	params_defaults(&params);
	for (size_t i = 0; i < ROW_COUNT; i++)
		load_row(&rows[i], source, &to, &params);
	load_state_home(source, &params);
	for (char *const *entry = source->environ_list; entry && *entry; entry++)
		check_name(*entry, &to);
	*ret = params;
}

static const char *environment_get(const char *name)
{
	return getenv(name);
}

struct params_source params_from_environment(void)
{
	return (struct params_source){ .get = environment_get, .environ_list = environ };
}

void params_defaults(struct params *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < ROW_COUNT; i++) /* cannot fail: a test walks every default */
		parse_form(&rows[i].form, rows[i].info.default_text, (char *)ret + rows[i].form.offset);
}

size_t params_count(void)
{
	return ROW_COUNT;
}

void params_info(size_t index, struct param_info *ret)
{
	*ret = rows[index].info;
}

bool params_is_given(const struct params *params, size_t index)
{
	return params->given >> index & 1;
}

const char *params_origin(const struct params *params, size_t index)
{
	return params->from_nccl >> index & 1 ? rows[index].form.instead : rows[index].info.name;
}

int params_format(const struct params *params, size_t index, char *text, size_t text_bytes)
{
	const struct param_row *row = &rows[index];
	char whole[PARAMS_STRING_BYTES];
	int bytes = format_form(&row->form, (const char *)params + row->form.offset, whole, sizeof(whole));

	if (bytes < 0 || (size_t)bytes >= text_bytes || (size_t)bytes >= sizeof(whole))
		return -ENOSPC;
	memcpy(text, whole, (size_t)bytes + 1);
	return 0;
}
