/* SPDX-License-Identifier: Apache-2.0 */
/* From what all hosts say to what is wrong with them. What one says may be anything: missing, of another type, out of range. */
#include "command/check/check.h"

#include "base/sys.h"
#include "transport/tcp/confined.h"
#include "transport/tcp/reach.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_MAX = 4, LIST_BYTES = 160, SUBJECT_BYTES = 128 };
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

static const json_t *host_of(const struct hosts *hosts, size_t i)
{
	return json_array_get(hosts->at, i);
}

static const json_t *facts_of(const struct hosts *hosts, size_t i)
{
	return json_object_get(host_of(hosts, i), "facts");
}

static const char *name_of(const struct hosts *hosts, size_t i)
{
	return json_text_of(host_of(hosts, i), "name");
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

/* -------------------------------------------------------------------------------------------------------- what hosts say */

enum rule_kind {
	SAYS,  /* what hosts say of a fault: each sentence once */
	SAME,  /* all have the same; shown */
	EQUAL, /* the same; not shown */
	EACH,  /* the same, of each member of the object */
};
static const struct rule {
	const char *check, *key; /* of the facts: "plugin.version" of an object in them */
	enum rule_kind kind;
	enum doctor_severity severity;
	const char *what, *remedy;
} rules[] = {
	{ "plugin", "plugin.error", SAYS, DOCTOR_ERROR, NULL,
	  "Install the same package on all hosts, or add the library's folder to LD_LIBRARY_PATH; `tributary env` prints what to "
	  "set." },
	{ "env-plugin", "env_plugin.error", SAYS, DOCTOR_WARNING, NULL,
	  "Without the environment half NCCL takes no planned channels. Install libnccl-env-tributary.so beside the plugin." },
	{ "version", "plugin.version", SAME, DOCTOR_ERROR, "the plugin", "Install the same release on all hosts." },
	{ "version", "plugin.other", SAYS, DOCTOR_WARNING, NULL,
	  "Remove the older one, or its folder from LD_LIBRARY_PATH." },
	{ "settings", "settings", EACH, DOCTOR_ERROR, NULL,
	  "Give all hosts the same value; also in /etc/nccl.conf and ~/.nccl.conf." },
	{ "network", "network", SAME, DOCTOR_ERROR, "the network",
	  "TRIBUTARY_NET=tcp or verbs on all hosts makes it one." },
	{ "network", "reason", SAYS, DOCTOR_NOTE, NULL, "Nothing is wrong with it where that is what is wanted." },
	{ "secret", "secret.error", SAYS, DOCTOR_ERROR, NULL,
	  "TRIBUTARY_SECRET must name a file that only its owner can read." },
	{ "secret", "secret.proof", EQUAL, DOCTOR_ERROR, "the secret",
	  "Copy one host's file of TRIBUTARY_SECRET to the others." },
	{ "cluster-file", "cluster.error", SAYS, DOCTOR_ERROR, NULL,
	  "TRIBUTARY_CLUSTER must name the same readable file on all hosts." },
	{ "cluster-file", "cluster.digest", EQUAL, DOCTOR_ERROR, "the cluster file",
	  "Copy one host's file of TRIBUTARY_CLUSTER to the others." },
	{ "cluster-file", "cluster.unlisted", SAYS, DOCTOR_WARNING, NULL,
	  "Add the host under its leaf, by the name that `hostname` prints there; `tributary cluster measure` writes such a file." },
	{ "interfaces", "interfaces_error", SAYS, DOCTOR_ERROR, NULL,
	  "`tributary devices` shows what there is; TRIBUTARY_IF names interfaces." },
	{ "interfaces", "confined", SAYS, DOCTOR_WARNING, NULL, TCP_CONFINED_REMEDY "." },
};

/* Of host i; NULL: it has none, and is not compared. */
static const char *fact(const struct hosts *hosts, size_t i, const char *key)
{
	const json_t *facts = facts_of(hosts, i), *object = facts;
	const char *dot = strchr(key, '.'), *name = dot ? dot + 1 : key, *text;
	char first[32];

	if (dot) {
		snprintf(first, sizeof(first), "%.*s", (int)(dot - key), key);
		object = json_object_get(facts, first);
	}
	text = json_text_of(object, name);
	if (!*text && json_is_object(facts) && !strncmp(key, "settings.", strlen("settings.")))
		return json_object_get(object, name) ? "empty" : "unset";
	return *text ? text : NULL;
}

/* Whether no host before it has the value of host i; those that have. */
static bool alike(const struct hosts *hosts, const char *key, size_t i, struct set *ret)
{
	const char *own = fact(hosts, i, key);

	*ret = (struct set){ .count = 0 };
	for (size_t k = 0; own && k < hosts->count; k++) {
		const char *other = fact(hosts, k, key);

		if (other && !strcmp(other, own))
			put_in(ret, k);
		if (ret->count && k < i)
			return false;
	}
	return own != NULL;
}

static void apply_says(struct hosts *hosts, const struct rule *rule)
{
	char names[LIST_BYTES];
	struct set set;

	for (size_t i = 0; i < hosts->count; i++)
		if (alike(hosts, rule->key, i, &set))
			find(hosts, rule->check, rule->severity, list(hosts, &set, true, names), "%s|%s",
			     fact(hosts, i, rule->key), rule->remedy);
}

/* "what is X on a, b; Y on c": the subject is all but those with the value that most have. */
static void apply_same(struct hosts *hosts, const struct rule *rule, const char *key, const char *what)
{
	struct set most = { .count = 0 }, others = { .count = 0 }, set;
	char text[400] = "", names[LIST_BYTES];
	size_t kinds = 0;

	for (size_t i = 0; i < hosts->count; i++) {
		size_t used = strlen(text);

		if (!alike(hosts, key, i, &set))
			continue;
		snprintf(text + used, sizeof(text) - used, "%s%.60s on %s", kinds ? "; " : "",
			 rule->kind != EQUAL ? fact(hosts, i, key)
			 : kinds             ? "another"
					     : "one",
			 list(hosts, &set, false, names));
		kinds++;
		if (set.count > most.count)
			most = set;
	}
	for (size_t i = 0; i < hosts->count; i++)
		if (fact(hosts, i, key) && !most.has[i])
			put_in(&others, i);
	if (others.count)
		find(hosts, rule->check, rule->severity, list(hosts, &others, true, names), "%s is %s|%s", what, text,
		     rule->remedy);
}

static void apply_each(struct hosts *hosts, const struct rule *rule)
{
	json_t *seen = json_object(), *value; /* in the order in which they are met */
	const char *name;
	char key[128];

	for (size_t i = 0; i < hosts->count; i++)
		json_object_update_missing(seen, json_object_get(facts_of(hosts, i), rule->key));
	json_object_foreach(seen, name, value)
	{
		snprintf(key, sizeof(key), "%s.%s", rule->key, name);
		apply_same(hosts, rule, key, name);
	}
	json_decref(seen);
}

/* ---------------------------------------------------------------------------------------------------------- each host */

static const char *subject_of(const struct hosts *hosts, size_t i, const json_t *interface,
			      char text[static SUBJECT_BYTES])
{
	snprintf(text, SUBJECT_BYTES, "%.60s:%.20s", name_of(hosts, i), json_text_of(interface, "name"));
	return text;
}

static void look_at_host(struct hosts *hosts, size_t i)
{
	const json_t *host = host_of(hosts, i), *facts = facts_of(hosts, i);
	const char *why = json_text_of(host, "why");
	char subject[SUBJECT_BYTES];
	json_t *at;
	size_t k;

	if (*why || !json_is_object(facts))
		find(hosts, "host", DOCTOR_ERROR, name_of(hosts, i), "does not answer: %s|%s",
		     *why ? why : "what it says is no answer", json_text_of(host, "remedy"));
	json_array_foreach(json_object_get(facts, "complaints"), k, at) if (json_is_string(at))
		find(hosts, "settings", DOCTOR_WARNING, name_of(hosts, i),
		     "%s|Correct the value there, or unset the variable.", json_string_value(at));
	json_array_foreach(json_object_get(facts, "interfaces"), k, at) if (*json_text_of(at, "error")) find(
		hosts, "ports", DOCTOR_ERROR, subject_of(hosts, i, at, subject),
		"cannot listen on %.60s, TCP ports %.20s: %.60s|Let TRIBUTARY_PORTS have more ports, or end what uses "
		"them.",
		json_text_of(at, "address"), json_text_of(facts, "ports"), json_text_of(at, "error"));
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
		const json_t *offset = json_object_get(host_of(hosts, i), "offset_ns");

		if (json_is_number(offset))
			all[count++] = json_number_value(offset);
	}
	if (count < 2)
		return;
	qsort(all, count, sizeof(*all), by_value);
	median = all[(count - 1) / 2];
	for (size_t i = 0; i < hosts->count; i++) {
		const json_t *host = host_of(hosts, i), *offset = json_object_get(host, "offset_ns");
		double off = json_number_value(offset) - median;
		double doubt = json_number_value(json_object_get(host, "round_trip_ns"));

		if (json_is_number(offset) && (off < 0 ? -off : off) - doubt > CLOCK_NS)
			find(hosts, "clock", DOCTOR_WARNING, name_of(hosts, i),
			     "its clock is %.1f s %s the others'|Let chrony or another NTP client set it: lines of logs and "
			     "dates of measurements cannot be compared.",
			     1e-9 * (off < 0 ? -off : off), off < 0 ? "behind" : "ahead of");
	}
}

