#include "plugin/session/setup.h"

#include "base/params.h"
#include "base/sys.h"
#include "ncclxml/graph_xml.h"
#include "plugin/session/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void keep_lower(enum session_level *level, enum session_level most)
{
	*level = most < *level ? most : *level;
}

/* Which of NCCL's two variables are free, and so what can be done at all. */
static enum session_level level_of(const struct params *params, const struct session_environment *environment,
				   enum session_level most, struct diag *why)
{
	enum session_level level = most;

	if (params->disable || params->steer == STEER_OFF) {
		diag_set(why, 0, 0, "TRIBUTARY_STEER=off");
		return SESSION_OFF;
	}
	if (params->steer == STEER_TOPOLOGY) {
		diag_set(why, 0, 0, "TRIBUTARY_STEER=topology");
		keep_lower(&level, SESSION_TOPOLOGY);
	}
	if (environment->graph_file == SESSION_FILE_USERS) {
		diag_set(why, 0, 0, SESSION_GRAPH_VARIABLE " is set");
		keep_lower(&level, SESSION_TOPOLOGY);
	}
	if (environment->topology_file == SESSION_FILE_USERS) {
		diag_set(why, 0, 0, SESSION_TOPOLOGY_VARIABLE " is set");
		return SESSION_OFF;
	}
	return level;
}

static struct session_process process_of(const struct session_environment *environment)
{
	struct session_process process;

	memset(&process, 0, sizeof(process)); /* it is compared and written as bytes */
	process.job_key = environment->job.key;
	process.host = environment->host;
	process.local_size = environment->job.local_size;
	process.local_rank = environment->job.local_rank;
	process.world_size = environment->job.world_size;
	return process;
}

static void set(const char *name, const char *value)
{
	if (setenv(name, value, 1) < 0)
		log_warn("%s cannot be set: %s", name, strerror(errno));
}

/* What a parent process's plugin left in the environment is none of ours, and NCCL fails without the graph file. */
static void unset_inherited(const struct session_environment *environment)
{
	if (environment->topology_file == SESSION_FILE_INHERITED)
		unsetenv(SESSION_TOPOLOGY_VARIABLE);
	if (environment->graph_file == SESSION_FILE_INHERITED)
		unsetenv(SESSION_GRAPH_VARIABLE);
}

static void point_nccl_to(const struct session_setup *setup, const char *topology_path, const char *graph_path)
{
	const char *graph = setup->level == SESSION_FULL ? graph_path : "";
	char mark[2 * PATH_MAX + 2];

	snprintf(mark, sizeof(mark), "%s:%s", topology_path, graph);
	set(SESSION_MARK_VARIABLE, mark);
	set(SESSION_TOPOLOGY_VARIABLE, topology_path);
	if (setup->level == SESSION_FULL)
		set(SESSION_GRAPH_VARIABLE, graph);
}

static void point_nccl_to_files(const struct session_setup *setup)
{
	unset_inherited(&setup->environment);
	if (setup->level > SESSION_OFF)
		point_nccl_to(setup, setup->files.topology_path, setup->files.graph_path);
}

static int make_files(struct session_setup *setup, struct diag *diag)
{
	struct session_process process = process_of(&setup->environment);
	int r;

	if (setup->shared_dir[0] != '/') {
		diag_set(diag, 0, 0, "TRIBUTARY_SHARED_DIR=%.100s is no absolute path", setup->shared_dir);
		return -EINVAL;
	}
	r = session_registry_open(setup->shared_dir, setup->level == SESSION_FULL ? &process : NULL, &setup->registry,
				  diag);
	if (r < 0)
		return r;
	if (setup->level == SESSION_FULL)
		(void)session_presence_open(&setup->registry.self, setup->environment.job.whole_key,
					    setup->environment.host, setup->registry.directory, &setup->presence);
	return session_files_make(setup->registry.directory, setup->registry.path, setup->registry.id,
				  setup->machine.topology_text, &setup->files, diag);
}

static void remove_files(struct session_setup *setup)
{
	session_files_remove(&setup->files);
	session_presence_close(&setup->presence);
	session_registry_close(&setup->registry);
}

bool session_setup_is_whole(const struct session_setup *setup)
{
	return session_files_are_there(&setup->files) &&
	       (setup->level < SESSION_FULL || session_registry_is_there(&setup->registry));
}

/* A file without a name. Its path is seen by this process, and by its children as long as it lives. */
static int copy_make(const char *text, char path[static 64])
{
	size_t bytes = strlen(text);
	int fd = sys_memory_file("tributary", bytes, F_SEAL_GROW | F_SEAL_SHRINK), r;
	struct stat named, own;

	if (fd < 0)
		return fd;
	snprintf(path, 64, "/proc/%d/fd/%d", (int)getpid(), fd);
	r = sys_pwrite_whole(fd, text, bytes, 0);
	if (r == 0 && (fstat(fd, &own) < 0 || stat(path, &named) < 0 || own.st_ino != named.st_ino))
		r = -ENOENT; /* /proc is not there, or that of another process id namespace */
	if (r < 0)
		sys_close(&fd);
	return r < 0 ? r : fd;
}

