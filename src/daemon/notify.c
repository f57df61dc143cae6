#include "daemon/notify.h"

#include "base/sys.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* systemd's protocol (sd_notify(3)): a path, or '@' and a name without a file. */
int daemon_notify(const char *socket, const char *state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = socket ? strlen(socket) : 0;
	int fd;
	ssize_t sent;

	if (!length)
		return 0;
	if ((socket[0] != '/' && socket[0] != '@') || length >= sizeof(address.sun_path))
		return -EINVAL;
	memcpy(address.sun_path, socket, length);
	if (socket[0] == '@')
		address.sun_path[0] = '\0';
	fd = sys_socket(AF_UNIX, SOCK_DGRAM, 0);
	if (fd < 0)
		return fd;
	sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
	if (sent < 0)
		sent = -errno;
	sys_close(&fd);
	return sent < 0 ? (int)sent : 0;
}
