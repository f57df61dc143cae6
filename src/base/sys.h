/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place where the library asks the system for something that can fail: memory and socket calls. They behave as
 * their namesakes but return -errno instead of setting errno, and every descriptor is CLOEXEC. A build with
 * -DTRIBUTARY_FAULTS makes the Nth call of a chosen kind fail (sys_fault_*), which is how error paths are tested.
 */
#ifndef TRIBUTARY_BASE_SYS_H
#define TRIBUTARY_BASE_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

void *sys_zalloc(size_t bytes);                       /* zeroed; NULL: no memory. Freed by sys_free (NULL is fine) */
void *sys_zalloc_aligned(size_t align, size_t bytes); /* align: a power of two */
void sys_free(void *memory);
/*
 * Zeroed arrays in one block: each pointer is set, and sys_free of what is returned frees them all. NULL: no memory, and no
 * pointer is set. Of the numbers of elements none may be near SIZE_MAX.
 */
struct sys_array {
	void *pointer; /* to the pointer */
	size_t count, bytes;
};
#define SYS_ARRAY(pointer, count)                                                                                  \
	{                                                                                                          \
		&(pointer), (count), sizeof(*(pointer)) /* NOLINT(bugprone-sizeof-expression): of pointers, too */ \
	}
void *sys_zalloc_arrays(const struct sys_array *arrays, size_t count);
/*
 * Room for `more` elements after the `count` that an array has; `array` is the pointer's address. How much there is follows
 * from the count (a power of two), so all that an array ever has is from here; fresh memory is zeroed. 0 or -ENOMEM, which
 * changes nothing.
 */
int sys_grow(void *array, size_t count, size_t more, size_t element_bytes);

int sys_socket(int family, int type, int protocol); /* adds SOCK_CLOEXEC | SOCK_NONBLOCK */
int sys_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int sys_listen(int fd, int backlog);
int sys_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int sys_accept(int fd, struct sockaddr_storage *ret_address, socklen_t *ret_bytes); /* CLOEXEC, non-blocking */
ssize_t sys_recv(int fd, void *buffer, size_t bytes, int flags);
ssize_t sys_readv(int fd, const struct iovec *parts, int count);
ssize_t sys_send(int fd, const void *buffer, size_t bytes);           /* adds MSG_NOSIGNAL | MSG_DONTWAIT */
ssize_t sys_sendmsg(int fd, const struct iovec *parts, size_t count); /* adds MSG_NOSIGNAL | MSG_DONTWAIT */
int sys_thread_start(void *(*run)(void *), void *arg, const char *name, void *ret_pthread); /* all signals blocked */
/* An empty file without a name; the descriptor. */
int sys_memory_file(const char *name);
/*
 * Whole pages of zeroes, which cost neither time nor memory before they are touched: for what is long and may be used in
 * part. NULL: no memory. Given back with the same length (NULL is fine).
 */
void *sys_map_pages(size_t bytes);
void sys_unmap_pages(void *memory, size_t bytes);
void sys_close(int *fd); /* closes unless negative, sets it to -1, keeps errno */
/*
 * The same for a socket that was made here: the peer hears of it now, though forked children may hold copies. A child that
 * closes its copy, which it got before it made a socket itself, does not disturb its parent's.
 */
void sys_close_socket(int *fd);

/*
 * Files, relative to a directory's descriptor. Whole: all bytes or an error (-ENODATA: the file is shorter). Opened ones
 * are CLOEXEC and never a link that is followed.
 */
int sys_openat(int directory, const char *name, int flags, unsigned mode);
int sys_mkdirat(int directory, const char *name, unsigned mode);
int sys_pread_whole(int fd, void *data, size_t bytes, uint64_t offset);
int sys_pwrite_whole(int fd, const void *data, size_t bytes, uint64_t offset);
/* Room for so many bytes, which later writes cannot lack; the file is no longer than before. */
int sys_reserve(int fd, size_t bytes);
/*
 * Calls `each` with every name in that folder that begins so, hidden ones never, until it returns something but 0; that is
 * returned, or 0. -E2BIG: there are more than SYS_NAMES_MAX in the folder.
 */
enum { SYS_NAMES_MAX = 8192 };
int sys_each_name(int directory, const char *folder, const char *prefix, int (*each)(void *arg, const char *name),
		  void *arg);
/* flags: SYS_RENAME_*; 0: what has the new name is replaced. -EEXIST, -EINVAL: the file system cannot. */
enum { SYS_RENAME_NO_REPLACE = 1, SYS_RENAME_EXCHANGE = 2 };
int sys_renameat(int directory, const char *from, const char *to, unsigned flags);

#ifdef TRIBUTARY_FAULTS
enum sys_fault_kind {
	SYS_FAULT_MEMORY,
	SYS_FAULT_SOCKET,
	SYS_FAULT_BIND,
	SYS_FAULT_CONNECT,
	SYS_FAULT_ACCEPT,
	SYS_FAULT_READ,
	SYS_FAULT_WRITE,
	SYS_FAULT_THREAD,
	SYS_FAULT_FILE, /* open, make a directory, reserve, rename */
	SYS_FAULT_FILE_DATA,
	SYS_FAULT_KIND_COUNT
};
/* The `nth` call from now (1 = the next) of that kind fails with -error (a memory call: NULL). nth 0: none. */
void sys_fault_set(enum sys_fault_kind kind, uint64_t nth, int error);
/* And so does the one that comes `after` calls later. After sys_fault_set, which takes it back. */
void sys_fault_set_again(enum sys_fault_kind kind, uint64_t after);
/*
 * Socket calls of that kind (read, write) move no more than so many bytes: the `nth` from now, or, for nth 0, all. bytes 0: as
 * many as they can; SIZE_MAX: a random number, of the whole or less.
 */
void sys_fault_cut(enum sys_fault_kind kind, uint64_t nth, size_t bytes);
/* What the nth call would have moved at most; 0: there was no such call. */
size_t sys_fault_whole_bytes(enum sys_fault_kind kind);
/* Calls of that kind since the last sys_fault_set. */
uint64_t sys_fault_calls(enum sys_fault_kind kind);
#endif

#endif
