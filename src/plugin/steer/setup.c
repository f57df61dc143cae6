/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/setup.h"

#include "base/params.h"
#include "base/sys.h"
#include "plugin/state.h"
#include "plugin/steer/collnet.h"
#include "plugin/steer/nets.h"
#include "plugin/steer/report.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RECOMMENDATION                                                                                            \
	"NCCL_ENV_PLUGIN=tributary gives every communicator its channels (from NCCL 2.28.7 on, the same file as " \
	"NCCL_NET_PLUGIN)"

/* /proc/PID rather than /proc/self: a child that inherits the name finds the file while this process lives. */
int steer_memory_file(size_t reserved_bytes, char path[static STEER_PATH_BYTES])
{
	int fd = sys_memory_file("tributary"), r = 0;
	struct stat named, own;

	if (fd < 0)
		return fd;
	snprintf(path, STEER_PATH_BYTES, "/proc/%d/fd/%d", (int)getpid(), fd);
	if (fstat(fd, &own) < 0 || stat(path, &named) < 0 || own.st_ino != named.st_ino || access(path, R_OK) < 0)
		r = -ENOENT; /* /proc is not there, or that of another process id namespace, or closed to this process */
	if (r == 0)
		r = sys_reserve(fd, reserved_bytes);
	if (r < 0)
		sys_close(&fd);
	return r < 0 ? r : fd;
}

/* Then NCCL's ranks of several hosts have one topology, and a graph file of one host's GPUs fits none of them. */
static bool hosts_share_nvlink(const struct params_source *source, const char *root)
{
	const char *enable = source->get("NCCL_MNNVL_ENABLE");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/dev/nvidia-caps-imex-channels", root);
	return (!enable || strcmp(enable, "0") != 0) && access(path, F_OK) == 0;
}

/* What can be done at all, by what the user has set. */
static enum steer_choice level_of(const struct params *params, const struct params_source *source, const char *root,
				  unsigned nccl_version, struct steer_setup *setup)
{
	if (params->disable || params->steer == STEER_OFF) {
		diag_set(&setup->why, 0, 0, "TRIBUTARY_STEER=off");
		return STEER_OFF;
	}
	if (setup->settings.users_topology) {
		diag_set(&setup->why, 0, 0, STEER_TOPOLOGY_VARIABLE " is set: unset it");
		return STEER_OFF;
	}
	if (setup->settings.default_topology) {
		diag_set(&setup->why, 0, 0, "NCCL reads " STEER_DEFAULT_TOPOLOGY ", the provider's topology");
		return STEER_OFF;
	}
	if (!nccl_version) {
		diag_set(&setup->why, 0, 0, "%s", RECOMMENDATION);
		return STEER_TOPOLOGY;
	}
	if (hosts_share_nvlink(source, root)) {
		diag_set(&setup->why, 0, 0,
			 "NVLink may join this host with others, which is not planned for (NCCL_MNNVL_ENABLE=0: "
			 "it does not)");
		return STEER_OFF;
	}
	if (setup->settings.users_graph)
		setup->reason = STEER_REASON_GRAPH_FILE;
	else if (params->steer == STEER_TOPOLOGY)
		setup->reason = STEER_REASON_SWITCHED_OFF;
	else if (setup->settings.no_shm)
		setup->reason = STEER_REASON_NO_SHM;
	if (setup->reason)
		diag_set(&setup->why, 0, 0, "%s", steer_reason_text(setup->reason));
	return STEER_FULL;
}

static int registry_open(const struct params *params, struct steer_setup *setup)
{
	const struct steer_job *job = &setup->settings.job;
	struct steer_process process;
	int r;

	memset(&process, 0, sizeof(process)); /* it is compared and written as bytes */
	process.job_key = job->key;
	process.host = setup->settings.host;
	process.local_size = job->local_size;
	process.local_rank = job->local_rank;
	process.world_size = job->world_size;
	if (!process.host) {
		diag_set(&setup->why, 0, 0, "/proc does not know this process");
		return -ENOENT;
	}
	if (params->shared_dir[0] != '/') {
		diag_set(&setup->why, 0, 0, "TRIBUTARY_SHARED_DIR=%.100s is no absolute path", params->shared_dir);
		return -EINVAL;
	}
	r = steer_registry_open(params->shared_dir, &process, &setup->registry, &setup->why);
	if (r == 0)
		(void)steer_elsewhere_open(&setup->registry.own->process.identity, job->whole_key, setup->settings.host,
					   setup->registry.directory, &setup->elsewhere);
	return r;
}

