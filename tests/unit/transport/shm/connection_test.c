/* Both ends of shared-memory connections in one process: how often bytes are copied, who goes first, what is let go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/copy.h"
#include "base/params.h"
#include "support/link.h"
#include "support/runtime.h"
#include "transport/shm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

struct pair {
	struct params params;
	struct transport *transport;
	struct link link;
};

static void pair_open(struct pair *pair, bool pulls)
{
	params_defaults(&pair->params);
	shm_set_pull(pulls);
	assert_int_equal(transport_shm.open(&pair->params, &pair->transport), 0);
	assert_int_equal(link_open(&transport_shm, pair->transport, 0, &pair->link), 0);
	shm_set_pull(true);
}

static void pair_close(struct pair *pair)
{
	link_close(&pair->link);
	transport_shm.close(pair->transport);
}

static uint64_t copied_bytes(struct pair *pair, size_t bytes)
{
	uint64_t before = atomic_load(&copy_counts.bytes);

	assert_int_equal(link_exchange(&pair->link, bytes, bytes), 0);
	return atomic_load(&copy_counts.bytes) - before;
}

static void a_long_message_is_copied_once(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, true);
	if (!((struct shm_connection *)pair.link.receiver)->r.pulls) {
		print_message("skipped: this system does not let a process read another one's memory\n");
		pair_close(&pair);
		skip();
	}
	/* By the kernel, so that we count none. */
	assert_true(copied_bytes(&pair, 3 * MIB + 500) == 0);
	assert_true(copied_bytes(&pair, pair.params.eager_bytes + 1) == 0);
	assert_true(copied_bytes(&pair, 1000) == 2000);
	pair_close(&pair);
}

static void without_leave_to_read_it_is_copied_twice(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, false);
	assert_true(copied_bytes(&pair, 3 * MIB + 500) == 2 * (3 * MIB + 500));
	assert_true(copied_bytes(&pair, 1000) == 2000);
	pair_close(&pair);
}

static struct transport_request *post_one(struct pair *pair, bool sends, void *data, size_t bytes, int tag)
{
	struct transport_request *request = NULL;
	void *registration = NULL;
	int r = sends ? transport_shm.send(pair->link.sender, data, bytes, tag, NULL, &request)
		      : transport_shm.receive(pair->link.receiver, 1, &data, &bytes, &tag, &registration, &request);

	assert_int_equal(r, 0);
	assert_non_null(request);
	return request;
}

/* A message of a megabyte that was posted after one of 256 is through long before it. */
static void small_messages_do_not_wait_behind_large_ones(void **state)
{
	uint8_t *from = calloc(1, 256 * MIB), *to = calloc(1, 256 * MIB);

	(void)state;
	assert_non_null(from);
	assert_non_null(to);
	for (unsigned pulls = 0; pulls < 2; pulls++) {
		struct transport_request *large_send, *large, *small_send, *small;
		bool sent = false, done = false, large_done = false;
		struct pair pair;

		pair_open(&pair, pulls);
		large = post_one(&pair, false, to, 255 * MIB, 1);
		small = post_one(&pair, false, to + 255 * MIB, MIB, 2);
		large_send = post_one(&pair, true, from, 255 * MIB, 1);
		small_send = post_one(&pair, true, from + 255 * MIB, MIB, 2);
		while (!done) {
			if (!sent)
				assert_int_equal(transport_shm.test(small_send, &sent, NULL), 0);
			assert_int_equal(transport_shm.test(small, &done, NULL), 0);
		}
		assert_int_equal(transport_shm.test(large, &large_done, NULL), 0);
		assert_false(large_done);
		assert_true(((struct shm_connection *)pair.link.receiver)->r.coming.first->received < 8 * MIB);
		(void)large_send;
		pair_close(&pair);
	}
	free(from);
	free(to);
}

static void finish_both(struct transport_request *send, struct transport_request *receive)
{
	bool sent = !send, done = false;

	while (!sent || !done) {
		if (!sent)
			assert_int_equal(transport_shm.test(send, &sent, NULL), 0);
		if (!done)
			assert_int_equal(transport_shm.test(receive, &done, NULL), 0);
	}
}

/* Of a tag that nobody waits for: until one is refused. The number of those that were taken; *ret_open: the open one. */
static unsigned flood(struct pair *pair, uint8_t *from, size_t bytes, struct transport_request **ret_open)
{
	unsigned count = 0;

	*ret_open = NULL;
	for (;; count++) {
		struct transport_request *send = NULL;
		bool done = false;

		assert_int_equal(transport_shm.send(pair->link.sender, from + count * bytes, bytes, 1, NULL, &send), 0);
		if (!send)
			return count;
		assert_null(*ret_open);
		assert_int_equal(transport_shm.test(send, &done, NULL), 0);
		if (!done)
			*ret_open = send;
	}
}