/* ------------------------------------------------------------------------------------------------------- between hosts */

static const json_t *interface_of(const struct hosts *hosts, size_t i, size_t number)
{
	return number < CHECK_INTERFACES_MAX ? json_array_get(json_object_get(facts_of(hosts, i), "interfaces"), number)
					     : NULL;
}

/* Of what stands in TCP's way: where it does not carry the network, it may still be what ranks meet over. */
static enum doctor_severity in_the_way(const struct hosts *hosts, size_t i)
{
	const char *network = fact(hosts, i, "network");

	return !network || !strcmp(network, "TCP") ? DOCTOR_ERROR
	       : !strcmp(network, "RDMA")          ? DOCTOR_WARNING
						   : DOCTOR_NOTE;
}

bool check_attempt(const json_t *hosts, const json_t *host, size_t k, struct check_attempt *ret)
{
	json_t *entry = json_array_get(json_object_get(host, "reach"), k);
	size_t count = json_array_size(hosts) < CHECK_HOSTS_MAX ? json_array_size(hosts) : CHECK_HOSTS_MAX;

	return json_unpack(entry, "[iiiii]", &ret->host, &ret->from, &ret->to, &ret->error, &ret->packet) == 0 &&
	       ret->host >= 0 && (size_t)ret->host < count && ret->to >= 0 && ret->to < CHECK_INTERFACES_MAX;
}

