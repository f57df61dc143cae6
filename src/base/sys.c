/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic pid_t sockets_owner; /* the process that made the last one */

#ifdef TRIBUTARY_FAULTS
static struct {
	_Atomic uint64_t calls, nth, after;
	_Atomic int error;
	_Atomic uint64_t cut_calls, cut_nth;
	_Atomic size_t cut_bytes, whole_bytes;
} faults[SYS_FAULT_KIND_COUNT];

void sys_fault_set(enum sys_fault_kind kind, uint64_t nth, int error)
{
	atomic_store(&faults[kind].nth, 0);
	atomic_store(&faults[kind].after, 0);
	atomic_store(&faults[kind].calls, 0);
	atomic_store(&faults[kind].error, error);
	atomic_store(&faults[kind].nth, nth);
}

uint64_t sys_fault_calls(enum sys_fault_kind kind)
{
	return atomic_load(&faults[kind].calls);
}

void sys_fault_set_again(enum sys_fault_kind kind, uint64_t after)
{
	atomic_store(&faults[kind].after, after);
}

/* The error that this call must fail with, or 0. */
static int fault_of(enum sys_fault_kind kind)
{
	uint64_t call = atomic_fetch_add(&faults[kind].calls, 1) + 1, after;

	if (call != atomic_load(&faults[kind].nth))
		return 0;
	after = atomic_exchange(&faults[kind].after, 0);
	if (after)
		atomic_store(&faults[kind].nth, call + after);
	return atomic_load(&faults[kind].error);
}

void sys_fault_cut(enum sys_fault_kind kind, uint64_t nth, size_t bytes)
{
	atomic_store(&faults[kind].cut_bytes, 0);
	atomic_store(&faults[kind].cut_nth, nth);
	atomic_store(&faults[kind].cut_calls, 0);
	atomic_store(&faults[kind].whole_bytes, 0);
	atomic_store(&faults[kind].cut_bytes, bytes);
}

size_t sys_fault_whole_bytes(enum sys_fault_kind kind)
{
	return atomic_load(&faults[kind].whole_bytes);
}

/* How many of these bytes this call may move: half of the random numbers are small ones. */
static size_t cut_of(enum sys_fault_kind kind, size_t bytes)
{
	const size_t most = atomic_load(&faults[kind].cut_bytes);
	const uint64_t nth = atomic_load(&faults[kind].cut_nth);
	uint64_t call, random;

	if (!most || !bytes)
		return bytes;
	call = atomic_fetch_add(&faults[kind].cut_calls, 1) + 1;
	if (nth && call != nth)
		return bytes;
	atomic_store(&faults[kind].whole_bytes, bytes);
	if (most != SIZE_MAX)
		return most < bytes ? most : bytes;
	random = call * 0x9e3779b97f4a7c15ULL >> 20;
	return 1 + (random >> 1) % (random & 1 && bytes > 100 ? 100 : bytes);
}

/* The parts that this call may move, which are this thread's until the next one. */
static const struct iovec *cut_parts(enum sys_fault_kind kind, const struct iovec *parts, size_t *count)
{
	enum { PARTS_MOST = 64 };
	static _Thread_local struct iovec cut[PARTS_MOST];
	size_t bytes = 0, at = 0, left;

	for (size_t i = 0; i < *count; i++)
		bytes += parts[i].iov_len;
	left = cut_of(kind, bytes);
	if (left == bytes || *count > PARTS_MOST)
		return parts;
	for (; at < *count && (left || !at); at++) {
		cut[at] = parts[at];
		if (cut[at].iov_len > left)
			cut[at].iov_len = left;
		left -= cut[at].iov_len;
	}
	*count = at;
	return cut;
}
#define FAULT_OF(kind)                fault_of(kind)
#define CUT_OF(kind, bytes)           cut_of(kind, bytes)
#define CUT_PARTS(kind, parts, count) cut_parts(kind, parts, count)
#else
#define FAULT_OF(kind)                0
#define CUT_OF(kind, bytes)           (bytes)
#define CUT_PARTS(kind, parts, count) (parts)
#endif

/* errno belongs to the process that loaded us: it is put back, and our callers get it as a result. */
static ssize_t result_of(ssize_t result, int saved_errno)
{
	if (result < 0) {
		result = -errno;
		errno = saved_errno;
	}
	return result;
}

void *sys_zalloc(size_t bytes)
{
	int saved_errno = errno;
	void *memory;

	if (FAULT_OF(SYS_FAULT_MEMORY))
		return NULL;
	memory = calloc(1, bytes ? bytes : 1);
	errno = saved_errno;
	return memory;
}

