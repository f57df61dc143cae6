/* The process at the other end: who it is, whether it is still there, and its memory. */
#include "base/clock.h"
#include "base/process.h"
#include "base/sys.h"
#include "transport/shm/shm.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

enum { STOP_LOOKS = 10 }; /* within the time-out, at most */

static _Atomic bool pull_allowed = true;

int shm_random(void *bytes, size_t count)
{
	return getrandom(bytes, count, 0) == (ssize_t)count ? 0 : -EIO;
}

bool shm_equal(const uint8_t *a, const uint8_t *b, size_t count)
{
	uint8_t difference = 0;

	for (size_t i = 0; i < count; i++)
		difference |= (uint8_t)(a[i] ^ b[i]);
	return difference == 0;
}

uint64_t shm_host_id(void)
{
	struct process_identity self = { 0 };
	struct stat st;
	uint64_t hash;

	process_identity(&self); /* without /proc all hosts look alike: the socket's name is found on one alone */
	hash = process_hash(PROCESS_HASH_START, &self.boot, sizeof(self.boot));
	if (stat("/proc/self/ns/net", &st) == 0)
		hash = process_hash(hash, &st.st_ino, sizeof(st.st_ino));
	return hash;
}

/* By the socket where the kernel can, else by its number, which may have been given away since: the nonce tells. */
static int open_pid_fd(int socket_fd, pid_t pid)
{
	int fd = -1;
	socklen_t bytes = sizeof(fd);

	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &bytes) == 0 && fd >= 0)
		return fd; /* close-on-exec, as all of its kind */
#ifdef SYS_pidfd_open
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
#endif
	return fd < 0 ? -1 : fd;
}

int shm_peer_open(int socket_fd, struct shm_peer *ret)
{
	struct ucred who = { 0 };
	socklen_t bytes = sizeof(who);
	int pid_fd;

	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) < 0)
		return -errno;
	if (who.uid != geteuid())
		return -EPERM;
	pid_fd = who.pid > 0 ? open_pid_fd(socket_fd, who.pid) : -1;
	if (pid_fd < 0)
		return -EOPNOTSUPP;
	*ret = (struct shm_peer){ .pid = who.pid, .socket_fd = socket_fd, .pid_fd = pid_fd };
	return 0;
}

void shm_peer_close(struct shm_peer *peer)
{
	sys_close(&peer->pid_fd);
	sys_close_socket(&peer->socket_fd);
}

bool shm_peer_is_gone(const struct shm_peer *peer)
{
	struct pollfd fds[2] = { { .fd = peer->socket_fd, .events = POLLRDHUP },
				 { .fd = peer->pid_fd, .events = POLLIN } };

	/* A forked child of the peer may hold the socket when it is dead. */
	return poll(fds, 2, 0) > 0 && ((fds[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) || (fds[1].revents & POLLIN));
}

bool shm_peer_is_stopped(struct shm_peer *peer, uint64_t timeout_ns, uint64_t now_ns)
{
	uint64_t switches = 0;

	if (clock_elapsed_ns(peer->stop_looked_ns, now_ns) < timeout_ns / STOP_LOOKS)
		return false;
	peer->stop_looked_ns = now_ns;
	if (!process_is_stopped((uint32_t)peer->pid, &switches))
		peer->stopped_since_ns = 0;
	else if (!peer->stopped_since_ns || peer->switches != switches) /* it has run since */
		peer->stopped_since_ns = now_ns;
	peer->switches = switches;
	return peer->stopped_since_ns && clock_elapsed_ns(peer->stopped_since_ns, now_ns) >= timeout_ns;
}

int shm_peer_read(const struct shm_connection *connection, uint64_t address, void *data, size_t bytes)
{
	uint8_t nonce[SHM_WIRE_NONCE_BYTES] = { 0 };
	struct iovec local[2] = { { data, bytes }, { nonce, sizeof(nonce) } };
	struct iovec remote[2] = { { (void *)(uintptr_t)address, bytes },
				   { (void *)(uintptr_t)connection->r.nonce_address, sizeof(nonce) } };
	ssize_t got = sys_read_process(connection->peer.pid, local, remote, 2);

	if (got < 0)
		return (int)got;
	if ((size_t)got < bytes + sizeof(nonce))
		return -EFAULT; /* a part of it is no ordinary memory: whatever came is not proven */
	if (!shm_equal(nonce, connection->r.nonce, sizeof(nonce)))
		return -EREMOTEIO;
	return 0;
}

void shm_set_pull(bool allowed)
{
	atomic_store(&pull_allowed, allowed);
}

bool shm_pull_is_allowed(void)
{
	return atomic_load(&pull_allowed);
}
