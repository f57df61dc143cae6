/* SPDX-License-Identifier: Apache-2.0 */
/* What a host has that a job needs: the plugin, settings, files, interfaces on which it listens from then on. */
#include "command/check/check.h"

#include "base/clock.h"
#include "base/sys.h"
#include "base/text_file.h"
#include "cluster/file.h"
#include "command/command.h"
#include "command/env.h"
#include "plugin/choose.h"
#include "plugin/net.h"
#include "plugin/steer/settings.h"
#include "transport/tcp/confined.h"
#include "transport/tcp/tcp.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SETTINGS_MAX = 96, FILE_BYTES_MAX = 64 << 20 };

/* -------------------------------------------------------------------------------------------------------------- plugin */

static void add_library(json_t *value, void *library, const char *symbol)
{
	const char *version = dlsym(library, "tributary_version"), *file = "";
	const char *const *name = dlsym(library, symbol); /* a table, whose first field that is */
	struct link_map *map = NULL;
	char text[400];

	if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map)
		file = map->l_name;
	json_object_set_new(value, "file", json_text(file));
	if (!name || strcmp(*name, PLUGIN_NET_NAME) != 0) {
		json_object_set_new(value, "error", json_text("it is another plugin, not Tributary"));
		return;
	}
	version = version ? version : "0.1.0 or older";
	json_object_set_new(value, "version", json_text(version));
	if (!strcmp(version, TRIBUTARY_VERSION))
		return;
	snprintf(text, sizeof(text), "the plugin %.250s is %.40s, the command %s", file, version, TRIBUTARY_VERSION);
	json_object_set_new(value, "other", json_text(text));
}

/* As NCCL finds it: by the loader's own search, or by the path that the user's variable has. */
static json_t *plugin_facts(const char *variable, const char *library, const char *symbol)
{
	const char *own = getenv(variable);
	json_t *value = json_object();
	char text[400], path[PATH_MAX];
	void *opened;

	if (own && !steer_settings_names_us(own)) {
		snprintf(text, sizeof(text), "%s=%.200s names another plugin", variable, own);
		json_object_set_new(value, "error", json_text(text));
		return value;
	}
	opened = dlopen(own && strchr(own, '/') && !strchr(own, ',') ? own : library, RTLD_NOW | RTLD_LOCAL);
	if (opened) {
		add_library(value, opened, symbol); /* left open: few libraries are tested for being closed */
		return value;
	}
	log_sentence(text, sizeof(text), "%s", dlerror());
	if (!strcmp(variable, "NCCL_NET_PLUGIN") && env_find_beside(path)) /* which looks for that half */
		log_sentence(text, sizeof(text), "%s; there is one in %.*s, which is not in LD_LIBRARY_PATH", text,
			     (int)(strrchr(path, '/') - path), path);
	json_object_set_new(value, "error", json_text(text));
	return value;
}

/* ------------------------------------------------------------------------------------------------------------ settings */

/* Of unlike hosts these may differ: what follows from them is seen; and each process may have logs and files of its own. */
static bool may_differ(const char *name)
{
	static const char names[] =
		" TRIBUTARY_IF NCCL_SOCKET_IFNAME TRIBUTARY_HCA NCCL_IB_HCA TRIBUTARY_GID_INDEX NCCL_IB_GID_INDEX "
		"TRIBUTARY_PROFILE TRIBUTARY_STATE_DIR TRIBUTARY_DUMP_DIR TRIBUTARY_METRICS TRIBUTARY_LOCAL_PROCESSES "
		"TRIBUTARY_SHARED_DIR NCCL_TOPO_FILE NCCL_DEBUG NCCL_DEBUG_FILE NCCL_DEBUG_SUBSYS NCCL_HOSTID NCCL_CONF_FILE "
		"NCCL_TOPO_DUMP_FILE NCCL_GRAPH_DUMP_FILE ";
	char word[72];

	snprintf(word, sizeof(word), " %s ", name);
	return strstr(names, word);
}

