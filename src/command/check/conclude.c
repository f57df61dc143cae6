/* SPDX-License-Identifier: Apache-2.0 */
/* From what all hosts say to what is wrong with them. What one says may be anything: missing, of another type, out of range. */
#include "command/check/check.h"

#include "base/sys.h"
#include "command/print/units.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_MAX = 4, LIST_BYTES = 160 };
#define CLOCK_NS 1e9 /* lines of several logs cannot be put in order beyond that */

struct hosts {
	const json_t *at;
	size_t count;
	struct check_report report;
	int16_t (*errors)[CHECK_HOSTS_MAX][CHECK_INTERFACES_MAX]; /* [count]: from, to, its interface */
};
/* Some of the hosts. */
struct set {
	bool has[CHECK_HOSTS_MAX];
	size_t count;
};

static const json_t *host_at(const json_t *hosts, size_t i)
{
	return json_array_get(hosts, i);
}

static const json_t *facts_of(const struct hosts *hosts, size_t i)
{
	return json_object_get(host_at(hosts->at, i), "facts");
}

/* "": there is none. */
static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static const char *name_of(const struct hosts *hosts, size_t i)
{
	return text_of(host_at(hosts->at, i), "name");
}

static void put_in(struct set *set, size_t i)
{
	set->count += !set->has[i];
	set->has[i] = true;
}

/* "a, b and 3 more", or "a,b,..." without spaces. */
static const char *list(const struct hosts *hosts, const struct set *set, bool plain, char text[static LIST_BYTES])
{
	size_t named = 0, used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < hosts->count && used < LIST_BYTES; i++) {
		const char *between = !named ? "" : plain ? "," : named + 1 == set->count ? " and " : ", ";

		if (!set->has[i])
			continue;
		if (named == NAMED_MAX) {
			snprintf(text + used, LIST_BYTES - used, plain ? ",..." : " and %zu more", set->count - named);
			break;
		}
		used += (size_t)snprintf(text + used, LIST_BYTES - used, "%s%.30s", between, name_of(hosts, i));
		named++;
	}
	return text;
}

/* Evidence and remedy in one format: "evidence|remedy". */
__attribute__((format(printf, 5, 6))) static void find(struct hosts *hosts, const char *check,
						       enum doctor_severity severity, const char *subject,
						       const char *fmt, ...)
{
	struct check_report *report = &hosts->report;
	struct check_finding *finding;
	char both[1200], *bar;
	va_list args;

	if (report->result == 0)
		report->result = sys_grow(&report->at, report->count, 1, sizeof(*finding));
	if (report->result < 0)
		return;
	va_start(args, fmt);
	log_sentence_v(both, sizeof(both), fmt, args);
	va_end(args);
	bar = strrchr(both, '|');
	finding = &report->at[report->count++];
	/* The worst first; of two alike the order stays. */
	for (; finding > report->at && finding[-1].severity < severity; finding--)
		*finding = finding[-1];
	*finding = (struct check_finding){ .check = check, .severity = severity };
	snprintf(finding->subject, sizeof(finding->subject), "%s", subject);
	for (char *at = finding->subject; *at; at++)
		*at = (unsigned char)*at <= ' ' ? '_' : *at;
	if (bar)
		*bar = '\0';
	log_sentence(finding->evidence, sizeof(finding->evidence), "%s", both);
	log_sentence(finding->remedy, sizeof(finding->remedy), "%s", bar ? bar + 1 : "");
}

/* -------------------------------------------------------------------------------------------------------- what is the same */

/* Of host i; NULL: it has none, and is not compared. */
typedef const char *(*value_fn)(const struct hosts *hosts, size_t i, const char *key);

/* The hosts with the value of host `first`. */
static void alike(const struct hosts *hosts, value_fn value, const char *key, size_t first, struct set *ret)
{
	*ret = (struct set){ .count = 0 };
	for (size_t i = first; i < hosts->count; i++) {
		const char *other = value(hosts, i, key);

		if (other && !strcmp(other, value(hosts, first, key)))
			put_in(ret, i);
	}
}

static bool is_first(const struct hosts *hosts, value_fn value, const char *key, size_t i)
{
	const char *own = value(hosts, i, key);

	for (size_t j = 0; own && j < i; j++) {
		const char *other = value(hosts, j, key);

		if (other && !strcmp(other, own))
			return false;
	}
	return own != NULL;
}

