/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct sockaddr_in loopback = { .sin_family = AF_INET, .sin_addr = { .s_addr = 0x0100007f } };

static void assert_cloexec_and_nonblocking(int fd)
{
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* A listener, and a connection to it with both ends. */
struct link {
	int listener, near, far;
};

static int open_link(void **state)
{
	static struct link link;
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);
	int r;

	link.listener = sys_socket(AF_INET, SOCK_STREAM, 0);
	link.near = sys_socket(AF_INET, SOCK_STREAM, 0);
	if (sys_bind(link.listener, (const void *)&loopback, sizeof(loopback)) || sys_listen(link.listener, 4) ||
	    getsockname(link.listener, (void *)&address, &bytes))
		return -1;
	r = sys_connect(link.near, (const void *)&address, bytes);
	if (r && r != -EINPROGRESS)
		return -1;
	do
		link.far = sys_accept(link.listener, &address, &bytes);
	while (link.far == -EAGAIN);
	*state = &link;
	return link.far < 0 || address.ss_family != AF_INET || bytes != sizeof(struct sockaddr_in) ? -1 : 0;
}

static int close_link(void **state)
{
	struct link *link = *state;

	sys_close(&link->near);
	sys_close(&link->far);
	sys_close(&link->listener);
	return 0;
}

static void arrays_of_one_block_are_zeroed_and_apart(void **state)
{
	uint8_t *odd = NULL;
	double *wide = NULL;
	uint64_t *none = NULL;
	const struct sys_array arrays[] = { SYS_ARRAY(odd, 3), SYS_ARRAY(wide, 5), SYS_ARRAY(none, 0) };
	void *block = sys_zalloc_arrays(arrays, 3);

	(void)state;
	assert_non_null(block);
	assert_non_null(none);
	assert_int_equal((uintptr_t)wide % _Alignof(double), 0);
	assert_true((char *)wide >= (char *)(odd + 3));
	for (size_t i = 0; i < 5; i++)
		assert_true(wide[i] == 0);
	memset(wide, 0xff, 5 * sizeof(*wide));
	assert_int_equal(odd[0] | odd[1] | odd[2], 0);
	sys_free(block);
#ifdef TRIBUTARY_FAULTS
	odd = NULL;
	sys_fault_set(SYS_FAULT_MEMORY, 1, ENOMEM);
	assert_null(sys_zalloc_arrays(arrays, 3));
	assert_null(odd);
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
#endif
}

static void memory_is_zeroed_and_aligned(void **state)
{
	static const uint8_t zeroes[300];
	void *memory = sys_zalloc(300);

	(void)state;
	assert_non_null(memory);
	assert_memory_equal(memory, zeroes, 300);
	sys_free(memory);
	for (size_t align = 1; align <= 4096; align *= 2) {
		memory = sys_zalloc_aligned(align, 300);
		assert_non_null(memory);
		assert_int_equal((uintptr_t)memory % align, 0);
		assert_memory_equal(memory, zeroes, 300);
		sys_free(memory);
	}
	memory = sys_zalloc(0);
	assert_non_null(memory);
	sys_free(memory);
	memory = sys_map_pages(2 * sizeof(zeroes));
	assert_non_null(memory);
	assert_int_equal((uintptr_t)memory % 4096, 0);
	assert_memory_equal(memory, zeroes, sizeof(zeroes));
	sys_unmap_pages(memory, 2 * sizeof(zeroes));
	sys_unmap_pages(NULL, 300);
	sys_free(NULL);
}

static void an_array_grows_and_keeps_what_it_has(void **state)
{
	enum { ELEMENTS = 1000 };
	uint32_t *array = NULL, *copy = NULL;

	(void)state;
	assert_int_equal(sys_grow(&array, 0, 0, sizeof(*array)), 0);
	assert_null(array);
	for (uint32_t i = 0; i < ELEMENTS; i++) {
		assert_int_equal(sys_grow(&array, i, 1, sizeof(*array)), 0);
		array[i] = i;
	}
	assert_int_equal(sys_grow(&copy, 0, ELEMENTS, sizeof(*copy)), 0);
	for (uint32_t i = 0; i < ELEMENTS; i++) {
		assert_int_equal(array[i], i);
		assert_int_equal(copy[i], 0);
	}
	assert_int_equal(sys_grow(&array, ELEMENTS, SIZE_MAX / 4, sizeof(*array)), -ENOMEM);
	assert_int_equal(sys_grow(&array, ELEMENTS, SIZE_MAX, sizeof(*array)), -ENOMEM);
	assert_int_equal(array[ELEMENTS - 1], ELEMENTS - 1);
	sys_free(array);
	sys_free(copy);
}

static void sockets_are_cloexec_and_nonblocking(void **state)
{
	struct link *link = *state;

	assert_cloexec_and_nonblocking(link->listener);
	assert_cloexec_and_nonblocking(link->near);
	assert_cloexec_and_nonblocking(link->far);
}