/* What a configuration file of NCCL's sets is in the environment by now. */
static json_t *settings(void)
{
	const struct params_source source = params_from_environment();
	json_t *all = json_object();

	for (char *const *at = source.environ_list; *at && json_object_size(all) < SETTINGS_MAX; at++) {
		char name[64], value[PARAMS_STRING_BYTES];
		size_t bytes = strcspn(*at, "=");

		snprintf(name, sizeof(name), "%.*s", (int)bytes, *at);
		if (!check_is_setting(*at) || bytes >= sizeof(name) || may_differ(name))
			continue;
		snprintf(value, sizeof(value), "%s", *at + bytes + 1);
		json_object_set_new(all, name, json_text(value));
	}
	return all;
}

static void complain(void *arg, const char *sentence)
{
	if (json_array_size(arg) < CHECK_PEERS_MAX)
		json_array_append_new(arg, json_text(sentence));
}

/* --------------------------------------------------------------------------------------------------------------- files */

static json_t *secret_facts(const char *path, const char *nonce)
{
	struct control_secret secret = { .count = 0 };
	char proof[CHECK_HEX_BYTES] = "";
	uint8_t bytes[SHA256_BYTES];
	struct hmac_sha256 hmac;
	struct diag why = { 0 };

	if (!*path)
		return json_null();
	if (control_secret_read(path, &secret, &why) == 0) {
		hmac_sha256_init(&hmac, secret.bytes, secret.count);
		hmac_sha256_add(&hmac, nonce, strlen(nonce));
		hmac_sha256_end(&hmac, bytes);
		check_hex(bytes, sizeof(bytes), proof);
		control_secret_forget(&secret);
	}
	return json_pack("{so ss}", "error", json_text(why.text), "proof", proof);
}

static json_t *cluster_facts(const char *path, const char *host)
{
	static const struct text_file kind = { .kind = "cluster", .limit_bytes = FILE_BYTES_MAX };
	struct cluster *cluster = NULL;
	struct diag why = { 0 };
	char *text = NULL, digest[CHECK_HEX_BYTES] = "";
	uint8_t sum[SHA256_BYTES];
	struct sha256 sha;
	size_t bytes;
	json_t *value;

	if (!*path)
		return json_null();
	if (text_file_read(&kind, path, FILE_BYTES_MAX, &text, &bytes, &why) == 0) {
		sha256_init(&sha);
		sha256_add(&sha, text, bytes);
		sha256_end(&sha, sum);
		check_hex(sum, sizeof(sum), digest);
		sys_free(text);
		(void)cluster_file_load(path, &cluster, &why);
	}
	value = json_pack("{so ss ss}", "error", json_text(why.text), "digest", digest, "unlisted",
			  cluster && !cluster_find(cluster, host) ? "the cluster file has no host of that name" : "");
	cluster_free(cluster);
	return value;
}

/* ---------------------------------------------------------------------------------------------------------- interfaces */

/* On what the plugin would, at a port that it would take. */
static json_t *listen_on(struct check_worker *worker, size_t i, const uint8_t token[static CLUSTERPROBE_TOKEN_BYTES])
{
	const struct tcp_interface *at = &worker->interfaces[i];
	char address[NI_MAXHOST] = "?";
	uint16_t port = 0;
	int fd = -1, r;

	getnameinfo((const struct sockaddr *)&at->address, at->address_bytes, address, sizeof(address), NULL, 0,
		    NI_NUMERICHOST);
	address[strcspn(address, "%")] = '\0';
	r = tcp_socket_listen(at, &at->address, false, 0, worker->params.port_low, worker->params.port_high, &port, &fd);
	if (r == 0)
		r = clusterprobe_receiver_start(fd, &worker->receivers[i]);
	if (r == 0)
		clusterprobe_receiver_admit(worker->receivers[i], token);
	return json_pack("{so ss si so sI si}", "name", json_text(at->name), "address", address, "port", port, "error",
			 json_text(r < 0 ? strerror(-r) : ""), "speed_Bps", (json_int_t)at->speed_Bps, "mtu_bytes",
			 (int)at->mtu_bytes);
}

