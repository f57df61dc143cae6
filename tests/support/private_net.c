/* SPDX-License-Identifier: Apache-2.0 */
#include "support/private_net.h"

#include "support/runtime.h"

#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LINK_MS = 10000 };

static bool put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (!file)
		return false;
	fputs(text, file);
	return fclose(file) == 0;
}

bool private_net_enter(void)
{
	char map[32];

	snprintf(map, sizeof(map), "0 %u 1", (unsigned)getuid());
	if (unshare(CLONE_NEWNET) == 0)
		return true;
	if (unshare(CLONE_NEWNET | CLONE_NEWUSER) < 0)
		return false;
	(void)put("/proc/self/setgroups", "deny");
	return put("/proc/self/uid_map", map);
}

int private_net_command(const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return system(text);
}

bool private_net_enter_with_hosts(void)
{
	return private_net_enter() && !private_net_command("ip link add br0 type bridge 2>/dev/null && ip link del br0") &&
	       !private_net_command("ip link add p0 type veth peer name p1 2>/dev/null && ip link del p0") &&
	       !private_net_command(PRIVATE_NET_INSIDE "true 2>/dev/null", (int)getpid());
}

bool private_net_up(const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_flags = 0 };
	bool runs = false;

	strncpy(request.ifr_name, name, sizeof(request.ifr_name) - 1);
	if (private_net_command("ip link set %s up", name)) {
		close(fd);
		return false;
	}
	for (unsigned i = 0; !runs && i < LINK_MS * runtime_slow(); i++) {
		runs = ioctl(fd, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_RUNNING;
		if (!runs)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	close(fd);
	return runs;
}