/* hosts->errors: 0: over some interface; else the error that tells most. -1: not tried. */
static int note_attempts(struct hosts *hosts)
{
	struct check_attempt at;

	hosts->errors = sys_zalloc((hosts->count + 1) * sizeof(*hosts->errors));
	if (!hosts->errors)
		return -ENOMEM;
	memset(hosts->errors, -1, hosts->count * sizeof(*hosts->errors));
	for (size_t from = 0; from < hosts->count; from++) {
		const json_t *host = host_of(hosts, from);

		for (size_t k = 0; k < json_array_size(json_object_get(host, "reach")); k++) {
			int16_t *cell;

			if (!check_attempt(hosts->at, host, k, &at))
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
	const json_t *at;

	ret[0] = '\0';
	for (size_t k = 0; (at = interface_of(hosts, to, k)); k++) {
		size_t used = strlen(ret);
		bool all = true;

		for (size_t from = 0; from < hosts->count; from++)
			all &= hosts->errors[from][to][k] <= 0;
		if (all)
			snprintf(ret + used, ret_bytes - used, "%s%.20s", used ? "," : "=", json_text_of(at, "name"));
	}
}

/* EPROTO: what answers hangs up on a token that is not its own. */
static enum tcp_reach reach_of(int error)
{
	return error == EPROTO ? TCP_REACH_SECRET : tcp_reach_of(-error, false);
}

static const char *check_of(enum tcp_reach reach)
{
	switch (reach) {
	case TCP_REACH_SECRET:
		return "address";
	case TCP_REACH_SILENT:
	case TCP_REACH_REFUSED:
	case TCP_REACH_CLOSED:
	case TCP_REACH_STOPPED:
		return "ports";
	default:
		return "route";
	}
}

/* It reaches another address of that host: Tributary takes that way. */
static bool has_another_way(const struct hosts *hosts, size_t from, size_t to)
{
	for (size_t k = 0; k < CHECK_INTERFACES_MAX; k++)
		if (hosts->errors[from][to][k] == 0)
			return true;
	return false;
}

static void report_unreached(struct hosts *hosts, size_t to, const json_t *at, const struct set *from, int error,
			     bool another_way)
{
	const char *ports = json_text_of(facts_of(hosts, to), "ports"), *address = json_text_of(at, "address");
	char subject[SUBJECT_BYTES], names[LIST_BYTES], common[128], reason[TCP_REACH_REASON_BYTES],
		remedy[TCP_REACH_REMEDY_BYTES];
	const struct tcp_reach_facts facts = { .error = -error, .ports = strcmp(ports, "any") ? ports : NULL };
	const enum tcp_reach reach = reach_of(error);
	const int port = (int)json_integer_value(json_object_get(at, "port"));

	tcp_reach_reason(reach, &facts, reason);
	tcp_reach_remedy(reach, &facts, remedy);
	list(hosts, from, false, names);
	subject_of(hosts, to, at, subject);
	add_common(hosts, to, common, sizeof(common));
	if (!strncmp(address, "127.", 4) || !strcmp(address, "::1"))
		find(hosts, "route", in_the_way(hosts, to), subject,
		     "%.60s is a loopback address, which %s cannot reach|Set another interface up and give it an address, "
		     "or let TRIBUTARY_IF name it; `tributary devices` shows what there is.",
		     address, names);
	else if (another_way)
		find(hosts, check_of(reach), DOCTOR_NOTE, subject,
		     "%.60s TCP port %d from %s: %s|Tributary takes another way. Where NCCL's bootstrap takes that address, let "
		     "NCCL_SOCKET_IFNAME%s%s%s%s name what all reach, with TRIBUTARY_IF=^lo beside it.",
		     address, port, names, reason, *common ? "=" : "", common, *common ? " on " : "",
		     *common ? name_of(hosts, to) : "");
	else
		find(hosts, check_of(reach), in_the_way(hosts, to), subject, "%.60s TCP port %d from %s: %s|%s.",
		     address, port, names, reason, remedy);
}

/* Who does not reach it, by what is wrong. */
static void look_at_address(struct hosts *hosts, size_t to, size_t interface)
{
	struct set by_reach[2][TCP_REACH_COUNT] = { { { .count = 0 } } };
	int exact[TCP_REACH_COUNT] = { 0 };

	for (size_t from = 0; from < hosts->count; from++) {
		int error = hosts->errors[from][to][interface];

		if (error <= 0)
			continue;
		exact[reach_of(error)] = error;
		put_in(&by_reach[has_another_way(hosts, from, to)][reach_of(error)], from);
	}
	for (size_t i = 0; i < 2 * (size_t)TCP_REACH_COUNT; i++) {
		const size_t reach = i / 2, another_way = i % 2;

		if (by_reach[another_way][reach].count)
			report_unreached(hosts, to, interface_of(hosts, to, interface), &by_reach[another_way][reach],
					 exact[reach], another_way);
	}
}

static void report_short(struct hosts *hosts, size_t i, const json_t *at, const struct set *short_only, int passes)
{
	const struct tcp_reach_facts facts = {
		.packet_bytes = (unsigned)json_integer_value(json_object_get(at, "mtu_bytes")),
		.passes_bytes = passes > 1 ? (unsigned)passes : 0,
	};
	char subject[SUBJECT_BYTES], names[LIST_BYTES], reason[TCP_REACH_REASON_BYTES], remedy[TCP_REACH_REMEDY_BYTES];

	tcp_reach_reason(TCP_REACH_MTU, &facts, reason);
	tcp_reach_remedy(TCP_REACH_MTU, &facts, remedy);
	find(hosts, "mtu", in_the_way(hosts, i), subject_of(hosts, i, at, subject), "to %s: %s|%s.",
	     list(hosts, short_only, false, names), reason, remedy);
}

/* What of a host's own interface is wrong although its address may be reached: it reaches nobody, or no long packet. */
static void look_at_own(struct hosts *hosts, size_t i, size_t interface)
{
	const json_t *host = host_of(hosts, i), *at = interface_of(hosts, i, interface);
	struct set lost = { .count = 0 }, short_only = { .count = 0 };
	char subject[SUBJECT_BYTES], names[LIST_BYTES];
	struct check_attempt attempt;
	bool reaches = false;
	int passes = 0;

	for (size_t k = 0; k < json_array_size(json_object_get(host, "reach")); k++) {
		if (!check_attempt(hosts->at, host, k, &attempt) || attempt.from != (int)interface)
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
	if (lost.count && !reaches)
		find(hosts, "interface", in_the_way(hosts, i) == DOCTOR_ERROR ? DOCTOR_WARNING : DOCTOR_NOTE,
		     subject_of(hosts, i, at, subject),
		     "through it nobody is reached: no answer from %s|Look at its cable, VLAN and switch port, and at "
		     "rp_filter; or let TRIBUTARY_IF leave it out.",
		     list(hosts, &lost, false, names));
	if (short_only.count)
		report_short(hosts, i, at, &short_only, passes);
}

/* --------------------------------------------------------------------------------------------------------------- whole */

int check_conclude(const json_t *hosts, struct check_report *ret)
{
	struct hosts all = { .at = hosts, .count = json_array_size(hosts) };

	if (all.count > CHECK_HOSTS_MAX)
		all.count = CHECK_HOSTS_MAX;
	if (note_attempts(&all) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < all.count; i++)
		look_at_host(&all, i);
	for (const struct rule *rule = rules; rule < rules + sizeof(rules) / sizeof(rules[0]); rule++) {
		if (rule->kind == SAYS)
			apply_says(&all, rule);
		else if (rule->kind == EACH)
			apply_each(&all, rule);
		else
			apply_same(&all, rule, rule->key, rule->what);
	}
	for (size_t i = 0; i < all.count; i++)
		for (size_t k = 0; interface_of(&all, i, k); k++)
			look_at_address(&all, i, k);
	for (size_t i = 0; i < all.count; i++)
		for (size_t k = 0; interface_of(&all, i, k); k++)
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

void check_report_fini(struct check_report *report)
{
	sys_free(report->at);
	*report = (struct check_report){ .count = 0 };
}
