/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secret that members and aggregators share, from a file that only its reader can read. Reads the file system; any
 * thread.
 */
#ifndef TRIBUTARY_AGGREGATE_CONTROL_SECRET_H
#define TRIBUTARY_AGGREGATE_CONTROL_SECRET_H

#include <stddef.h>
#include <stdint.h>

struct diag;

enum { CONTROL_SECRET_LEAST = 16, CONTROL_SECRET_MOST = 1024 };

struct control_secret {
	uint8_t bytes[CONTROL_SECRET_MOST];
	size_t count;
};

/*
 * White space at the file's end is no part of the secret. Refused, with the remedy in *diag: a file that belongs neither
 * to this user nor to root, that others can read or write (root's may be read by the group of this process), that is no plain file, or a secret out of range. -EPERM,
 * -EINVAL, or as the system said.
 */
int control_secret_read(const char *path, struct control_secret *ret, struct diag *diag);
/* Leaves nothing of it in memory. */
void control_secret_forget(struct control_secret *secret);

#endif
