/* SPDX-License-Identifier: Apache-2.0 */
/* A network namespace of the test's own, in which it is root. */
#ifndef TESTS_SUPPORT_PRIVATE_NET_H
#define TESTS_SUPPORT_PRIVATE_NET_H

#include <stdbool.h>

/* Of this process, which has one thread. False: not possible here. */
bool private_net_enter(void);
/* The same, where hosts that are other processes can be joined: in front of a command PRIVATE_NET_INSIDE runs it in one's. */
bool private_net_enter_with_hosts(void);
#define PRIVATE_NET_INSIDE "nsenter -n -t %d "
/* What the shell makes of it, as system() returns it. */
__attribute__((format(printf, 1, 2))) int private_net_command(const char *format, ...);
/* Sets the interface up and waits until it has its link, which the kernel says a little later. False: it does not come. */
bool private_net_up(const char *name);

#endif