static void bytes_cross_by_every_call(void **state)
{
	struct link *link = *state;
	char hello[] = "hello ", world[] = "world", first[8] = "", second[8] = "";
	struct iovec out[] = { { hello, 6 }, { world, 5 } }, in[] = { { first, 3 }, { second, 8 } };

	assert_int_equal(sys_send(link->near, "abc", 3), 3);
	assert_int_equal(sys_recv(link->far, first, sizeof(first), MSG_PEEK), 3);
	assert_int_equal(sys_recv(link->far, first, sizeof(first), 0), 3);
	assert_memory_equal(first, "abc", 3);
	assert_int_equal(sys_sendmsg(link->far, out, 2), 11);
	assert_int_equal(sys_readv(link->near, in, 2), 11);
	assert_memory_equal(first, "hel", 3);
	assert_memory_equal(second, "lo world", 8);
}

static void errors_are_returned_and_errno_is_kept(void **state)
{
	struct link *link = *state;
	char byte;

	errno = ENOTTY;
	assert_int_equal(sys_recv(link->near, &byte, 1, 0), -EAGAIN);
	assert_int_equal(sys_readv(link->near, &(struct iovec){ &byte, 1 }, 1), -EAGAIN);
	assert_int_equal(sys_accept(link->listener, NULL, NULL), -EAGAIN);
	assert_int_equal(sys_socket(-1, SOCK_STREAM, 0), -EAFNOSUPPORT);
	assert_int_equal(sys_bind(-1, (const void *)&loopback, sizeof(loopback)), -EBADF);
	assert_int_equal(sys_listen(-1, 1), -EBADF);
	assert_int_equal(sys_connect(-1, (const void *)&loopback, sizeof(loopback)), -EBADF);
	assert_int_equal(sys_send(-1, "", 1), -EBADF);
	assert_int_equal(sys_sendmsg(-1, &(struct iovec){ &byte, 1 }, 1), -EBADF);
	assert_int_equal(errno, ENOTTY);
}

static void sending_to_a_closed_peer_raises_no_signal(void **state)
{
	struct link *link = *state;
	ssize_t sent = 0;

	sys_close(&link->far);
	for (int i = 0; i < 1000 && sent >= 0; i++)
		sent = sys_send(link->near, "x", 1);
	assert_true(sent == -EPIPE || sent == -ECONNRESET);
}

static void close_marks_the_descriptor_and_keeps_errno(void **state)
{
	int fd = dup(STDIN_FILENO), was = fd;

	(void)state;
	assert_true(fd >= 0);
	errno = ENOTTY;
	sys_close(&fd);
	assert_int_equal(fd, -1);
	sys_close(&fd);
	assert_int_equal(errno, ENOTTY);
	assert_int_equal(fcntl(was, F_GETFD), -1);
	fd = 100000; /* not open */
	errno = ENOTTY;
	sys_close(&fd);
	assert_int_equal(errno, ENOTTY);
}

struct thread_facts {
	sigset_t mask;
	pthread_barrier_t named;
	char name[16];
};

static void *look_around(void *arg)
{
	struct thread_facts *facts = arg;

	pthread_sigmask(SIG_SETMASK, NULL, &facts->mask);
	pthread_barrier_wait(&facts->named);
	pthread_getname_np(pthread_self(), facts->name, sizeof(facts->name));
	return arg;
}