static json_t *interfaces(struct check_worker *worker, const char *nonce, json_int_t number, char error[static 256])
{
	uint8_t token[CLUSTERPROBE_TOKEN_BYTES];
	json_t *list = json_array();
	struct diag diag = { 0 };
	int r = tcp_interfaces_find(&worker->params, worker->interfaces, TCP_INTERFACE_MAX, &worker->interface_count,
				    &diag);

	check_token(nonce, number, token);
	if (r < 0)
		worker->interface_count = 0;
	if (worker->interface_count > CHECK_INTERFACES_MAX)
		worker->interface_count = CHECK_INTERFACES_MAX;
	for (size_t i = 0; i < worker->interface_count; i++)
		json_array_append_new(list, listen_on(worker, i, token));
	snprintf(error, 256, "%.255s", diag.text[0] ? diag.text : r < 0 ? strerror(-r) : "");
	return list;
}

/* --------------------------------------------------------------------------------------------------------------- whole */

static json_t *facts(struct check_worker *worker, const char *nonce, json_int_t number)
{
	struct params_source source = params_from_environment();
	char host[CLUSTERPROBE_NAME_BYTES] = "", ports[32] = "any", error[256], confined[TCP_CONFINED_BYTES] = "";
	json_t *complaints = json_array(), *list, *plugin;
	struct plugin_choice choice;

	/* First: where both halves are one file, the loader names it as it was opened first. */
	plugin = plugin_facts("NCCL_NET_PLUGIN", "libnccl-net-tributary.so", "ncclNetPlugin_v8");
	(void)gethostname(host, sizeof(host) - 1);
	params_load(&source, complain, complaints, &worker->params);
	plugin_choose(&worker->params, &plugin_rdma_here, &choice);
	if (worker->params.port_high)
		snprintf(ports, sizeof(ports), "%u-%u", worker->params.port_low, worker->params.port_high);
	list = interfaces(worker, nonce, number, error);
	(void)tcp_confined(&worker->params, worker->interfaces, worker->interface_count, confined);
	return json_pack("{ss so so so so ss so so so ss so so so}", "version", TRIBUTARY_VERSION, "plugin", plugin,
			 "env_plugin", plugin_facts("NCCL_ENV_PLUGIN", "libnccl-env-tributary.so", "ncclEnvPlugin_v1"),
			 "settings", settings(), "complaints", complaints, "network",
			 !choice.ours         ? "NCCL's own"
			 : choice.wants_verbs ? "RDMA"
					      : "TCP",
			 "reason", json_text(choice.reason), "secret", secret_facts(worker->params.secret, nonce),
			 "cluster", cluster_facts(worker->params.cluster, host), "ports", ports, "interfaces", list,
			 "interfaces_error", json_text(error), "confined", json_text(confined));
}

static json_t *clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return json_pack("{sI}", "now_ns", (json_int_t)now.tv_sec * 1000000000 + now.tv_nsec);
}

int check_worker_answer(void *arg, const char *question, char ret[static CLUSTERPROBE_TEXT_BYTES])
{
	struct check_worker *worker = arg;
	json_t *asked = json_loads(question, 0, NULL), *answer = NULL;
	const char *what = json_string_value(json_object_get(asked, "ask"));
	const char *nonce = json_string_value(json_object_get(asked, "nonce"));
	size_t bytes;

	if (what && !strcmp(what, "clock"))
		answer = clock_now();
	else if (what && !strcmp(what, "reach") && nonce)
		answer = json_pack("{so}", "reach", check_reach(worker, nonce, json_object_get(asked, "peers")));
	else if (what && !strcmp(what, "facts") && nonce && !worker->receivers[0])
		answer = facts(worker, nonce, json_integer_value(json_object_get(asked, "host")));
	json_decref(asked);
	if (!answer)
		return -EBADMSG;
	bytes = json_dumpb(answer, ret, CLUSTERPROBE_TEXT_BYTES, JSON_COMPACT);
	json_decref(answer);
	return bytes > CLUSTERPROBE_TEXT_BYTES ? -EMSGSIZE : (int)bytes;
}

void check_worker_fini(struct check_worker *worker)
{
	for (size_t i = 0; i < CHECK_INTERFACES_MAX; i++)
		clusterprobe_receiver_close(worker->receivers[i]);
}