static void copies_close(struct session_setup *setup)
{
	sys_close(&setup->topology_fd);
	sys_close(&setup->graph_fd);
}

void session_setup_leave(struct session_setup *setup)
{
	char topology_path[64], graph_path[64];
	int saved_errno = errno;

	if (setup->level == SESSION_OFF || setup->topology_fd >= 0)
		return;
	setup->topology_fd = copy_make(setup->machine.topology_text, topology_path);
	setup->graph_fd = copy_make(graph_xml_resting, graph_path);
	if (setup->topology_fd < 0 || setup->graph_fd < 0) {
		copies_close(setup);
		errno = saved_errno;
		return;
	}
	point_nccl_to(setup, topology_path, graph_path);
	remove_files(setup);
	errno = saved_errno;
}

void session_setup_end(struct session_setup *setup)
{
	if (setup->level > SESSION_OFF)
		remove_files(setup);
	setup->level = SESSION_OFF;
}

int session_setup_restore(struct session_setup *setup)
{
	struct diag diag = { .text = "" };
	int saved_errno = errno, r;

	remove_files(setup);
	r = make_files(setup, &diag);
	if (r == 0 && setup->topology_fd >= 0) {
		point_nccl_to(setup, setup->files.topology_path, setup->files.graph_path);
		copies_close(setup);
	}
	if (r < 0)
		log_warn("The files that NCCL was pointed to are gone and cannot be made again: %s", diag.text);
	errno = saved_errno;
	return r;
}

static void dump_topology(const struct params *params, const struct session_setup *setup)
{
	char name[SESSION_ID_BYTES + 32];

	snprintf(name, sizeof(name), "session-topology-%s.xml", setup->registry.id);
	session_report_dump(params->dump_dir, name, setup->machine.topology_text, strlen(setup->machine.topology_text));
}

static void say(const struct session_setup *setup, bool no_profile)
{
	char date[16] = "";
	struct tm tm;
	time_t then = (time_t)setup->machine.date_s;

	if (setup->level == SESSION_OFF) {
		log_info(LOG_INIT, "Tributary steers nothing: %s%s", setup->why.text,
			 no_profile ? "; `tributary measure` makes a profile" : "");
		return;
	}
	if (gmtime_r(&then, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d", &tm);
	log_info(LOG_INIT, "Tributary tells NCCL what the links of this machine carry, as measured on %s%s%s", date,
		 setup->why.text[0] ? "; NCCL searches its channels itself: " : "", setup->why.text);
}

void session_setup(const struct params *params, const struct params_source *source, const char *root,
		   const struct session_nets *nets, enum session_level most, struct session_setup *ret)
{
	int saved_errno = errno, r = 0;

	*ret = (struct session_setup){ .nets = *nets,
				       .registry = { .directory = -1, .process_fd = -1, .life_fd = -1 },
				       .presence = { .fd = -1 },
				       .topology_fd = -1,
				       .graph_fd = -1,
				       .files = { .directory = -1, .resting_fd = -1, .plan_fd = -1, .back_fd = -1 } };
	topology_init(&ret->machine.topology);
	snprintf(ret->shared_dir, sizeof(ret->shared_dir), "%s", params->shared_dir);
	session_environment_read(source, params->local_processes, &ret->environment);
	if (most < SESSION_FULL)
		diag_set(&ret->why, 0, 0, "%s",
			 nets->ours ? "this version of NCCL does not tell of communicators"
				    : "the network is NCCL's own");
	ret->environment.other_tuner = ret->environment.other_tuner || !params->tuner;
	ret->level = level_of(params, &ret->environment, most, &ret->why);
	if (ret->level > SESSION_OFF)
		r = session_machine_load(params, root, nets, &ret->environment, &ret->machine, &ret->why);
	if (ret->level > SESSION_OFF && r == 0)
		r = make_files(ret, &ret->why);
	if (r < 0) {
		remove_files(ret);
		ret->level = SESSION_OFF;
	}
	if (ret->level == SESSION_FULL && !ret->files.can_tell_reads) {
		diag_set(&ret->why, 0, 0, "%.100s does not tell when a file is read", params->shared_dir);
		session_registry_withdraw(&ret->registry);
		session_presence_close(&ret->presence);
		ret->level = SESSION_TOPOLOGY;
	}
	if (ret->level > SESSION_OFF)
		dump_topology(params, ret);
	point_nccl_to_files(ret);
	if (!params->disable && params->steer != STEER_OFF)
		say(ret, !ret->machine.loaded && r < 0);
	errno = saved_errno;
}

void session_setup_undo(struct session_setup *setup)
{
	if (setup->level > SESSION_OFF) {
		unsetenv(SESSION_MARK_VARIABLE);
		unsetenv(SESSION_TOPOLOGY_VARIABLE);
	}
	if (setup->level == SESSION_FULL)
		unsetenv(SESSION_GRAPH_VARIABLE);
	remove_files(setup);
	copies_close(setup);
	session_machine_fini(&setup->machine);
	setup->level = SESSION_OFF;
}
