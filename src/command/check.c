/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary check`: will a job over these hosts work with Tributary, and if not, what is to be done. */
#include "command/check/check.h"

#include "base/clock.h"
#include "base/sys.h"
#include "command/command.h"
#include "command/conf.h"
#include "command/interrupt.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CLOCK_TIMES = 3, TIMEOUT_MAX_S = 600 };
#define FACTS_NS (20 * NS_PER_S)
#define REACH_NS (60 * NS_PER_S) /* what reach.c takes at most, and more */

static const char launcher_remedy[] =
	"Let all ranks have the same MASTER_ADDR, MASTER_PORT and secret, and reach that port; or name the hosts: "
	"`tributary check HOST...` needs only ssh.";
static const char shell_remedy[] =
	"Let the remote shell run there without a question (ssh: keys, known hosts), and install the same release of Tributary there; --rsh "
	"names another shell, --program the command's place.";

/* --------------------------------------------------------------------------------------------------------- questions */

struct check {
	struct clusterprobe_session *session;
	struct clusterprobe_member *members;
	size_t count;
	json_t *hosts;               /* as check_conclude takes them */
	char nonce[CHECK_HEX_BYTES]; /* the same for all, so that what is made of the secret can be compared */
};

static json_t *host_of(const struct check *check, size_t i)
{
	return json_array_get(check->hosts, i);
}

/* The question of each: make(check, i), owned; NULL: none. Answers, parsed, go to take. */
static int ask(struct check *check, uint64_t timeout_ns, json_t *(*make)(const struct check *check, size_t i),
	       void (*take)(const struct check *check, size_t i, json_t *answer))
{
	int r;

	for (size_t i = 0; i < check->count; i++) {
		json_t *question = check->members[i].why[0] ? NULL : make(check, i);

		check->members[i].question = question ? json_dumps(question, JSON_COMPACT) : NULL;
		json_decref(question);
	}
	r = clusterprobe_session_ask(check->session, timeout_ns);
	for (size_t i = 0; i < check->count; i++) {
		struct clusterprobe_member *member = &check->members[i];
		json_t *answer = member->answer ? json_loads(member->answer, 0, NULL) : NULL;

		if (r == 0 && answer)
			take(check, i, answer);
		json_decref(answer);
		free((char *)(uintptr_t)member->question);
		member->question = NULL;
	}
	return r;
}

static json_t *make_facts(const struct check *check, size_t i)
{
	return json_pack("{ss ss sI}", "ask", "facts", "nonce", check->nonce, "host", (json_int_t)i);
}

static void take_facts(const struct check *check, size_t i, json_t *answer)
{
	json_object_set(host_of(check, i), "facts", answer);
}

static json_t *make_clock(const struct check *check, size_t i)
{
	(void)check, (void)i;
	return json_pack("{ss}", "ask", "clock");
}

/* Of the answer that took least time. */
static void take_clock(const struct check *check, size_t i, json_t *answer)
{
	const struct clusterprobe_member *member = &check->members[i];
	uint64_t round_trip_ns = clock_elapsed_ns(member->sent_ns, member->came_ns), now_ns = clock_now_ns();
	const json_t *before = json_object_get(host_of(check, i), "round_trip_ns");
	json_int_t theirs_ns = json_integer_value(json_object_get(answer, "now_ns")), own_ns;
	struct timespec now;

	if (before && json_number_value(before) <= (double)round_trip_ns)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	/* When it was half-way there and back. */
	own_ns = (json_int_t)now.tv_sec * 1000000000 + now.tv_nsec -
		 (json_int_t)(clock_elapsed_ns(member->sent_ns, now_ns) - round_trip_ns / 2);
	json_object_set_new(host_of(check, i), "offset_ns", json_real((double)theirs_ns - (double)own_ns));
	json_object_set_new(host_of(check, i), "round_trip_ns", json_real((double)round_trip_ns));
}

static void add_peer(const struct check *check, size_t to, json_t *peers)
{
	const json_t *list = json_object_get(json_object_get(host_of(check, to), "facts"), "interfaces");
	json_t *at = json_array();

	for (size_t k = 0; k < json_array_size(list) && k < CHECK_INTERFACES_MAX; k++) {
		json_t *address = json_object_get(json_array_get(list, k), "address");
		json_t *port = json_object_get(json_array_get(list, k), "port");

		json_array_append_new(at, json_pack("[O?, O?]", address, port));
	}
	json_array_append_new(peers, json_pack("{sI so}", "host", (json_int_t)to, "at", at));
}

/* All others; of many those at distances of a power of two, before and behind: so every pair that tries does so both ways. */
static json_t *make_reach(const struct check *check, size_t i)
{
	size_t count = check->count;
	json_t *peers = json_array();
	bool taken[CHECK_HOSTS_MAX] = { false };

	for (size_t distance = 1; distance < count; distance += CHECK_PEERS_MAX < count - 1 ? distance : 1)
		taken[(i + distance) % count] = taken[(i + count - distance) % count] = true;
	for (size_t to = 0; to < count; to++)
		if (taken[to] && to != i && json_object_get(host_of(check, to), "facts"))
			add_peer(check, to, peers);
	return json_pack("{ss ss so}", "ask", "reach", "nonce", check->nonce, "peers", peers);
}

static void take_reach(const struct check *check, size_t i, json_t *answer)
{
	json_object_set(host_of(check, i), "reach", json_object_get(answer, "reach"));
}

static int ask_all(struct check *check)
{
	int r = check_random_key(check->nonce);

	check->hosts = json_array();
	for (size_t i = 0; i < check->count; i++)
		json_array_append_new(check->hosts, json_pack("{so}", "name", json_text(check->members[i].name)));
	if (r == 0)
		r = ask(check, FACTS_NS, make_facts, take_facts);
	for (unsigned i = 0; i < CLOCK_TIMES && r == 0; i++)
		r = ask(check, FACTS_NS, make_clock, take_clock);
	if (r == 0)
		r = ask(check, REACH_NS, make_reach, take_reach);
	return r;
}

static int conclude(const struct command_call *call, const struct check *check, const char *remedy, FILE *out)
{
	struct check_report report;
	int status;

	for (size_t i = 0; i < check->count; i++) {
		if (!check->members[i].why[0])
			continue;
		json_object_set_new(host_of(check, i), "why", json_text(check->members[i].why));
		json_object_set_new(host_of(check, i), "remedy", json_text(remedy));
	}
	if (check_conclude(check->hosts, &report) < 0)
		return command_failed(NULL, ENOMEM, "check");
	status = check_print(call, check->hosts, &report, out);
	check_report_fini(&report);
	return status;
}

static int failed(const struct diag *diag, int r)
{
	return command_failed(NULL, diag->text[0] ? 0 : r, "%s",
			      diag->text[0] ? diag->text
			      : r == -EINTR ? "interrupted"
					    : "the hosts cannot be asked");
}

/* -------------------------------------------------------------------------------------------------- by remote shells */

static int check_names(char **names, size_t count)
{
	if (count > CHECK_HOSTS_MAX)
		return command_usage_error("check", "at most %d hosts", CHECK_HOSTS_MAX);
	for (size_t i = 0; i < count; i++) {
		if (!*names[i] || *names[i] == '-')
			return command_usage_error("check", "\"%.60s\" is no host's name", names[i]);
		if (strlen(names[i]) >= CLUSTERPROBE_NAME_BYTES)
			return command_usage_error(
				"check", "\"%.60s...\" is too long for a name here: give a shorter one of the host",
				names[i]);
		for (size_t j = 0; j < i; j++)
			if (!strcmp(names[i], names[j]))
				return command_usage_error("check", "%s is named twice", names[i]);
	}
	return COMMAND_OK;
}

/* This program, as the hosts have it too. A remote shell takes the words apart once more. */
static int find_program(const struct command_call *call, char ret[static PATH_MAX])
{
	const char *given = command_value(call, "program");
	ssize_t bytes = given ? snprintf(ret, PATH_MAX, "%s", given) : readlink("/proc/self/exe", ret, PATH_MAX - 1);

	if (bytes <= 0 || bytes >= PATH_MAX)
		return command_usage_error("check", "--program PATH: this program's own place is not known");
	ret[bytes] = '\0';
	if (ret[strspn(ret, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-@,:~")])
		return command_usage_error(
			"check", "--program PATH: \"%.200s\" has characters that a shell would take apart", ret);
	return COMMAND_OK;
}

static int check_hosts(const struct command_call *call, struct clusterprobe_setup setup, FILE *out)
{
	struct control_secret secret = { .count = CHECK_HEX_BYTES - 1 };
	size_t count = call->operand_count;
	struct clusterprobe_member *members = sys_zalloc(count * sizeof(*members));
	struct check_shell *shells = sys_zalloc(count * sizeof(*shells));
	struct check check = { .members = members, .count = count };
	char program[PATH_MAX];
	struct diag diag = { 0 };
	int status = check_names(call->rest, count), r = members && shells ? 0 : -ENOMEM;

	if (status == COMMAND_OK)
		status = find_program(call, program);
	if (r == 0)
		r = check_random_key((char *)secret.bytes);
	if (status != COMMAND_OK || r < 0)
		goto end;
	for (size_t i = 0; i < count; i++)
		snprintf(members[i].name, sizeof(members[i].name), "%s", call->rest[i]);
	setup.secret = &secret;
	setup.launch.size = (uint32_t)count;
	check_shells_start(command_value(call, "rsh"), program, &setup, members, shells, count);
	r = clusterprobe_session_open(&setup, members, count, &check.session, &diag);
	if (r == 0)
		r = ask_all(&check);
	clusterprobe_session_close(check.session);
	check_shells_end(members, shells, count);
	if (r == 0)
		status = conclude(call, &check, shell_remedy, out);
end:
	if (status == COMMAND_OK && r < 0)
		status = failed(&diag, r);
	control_secret_forget(&secret);
	json_decref(check.hosts);
	sys_free(members);
	sys_free(shells);
	return status;
}

/* -------------------------------------------------------------------------------------------------------- by a launcher */

static int check_job(const struct command_call *call, struct clusterprobe_setup setup, FILE *out)
{
	struct check check = { .count = 0 };
	struct control_secret secret;
	struct params params;
	struct diag diag = { 0 };
	int r, status = command_find_launch(call, "; or name the hosts: tributary check HOST...", &params, &secret,
					    &setup);

	if (status != COMMAND_OK)
		return status;
	if (setup.launch.rank) {
		r = clusterprobe_worker_run(&setup, &diag);
		status = r < 0 ? failed(&diag, r) : COMMAND_OK;
	} else {
		r = clusterprobe_session_open(&setup, NULL, 0, &check.session, &diag);
		if (r == 0)
			check.members = clusterprobe_session_members(check.session, &check.count);
		if (r == 0 && check.count > CHECK_HOSTS_MAX) {
			diag_set(&diag, 0, 0, "more than %d hosts: check a part of them", CHECK_HOSTS_MAX);
			r = -E2BIG;
		}
		if (r == 0)
			r = ask_all(&check);
		status = r < 0 ? failed(&diag, r) : conclude(call, &check, launcher_remedy, out);
		clusterprobe_session_close(check.session);
		json_decref(check.hosts);
	}
	control_secret_forget(&secret);
	return status;
}

static int work(struct clusterprobe_setup setup)
{
	struct control_secret secret = { .count = 0 };
	struct clusterprobe_pipe pipe = { -1, -1 };
	struct diag diag = { 0 };
	int r = check_shell_answer(&secret, &setup.launch.rank, &pipe, &diag);

	if (r < 0)
		return failed(&diag, r);
	conf_load();
	setup.secret = &secret;
	setup.pipe = &pipe;
	setup.timeout_ns = 2 * TIMEOUT_MAX_S *
			   NS_PER_S; /* others may keep the coordinator waiting; if it ends, so does the pipe */
	r = clusterprobe_worker_run(&setup, &diag);
	control_secret_forget(&secret);
	return r < 0 ? failed(&diag, r) : COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	struct check_worker *worker = sys_zalloc(sizeof(*worker));
	struct clusterprobe_setup setup = { .stop = &interrupt_wanted, .answer = check_worker_answer };
	uint64_t seconds = 0;
	int status = command_number(call, "timeout", 1, TIMEOUT_MAX_S, &seconds);

	if (!worker)
		return command_failed(NULL, ENOMEM, "check");
	worker->stop = setup.stop;
	setup.answer_arg = worker;
	setup.timeout_ns = seconds * NS_PER_S;
	if (gethostname(setup.name, sizeof(setup.name) - 1) < 0)
		snprintf(setup.name, sizeof(setup.name), "host");
	if (status == COMMAND_OK) {
		command_raise_descriptors();
		interrupt_catch();
		status = command_given(call, "worker") ? work(setup)
			 : call->operand_count         ? check_hosts(call, setup, out)
						       : check_job(call, setup, out);
	}
	check_worker_fini(worker);
	sys_free(worker);
	return status;
}

const struct command command_check = {
	.name = "check",
	.group = COMMAND_JOBS,
	.operands = "[HOST...]",
	.help = "will a job over these hosts work with Tributary, and if not, what to do",
	.about =
		"Before a job: starts itself on each HOST by ssh, or, without a HOST, is started on every host by srun, mpirun or "
		"torchrun as `tributary cluster measure` is. Checks that the plugin loads, that versions, settings, secret, "
		"cluster file and clocks agree, which addresses reach which, and that long packets pass. TRIBUTARY_* and NCCL_* "
		"variables that are set here are set on each HOST, too. One line for each finding, the worst first: check, "
		"verdict, subject, evidence; then its remedy. docs/guide/check.md lists the checks.\n"
		"Exit status 3: the worst finding is a warning; 4: it is an error.",
	.options = { { "rsh", "COMMAND",
		       "the remote shell and its options, {} for HOST (kubectl exec -i {} --); without it ssh", NULL },
		     { "program", "PATH", "this program on the hosts; without it as here", NULL },
		     { "timeout", "SECONDS", "how long a host may take to answer at first", "15" },
		     { "master", "ADDRESS",
		       "under a launcher, where rank 0 listens; without it MASTER_ADDR and MASTER_PORT", NULL },
		     { "secret", "FILE",
		       "under a launcher, the secret that all hosts share; without it that of TRIBUTARY_SECRET", NULL },
		     { "worker", NULL, "what `tributary check` starts on each host", NULL },
		     COMMAND_OPTION_JSON,
		     COMMAND_OPTION_COLOR },
	.example = "tributary check gpu1 gpu2",
	.run = run,
};
