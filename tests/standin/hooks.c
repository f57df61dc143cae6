/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of the C library's functions, also for the plugin: all that other processes can see, that waits or that tells
 * the time. The program exports them, so the loader finds them first. In a thread that is no actor they only pass on.
 */
#include "board.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
/* The function behind a hook, as the type of the hook itself. */
#define REAL(name)                                                                  \
	static __typeof__(name) *real;                                              \
	do {                                                                        \
		void *symbol = __atomic_load_n((void **)&real, __ATOMIC_RELAXED);   \
		if (!symbol) {                                                      \
			symbol = dlsym(RTLD_NEXT, #name);                           \
			__atomic_store_n((void **)&real, symbol, __ATOMIC_RELAXED); \
		}                                                                   \
	} while (0)

enum { PATIENCE_NS = 1002000000 }; /* a second, and what a nap may be late */

static struct board *board;
static _Thread_local struct board_actor *self;
static _Thread_local uint64_t slept_ns; /* in this order */

void hooks_become(struct board *of, struct board_actor *actor)
{
	board = of;
	self = actor;
}

void hooks_give(enum board_state state)
{
	uint32_t turn = atomic_load(&self->turn);

	atomic_store(&self->state, state);
	atomic_fetch_add(&board->bell, 1);
	board_wake(&board->bell);
	while (atomic_load(&self->turn) == turn)
		board_wait(&self->turn, turn, 1000);
	if (state == BOARD_IDLE)
		slept_ns = 0;
}

/* Before a call that others can see. */
static void point(void)
{
	int saved_errno = errno;

	if (self && self->budget != UINT32_MAX && self->budget-- == 0)
		hooks_give(BOARD_STOPPED);
	errno = saved_errno;
}

EXPORT int openat(int directory, const char *path, int flags, ...)
{
	unsigned mode;
	va_list args;
	REAL(openat);

	va_start(args, flags);
	mode = va_arg(args, unsigned);
	va_end(args);
	point();
	return real(directory, path, flags, mode);
}

EXPORT ssize_t pread(int fd, void *data, size_t bytes, off_t offset)
{
	REAL(pread);

	point();
	return real(fd, data, bytes, offset);
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	REAL(pwrite);

	point();
	return real(fd, data, bytes, offset);
}

EXPORT int symlinkat(const char *target, int directory, const char *path)
{
	REAL(symlinkat);

	point();
	return real(target, directory, path);
}

EXPORT int unlinkat(int directory, const char *path, int flags)
{
	REAL(unlinkat);

	point();
	return real(directory, path, flags);
}

EXPORT int mkdirat(int directory, const char *path, mode_t mode)
{
	REAL(mkdirat);

	point();
	return real(directory, path, mode);
}

EXPORT int rmdir(const char *path)
{
	REAL(rmdir);

	point();
	return real(path);
}

EXPORT long syscall(long number, ...)
{
	long a[6];
	va_list args;
	REAL(syscall);

	va_start(args, number);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_renameat2)
		point();
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

EXPORT int sched_yield(void)
{
	REAL(sched_yield);

	if (self)
		hooks_give(BOARD_STOPPED);
	return real();
}

EXPORT int nanosleep(const struct timespec *time, struct timespec *left)
{
	int saved_errno = errno;
	uint64_t began_ns;
	REAL(nanosleep);

	if (!self)
		return real(time, left);
	self->answer.waited |= slept_ns > PATIENCE_NS;
	began_ns = board->now_ns;
	self->wake_ns = began_ns + (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
	hooks_give(BOARD_ASLEEP);
	slept_ns += board->now_ns - began_ns;
	errno = saved_errno;
	return 0;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *ret)
{
	REAL(clock_gettime);

	if (!self || clock != CLOCK_MONOTONIC)
		return real(clock, ret);
	ret->tv_sec = (time_t)(board->now_ns / 1000000000);
	ret->tv_nsec = (long)(board->now_ns % 1000000000);
	return 0;
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int r;
	REAL(pthread_mutex_lock);

	if (!self)
		return real(mutex);
	point();
	while ((r = pthread_mutex_trylock(mutex)) == EBUSY)
		hooks_give(BOARD_BLOCKED);
	return r;
}
