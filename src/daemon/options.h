/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of tributaryd: one table, from which come the parser, --help and the man page. One thread.
 */
#ifndef TRIBUTARY_DAEMON_OPTIONS_H
#define TRIBUTARY_DAEMON_OPTIONS_H

#include "daemon/allow.h"

#include <stdio.h>

enum { DAEMON_LISTEN_MAX = 8, DAEMON_PATH_BYTES = 1024, DAEMON_USER_BYTES = 64 };

struct daemon_listen {
	struct sockaddr_storage address;
	socklen_t bytes;
};

struct daemon_options {
	size_t listen_count;
	struct daemon_listen listen[DAEMON_LISTEN_MAX];
	struct daemon_allow allow;
	char secret[DAEMON_PATH_BYTES];
	unsigned groups_max, threads;
	uint64_t memory_max_bytes;
	uint64_t drain_ns;
	char user[DAEMON_USER_BYTES]; /* "": stay who we are */
	bool metrics;                 /* answer on metrics_at, to metrics_allow */
	struct daemon_listen metrics_at;
	struct daemon_allow metrics_allow;
};

enum daemon_start { DAEMON_START, DAEMON_DONE, DAEMON_WRONG };

/*
 * DAEMON_DONE: the command line asked for a text (--help, --version, --man), which was written to out. DAEMON_WRONG: a
 * sentence was written to complaints.
 */
enum daemon_start daemon_options_parse(int argc, char **argv, struct daemon_options *ret, FILE *out, FILE *complaints);

#endif
