/* `tributary env`: what to export before a job. */
#include "command/env.h"

#include "base/params.h"
#include "command/json.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY      "libnccl-net-tributary.so"
#define PLUGIN_NAME  "tributary"
#define SEARCH_PATH  "LD_LIBRARY_PATH"
#define NET_VARIABLE "NCCL_NET_PLUGIN"

/* ---------------------------------------------------------------------------------------------------------- the library */

/* As NCCL finds it: by the loader's own search. */
static bool found_by_loader(char path[static PATH_MAX])
{
	void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map = NULL;
	bool is_found;

	if (!library)
		return false;
	is_found = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map &&
		   snprintf(path, PATH_MAX, "%s", map->l_name) > 0;
	dlclose(library);
	return is_found;
}

/* Beside this program, as in a build folder, or in the lib folder of its prefix. */
static bool found_beside(char path[static PATH_MAX])
{
	static const char *const places[] = { "", "/../lib" };
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

static int add_library(struct env *env)
{
	const char *path = getenv(SEARCH_PATH);

	if (found_by_loader(env->library))
		return COMMAND_OK;
	if (!found_beside(env->library))
		return command_failed(NULL, ENOENT, "%s is neither where the loader looks nor beside this program",
				      LIBRARY);
	add(env, SEARCH_PATH, "%.*s%s%s", (int)(strrchr(env->library, '/') - env->library), env->library,
	    path && *path ? ":" : "", path ? path : "");
	return COMMAND_OK;
}

static bool names_us(const char *value)
{
	return strstr(value, PLUGIN_NAME) != NULL; /* a list, a path, or the name */
}

static const char *collnet_refused(const struct params *params, const char *wish)
{
	const char *tuner = getenv("NCCL_TUNER_PLUGIN");

	if (!strcmp(wish, "off"))
		return "it is not wanted";
	if (getenv("NCCL_COLLNET_ENABLE"))
		return "it is set already";
	if (params->disable || params->net == NET_CHOICE_OFF || !params->collnet)
		return "TRIBUTARY_DISABLE, TRIBUTARY_NET or TRIBUTARY_COLLNET switches it off";
	if (!strcmp(wish, "on"))
		return NULL;
	if (!params->tuner || (tuner && *tuner && !names_us(tuner)))
		return "the tuner that knows where it pays is not in use";
	return NULL;
}

int env_make(const struct command_call *call, struct env *ret)
{
	struct env env = { .count = 0 };
	struct params params;
	const char *plugin;
	int status;

	command_load_params(&params);
	plugin = getenv(NET_VARIABLE); /* NCCL's configuration files may have it */
	status = add_library(&env);
	if (status != COMMAND_OK)
		return status;
	if (!plugin || !names_us(plugin))
		add(&env, NET_VARIABLE, "%s", PLUGIN_NAME);
	env.collnet = collnet_refused(&params, command_value(call, "collnet"));
	if (!env.collnet)
		add(&env, "NCCL_COLLNET_ENABLE", "1");
	*ret = env;
	return COMMAND_OK;
}

/* ------------------------------------------------------------------------------------------------------------- printing */

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
	json_t *variables = json_object();

	for (size_t i = 0; i < env->count; i++)
		json_object_set_new(variables, env->variables[i].name, json_text(env->variables[i].value));
	return json_print(json_pack("{so so so}", "library", json_text(env->library), "variables", variables,
				    "no_collnet", env->collnet ? json_text(env->collnet) : json_null()),
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
	return COMMAND_OK;
}

const struct command command_env = {
	.name = "env",
	.operands = "",
	.help = "what to export so that NCCL uses the plugin",
	.about = "In a shell: eval \"$(tributary env)\". It names the plugin, the folder of its library where the "
		 "loader does "
		 "not look by itself, and NCCL_COLLNET_ENABLE=1, which NCCL must find before it loads plugins. What is "
		 "set "
		 "already stays. It has to be the same on every host of the job.",
	.options = { ENV_OPTION_COLLNET, COMMAND_OPTION_JSON },
	.run = run,
};
