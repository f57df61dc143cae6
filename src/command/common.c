/* SPDX-License-Identifier: Apache-2.0 */
#include "command/command.h"

#include "base/log.h"
#include "base/params.h"
#include "base/process.h"
#include "clusterprobe/clusterprobe.h"
#include "command/conf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

size_t command_find_host(const char *name, size_t bytes, const char *(*name_of)(const void *arg, size_t index),
			 const void *arg, size_t count)
{
	const char *dot = memchr(name, '.', bytes);
	size_t first = dot ? (size_t)(dot - name) : bytes, found = count, fits = 0;

	for (size_t i = 0; i < count; i++) {
		const char *host = name_of(arg, i);
		size_t all = strlen(host), whole = strcspn(host, ".");

		if (all == bytes && !memcmp(host, name, bytes))
			return i;
		/* One with a domain, one without. */
		if (whole != first || memcmp(host, name, first) != 0 || (dot && whole < all))
			continue;
		found = i;
		fits++;
	}
	return fits == 1 ? found : count;
}

/* A sentence begins with the name of the variable, which a configuration file may have set. */
static void complain(void *arg, const char *sentence)
{
	char name[128];
	const char *file;
	unsigned line;

	(void)arg;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(sentence, " ="), sentence);
	file = conf_file_of(name, &line);
	if (file)
		command_say("%s, line %u: %s", file, line, sentence);
	else
		command_say("%s", sentence);
}

void command_load_params(struct params *ret)
{
	struct params_source source;

	conf_load(); /* first: it adds to the environment, which may move by that */
	source = params_from_environment();
	params_load(&source, complain, NULL, ret);
}

size_t command_param_index(const char *name)
{
	struct param_info info;
	size_t i;

	for (i = 0; i < params_count(); i++) {
		params_info(i, &info);
		if (!strcmp(info.name, name))
			break;
	}
	return i;
}

bool command_param_source(const struct params *params, size_t index, struct command_param_source *ret)
{
	const char *file;

	if (!params_is_given(params, index))
		return false;
	ret->variable = params_origin(params, index);
	ret->text = getenv(ret->variable);
	file = conf_file_of(ret->variable, NULL);
	ret->from = file ? file : "the environment";
	return ret->text != NULL;
}

static const char *from_environment(const char *name)
{
	return getenv(name);
}

int command_find_launch(const struct command_call *call, const char *otherwise, struct params *ret_params,
			struct control_secret *ret_secret, struct clusterprobe_setup *setup)
{
	const char *path = command_value(call, "secret");
	struct process_identity self;
	struct diag why = { 0 };
	int r;

	command_load_params(ret_params);
	if (clusterprobe_launch_find(from_environment, command_value(call, "master"), &setup->launch, &why) < 0)
		return command_failed(NULL, 0, "%s%s", why.text, otherwise);
	if (process_identity(&self) == 0)
		setup->boot = self.boot;
	setup->secret = ret_secret;
	path = path ? path : ret_params->secret;
	if (!*path)
		return command_failed(NULL, 0,
				      "no secret is named: --secret FILE, or TRIBUTARY_SECRET; the same file on every "
				      "host (head -c 32 /dev/urandom | base64 >FILE; chmod 600 FILE)");
	r = control_secret_read(path, ret_secret, &why);
	return r < 0 ? command_failed(&why, r, "the secret cannot be read") : COMMAND_OK;
}

void command_raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}
