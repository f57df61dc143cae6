/*
 * The files that NCCL is pointed to. The topology file is written once. The graph file is always there, under one name,
 * because NCCL fails if it is not: in its resting state NCCL searches by itself, and while a plan is published it says
 * the plan. What is needed for both is made before, with room reserved: a plan gets the graph file's name by a rename, and
 * what takes it back gets it by another, so neither can fail for want of room or show half a text.
 *
 *     g-ID     the graph file
 *     x-ID-N   the process's plan number N, until it is published
 *     y-ID-N   a resting file: who renames it to g-ID takes plan N back, and can do that to no other
 *     t-ID     the topology file
 *
 * Because of the numbers any process of the host may take a plan of any other back, however late it comes to it.
 *
 * Threads: under the lock of session.c.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_FILES_H
#define TRIBUTARY_PLUGIN_SESSION_FILES_H

#include "base/log.h"
#include "plugin/session/registry.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SESSION_FILES_PLAN_BYTES = 1 << 17, SESSION_FILES_NAME_BYTES = 96 };

struct session_files {
	int directory;        /* not owned */
	int resting_fd;       /* what the graph file is at rest */
	int plan_fd, back_fd; /* x and y of the number; -1: none */
	uint64_t number;      /* of the plan that there is room for; 0: none */
	size_t plan_bytes;    /* of the longest text that it has had */
	bool published;
	bool can_tell_reads; /* session_files_was_read means something */
	char id[SESSION_ID_BYTES];
	char graph_path[PATH_MAX], topology_path[PATH_MAX];
	char graph_name[SESSION_FILES_NAME_BYTES], topology_name[SESSION_FILES_NAME_BYTES];
};

/* path: of the directory. topology_text NULL: no topology file. id: of the process, part of the names. */
int session_files_make(int directory, const char *path, const char *id, const char *topology_text,
		       struct session_files *ret, struct diag *diag);
/* The files go. One that was never made must have all descriptors at -1. */
void session_files_remove(struct session_files *files);

/* False: somebody has removed one that is needed. */
bool session_files_are_there(const struct session_files *files);

/* Makes sure that there is room for plan number `number`, above 0, and for no other. While none is published. */
int session_files_prepare(struct session_files *files, uint64_t number);
/*
 * The text of the plan that there is room for; again: another text for the same. Nobody may be about to read then but who
 * calls. -E2BIG: too long. -ECANCELED: another process has taken it back before. On an error NCCL finds what it found
 * before.
 */
int session_files_publish(struct session_files *files, const char *text, size_t bytes);
int session_files_rest(struct session_files *files);

/* Whether somebody has read the graph file since session_files_watch or session_files_publish. */
void session_files_watch(struct session_files *files);
bool session_files_was_read(const struct session_files *files);
/* What was published last, whatever has become of the graph file since. */
bool session_files_plan_is_unread(const struct session_files *files);

/* The same files seen by the other processes, which know the id and the number: see registry.h. */
enum session_plan_state session_files_plan_state(int directory, const char *id, uint64_t number);
void session_files_retract(int directory, const char *id, uint64_t number);
bool session_files_of_other_was_read(int directory, const char *id);

#endif
