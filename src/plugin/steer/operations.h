/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where this process's operations are counted (profile/operations.h): the file o-ID in the registry's folder, mapped, so
 * that others read what is counted at that moment; where that cannot be had, memory of this process alone.
 *
 * Threads: make under the lock of steer.c; read any.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_OPERATIONS_H
#define TRIBUTARY_PLUGIN_STEER_OPERATIONS_H

#include "plugin/steer/registry.h"
#include "profile/operations.h"

/* Stays until the process ends. NULL: no memory. */
struct operations *steer_operations_make(const struct steer_registry *registry);

/* Of the process with that ID; -ENOENT: it has none, -EINVAL: not of this layout. */
int steer_operations_read(int directory, const char *id, struct operations *ret);

#endif
