/* What others, and crashes, may leave where the plugin keeps its registry. */
#include "board.h"
#include "support/runtime.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHM "/dev/shm"
enum { NOBODY = 65534, PATH_ROOM = 600, DEPTH_MAX = 4 };

static void file_put(const char *path, struct random *random, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600); /* not into a pipe of before */
	unsigned char byte;

	if (fd < 0)
		return;
	for (size_t i = 0; i < bytes && i < 2000; i++) {
		byte = (unsigned char)random_next(random);
		if (write(fd, &byte, 1) < 0)
			break;
	}
	if (bytes > 2000 && ftruncate(fd, (off_t)bytes))
		unlink(path);
	close(fd);
}

/* Something of each kind, under a name that may be one of ours. */
static void garbage_put(const char *directory, struct random *random)
{
	static const char *const names[] = { "decision",    "member",    "jobs", "0",
					     "resting.xml", "graph.xml", "..x",  "%s%n" };
	char path[PATH_ROOM];

	for (unsigned i = 0; i < 6; i++) {
		const char *name = names[random_below(random, sizeof(names) / sizeof(names[0]))];

		snprintf(path, sizeof(path), "%.500s/%s-%llx", directory, name,
			 (unsigned long long)random_below(random, 1000));
		switch (random_below(random, 6)) {
		case 0:
			file_put(path, random, random_below(random, 300));
			break;
		case 1:
			file_put(path, random, 64 << 20); /* a hole */
			break;
		case 2:
			(void)!symlink("/etc/passwd", path);
			break;
		case 3:
			mkfifo(path, 0600);
			break;
		case 4:
			mkdir(path, 0700);
			break;
		default:
			file_put(path, random, 0);
			break;
		}
	}
}

typedef void visit(const char *path, bool is_directory, struct random *random);

static void each_below(const char *directory, unsigned depth, struct random *random, visit *what)
{
	DIR *dir = depth < DEPTH_MAX ? opendir(directory) : NULL;
	const struct dirent *entry;
	char path[PATH_ROOM];
	struct stat st;

	while (dir && (entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name) >= (int)sizeof(path) ||
		    lstat(path, &st))
			continue;
		if (S_ISDIR(st.st_mode))
			each_below(path, depth + 1, random, what);
		if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))
			what(path, S_ISDIR(st.st_mode), random);
	}
	if (dir)
		closedir(dir);
}

static void add_garbage(const char *path, bool is_directory, struct random *random)
{
	if (is_directory)
		garbage_put(path, random);
}

/* What a crash of the machine's memory would leave: bytes changed, or the end cut off. */
static void damage(const char *path, bool is_directory, struct random *random)
{
	unsigned char byte = (unsigned char)random_next(random);
	struct stat st;
	int fd;

	if (is_directory || random_below(random, 2))
		return;
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) || st.st_size < 1)
		goto out;
	if (random_below(random, 2) || pwrite(fd, &byte, 1, (off_t)random_below(random, (uint64_t)st.st_size)) != 1)
		(void)!ftruncate(fd, (off_t)random_below(random, (uint64_t)st.st_size));
out:
	if (fd >= 0)
		close(fd);
}

static void open_to_all(const char *path, bool is_directory, struct random *random)
{
	(void)random;
	chmod(path, is_directory ? 0777 : 0666);
}

static void give_away(const char *path, bool is_directory, struct random *random)
{
	(void)is_directory;
	(void)random;
	(void)!lchown(path, NOBODY, NOBODY);
}

const char *hostile_plant(unsigned which, uint64_t seed)
{
	static const char *const words[] = {
		"another user's folder under our name",
		"a link under our name",
		"a file under our name",
		"garbage in our folders",
		"our files damaged",
		"our folders open to all",
		"our files given to another user",
	};
	char path[PATH_ROOM];
	struct random random;

	random_init(&random, seed);
	which %= sizeof(words) / sizeof(words[0]);
	snprintf(path, sizeof(path), SHM "/tributary-%u", (unsigned)geteuid());
	switch (which) {
	case 0:
		if (mkdir(path, 0777) == 0)
			(void)!chown(path, NOBODY, NOBODY);
		break;
	case 1:
		(void)!symlink("/tmp", path);
		break;
	case 2:
		file_put(path, &random, 100);
		break;
	case 3:
		mkdir(path, 0700);
		garbage_put(path, &random);
		each_below(SHM, 0, &random, add_garbage);
		break;
	case 4:
		each_below(SHM, 0, &random, damage);
		break;
	case 5:
		each_below(SHM, 0, &random, open_to_all);
		break;
	default:
		each_below(SHM, 0, &random, give_away);
		break;
	}
	return words[which];
}
