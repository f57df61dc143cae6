/*
 * A service in a thread of the test, on the loopback interface, and what tests need to talk to it. One at a time.
 */
#ifndef TESTS_UNIT_DAEMON_SERVER_HALL_H
#define TESTS_UNIT_DAEMON_SERVER_HALL_H

#include "aggregate/control/client.h"
#include "daemon/daemon.h"

#include <pthread.h>
#include <stdatomic.h>

struct server_hall {
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
void server_hall_open(struct server_hall *hall, const char *options, double timeout_s);
/* The same over a transport that errs. */
void server_hall_open_over(struct server_hall *hall, const char *options, double timeout_s,
			   const struct transport_ops *ops);
void server_hall_close(struct server_hall *hall);
/* As SIGTERM does. */
void server_hall_tell_to_end(struct server_hall *hall);
/* It has drained, and has ended by itself. */
bool server_hall_has_ended(const struct server_hall *hall);

/* The secret of halls, in a file that members read: made and removed by a group of tests. */
int server_hall_secret_make(void **state);
int server_hall_secret_remove(void **state);
extern char server_hall_secret_path[];

struct control_client *server_hall_client(const struct server_hall *hall, const char *name);
/* Steps until something else than NONE and PROVED comes; fails the test after some seconds. */
enum control_event server_hall_wait(struct control_client *client, struct control_answer *answer);
/* A plain socket to the control port (or the metrics'); blocking, with a time-out. */
int server_hall_dial(uint16_t port);
/* The state, asked by a client of its own. */
void server_hall_state(const struct server_hall *hall, struct control_answer *answer);

#endif