/* A long one and as many short ones as can be sent, none of them received: messages of another tag go as ever. */
static void unmatched_messages_delay_their_own_tag_alone(void **state)
{
	enum { SHORT_BYTES = 1000, LONG_BYTES = 100000 };
	uint8_t *from = malloc(MIB), *to = calloc(1, MIB);

	(void)state;
	assert_non_null(from);
	assert_non_null(to);
	pattern_fill(from, MIB, 5);
	for (unsigned pulls = 0; pulls < 2; pulls++) {
		struct transport_request *large, *open;
		struct pair pair;
		unsigned count;

		pair_open(&pair, pulls);
		count = flood(&pair, from, SHORT_BYTES, &open);
		assert_true(count * SHORT_BYTES > SHM_EAGER_WINDOW / 2);
		assert_non_null(open);
		large = post_one(&pair, true, from, LONG_BYTES, 3);
		for (unsigned i = 0; i < 600; i++)
			assert_int_equal(link_exchange(&pair.link, i % 3 ? i % 3 * 20000 - 20000 + i : 0, i), 0);
		for (unsigned i = 0; i < count; i++) {
			finish_both(i + 1 < count ? NULL : open, post_one(&pair, false, to, SHORT_BYTES, 1));
			assert_memory_equal(to, from + (size_t)i * SHORT_BYTES, SHORT_BYTES);
		}
		finish_both(large, post_one(&pair, false, to, LONG_BYTES, 3));
		assert_memory_equal(to, from, LONG_BYTES);
		pair_close(&pair);
	}
	free(from);
	free(to);
}

/* All counts begin below 2^32, so that what holds one in 32 bits fails here. */
static void counts_pass_32_bits(void **state)
{
	const struct shm_connection *sender, *receiver;
	struct pair pair;

	(void)state;
	pair_open(&pair, true);
	sender = (const struct shm_connection *)pair.link.sender;
	receiver = (const struct shm_connection *)pair.link.receiver;
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(link_exchange(&pair.link, i % 2 ? 100 : 70000, i), 0);
	assert_true(sender->s.next_sequence > UINT32_MAX && receiver->r.next_sequence > UINT32_MAX);
	assert_true(sender->put > UINT32_MAX && sender->taken > UINT32_MAX);
	pair_close(&pair);
}

/* What a sender gave back when it closed may hold anything: no receive is done with it. */
static void a_closed_sender_completes_nothing(void **state)
{
	(void)state;
	for (unsigned pulls = 0; pulls < 2; pulls++) {
		uint8_t *from = calloc(1, MIB), *to = calloc(1, MIB);
		struct transport_request *receive;
		struct pair pair;
		bool done = false;
		int r = 0;

		pair_open(&pair, pulls);
		receive = post_one(&pair, false, to, MIB, 1);
		post_one(&pair, true, from, MIB, 1);
		transport_shm.close_connection(pair.link.sender);
		pair.link.sender = NULL;
		free(from);
		while (r == 0 && !done)
			r = transport_shm.test(receive, &done, NULL);
		assert_int_equal(r, -EREMOTEIO);
		assert_false(done);
		pair_close(&pair);
		free(to);
	}
}

/* The sender's buffer has a hole, as memory of a device would: it is pushed, and the error is the sender's own alone. */
static void what_cannot_be_read_is_pushed(void **state)
{
	uint8_t *from = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *to = calloc(1, 2 * MIB);
	struct transport_request *send, *receive;
	bool sent = false, done = false;
	struct pair pair;

	(void)state;
	assert_true(from != MAP_FAILED);
	assert_non_null(to);
	pattern_fill(from, 2 * MIB, 3);
	pair_open(&pair, true);
	receive = post_one(&pair, false, to, 2 * MIB, 1);
	assert_int_equal(mprotect(from + MIB, MIB, PROT_NONE), 0);
	send = post_one(&pair, true, from, 2 * MIB, 1);
	for (unsigned i = 0; i < 100 && !done; i++) /* all that can be pulled; the rest is asked for */
		assert_int_equal(transport_shm.test(receive, &done, NULL), 0);
	assert_false(done);
	assert_int_equal(mprotect(from + MIB, MIB, PROT_READ), 0);
	while (!done || !sent) {
		if (!sent)
			assert_int_equal(transport_shm.test(send, &sent, NULL), 0);
		if (!done)
			assert_int_equal(transport_shm.test(receive, &done, NULL), 0);
	}
	assert_true(pattern_wrong_at(to, 2 * MIB, 3) == SIZE_MAX);
	pair_close(&pair);
	munmap(from, 2 * MIB);
	free(to);
}

/* The process that said hello is known by what lies in its memory, not by its number. */
static void another_process_of_the_same_number_is_noticed(void **state)
{
	uint8_t *from = calloc(1, MIB), *to = calloc(1, MIB);
	struct transport_request *receive;
	struct pair pair;
	bool done = false;
	int r = 0;

	(void)state;
	pair_open(&pair, true);
	if (((struct shm_connection *)pair.link.receiver)->r.pulls) {
		receive = post_one(&pair, false, to, MIB, 1);
		post_one(&pair, true, from, MIB, 1);
		((struct shm_connection *)pair.link.sender)->s.nonce[7] ^= 1;
		while (r == 0 && !done)
			r = transport_shm.test(receive, &done, NULL);
		assert_int_equal(r, -EREMOTEIO);
		assert_false(done);
	}
	pair_close(&pair);
	free(from);
	free(to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_message_is_copied_once),
		cmocka_unit_test(without_leave_to_read_it_is_copied_twice),
		cmocka_unit_test(small_messages_do_not_wait_behind_large_ones),
		cmocka_unit_test(unmatched_messages_delay_their_own_tag_alone),
		cmocka_unit_test(counts_pass_32_bits),
		cmocka_unit_test(a_closed_sender_completes_nothing),
		cmocka_unit_test(what_cannot_be_read_is_pushed),
		cmocka_unit_test(another_process_of_the_same_number_is_noticed),
	};

	runtime_start("connection_test", 100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
