/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of topo/. Below TRIBUTARY_SOURCE, else here. */
#ifndef TESTS_SUPPORT_MACHINES_H
#define TESTS_SUPPORT_MACHINES_H

#include "tributary/topology.h"

/* Of a machine's text; fails the test where it is none. */
void machines_of_text(const char *text, struct topology *ret);
/* The machine of that name. False: there is none. */
bool machines_load(const char *name, struct topology *ret);
/* Visits all; how many there were. Skips the test where there is no topo/. */
unsigned machines_each(void (*visit)(void *arg, const char *name, const struct topology *topology), void *arg);

#endif
