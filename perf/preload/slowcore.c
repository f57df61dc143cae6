/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slowcore.so, for LD_PRELOAD: each thread moves at most SLOWCORE_BPS bytes a second through sockets, as if its core copied
 * no faster. What scales over threads then shows on a machine with two cores: ports of 1 Gbit/s (120 MB/s) are to threads
 * of 40 MB/s what ports of 100 Gbit/s are to cores that copy 4 GB/s. With SLOWCORE_CORES=N the threads of a process share
 * N such cores, and whatever asks how many cores there are is told N; without it each thread has a core of its own.
 *
 * The time is spent asleep after the call, once SLEEP_NS have gathered. A core that was idle saves up at most BURST_NS. What
 * the calls cost on the real core comes on top and should be small beside it: keep SLOWCORE_BPS below 100 MB/s.
 *
 * io_uring, splice, and read and write on sockets are not slowed down. Do not compare what uses them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BURST_NS = 1000000, SLEEP_NS = 100000, NS_PER_S = 1000000000, CORES_MAX = 64 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double ns_a_byte;
static int core_count;
static uint64_t core_free_ns[CORES_MAX]; /* until when each has work; under the lock */
static _Thread_local uint64_t thread_free_ns;

/* The C library's. */
static struct {
	ssize_t (*send)(int fd, const void *data, size_t bytes, int flags);
	ssize_t (*recv)(int fd, void *data, size_t bytes, int flags);
	ssize_t (*sendmsg)(int fd, const struct msghdr *message, int flags);
	ssize_t (*recvmsg)(int fd, struct msghdr *message, int flags);
	int (*sendmmsg)(int fd, struct mmsghdr *messages, unsigned count, int flags);
	int (*recvmmsg)(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout);
	ssize_t (*readv)(int fd, const struct iovec *parts, int count);
	ssize_t (*writev)(int fd, const struct iovec *parts, int count);
	int (*sched_getaffinity)(pid_t pid, size_t bytes, cpu_set_t *mask);
	int (*pthread_getaffinity_np)(pthread_t thread, size_t bytes, cpu_set_t *mask);
	long (*sysconf)(int name);
} real;

static void load(void)
{
	const struct {
		const char *name;
		void *function;
	} all[] = {
		{ "send", &real.send },
		{ "recv", &real.recv },
		{ "sendmsg", &real.sendmsg },
		{ "recvmsg", &real.recvmsg },
		{ "sendmmsg", &real.sendmmsg },
		{ "recvmmsg", &real.recvmmsg },
		{ "readv", &real.readv },
		{ "writev", &real.writev },
		{ "sched_getaffinity", &real.sched_getaffinity },
		{ "pthread_getaffinity_np", &real.pthread_getaffinity_np },
		{ "sysconf", &real.sysconf },
	};
	const char *rate = getenv("SLOWCORE_BPS"), *cores = getenv("SLOWCORE_CORES");
	double rate_Bps = rate ? strtod(rate, NULL) : 0;
	long count = cores ? strtol(cores, NULL, 10) : 0;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		*(void **)all[i].function = dlsym(RTLD_NEXT, all[i].name);
	ns_a_byte = rate_Bps > 0 ? NS_PER_S / rate_Bps : 0;
	core_count = count < 0 ? 0 : count > CORES_MAX ? CORES_MAX : (int)count;
}

/* ---- the time that bytes take ---- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* The end of work of so many ns on a core, or thread, that is free at *at. */
static uint64_t occupy(uint64_t *at, uint64_t now, uint64_t work_ns)
{
	if (*at + BURST_NS < now)
		*at = now - BURST_NS;
	return *at += work_ns;
}

static uint64_t occupy_first_core(uint64_t now, uint64_t work_ns)
{
	int first = 0, i;
	uint64_t end;

	pthread_mutex_lock(&lock);
	for (i = 1; i < core_count; i++)
		if (core_free_ns[i] < core_free_ns[first])
			first = i;
	end = occupy(&core_free_ns[first], now, work_ns);
	pthread_mutex_unlock(&lock);
	return end;
}

static ssize_t charge(ssize_t bytes)
{
	int saved_errno = errno;
	uint64_t now, work_ns, end, core_end;
	struct timespec until;

	if (bytes <= 0 || ns_a_byte <= 0)
		return bytes;
	now = now_ns();
	work_ns = (uint64_t)((double)bytes * ns_a_byte);
	end = occupy(&thread_free_ns, now, work_ns);
	core_end = core_count ? occupy_first_core(now, work_ns) : 0;
	end = core_end > end ? core_end : end;
	if (end > now + SLEEP_NS) {
		until = (struct timespec){ (time_t)(end / NS_PER_S), (long)(end % NS_PER_S) };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	errno = saved_errno;
	return bytes;
}

static int charge_messages(const struct mmsghdr *messages, int count)
{
	ssize_t bytes = 0;
	int i;

	for (i = 0; i < count; i++)
		bytes += (ssize_t)messages[i].msg_len;
	(void)charge(bytes);
	return count;
}

static ssize_t charge_if_socket(int fd, ssize_t bytes)
{
	int saved_errno = errno, type;
	socklen_t type_bytes = sizeof(type);

	if (bytes > 0 && !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes))
		return charge(bytes);
	errno = saved_errno;
	return bytes;
}

#pragma GCC visibility push(default) /* these take the place of the C library's */

/* ---- calls that move bytes ---- */

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	pthread_once(&once, load);
	return charge(real.send(fd, data, bytes, flags));
}

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
	ssize_t n;

	pthread_once(&once, load);
	n = real.recv(fd, data, bytes, flags);
	return flags & MSG_PEEK ? n : charge(n);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	pthread_once(&once, load);
	return charge(real.sendmsg(fd, message, flags));
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t n;

	pthread_once(&once, load);
	n = real.recvmsg(fd, message, flags);
	return flags & MSG_PEEK ? n : charge(n);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	pthread_once(&once, load);
	return charge_messages(messages, real.sendmmsg(fd, messages, count, flags));
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
	pthread_once(&once, load);
	return charge_messages(messages, real.recvmmsg(fd, messages, count, flags, timeout));
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
	pthread_once(&once, load);
	return charge_if_socket(fd, real.readv(fd, parts, count));
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	pthread_once(&once, load);
	return charge_if_socket(fd, real.writev(fd, parts, count));
}

/* ---- calls that count cores ---- */

/* The mask of cores 0 to N - 1: 0, or EINVAL where it does not fit. */
static int pretend(size_t bytes, cpu_set_t *mask)
{
	int i;

	if (bytes * 8 < (size_t)core_count)
		return EINVAL;
	CPU_ZERO_S(bytes, mask);
	for (i = 0; i < core_count; i++)
		CPU_SET_S((size_t)i, bytes, mask);
	return 0;
}

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *mask)
{
	int r;

	pthread_once(&once, load);
	if (!core_count)
		return real.sched_getaffinity(pid, bytes, mask);
	r = pretend(bytes, mask);
	errno = r ? r : errno;
	return r ? -1 : 0;
}

int pthread_getaffinity_np(pthread_t thread, size_t bytes, cpu_set_t *mask)
{
	pthread_once(&once, load);
	return core_count ? pretend(bytes, mask) : real.pthread_getaffinity_np(thread, bytes, mask);
}

long sysconf(int name)
{
	pthread_once(&once, load);
	return core_count && (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) ? core_count
											    : real.sysconf(name);
}

int get_nprocs(void)
{
	return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int get_nprocs_conf(void)
{
	return (int)sysconf(_SC_NPROCESSORS_CONF);
}

#pragma GCC visibility pop
