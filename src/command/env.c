/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary env`: what to export before a job. */
#include "command/env.h"

#include "aggregate/gain.h"
#include "aggregate/schedule.h"
#include "base/params.h"
#include "base/parse.h"
#include "base/text_file.h"
#include "cluster/file.h"
#include "command/json.h"
#include "command/term.h"
#include "plugin/choose.h"
#include "plugin/steer/settings.h"
#include "profile/fingerprint.h"
#include "profile/profile.h"
#include "profile/store.h"
#include "transport/tcp/interface.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY     "libnccl-net-tributary.so"
#define ENV_LIBRARY "libnccl-env-tributary.so" /* a link to it */
#define PLUGIN_NAME "tributary"
#define SEARCH_PATH "LD_LIBRARY_PATH"

/* ---------------------------------------------------------------------------------------------------------- the library */

/* As NCCL finds it: by the loader's own search. */
static bool found_by_loader(const char *name, char path[static PATH_MAX])
{
	void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map = NULL;
	bool is_found;

	if (!library)
		return false;
	is_found = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map &&
		   snprintf(path, PATH_MAX, "%s", map->l_name) > 0;
	dlclose(library);
	return is_found;
}

bool env_find_beside(char path[static PATH_MAX])
{
	static const char *const places[] = { "/lib", "/../lib", "/../lib64" };
	char program[PATH_MAX], candidate[PATH_MAX];
	ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *end;

	if (bytes <= 0)
		return false;
	program[bytes] = '\0';
	end = strrchr(program, '/');
	if (!end)
		return false;
	*end = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int length = snprintf(candidate, sizeof(candidate), "%s%s/" LIBRARY, program, places[i]);

		if (length > 0 && (size_t)length < sizeof(candidate) && realpath(candidate, path) &&
		    access(path, R_OK) == 0)
			return true;
	}
	return false;
}

/* Whether NCCL finds the same file by the name of the environment half: another one would have data of its own. */
static bool has_env_name(const struct env *env, bool by_loader)
{
	char path[PATH_MAX], named[PATH_MAX], library[PATH_MAX];
	int folder_bytes = (int)(strrchr(env->library, '/') - env->library);

	if (by_loader ? !found_by_loader(ENV_LIBRARY, path)
		      : snprintf(path, sizeof(path), "%.*s/" ENV_LIBRARY, folder_bytes, env->library) >= PATH_MAX)
		return false;
	return realpath(path, named) && realpath(env->library, library) && !strcmp(named, library);
}

/* --------------------------------------------------------------------------------------------------------- the variables */

__attribute__((format(printf, 3, 4))) static void add(struct env *env, const char *name, const char *fmt, ...)
{
	struct env_variable *variable = &env->variables[env->count++];
	va_list args;

	variable->name = name;
	va_start(args, fmt);
	vsnprintf(variable->value, sizeof(variable->value), fmt, args);
	va_end(args);
}

static int add_library(struct env *env, bool *ret_has_env_name)
{
	const char *path = getenv(SEARCH_PATH);
	bool by_loader = found_by_loader(LIBRARY, env->library);

	if (!by_loader && !env_find_beside(env->library))
		return command_failed(NULL, ENOENT, "%s is neither where the loader looks nor beside this program",
				      LIBRARY);
	*ret_has_env_name = has_env_name(env, by_loader);
	if (!by_loader)
		add(env, SEARCH_PATH, "%.*s%s%s", (int)(strrchr(env->library, '/') - env->library), env->library,
		    path && *path ? ":" : "", path ? path : "");
	return COMMAND_OK;
}

/* By name, or by the library's path where NCCL would not find it by that name. The user's own value stays, with a note. */
static void add_half(struct env *env, const char *variable, const char *value, const char *what)
{
	const char *own = getenv(variable); /* NCCL's configuration files may have it */
	char *note = env->notes[env->note_count];

	if (!own) {
		add(env, variable, "%s", value);
	} else if (!steer_settings_names_us(own)) {
		snprintf(note, sizeof(env->notes[0]), "%s=%.100s stays as it is set, so NCCL does not load Tributary%s",
			 variable, own, what);
		term_clean(note, note, sizeof(env->notes[0])); /* a comment for the shell, too: no second line */
		env->note_count++;
	}
}

/* What NCCL then reads in place of the measured topology; the user's own file needs no note. */
static void note_topology(struct env *env)
{
	const struct params_source environment = params_from_environment();
	struct steer_settings settings;

	steer_settings_read(&environment, "", 0, &settings);
	if (settings.default_topology)
		snprintf(env->notes[env->note_count++], sizeof(env->notes[0]),
			 "NCCL reads " STEER_DEFAULT_TOPOLOGY
			 ", the provider's topology: Tributary leaves it, and plans "
			 "no channels");
}

/* NCCL's own RDMA transport has the network then, and the plugin offers no collnet. */
static bool is_left_to_nccl(const struct params *params)
{
	struct plugin_choice choice;

	plugin_choose(params, &plugin_rdma_here, &choice);
	return !choice.ours;
}

/* What this host's interfaces move together, where the cluster file has no rates of hosts. */
static uint64_t own_rate_Bps(const struct params *params)
{
	struct tcp_interface at[TCP_INTERFACE_MAX];
	uint64_t rate_Bps = 0;
	struct diag diag;
	size_t count = 0;

	if (tcp_interfaces_find(params, at, TCP_INTERFACE_MAX, &count, &diag) < 0)
		return 0;
	for (size_t i = 0; i < count; i++)
		rate_Bps += at[i].speed_Bps;
	return rate_Bps;
}

static int find_cluster(const struct params *params, struct cluster **ret, struct diag *why)
{
	struct profile profile;
	char path[PATH_MAX];
	struct fingerprint now;
	bool has_profile = false;
	int r;

	profile_init(&profile);
	if (!params->cluster[0] && fingerprint_take("", &now) == 0) {
		has_profile = store_find(params, &now, &profile, path, sizeof(path), why) == 0;
		fingerprint_fini(&now);
	}
	r = cluster_file_find(params, has_profile ? &profile : NULL, ret, why);
	profile_fini(&profile);
	return r;
}

static void describe_gain(const struct cluster *cluster, size_t host_count, struct env *env)
{
	char at_most[64] = "";

	if (!host_count && cluster->host_count > SCHEDULE_MEMBERS_MAX)
		snprintf(at_most, sizeof(at_most), " of %d hosts, the most that it is for", SCHEDULE_MEMBERS_MAX);
	if (env->gain_permille)
		snprintf(env->collnet, sizeof(env->collnet),
			 "by the cluster file, aggregation is %.2f times as fast as NCCL's ring or tree for large "
			 "AllReduces%s%s",
			 env->gain_permille / 1e3, at_most,
			 gain_is_enough(env->gain_permille) ? "" : ", below the limit of 1.5");
	else if (host_count > SCHEDULE_MEMBERS_MAX)
		snprintf(env->collnet, sizeof(env->collnet), "the job has %zu hosts, and aggregation is for at most %d",
			 host_count, SCHEDULE_MEMBERS_MAX);
	else
		snprintf(env->collnet, sizeof(env->collnet),
			 "the cluster file has no rates, or the job fewer than three hosts, so no gain is known");
}

/*
 * Whether the cluster file promises enough. From this host's leaf it does not go: all hosts of the job are to come to the
 * same.
 */
static bool promises_gain(const struct params *params, struct env *env)
{
	struct gain_job job = { .host_name = "", .rate_Bps = own_rate_Bps(params) };
	const char *nodes = getenv("SLURM_JOB_NUM_NODES");
	struct diag why = { .text = "" };
	struct cluster *cluster = NULL;
	uint64_t count = 0;
	int r = find_cluster(params, &cluster, &why);

	if (r < 0 || !cluster) {
		if (r < 0)
			snprintf(env->collnet, sizeof(env->collnet), "%s", why.text);
		else
			snprintf(env->collnet, sizeof(env->collnet),
				 "no cluster file (TRIBUTARY_CLUSTER, or the profile's) promises a gain");
		return false;
	}
	if (nodes && parse_u64(nodes, 1, UINT32_MAX, &count) == 0)
		job.host_count = (size_t)count;
	env->gain_permille = gain_permille(cluster, &job);
	describe_gain(cluster, job.host_count, env);
	cluster_free(cluster);
	return gain_is_enough(env->gain_permille);
}

static bool wants_collnet(const struct params *params, const char *wish, struct env *env)
{
	const char *tuner = getenv("NCCL_TUNER_PLUGIN"), *why;

	if (!strcmp(wish, "off"))
		why = "it is not wanted";
	else if (getenv(STEER_COLLNET_VARIABLE))
		why = "it is set already";
	else if (params->disable || params->net == NET_CHOICE_OFF || !params->collnet)
		why = "TRIBUTARY_DISABLE, TRIBUTARY_NET or TRIBUTARY_COLLNET switches it off";
	else if (!strcmp(wish, "on"))
		why = "it is wanted";
	else if (!params->tuner || (tuner && *tuner && !steer_settings_names_us(tuner)))
		why = "the tuner that knows where it pays is not in use";
	else if (params->net == NET_CHOICE_VERBS)
		why = "it would switch GPUDirect RDMA off, which TRIBUTARY_NET=verbs may have";
	else if (is_left_to_nccl(params))
		why = "NCCL's own RDMA transport carries the network";
	else
		return promises_gain(params, env);
	snprintf(env->collnet, sizeof(env->collnet), "%s", why);
	return !strcmp(why, "it is wanted");
}

/* As NCCL reads it. */
static bool is_on(const char *variable)
{
	const char *text = getenv(variable);

	return text && strtol(text, NULL, 0) != 0;
}

static int add_tuning(const struct command_call *call, struct env *env)
{
	const char *text = command_value(call, "tuning");
	uint64_t hash;

	if (!text)
		return COMMAND_OK;
	if (strcmp(text, "auto") != 0 && strcmp(text, "off") != 0 && parse_digest(text, &hash) < 0)
		return command_wrong_value(
			call, "tuning", "auto, off, or the 16 digits of a table that `tributary tune --measure` keeps");
	add(env, "TRIBUTARY_TUNING", "%s", text);
	return COMMAND_OK;
}

int env_make(const struct command_call *call, struct env *ret)
{
	struct env env = { .count = 0 };
	struct params params;
	bool has_name = false;
	int status;

	command_load_params(&params);
	status = add_library(&env, &has_name);
	if (status != COMMAND_OK)
		return status;
	add_half(&env, "NCCL_ENV_PLUGIN", has_name ? PLUGIN_NAME : env.library,
		 "'s environment half, which gives communicators their channels");
	add_half(&env, "NCCL_NET_PLUGIN", PLUGIN_NAME, "'s network half, and no communicator gets channels");
	note_topology(&env);
	env.has_collnet = wants_collnet(&params, command_value(call, "collnet"), &env);
	env.loses_gdr = env.has_collnet && params.net == NET_CHOICE_VERBS;
	if (env.has_collnet)
		add(&env, STEER_COLLNET_VARIABLE, "1");
	if ((env.has_collnet || is_on(STEER_COLLNET_VARIABLE)) && !getenv(STEER_COLLNET_UNLIKE_VARIABLE))
		add(&env, STEER_COLLNET_UNLIKE_VARIABLE, "1");
	status = add_tuning(call, &env);
	if (status == COMMAND_OK)
		*ret = env;
	return status;
}

/* ------------------------------------------------------------------------------------------------------------- printing */

void env_explain(const struct env *env, const char *before, FILE *out)
{
	for (size_t i = 0; i < env->note_count; i++)
		fprintf(out, "%s%s\n", before, env->notes[i]);
	fprintf(out, "%sNCCL_COLLNET_ENABLE is %s: %s%s\n", before, env->has_collnet ? "set" : "left as it is",
		env->collnet, env->loses_gdr ? " (it switches GPUDirect RDMA off)" : "");
}

/* In single quotes wherever a shell might see more than letters in it. */
static void print_quoted(const char *text, FILE *out)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,+=@%-";

	if (*text && strspn(text, plain) == strlen(text)) {
		fputs(text, out);
		return;
	}
	fputc('\'', out);
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else
			fputc(*text, out);
	}
	fputc('\'', out);
}

static int print_json(const struct env *env, FILE *out)
{
	json_t *variables = json_object(), *notes = json_array();

	for (size_t i = 0; i < env->count; i++)
		json_object_set_new(variables, env->variables[i].name, json_text(env->variables[i].value));
	for (size_t i = 0; i < env->note_count; i++)
		json_array_append_new(notes, json_text(env->notes[i]));
	return json_print("tributary-env 1",
			  json_pack("{so so so so so}", "library", json_text(env->library), "variables", variables,
				    "notes", notes, "no_collnet",
				    env->has_collnet ? json_null() : json_text(env->collnet), "gain",
				    env->gain_permille ? json_real(env->gain_permille / 1e3) : json_null()),
			  out);
}

static int run(const struct command_call *call, FILE *out)
{
	struct env env;
	int status = env_make(call, &env);

	if (status != COMMAND_OK)
		return status;
	if (command_given(call, "json"))
		return print_json(&env, out);
	for (size_t i = 0; i < env.count; i++) {
		fprintf(out, "export %s=", env.variables[i].name);
		print_quoted(env.variables[i].value, out);
		fputc('\n', out);
	}
	env_explain(&env, "# ", out);
	return COMMAND_OK;
}

const struct command command_env = {
	.name = "env",
	.group = COMMAND_JOBS,
	.operands = "",
	.help = "what to export so that NCCL uses the plugin",
	.about =
		"In a shell: eval \"$(tributary env)\". It names both halves of the plugin, NCCL_ENV_PLUGIN and "
		"NCCL_NET_PLUGIN, the folder of its library where the loader does not look by itself, and, where "
		"the cluster file promises a gain by aggregation, NCCL_COLLNET_ENABLE=1, which NCCL must find "
		"before it loads plugins. With TRIBUTARY_NET=verbs it is left, as it would switch GPUDirect RDMA off. "
		"Beside NCCL_COLLNET_ENABLE=1 there is NCCL_IGNORE_COLLNET_MISMATCH=1: NCCL 2.30 refuses hosts with "
		"unlike numbers of network interfaces without. "
		"What is set already stays, and a comment says what that means. It has to be the same on every host of the job.",
	.options = { ENV_OPTION_COLLNET, ENV_OPTION_TUNING, COMMAND_OPTION_JSON },
	.example = "eval \"$(tributary env)\"",
	.run = run,
};
