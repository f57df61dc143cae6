/* SPDX-License-Identifier: Apache-2.0 */
/* Drops the rights that the service does not need. Before any thread is started. */
#ifndef TRIBUTARY_DAEMON_PRIVILEGES_H
#define TRIBUTARY_DAEMON_PRIVILEGES_H

struct diag;

/*
 * Becomes `user` ("": stays who it is) and sees to it that there is no way back; then no program that it started could
 * gain privileges, and no debugger of its user can read the secret. -EPERM, -ENOENT, …, and *diag says what to do.
 */
int daemon_privileges_drop(const char *user, struct diag *diag);

#endif
