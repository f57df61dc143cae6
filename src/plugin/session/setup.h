/*
 * What a process does once, in its first communicator: looks at the environment, finds the profile, makes the files and
 * points NCCL to them. The only place of the plugin that changes the environment, and only four names of it.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_SETUP_H
#define TRIBUTARY_PLUGIN_SESSION_SETUP_H

#include "plugin/session/environment.h"
#include "plugin/session/files.h"
#include "plugin/session/machine.h"
#include "plugin/session/presence.h"
#include "plugin/session/registry.h"

enum session_level {
	SESSION_OFF,      /* NCCL is told nothing */
	SESSION_TOPOLOGY, /* the topology file */
	SESSION_FULL,     /* and plans */
};

struct session_setup {
	enum session_level level;
	struct session_environment environment;
	struct session_nets nets;
	struct session_machine machine;
	struct session_registry registry;
	struct session_presence presence;
	struct session_files files;
	char shared_dir[PARAMS_STRING_BYTES];
	int topology_fd, graph_fd; /* what NCCL is pointed to after session_setup_leave; else -1 */
	struct diag why;           /* it is not SESSION_FULL; a clause */
};

/*
 * most: what the version of NCCL's interface allows. source: the environment; root: "" for this machine. Says in the log
 * what came of it. *ret is whole whatever happens.
 */
void session_setup(const struct params *params, const struct params_source *source, const char *root,
		   const struct session_nets *nets, enum session_level most, struct session_setup *ret);
/*
 * Whether everything is still there. Somebody may have cleaned the folder up: systemd removes a user's files in /dev/shm
 * when the last session ends (logind.conf(5), RemoveIPC). NCCL fails without its graph file.
 */
bool session_setup_is_whole(const struct session_setup *setup);
/* Makes all of it anew, under the same names; the graph file is at rest. */
int session_setup_restore(struct session_setup *setup);
/*
 * No communicator is left: the files go, until session_setup_restore. NCCL's variables point to copies without a name
 * meanwhile, for communicators over another network, whose init does not come here. Without such copies the files stay.
 */
void session_setup_leave(struct session_setup *setup);
/* The process ends: the files go for good. */
void session_setup_end(struct session_setup *setup);
/* Files go, and the environment is as it was: for tests. */
void session_setup_undo(struct session_setup *setup);

#endif
