/*
 * Whether a plan that is published will be read. From A (docs/session.md) on a communicator's ranks of a host wait for
 * each other alone, so where they all are still at it, they read sooner or later, whatever happens elsewhere; and where
 * one has ended or has begun something else, the communicator has failed. Threads: under the lock of session.c.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_OUTLOOK_H
#define TRIBUTARY_PLUGIN_SESSION_OUTLOOK_H

#include "plugin/session/registry.h"

#include <stdint.h>

enum session_outlook {
	SESSION_OUTLOOK_SLOW,     /* nobody has read, and nothing speaks against it */
	SESSION_OUTLOOK_READ,     /* some rank has: it must not be taken from the others */
	SESSION_OUTLOOK_GIVEN_UP, /* it never comes to that: the communicator fails, whoever reads what */
};

/* What the ranks of this host tell. members: a census of that communicator, at least one of whose ranks has its plan. */
enum session_outlook session_outlook_of(const struct session_registry *registry, const struct session_census *members);

/* The same, looked up. SESSION_OUTLOOK_SLOW also means: cannot tell. */
enum session_outlook session_outlook(struct session_registry *registry, uint64_t comm_id, uint64_t host);

/* Takes the plan back from all ranks of this host. None of them may have read it. */
void session_outlook_retract(struct session_registry *registry, uint64_t comm_id, uint64_t host);

#endif