static void thread_is_named_and_blocks_signals(void **state)
{
	struct thread_facts facts = { .name = "" };
	sigset_t before, after;
	pthread_t thread;
	void *result;

	(void)state;
	pthread_barrier_init(&facts.named, NULL, 2);
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(sys_thread_start(look_around, &facts, "tributary-service-long", &thread), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	pthread_barrier_wait(&facts.named);
	assert_int_equal(pthread_join(thread, &result), 0);
	pthread_barrier_destroy(&facts.named);
	assert_ptr_equal(result, &facts);
	assert_string_equal(facts.name, "tributary-servi");
	assert_true(sigismember(&facts.mask, SIGINT) == 1);
	assert_true(sigismember(&facts.mask, SIGTERM) == 1);
	assert_true(sigismember(&facts.mask, SIGCHLD) == 1);
	assert_true(sigismember(&facts.mask, SIGRTMAX) == 1);
	for (int signal = 1; signal < 32; signal++)
		assert_int_equal(sigismember(&after, signal), sigismember(&before, signal));
}

#ifdef TRIBUTARY_FAULTS
static void *do_nothing(void *arg)
{
	return arg;
}

/* One call of the kind: 0 or -errno, -ENOMEM for a memory call that gave NULL. */
static int call_kind(enum sys_fault_kind kind, struct link *link)
{
	struct sockaddr_in address = loopback;
	pthread_t thread;
	void *memory;
	char byte;
	int fd, r;

	switch (kind) {
	case SYS_FAULT_MEMORY:
		memory = sys_zalloc(8);
		r = memory ? 0 : -ENOMEM;
		sys_free(memory);
		return r;
	case SYS_FAULT_SOCKET:
		fd = sys_socket(AF_INET, SOCK_STREAM, 0);
		r = fd < 0 ? fd : 0;
		sys_close(&fd);
		return r;
	case SYS_FAULT_BIND:
		return sys_listen(link->listener, 4);
	case SYS_FAULT_CONNECT:
		r = sys_connect(link->near, (const void *)&address, sizeof(address));
		return r == -EISCONN ? 0 : r;
	case SYS_FAULT_ACCEPT:
		r = sys_accept(link->listener, NULL, NULL);
		return r == -EAGAIN ? 0 : r;
	case SYS_FAULT_READ:
		r = (int)sys_recv(link->near, &byte, 1, 0);
		return r == -EAGAIN ? 0 : r;
	case SYS_FAULT_WRITE:
		r = (int)sys_send(link->near, "x", 1);
		return r < 0 ? r : 0;
	case SYS_FAULT_THREAD:
		r = sys_thread_start(do_nothing, NULL, "nothing", &thread);
		if (!r)
			pthread_join(thread, NULL);
		return r;
	case SYS_FAULT_FILE:
		fd = sys_openat(AT_FDCWD, "/dev/null", O_RDONLY, 0);
		r = fd < 0 ? fd : 0;
		sys_close(&fd);
		return r;
	case SYS_FAULT_FILE_DATA:
		fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		r = sys_pread_whole(fd, &byte, 1, 0);
		sys_close(&fd);
		return r;
	default:
		return -EINVAL;
	}
}

static void the_nth_call_of_each_kind_fails_once(void **state)
{
	struct link *link = *state;

	for (unsigned i = 0; i < SYS_FAULT_KIND_COUNT; i++) {
		enum sys_fault_kind kind = (enum sys_fault_kind)i;
		int error = kind == SYS_FAULT_MEMORY ? ENOMEM : ENOBUFS;

		sys_fault_set(kind, 3, error);
		for (uint64_t call = 1; call <= 5; call++) {
			assert_int_equal(call_kind(kind, link), call == 3 ? -error : 0);
			assert_int_equal(sys_fault_calls(kind), call);
		}
		sys_fault_set(kind, 0, 0);
		assert_int_equal(sys_fault_calls(kind), 0);
		assert_int_equal(call_kind(kind, link), 0);
	}
}
#else
static void the_nth_call_of_each_kind_fails_once(void **state)
{
	(void)state;
	print_message("skipped: not built with FAULTS=1\n");
	skip();
}
#endif

static void memory_files_are_ours_alone(void **state)
{
	int fd = sys_memory_file("test");

	(void)state;
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	sys_close(&fd);
}

static int note_name(void *arg, const char *name)
{
	char *names = arg;

	strncat(names, name, 15);
	return strcmp(name, "a-stop") == 0 ? -EINTR : 0;
}

static void names_of_a_folder_are_those_with_the_prefix(void **state)
{
	char folder[] = "/tmp/tributary-sys-test.XXXXXX", names[64] = "";
	static const char *const files[] = { "a-1", "b-1", ".a-hidden" };
	int fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	fd = sys_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
	assert_true(fd >= 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(sys_mkdirat(fd, files[i], 0700), 0);
	errno = EXDEV;
	assert_int_equal(sys_each_name(fd, ".", "a-", note_name, names), 0);
	assert_string_equal(names, "a-1");
	names[0] = '\0';
	assert_int_equal(sys_each_name(fd, "a-1", "", note_name, names), 0);
	assert_string_equal(names, "");
	assert_int_equal(sys_each_name(fd, "none", "", note_name, names), -ENOENT);
	assert_int_equal(sys_mkdirat(fd, "a-stop", 0700), 0);
	assert_int_equal(sys_each_name(fd, ".", "a-s", note_name, names), -EINTR);
	assert_int_equal(errno, EXDEV);
	for (size_t i = 0; i < 3; i++)
		unlinkat(fd, files[i], AT_REMOVEDIR);
	unlinkat(fd, "a-stop", AT_REMOVEDIR);
	sys_close(&fd);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_zeroed_and_aligned),
		cmocka_unit_test(arrays_of_one_block_are_zeroed_and_apart),
		cmocka_unit_test(an_array_grows_and_keeps_what_it_has),
		cmocka_unit_test_setup_teardown(sockets_are_cloexec_and_nonblocking, open_link, close_link),
		cmocka_unit_test_setup_teardown(bytes_cross_by_every_call, open_link, close_link),
		cmocka_unit_test_setup_teardown(errors_are_returned_and_errno_is_kept, open_link, close_link),
		cmocka_unit_test_setup_teardown(sending_to_a_closed_peer_raises_no_signal, open_link, close_link),
		cmocka_unit_test(close_marks_the_descriptor_and_keeps_errno),
		cmocka_unit_test(thread_is_named_and_blocks_signals),
		cmocka_unit_test(memory_files_are_ours_alone),
		cmocka_unit_test(names_of_a_folder_are_those_with_the_prefix),
		cmocka_unit_test_setup_teardown(the_nth_call_of_each_kind_fails_once, open_link, close_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