/* "what is X on a, b; Y on c" if not all have the same. shown: else values are only told apart. */
static void compare(struct hosts *hosts, const char *check, enum doctor_severity severity, const char *what,
		    const char *remedy, bool shown, value_fn value, const char *key)
{
	struct set most = { .count = 0 }, others = { .count = 0 }, set;
	char text[400] = "", names[LIST_BYTES];
	size_t kinds = 0;

	for (size_t i = 0; i < hosts->count; i++) {
		size_t used = strlen(text);

		if (!is_first(hosts, value, key, i))
			continue;
		alike(hosts, value, key, i, &set);
		if (shown)
			snprintf(text + used, sizeof(text) - used, "%s%.60s on %s", kinds ? "; " : "",
				 value(hosts, i, key), list(hosts, &set, false, names));
		else
			snprintf(text + used, sizeof(text) - used, "%s on %s", kinds ? "; another" : "one",
				 list(hosts, &set, false, names));
		kinds++;
		if (set.count > most.count)
			most = set;
	}
	if (kinds < 2)
		return;
	for (size_t i = 0; i < hosts->count; i++)
		if (value(hosts, i, key) && !most.has[i])
			put_in(&others, i);
	find(hosts, check, severity, list(hosts, &others, true, names), "%s is %s|%s", what, text, remedy);
}

/* A sentence that several hosts say is one finding. */
static void gather(struct hosts *hosts, const char *check, enum doctor_severity severity, const char *remedy,
		   value_fn value, const char *key)
{
	char names[LIST_BYTES];
	struct set set;

	for (size_t i = 0; i < hosts->count; i++) {
		if (!is_first(hosts, value, key, i))
			continue;
		alike(hosts, value, key, i, &set);
		find(hosts, check, severity, list(hosts, &set, true, names), "%s|%s", value(hosts, i, key), remedy);
	}
}

/* key: of the facts, "plugin.version" of an object in them. */
static const char *fact(const struct hosts *hosts, size_t i, const char *key)
{
	const json_t *object = facts_of(hosts, i);
	const char *dot = strchr(key, '.');
	char first[32];
	const char *text;

	if (dot) {
		snprintf(first, sizeof(first), "%.*s", (int)(dot - key), key);
		object = json_object_get(object, first);
	}
	text = text_of(object, dot ? dot + 1 : key);
	return *text ? text : NULL;
}

static const char *setting(const struct hosts *hosts, size_t i, const char *key)
{
	const char *text = json_string_value(json_object_get(json_object_get(facts_of(hosts, i), "settings"), key));

	return json_is_object(facts_of(hosts, i)) && !text ? "unset" : text;
}

/* ---------------------------------------------------------------------------------------------------------- each host */

static void look_at_answers(struct hosts *hosts)
{
	for (size_t i = 0; i < hosts->count; i++)
		if (*text_of(host_at(hosts->at, i), "why") || !json_is_object(facts_of(hosts, i)))
			find(hosts, "host", DOCTOR_ERROR, name_of(hosts, i), "does not answer: %s|%s",
			     *text_of(host_at(hosts->at, i), "why") ? text_of(host_at(hosts->at, i), "why")
								    : "what it says is no answer",
			     text_of(host_at(hosts->at, i), "remedy"));
}

static void look_at_plugins(struct hosts *hosts)
{
	gather(hosts, "plugin", DOCTOR_ERROR,
	       "Install the same package on all hosts, or add the library's folder to LD_LIBRARY_PATH; `tributary env` "
	       "prints what to set.",
	       fact, "plugin.error");
	gather(hosts, "env-plugin", DOCTOR_WARNING,
	       "Without the environment half NCCL takes no planned channels. Install libnccl-env-tributary.so beside the "
	       "plugin.",
	       fact, "env_plugin.error");
	compare(hosts, "version", DOCTOR_ERROR, "the plugin", "Install the same release on all hosts.", true, fact,
		"plugin.version");
	for (size_t i = 0; i < hosts->count; i++) {
		const char *plugin = fact(hosts, i, "plugin.version"), *program = fact(hosts, i, "version");

		if (plugin && program && strcmp(plugin, program) != 0)
			find(hosts, "version", DOCTOR_WARNING, name_of(hosts, i),
			     "the plugin %.120s is %.40s, the command %.40s|Remove the older one, or its folder from "
			     "LD_LIBRARY_PATH.",
			     fact(hosts, i, "plugin.file"), plugin, program);
	}
}