/* A gap after each array, so that an AddressSanitizer sees who runs over its end. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
enum { ARRAY_GAP_BYTES = 64 };
#else
enum { ARRAY_GAP_BYTES = 0 };
#define __asan_poison_memory_region(address, bytes) ((void)(address), (void)(bytes))
#endif

static size_t array_room(const struct sys_array *array)
{
	const size_t align = _Alignof(max_align_t);

	return (array->count * array->bytes + align - 1) / align * align + ARRAY_GAP_BYTES;
}

void *sys_zalloc_arrays(const struct sys_array *arrays, size_t count)
{
	size_t bytes = 0;
	char *block, *at;

	for (size_t i = 0; i < count; i++)
		bytes += array_room(&arrays[i]);
	block = at = sys_zalloc(bytes);
	for (size_t i = 0; block && i < count; i++) {
		memcpy(arrays[i].pointer, &at, sizeof(at));
		at += array_room(&arrays[i]);
		__asan_poison_memory_region(at - ARRAY_GAP_BYTES, ARRAY_GAP_BYTES);
	}
	return block;
}

void *sys_zalloc_aligned(size_t align, size_t bytes)
{
	void *memory = NULL;

	if (FAULT_OF(SYS_FAULT_MEMORY))
		return NULL;
	if (align < sizeof(void *))
		align = sizeof(void *);
	if (!bytes)
		bytes = 1;
	if (posix_memalign(&memory, align, bytes))
		return NULL;
	memset(memory, 0, bytes);
	return memory;
}

void sys_free(void *memory)
{
	free(memory); /* glibc keeps errno since 2.33; below that munmap of a valid block does not fail */
}

static size_t room_of(size_t count)
{
	enum { LEAST = 16 };
	size_t room = count ? LEAST : 0;

	while (room && room < count)
		room *= 2;
	return room;
}

int sys_grow(void *array, size_t count, size_t more, size_t element_bytes)
{
	size_t room;
	char *old, *grown;

	if (more > SIZE_MAX / 2 - count)
		return -ENOMEM;
	room = room_of(count + more);
	if (room == room_of(count))
		return 0;
	if (room > SIZE_MAX / element_bytes || FAULT_OF(SYS_FAULT_MEMORY))
		return -ENOMEM;
	memcpy(&old, array, sizeof(old));
	grown = reallocarray(old, room, element_bytes);
	if (!grown)
		return -ENOMEM;
	memset(grown + count * element_bytes, 0, (room - count) * element_bytes);
	memcpy(array, &grown, sizeof(grown));
	return 0; /* cppcheck-suppress memleak ; *array has it */
}

int sys_socket(int family, int type, int protocol)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_SOCKET);

	if (error)
		return -error;
	atomic_store_explicit(&sockets_owner, getpid(), memory_order_relaxed);
	return (int)result_of(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol), saved_errno);
}

int sys_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_BIND);

	if (error)
		return -error;
	return (int)result_of(bind(fd, address, bytes), saved_errno);
}

int sys_listen(int fd, int backlog)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_BIND);

	if (error)
		return -error;
	return (int)result_of(listen(fd, backlog), saved_errno);
}

int sys_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_CONNECT);

	if (error)
		return -error;
	return (int)result_of(connect(fd, address, bytes), saved_errno);
}

int sys_accept(int fd, struct sockaddr_storage *ret_address, socklen_t *ret_bytes)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_ACCEPT);
	struct sockaddr_storage address = { 0 };
	socklen_t bytes = sizeof(address);
	int accepted;

	if (error)
		return -error;
	atomic_store_explicit(&sockets_owner, getpid(), memory_order_relaxed);
	accepted = accept4(fd, (struct sockaddr *)&address, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (accepted < 0)
		return (int)result_of(accepted, saved_errno);
	if (ret_address)
		*ret_address = address;
	if (ret_bytes)
		*ret_bytes = bytes;
	return accepted;
}

ssize_t sys_recv(int fd, void *buffer, size_t bytes, int flags)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_READ);

	if (error)
		return -error;
	return result_of(recv(fd, buffer, CUT_OF(SYS_FAULT_READ, bytes), flags), saved_errno);
}

ssize_t sys_readv(int fd, const struct iovec *parts, int count)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_READ);
	size_t used = (size_t)count;
	const struct iovec *cut;

	if (error)
		return -error;
	cut = CUT_PARTS(SYS_FAULT_READ, parts, &used);
	return result_of(readv(fd, cut, (int)used), saved_errno);
}

ssize_t sys_send(int fd, const void *buffer, size_t bytes)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_WRITE);

	if (error)
		return -error;
	return result_of(send(fd, buffer, CUT_OF(SYS_FAULT_WRITE, bytes), MSG_NOSIGNAL | MSG_DONTWAIT), saved_errno);
}

