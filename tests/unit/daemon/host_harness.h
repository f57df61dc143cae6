/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service in a thread of the test, on the loopback interface, and what tests need to talk to it. One at a time.
 */
#ifndef TESTS_UNIT_DAEMON_HOST_HARNESS_H
#define TESTS_UNIT_DAEMON_HOST_HARNESS_H

#include "aggregate/control/client.h"
#include "daemon/daemon.h"

#include <pthread.h>
#include <stdatomic.h>

struct host_harness {
	struct daemon_options options;
	struct params params;
	struct control_secret secret;
	const struct transport_ops *ops;
	struct transport *transport;
	struct daemon *daemon;
	pthread_t thread;
	_Atomic bool stop, ended;
	uint16_t port, metrics_port;
	int end_fd;
};

/* options: of the command line, without --listen and --secret; timeout_s of the transport and of clients. */
void host_harness_open(struct host_harness *host, const char *options, double timeout_s);
/* The same over a transport that errs. */
void host_harness_open_over(struct host_harness *host, const char *options, double timeout_s,
			    const struct transport_ops *ops);
void host_harness_close(struct host_harness *host);
/* As SIGTERM does. */
void host_harness_tell_to_end(struct host_harness *host);
/* It has drained, and has ended by itself. */
bool host_harness_has_ended(const struct host_harness *host);

/* The secret of hosts, in a file that members read: made and removed by a group of tests. */
int host_harness_secret_make(void **state);
int host_harness_secret_remove(void **state);
extern char host_harness_secret_path[];

struct control_client *host_harness_client(const struct host_harness *host, const char *name);
/* Steps until something else than NONE and PROVED comes; fails the test after some seconds. */
enum control_event host_harness_wait(struct control_client *client, struct control_answer *answer);
/* A plain socket to the control port (or the metrics'); blocking, with a time-out. */
int host_harness_dial(uint16_t port);
/* The state, asked by a client of its own. */
void host_harness_state(const struct host_harness *host, struct control_answer *answer);

#endif
