/* A place: a process in a mount namespace with a /dev/shm of its own, which forks the processes of the jobs there. */
#include "board.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct board *place_board;
static unsigned place_number;

/* Reaps the dead and says so. Everything here may be called in a signal handler. */
static void child_ended(int signal_number)
{
	int saved = errno, status;
	pid_t pid;

	(void)signal_number;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (unsigned i = 0; i < BOARD_PROCESSES_MAX; i++) {
			struct board_process *process = &place_board->processes[i];

			if (process->pid == pid && process->place == place_number) {
				process->status = status;
				atomic_store(&process->dead, 1);
				board_wake(&process->dead);
			}
		}
		board_ring(place_board);
	}
	errno = saved;
}

/* Processes of the tests must not outlive them. */
static void die_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		fprintf(stderr, "standin: %s: %s\n", path, strerror(errno));
	close(fd);
}

/* Namespaces of our own; without privileges in a user namespace in which we are root. */
static int namespaces_make(int flags)
{
	char map[64];
	uid_t uid = getuid();
	gid_t gid = getgid();

	if (!unshare(flags))
		return 0;
	if (unshare(flags | CLONE_NEWUSER))
		return -errno;
	write_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", (unsigned)uid);
	write_text("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", (unsigned)gid);
	write_text("/proc/self/gid_map", map);
	return 0;
}

static int mounts_join(pid_t pid)
{
	static const char *const names[] = { "user", "mnt" };
	char path[64];

	/* ThreadSanitizer has a thread of its own, with which the root folder is shared. */
	if (unshare(CLONE_FS))
		return -errno;
	for (unsigned i = 0; i < 2; i++) {
		int fd, r;

		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, names[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		r = setns(fd, 0) && i ? -errno : 0; /* our own user namespace cannot be joined again, nor need it be */
		close(fd);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The first process of a PID namespace: while it lives others can be made there. It also shows them their own /proc. */
static int pids_make(void)
{
	int pipe_fds[2], r = 0;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid == 0) {
		die_with_parent();
		r = mount("proc", "/proc", "proc", 0, NULL) ? -errno : 0;
		if (write(pipe_fds[1], &r, sizeof(r)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	if (pid < 0 || read(pipe_fds[0], &r, sizeof(r)) < (ssize_t)sizeof(r))
		r = -EIO;
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return r;
}

static int loopback_raise(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	if (fd < 0)
		return -errno;
	r = ioctl(fd, SIOCSIFFLAGS, &request) ? -errno : 0;
	close(fd);
	return r;
}

static int shm_make(const struct board_place *place)
{
	char options[64] = "mode=1777";
	int r = place->shared ? mounts_join(place_board->places[0].pid) : 0;

	if (r == 0)
		r = namespaces_make(CLONE_NEWNS | (place->own_pids ? CLONE_NEWPID : 0) |
				    (place->own_net ? CLONE_NEWNET : 0));
	if (r == 0 && place->own_net)
		r = loopback_raise();
	if (r < 0)
		return r;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -errno;
	if (place->own_pids)
		r = pids_make();
	if (r < 0 || place->shared)
		return r;
	if (place->shm_bytes)
		snprintf(options, sizeof(options), "mode=1777,size=%zu", place->shm_bytes);
	return mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, options) ? -errno : 0;
}

static void remove_below(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (unlinkat(fd, entry->d_name, 0))
			remove_below(fd, entry->d_name);
	}
	if (dir)
		closedir(dir);
	unlinkat(parent, name, AT_REMOVEDIR);
}

static int count_below(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), count = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		count += 1 + count_below(fd, entry->d_name);
	}
	if (dir)
		closedir(dir);
	return count;
}

static int fork_process(unsigned number)
{
	struct board_process *process = &place_board->processes[number];
	sigset_t chld, before;
	pid_t pid;

	/* The handler must not look before the pid is there. */
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, &before);
	pid = fork();
	if (pid == 0) {
		die_with_parent();
		signal(SIGCHLD, SIG_DFL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		rank_run(place_board, number);
	}
	process->pid = pid;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid < 0 ? -errno : 0;
}

/* So many bytes stay free in /dev/shm. */
static int fill(unsigned free_bytes)
{
	int fd = open("/dev/shm/ballast", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), r = 0;
	static const char page[4096];
	off_t bytes = 0;

	if (fd < 0)
		return -errno;
	while (write(fd, page, sizeof(page)) == (ssize_t)sizeof(page))
		bytes += (off_t)sizeof(page);
	if (ftruncate(fd, bytes > (off_t)free_bytes ? bytes - (off_t)free_bytes : 0))
		r = -errno;
	close(fd);
	return r;
}

static int obey(struct board_place *place)
{
	switch (place->op) {
	case BOARD_PLACE_FORK:
		return fork_process(place->argument);
	case BOARD_PLACE_WIPE:
		/* Removing while reading skips some. */
		for (unsigned i = 0; i < 100 && count_below(AT_FDCWD, "/dev/shm"); i++)
			remove_below(AT_FDCWD, "/dev/shm");
		return count_below(AT_FDCWD, "/dev/shm");
	case BOARD_PLACE_COUNT_FILES:
		return count_below(AT_FDCWD, "/dev/shm");
	case BOARD_PLACE_FILL:
		return fill(place->argument);
	case BOARD_PLACE_HOSTILE:
		hostile_plant(place->argument, place->seed);
		return 0;
	default:
		_exit(0);
	}
}

_Noreturn void place_run(struct board *board, unsigned number)
{
	struct board_place *place = &board->places[number];
	struct sigaction action;
	uint32_t done = 0;

	place_board = board;
	place_number = number;
	die_with_parent();
	memset(&action, 0, sizeof(action));
	action.sa_handler = child_ended;
	action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
	sigaction(SIGCHLD, &action, NULL);
	place->result = shm_make(place);
	for (;;) {
		atomic_store(&place->answered, ++done);
		board_ring(board);
		/* The first answer is that the place is there. */
		while (atomic_load(&place->ordered) == done - 1)
			board_wait(&place->ordered, done - 1, 1000);
		place->result = obey(place);
	}
}
