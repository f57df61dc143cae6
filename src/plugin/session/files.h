/*
 * The files that NCCL is pointed to. The topology file is written once. The graph file is always there, under one name,
 * because NCCL fails if it is not: in its resting state NCCL searches by itself, and while a plan is published it says
 * the plan. Both states are files of their own with room that was reserved in time; changing between them exchanges
 * their names, so it can neither fail for want of room nor show half a text.
 *
 * Threads: under the lock of session.c.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_FILES_H
#define TRIBUTARY_PLUGIN_SESSION_FILES_H

#include "base/log.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SESSION_FILES_PLAN_BYTES = 1 << 17, SESSION_FILES_NAME_BYTES = 80 };

struct session_files {
	int directory; /* not owned */
	int resting_fd, plan_fd;
	size_t plan_bytes; /* of the longest text so far */
	bool published;
	bool can_tell_reads; /* session_files_was_read means something */
	char graph_path[PATH_MAX], topology_path[PATH_MAX];
	char graph_name[SESSION_FILES_NAME_BYTES], other_name[SESSION_FILES_NAME_BYTES];
	char topology_name[SESSION_FILES_NAME_BYTES];
};

/* path: of the directory. topology_text NULL: no topology file. id: of the process, part of the names. */
int session_files_make(int directory, const char *path, const char *id, const char *topology_text,
		       struct session_files *ret, struct diag *diag);
/* The files go. One that was never made must have all descriptors at -1. */
void session_files_remove(struct session_files *files);

/* False: somebody has removed one of the two states. */
bool session_files_are_there(const struct session_files *files);

/*
 * Makes sure that there is room for the next plan, and that nothing is left of the last one. While none is published.
 */
int session_files_prepare(struct session_files *files);
/* -E2BIG: too long. On an error NCCL finds what it found before. */
int session_files_publish(struct session_files *files, const char *text, size_t bytes);
int session_files_rest(struct session_files *files);

/* Whether somebody has read the graph file since session_files_watch or session_files_publish. */
void session_files_watch(struct session_files *files);
bool session_files_was_read(const struct session_files *files);

#endif