/* Of unlike hosts these may differ: what follows from them is seen. */
static bool may_differ(const char *name)
{
	static const char *const names[] = {
		"TRIBUTARY_IF",      "NCCL_SOCKET_IFNAME",        "TRIBUTARY_HCA",
		"NCCL_IB_HCA",       "TRIBUTARY_GID_INDEX",       "NCCL_IB_GID_INDEX",
		"TRIBUTARY_PROFILE", "TRIBUTARY_STATE_DIR",       "TRIBUTARY_DUMP_DIR",
		"TRIBUTARY_METRICS", "TRIBUTARY_LOCAL_PROCESSES", "TRIBUTARY_SHARED_DIR",
		"NCCL_TOPO_FILE",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static void look_at_settings(struct hosts *hosts)
{
	json_t *seen = json_object(); /* names, in the order in which they are met */
	const char *name;
	json_t *value;

	for (size_t i = 0; i < hosts->count; i++) {
		const json_t *complaints = json_object_get(facts_of(hosts, i), "complaints");

		json_object_foreach(json_object_get(facts_of(hosts, i), "settings"), name, value) if (!may_differ(name))
			json_object_set_new(seen, name, json_true());
		for (size_t k = 0; k < json_array_size(complaints); k++)
			if (json_is_string(json_array_get(complaints, k)))
				find(hosts, "settings", DOCTOR_WARNING, name_of(hosts, i),
				     "%s|Correct the value there, or unset the variable.",
				     json_string_value(json_array_get(complaints, k)));
	}
	json_object_foreach(seen, name, value)
		compare(hosts, "settings", DOCTOR_ERROR, name,
			"Give all hosts the same value; also in /etc/nccl.conf and ~/.nccl.conf.", true, setting, name);
	json_decref(seen);
}

static void look_at_network(struct hosts *hosts)
{
	char names[LIST_BYTES];
	struct set set;

	compare(hosts, "network", DOCTOR_ERROR, "the network", "TRIBUTARY_NET=tcp or verbs on all hosts makes it one.",
		true, fact, "network");
	for (size_t i = 0; i < hosts->count; i++) {
		if (!is_first(hosts, fact, "reason", i))
			continue;
		alike(hosts, fact, "reason", i, &set);
		find(hosts, "network", DOCTOR_NOTE, list(hosts, &set, true, names),
		     "%s|Nothing is wrong with it where that is what is wanted.", fact(hosts, i, "reason"));
	}
}

static void look_at_files(struct hosts *hosts)
{
	char names[LIST_BYTES];
	struct set absent = { .count = 0 };

	gather(hosts, "secret", DOCTOR_ERROR, "TRIBUTARY_SECRET must name a file that only its owner can read.", fact,
	       "secret.error");
	compare(hosts, "secret", DOCTOR_ERROR, "the secret", "Copy one host's file of TRIBUTARY_SECRET to the others.",
		false, fact, "secret.proof");
	gather(hosts, "cluster-file", DOCTOR_ERROR, "TRIBUTARY_CLUSTER must name the same readable file on all hosts.",
	       fact, "cluster.error");
	compare(hosts, "cluster-file", DOCTOR_ERROR, "the cluster file",
		"Copy one host's file of TRIBUTARY_CLUSTER to the others.", false, fact, "cluster.digest");
	for (size_t i = 0; i < hosts->count; i++)
		if (fact(hosts, i, "cluster.digest") && !fact(hosts, i, "cluster.error") &&
		    !json_is_true(json_object_get(json_object_get(facts_of(hosts, i), "cluster"), "listed")))
			put_in(&absent, i);
	if (absent.count)
		find(hosts, "cluster-file", DOCTOR_WARNING, list(hosts, &absent, true, names),
		     "the cluster file has no host of that name|Add the host under its leaf, by the name that `hostname` "
		     "prints there; `tributary cluster measure` writes such a file.");
}

static int by_value(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Against the median: the host that asks need not be one of them. */
static void look_at_clocks(struct hosts *hosts)
{
	double all[CHECK_HOSTS_MAX], median;
	size_t count = 0;

	for (size_t i = 0; i < hosts->count; i++) {
		const json_t *offset = json_object_get(host_at(hosts->at, i), "offset_ns");

		if (json_is_number(offset))
			all[count++] = json_number_value(offset);
	}
	if (count < 2)
		return;
	qsort(all, count, sizeof(*all), by_value);
	median = all[(count - 1) / 2];
	for (size_t i = 0; i < hosts->count; i++) {
		const json_t *host = host_at(hosts->at, i), *offset = json_object_get(host, "offset_ns");
		double off = json_number_value(offset) - median;
		double doubt = json_number_value(json_object_get(host, "round_trip_ns"));

		if (json_is_number(offset) && (off < 0 ? -off : off) - doubt > CLOCK_NS)
			find(hosts, "clock", DOCTOR_WARNING, name_of(hosts, i),
			     "its clock is %.1f s %s the others'|Let chrony or another NTP client set it: lines of logs and "
			     "dates of measurements cannot be compared.",
			     1e-9 * (off < 0 ? -off : off), off < 0 ? "behind" : "ahead of");
	}
}

static void look_at_interfaces(struct hosts *hosts)
{
	gather(hosts, "interfaces", DOCTOR_ERROR,
	       "`tributary devices` shows what there is; TRIBUTARY_IF names interfaces.", fact, "interfaces_error");
	for (size_t i = 0; i < hosts->count; i++) {
		const json_t *facts = facts_of(hosts, i), *list = json_object_get(facts, "interfaces");
		char rate[UNITS_BYTES], subject[128];

		for (size_t k = 0; k < json_array_size(list); k++) {
			const json_t *at = json_array_get(list, k);

			if (!*text_of(at, "error"))
				continue;
			snprintf(subject, sizeof(subject), "%.60s:%.20s", name_of(hosts, i), text_of(at, "name"));
			find(hosts, "ports", DOCTOR_ERROR, subject,
			     "cannot listen on %.60s, TCP ports %.20s: %.60s|Let TRIBUTARY_PORTS have more ports, or end "
			     "what uses them.",
			     text_of(at, "address"), text_of(facts, "ports"), text_of(at, "error"));
		}
		if (*text_of(facts, "confined_by"))
			find(hosts, "confined", DOCTOR_WARNING, name_of(hosts, i),
			     "%.120s keeps Tributary from %.20s, which is up and faster (%s)|TRIBUTARY_IF=%.20s lets it use "
			     "that interface; NCCL's own variable may stay.",
			     text_of(facts, "confined_by"), text_of(facts, "left_out"),
			     units_bits(json_number_value(json_object_get(facts, "left_out_Bps")), rate),
			     text_of(facts, "left_out"));
	}
}

/* ------------------------------------------------------------------------------------------------------- between hosts */

static size_t interface_count(const struct hosts *hosts, size_t i)
{
	size_t count = json_array_size(json_object_get(facts_of(hosts, i), "interfaces"));

	return count < CHECK_INTERFACES_MAX ? count : CHECK_INTERFACES_MAX;
}

static const json_t *interface_of(const struct hosts *hosts, size_t i, json_int_t number)
{
	return json_array_get(json_object_get(facts_of(hosts, i), "interfaces"), (size_t)number);
}

/* Of what stands in TCP's way: where it does not carry the network, it may still be what ranks meet over. */
static enum doctor_severity in_the_way(const struct hosts *hosts, size_t i)
{
	const char *network = fact(hosts, i, "network");

	return !network || !strcmp(network, "TCP") ? DOCTOR_ERROR
	       : !strcmp(network, "RDMA")          ? DOCTOR_WARNING
						   : DOCTOR_NOTE;
}

struct attempt {
	json_int_t host, from, to, error, packet;
};

/* Of what there is. */
static bool read_attempt(const struct hosts *hosts, const json_t *host, size_t k, struct attempt *ret)
{
	const json_t *entry = json_array_get(json_object_get(host, "reach"), k);

	*ret = (struct attempt){
		json_integer_value(json_array_get(entry, 0)), json_integer_value(json_array_get(entry, 1)),
		json_integer_value(json_array_get(entry, 2)), json_integer_value(json_array_get(entry, 3)),
		json_integer_value(json_array_get(entry, 4)),
	};
	return json_array_size(entry) == 5 && ret->host >= 0 && ret->host < (json_int_t)hosts->count && ret->to >= 0 &&
	       ret->to < CHECK_INTERFACES_MAX;
}

/* hosts->errors: 0: over some interface; else the error that tells most. -1: not tried. */
static int note_attempts(struct hosts *hosts)
{
	size_t cells = hosts->count * CHECK_HOSTS_MAX * CHECK_INTERFACES_MAX;
	struct attempt at;

	hosts->errors = sys_zalloc((hosts->count + 1) * sizeof(*hosts->errors));
	if (!hosts->errors)
		return -ENOMEM;
	memset(hosts->errors, -1, cells * sizeof(hosts->errors[0][0][0]));
	for (size_t from = 0; from < hosts->count; from++) {
		const json_t *host = host_at(hosts->at, from);

		for (size_t k = 0; k < json_array_size(json_object_get(host, "reach")); k++) {
			int16_t *cell;

			if (!read_attempt(hosts, host, k, &at))
				continue;
			cell = &hosts->errors[from][at.host][at.to];
			if (at.error == 0)
				*cell = 0;
			else if (*cell < 0 || (*cell && (at.from == CHECK_AS_ROUTED || *cell == ENETUNREACH)))
				*cell = at.error > 0 && at.error < 4096 ? (int16_t)at.error : EPROTO;
		}
	}
	return 0;
}

/* Interfaces of a host that all others reach which tried, as TRIBUTARY_IF takes them; "": none. */
static void add_common(const struct hosts *hosts, size_t to, char *ret, size_t ret_bytes)
{
	ret[0] = '\0';
	for (size_t k = 0; k < interface_count(hosts, to); k++) {
		size_t used = strlen(ret);
		bool all = true;

		for (size_t from = 0; from < hosts->count; from++)
			all &= hosts->errors[from][to][k] <= 0;
		if (all)
			snprintf(ret + used, ret_bytes - used, "%s%.20s", used ? "," : "=",
				 text_of(interface_of(hosts, to, (json_int_t)k), "name"));
	}
}

static void report_unreached(struct hosts *hosts, size_t to, size_t interface, const struct set *from, int error)
{
	const json_t *at = interface_of(hosts, to, (json_int_t)interface);
	const char *ports = text_of(facts_of(hosts, to), "ports"), *address = text_of(at, "address");
	char subject[128], names[LIST_BYTES], common[128];

	list(hosts, from, false, names);
	snprintf(subject, sizeof(subject), "%.60s:%.20s", name_of(hosts, to), text_of(at, "name"));
	add_common(hosts, to, common, sizeof(common));
	if (!strncmp(address, "127.", 4) || !strcmp(address, "::1"))
		find(hosts, "route", in_the_way(hosts, to), subject,
		     "%.60s is a loopback address, which %s cannot reach|Set another interface up and give it an address, "
		     "or let TRIBUTARY_IF name it; `tributary devices` shows what there is.",
		     address, names);
	else if (error == EPROTO)
		find(hosts, "address", in_the_way(hosts, to), subject,
		     "at %.60s not this host answers %s|The address must be this host's alone; TRIBUTARY_IF names other "
		     "interfaces.",
		     address, names);
	else if (error == ETIMEDOUT || error == ECONNREFUSED)
		find(hosts, "ports", in_the_way(hosts, to), subject,
		     "%.60s TCP port %d does not answer %s: %s|Open TCP ports %.20s between the hosts in both directions%s.",
		     address, (int)json_integer_value(json_object_get(at, "port")), names,
		     error == ETIMEDOUT ? "packets are lost or dropped by a firewall"
					: "refused, as a firewall or a proxy does",
		     strcmp(ports, "any") ? ports : "1024-65535",
		     strcmp(ports, "any") ? "" : ", or set TRIBUTARY_PORTS=LOW-HIGH and open those");
	else
		find(hosts, "route", in_the_way(hosts, to), subject,
		     "%.60s cannot be reached from %s: %s|NCCL may choose that address. Add a route, or %s%s%s%s.",
		     address, names, strerror(error),
		     *common ? "set TRIBUTARY_IF=" : "let TRIBUTARY_IF name interfaces of one network on all hosts",
		     common, *common ? " on " : "", *common ? name_of(hosts, to) : "");
}

/* Which addresses some do not reach. */
static void look_at_addresses(struct hosts *hosts)
{
	for (size_t to = 0; to < hosts->count; to++)
		for (size_t k = 0; k < interface_count(hosts, to); k++) {
			struct set by_error[3] = { { .count = 0 } };
			int exact[3] = { 0 };

			for (size_t from = 0; from < hosts->count; from++) {
				int error = hosts->errors[from][to][k], kind;

				if (error <= 0)
					continue;
				kind = error == EPROTO ? 2 : error == ETIMEDOUT || error == ECONNREFUSED ? 1 : 0;
				exact[kind] = exact[kind] ? exact[kind] : error;
				put_in(&by_error[kind], from);
			}
			for (size_t kind = 0; kind < 3; kind++)
				if (by_error[kind].count)
					report_unreached(hosts, to, k, &by_error[kind], exact[kind]);
		}
}

/* What of a host's own interface is wrong although its address may be reached: it reaches nobody, or no long packet. */
static void look_at_own(struct hosts *hosts, size_t i, size_t interface)
{
	const json_t *host = host_at(hosts->at, i), *at = interface_of(hosts, i, (json_int_t)interface);
	struct set lost = { .count = 0 }, short_only = { .count = 0 };
	char subject[128], names[LIST_BYTES], limit[40];
	json_int_t passes = 0;
	bool reaches = false;
	struct attempt attempt;

	for (size_t k = 0; k < json_array_size(json_object_get(host, "reach")); k++) {
		if (!read_attempt(hosts, host, k, &attempt) || attempt.from != (json_int_t)interface)
			continue;
		reaches |= attempt.error == 0;
		/* A route leads there, and another way does, too. */
		if ((attempt.error == ETIMEDOUT || attempt.error == EHOSTUNREACH) &&
		    hosts->errors[i][attempt.host][attempt.to] == 0)
			put_in(&lost, (size_t)attempt.host);
		if (attempt.error == 0 && attempt.packet > 0) {
			put_in(&short_only, (size_t)attempt.host);
			passes = !passes || attempt.packet < passes ? attempt.packet : passes;
		}
	}
	snprintf(subject, sizeof(subject), "%.60s:%.20s", name_of(hosts, i), text_of(at, "name"));
	if (lost.count && !reaches)
		find(hosts, "interface", in_the_way(hosts, i) == DOCTOR_ERROR ? DOCTOR_WARNING : DOCTOR_NOTE, subject,
		     "through it nobody is reached: no answer from %s|Look at its cable, VLAN and switch port, and at "
		     "rp_filter; or let TRIBUTARY_IF leave it out.",
		     list(hosts, &lost, false, names));
	if (!short_only.count)
		return;
	snprintf(limit, sizeof(limit), "%d", (int)passes);
	find(hosts, "mtu", in_the_way(hosts, i), subject,
	     "packets of %d bytes do not reach %s, and nothing says so (a black hole); %s%s|Set the MTU of the switches on "
	     "the way to %d or more, or that of all hosts' interfaces to %s.",
	     (int)json_integer_value(json_object_get(at, "mtu_bytes")), list(hosts, &short_only, false, names),
	     passes > 1 ? "they pass up to " : "nor do those of 1280", passes > 1 ? limit : "",
	     (int)json_integer_value(json_object_get(at, "mtu_bytes")), passes > 1 ? limit : "what passes");
}

/* --------------------------------------------------------------------------------------------------------------- whole */

int check_conclude(const json_t *hosts, struct check_report *ret)
{
	struct hosts all = { .at = hosts, .count = json_array_size(hosts) };

	if (all.count > CHECK_HOSTS_MAX)
		all.count = CHECK_HOSTS_MAX;
	if (note_attempts(&all) < 0)
		return -ENOMEM;
	look_at_answers(&all);
	look_at_plugins(&all);
	look_at_settings(&all);
	look_at_network(&all);
	look_at_files(&all);
	look_at_interfaces(&all);
	look_at_addresses(&all);
	for (size_t i = 0; i < all.count; i++)
		for (size_t k = 0; k < interface_count(&all, i); k++)
			look_at_own(&all, i, k);
	look_at_clocks(&all);
	sys_free(all.errors);
	if (all.report.result < 0) {
		check_report_fini(&all.report);
		return -ENOMEM;
	}
	*ret = all.report;
	return 0;
}