ssize_t sys_sendmsg(int fd, const struct iovec *parts, size_t count)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_WRITE);
	struct msghdr message = { 0 };

	if (error)
		return -error;
	/* sendmsg only reads the parts; struct msghdr has no const. */
	message.msg_iov = (struct iovec *)(uintptr_t)CUT_PARTS(SYS_FAULT_WRITE, parts, &count);
	message.msg_iovlen = count;
	return result_of(sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT), saved_errno);
}

int sys_memory_file(const char *name)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_FILE);

	if (error)
		return -error;
	/* By number: glibc has the function only since 2.27. */
	return (int)result_of(syscall(SYS_memfd_create, name, MFD_CLOEXEC), saved_errno);
}

void *sys_map_pages(size_t bytes)
{
	int saved_errno = errno;
	void *memory;

	if (FAULT_OF(SYS_FAULT_MEMORY))
		return NULL;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = saved_errno;
	return memory == MAP_FAILED ? NULL : memory;
}

void sys_unmap_pages(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, bytes);
}

int sys_openat(int directory, const char *name, int flags, unsigned mode)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_FILE);

	if (error)
		return -error;
	return (int)result_of(openat(directory, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, mode),
			      saved_errno);
}

int sys_mkdirat(int directory, const char *name, unsigned mode)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_FILE);

	if (error)
		return -error;
	return (int)result_of(mkdirat(directory, name, mode), saved_errno);
}

int sys_each_name(int directory, const char *folder, const char *prefix, int (*each)(void *arg, const char *name),
		  void *arg)
{
	int saved_errno = errno, fd = sys_openat(directory, folder, O_RDONLY | O_DIRECTORY, 0), r = 0;
	const struct dirent *entry = NULL;
	unsigned seen = 0;
	DIR *listing;

	if (fd < 0)
		return fd;
	listing = fdopendir(fd);
	if (!listing) {
		sys_close(&fd);
		return (int)result_of(-1, saved_errno);
	}
	while (r == 0 && (errno = 0, entry = readdir(listing)))
		if (++seen > SYS_NAMES_MAX)
			r = -E2BIG;
		else if (entry->d_name[0] != '.' && !strncmp(entry->d_name, prefix, strlen(prefix)))
			r = each(arg, entry->d_name);
	if (!entry)
		r = -errno;
	closedir(listing);
	errno = saved_errno;
	return r;
}

int sys_pread_whole(int fd, void *data, size_t bytes, uint64_t offset)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_FILE_DATA);

	if (error)
		return -error;
	for (size_t done = 0; done < bytes;) {
		ssize_t got = pread(fd, (char *)data + done, bytes - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return (int)result_of(got, saved_errno);
		if (!got)
			return -ENODATA;
		done += (size_t)got;
	}
	errno = saved_errno;
	return 0;
}

int sys_pwrite_whole(int fd, const void *data, size_t bytes, uint64_t offset)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_FILE_DATA);

	if (error)
		return -error;
	for (size_t done = 0; done < bytes;) {
		ssize_t put = pwrite(fd, (const char *)data + done, bytes - done, (off_t)(offset + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return (int)result_of(put, saved_errno);
		done += (size_t)put;
	}
	errno = saved_errno;
	return 0;
}

int sys_reserve(int fd, size_t bytes)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_FILE), r;

	if (error)
		return -error;
	do
		r = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
	while (r < 0 && errno == EINTR);
	return (int)result_of(r, saved_errno);
}

int sys_renameat(int directory, const char *from, const char *to, unsigned flags)
{
	int saved_errno = errno, error = FAULT_OF(SYS_FAULT_FILE);

	if (error)
		return -error;
	/* By number: glibc has the function only since 2.28. */
	return (int)result_of(syscall(SYS_renameat2, directory, from, directory, to, flags), saved_errno);
}

int sys_thread_start(void *(*run)(void *), void *arg, const char *name, void *ret_pthread)
{
	char short_name[16]; /* the kernel's limit; longer names are refused, not cut */
	sigset_t all, before;
	pthread_t thread;
	int error = FAULT_OF(SYS_FAULT_THREAD);

	if (error)
		return -error;
	/* The thread inherits the mask: at no moment can it be handed one of the application's signals. */
	sigfillset(&all);
	error = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (error)
		return -error;
	error = pthread_create(&thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return -error;
	snprintf(short_name, sizeof(short_name), "%.15s", name);
	pthread_setname_np(thread, short_name);
	*(pthread_t *)ret_pthread = thread;
	return 0;
}

void sys_close(int *fd)
{
	int saved_errno = errno;

	if (*fd >= 0)
		close(*fd); /* on Linux the descriptor is gone whatever close returns */
	*fd = -1;
	errno = saved_errno;
}

void sys_close_socket(int *fd)
{
	int saved_errno = errno;

	if (*fd >= 0 && atomic_load_explicit(&sockets_owner, memory_order_relaxed) == getpid())
		shutdown(*fd, SHUT_RDWR);
	errno = saved_errno;
	sys_close(fd);
}