/* text NULL: there is none. */
static int text_make(const struct params *params, const char *text, const char *kind, struct steer_text *ret,
		     struct diag *diag)
{
	size_t bytes = text ? strlen(text) : 0;
	char name[64];
	int r;

	if (!text)
		return 0;
	r = ret->fd = steer_memory_file(bytes, ret->path);
	if (r >= 0)
		r = sys_pwrite_whole(ret->fd, text, bytes, 0);
	if (r < 0) {
		diag_set(diag, 0, 0, "the topology file cannot be made: %s", strerror(-r));
		return r;
	}
	snprintf(name, sizeof(name), "steer-%s-%d.xml", kind, (int)getpid());
	steer_report_dump(params->dump_dir, name, text, bytes);
	return 0;
}

static void say(const struct steer_setup *setup, bool no_profile)
{
	char date[16] = "";
	struct tm tm;
	time_t then = (time_t)setup->machine.date_s;

	if (setup->level == STEER_OFF) {
		log_info(LOG_INIT, "Tributary steers nothing: %s%s", setup->why.text,
			 no_profile ? "; `tributary measure` makes a profile" : "");
		return;
	}
	if (gmtime_r(&then, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d", &tm);
	log_info(LOG_INIT, "Tributary tells NCCL what the links of this machine carry, as measured on %s%s%s", date,
		 setup->why.text[0] ? "; NCCL searches its channels itself: " : "", setup->why.text);
}

void steer_setup_init(struct steer_setup *setup)
{
	*setup = (struct steer_setup){ .registry = { .directory = -1, .process_fd = -1 },
				       .elsewhere = { .fd = -1 },
				       .topology = { .fd = -1 },
				       .shaped = { .fd = -1 } };
	topology_init(&setup->machine.topology);
}

void steer_setup(const struct params_source *source, const char *root, unsigned nccl_version, struct steer_setup *ret)
{
	const struct params *params = plugin_state_params();
	char network[TUNING_NAME_BYTES];
	int r = 0;

	steer_setup_init(ret);
	steer_nets_know(&ret->nets);
	ret->offers_collnet = nccl_version && !source->get(STEER_COLLNET_VARIABLE);
	steer_settings_read(source, root, params->local_processes, &ret->settings);
	ret->settings.other_tuner = ret->settings.other_tuner || !params->tuner;
	ret->level = level_of(params, source, root, nccl_version, ret);
	if (ret->level > STEER_OFF)
		r = steer_machine_load(params, root, &ret->nets, &ret->settings, nccl_version, &ret->machine,
				       &ret->why);
	if (r == 0 && ret->level == STEER_FULL)
		r = registry_open(params, ret);
	if (r == 0 && ret->level > STEER_OFF)
		r = text_make(params, ret->machine.topology_text, "topology", &ret->topology, &ret->why);
	if (r == 0 && ret->level > STEER_OFF)
		r = text_make(params, ret->machine.shaped_text, "shaped", &ret->shaped, &ret->why);
	if (!params->disable && params->steer != STEER_OFF) {
		const bool no_profile = r < 0 && !ret->machine.loaded;

		if (r < 0)
			ret->level = STEER_OFF;
		say(ret, no_profile);
	}
	if (r < 0)
		steer_setup_end(ret);
	steer_tuning_network(&ret->nets, plugin_state_ops()->name, network);
	steer_tuning_load(params, source, root, network, nccl_version, &ret->tuning);
	if (ret->settings.other_tuner)
		steer_tuning_fini(&ret->tuning);
	ret->registers = ret->level == STEER_FULL ||
			 (nccl_version && (steer_tuning_is_there(&ret->tuning) || steer_collnet_may_come(source)) &&
			  registry_open(params, ret) == 0);
}

bool steer_plans(const struct steer_setup *setup)
{
	return setup->level == STEER_FULL && !setup->settings.users_graph;
}

void steer_setup_end(struct steer_setup *setup)
{
	steer_elsewhere_close(&setup->elsewhere);
	steer_registry_close(&setup->registry);
	steer_tuning_fini(&setup->tuning);
	steer_machine_fini(&setup->machine);
	sys_close(&setup->topology.fd);
	sys_close(&setup->shaped.fd);
	setup->level = STEER_OFF;
	setup->registers = false;
}
