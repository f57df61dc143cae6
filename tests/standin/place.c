/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PCI_DEVICES "/sys/bus/pci/devices"

enum { PATH_BYTES = 256, FOLDER_MODE = 0700 };

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), r = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		r = -errno;
	close(fd);
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

int places_begin(void)
{
	char map[64];
	uid_t uid = getuid();
	gid_t gid = getgid();

	/* The network is its own, too, as the plugin looks for other processes of a job in abstract sockets. */
	if (unshare(CLONE_NEWNS | CLONE_NEWNET)) {
		if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUSER))
			return -errno;
		(void)write_text("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "0 %u 1", (unsigned)uid);
		(void)write_text("/proc/self/uid_map", map);
		snprintf(map, sizeof(map), "0 %u 1", (unsigned)gid);
		(void)write_text("/proc/self/gid_map", map);
	}
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ? -errno : loopback_raise();
}

static int put_gpu(const char *bus_id)
{
	static const char *const files[][2] = {
		{ "class", "0x030200\n" },          { "vendor", "0x10de\n" },
		{ "device", "0x20b5\n" },           { "subsystem_vendor", "0x10de\n" },
		{ "subsystem_device", "0x1533\n" }, { "max_link_speed", "16.0 GT/s PCIe\n" },
		{ "current_link_width", "16\n" },   { "max_link_width", "16\n" },
	};
	char path[PATH_BYTES];
	int r = 0;

	snprintf(path, sizeof(path), PCI_DEVICES "/%s", bus_id);
	if (mkdir(path, 0755))
		return -errno;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && r == 0; i++) {
		snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", bus_id, files[i][0]);
		r = write_text(path, files[i][1]);
	}
	return r;
}

int places_show_gpus(const struct world *world)
{
	int r = mount("tmpfs", PCI_DEVICES, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") ? -errno : 0;

	for (unsigned i = 0; i < world->gpu_count && r == 0; i++)
		r = put_gpu(world->bus_ids[i]);
	return r;
}

static int make_here(bool is_other_host)
{
	static const char name[] = "standin-other-host";
	int r = 0;

	if (unshare(CLONE_NEWNS | (is_other_host ? CLONE_NEWNET | CLONE_NEWUTS : 0)) ||
	    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"))
		return -errno;
	if (is_other_host)
		r = sethostname(name, sizeof(name) - 1) ? -errno : loopback_raise();
	return r;
}

static int open_of(pid_t pid, const char *what, int flags)
{
	char path[PATH_BYTES];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC | flags);
	return fd < 0 ? -errno : fd;
}

/* A child makes the namespaces, which stay as long as their descriptors. */
int place_make(bool is_other_host, struct place *ret)
{
	int pipe_fds[2], r = -EIO;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid == 0) {
		r = make_here(is_other_host);
		if (write(pipe_fds[1], &r, sizeof(r)) == (ssize_t)sizeof(r))
			for (;;)
				pause();
		_exit(1);
	}
	if (pid < 0 || read(pipe_fds[0], &r, sizeof(r)) != (ssize_t)sizeof(r))
		r = -EIO;
	ret->network = ret->name = -1;
	if (r == 0)
		r = ret->mounts = open_of(pid, "ns/mnt", 0);
	if (r >= 0)
		r = ret->shm = open_of(pid, "root/dev/shm", O_DIRECTORY);
	if (r >= 0 && is_other_host)
		r = ret->network = open_of(pid, "ns/net", 0);
	if (r >= 0 && is_other_host)
		r = ret->name = open_of(pid, "ns/uts", 0);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return r < 0 ? r : 0;
}

int place_enter(const struct place *place)
{
	if (setns(place->mounts, CLONE_NEWNS) || (place->network >= 0 && setns(place->network, CLONE_NEWNET)) ||
	    (place->name >= 0 && setns(place->name, CLONE_NEWUTS)))
		return -errno;
	return 0;
}

/* -------------------------------------------------------------------------------------------------------- shared memory */

typedef void visit(int folder, const char *name, void *arg);

static void each_below(int parent, const char *name, visit *what, void *arg)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (entry->d_type == DT_DIR)
			each_below(fd, entry->d_name, what, arg);
		what(fd, entry->d_name, arg);
	}
	if (dir)
		closedir(dir);
}

struct counting {
	bool communicators;
	unsigned count;
};

static void count_one(int folder, const char *name, void *arg)
{
	struct counting *counting = arg;

	(void)folder;
	counting->count += !counting->communicators || (strchr("cds", name[0]) && name[1] == '-');
}

unsigned place_count(const struct place *place, bool communicators)
{
	struct counting counting = { .communicators = communicators };

	each_below(place->shm, ".", count_one, &counting);
	return counting.count;
}

static void remove_one(int folder, const char *name, void *arg)
{
	(void)arg;
	if (unlinkat(folder, name, 0))
		unlinkat(folder, name, AT_REMOVEDIR);
}

void place_wipe(const struct place *place)
{
	/* Removing while reading skips some. */
	for (unsigned i = 0; i < 100 && place_count(place, false); i++)
		each_below(place->shm, ".", remove_one, NULL);
}

int place_put_foreigner(const struct place *place)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[PATH_BYTES];
	int fd;

	snprintf(path, sizeof(path), "tributary-%u", (unsigned)process_user());
	if (mkdirat(place->shm, path, FOLDER_MODE) && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "tributary-%u/p-of-another-version", (unsigned)process_user());
	fd = openat(place->shm, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, path, sizeof(path)) < 0 || fcntl(fd, F_SETLK, &lock))
		return -errno;
	return fd;
}
