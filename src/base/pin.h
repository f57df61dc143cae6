/* SPDX-License-Identifier: Apache-2.0 */
/* A thread near a network card, if the process may run there. Any thread; errors leave it where it is. */
#ifndef TRIBUTARY_BASE_PIN_H
#define TRIBUTARY_BASE_PIN_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* "0-3,8" as the kernel writes it. False: it is not such a list. */
bool pin_read_list(const char *text, cpu_set_t *ret);
/*
 * The calling thread goes where both it and the list of the PCI function at `path` (/sys/devices/…) allow, if these are
 * `least` cores; else it stays.
 */
void pin_near(const char *path, int least);

/* How many of these cores the process may use at a time: its cgroups may allow less. root: before /proc and /sys; "". */
unsigned pin_core_count(const cpu_set_t *cores, const char *root);

#endif
