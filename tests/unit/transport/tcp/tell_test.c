/* When a receiver says what is free of the eager window: as seldom as a sender can do with. */
#include "support/runtime.h"
#include "transport/tcp/tcp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Words about a window in which so many messages of one size are received, each as it comes; and that none waits for room. */
static unsigned words_for(uint64_t place_bytes, unsigned messages)
{
	struct tcp_receiver r = { .window_bytes = TCP_EAGER_WINDOW };
	unsigned words = 0;

	for (unsigned i = 0; i < messages; i++) {
		assert_true(r.window_end + place_bytes - r.window_told <= r.window_bytes);
		r.window_end += place_bytes;
		r.window_free = r.window_end;
		if (tcp_receiver_window_is_news(&r)) {
			r.window_told = r.window_free;
			words++;
		}
	}
	return words;
}

static void a_sender_with_room_needs_no_word(void **state)
{
	(void)state;
	assert_int_equal(words_for(512, 48), 0);
	assert_int_equal(words_for(512, 49), 1);
	assert_int_equal(words_for(8 << 10, 16), 4);
	assert_int_equal(words_for(16 << 10, 16), 8);
}

/* Wherever the sender stands, it has room for the longest message beyond the corner, or is told of a quarter of the window. */
static void a_sender_without_room_is_told(void **state)
{
	const uint64_t longest = tcp_wire_eager_place_bytes(TCP_EAGER_WINDOW / 4);

	(void)state;
	for (uint64_t used = 0; used <= TCP_EAGER_WINDOW; used += 64)
		for (uint64_t freed = 0; freed <= used; freed += 64) {
			struct tcp_receiver r = { .window_bytes = TCP_EAGER_WINDOW,
						  .window_end = used,
						  .window_free = freed };

			if (!tcp_receiver_window_is_news(&r))
				assert_true(freed < TCP_EAGER_WINDOW / 4 || TCP_EAGER_WINDOW - used >= 2 * longest);
		}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sender_with_room_needs_no_word),
		cmocka_unit_test(a_sender_without_room_is_told),
	};

	(void)argc;
	runtime_start(argv[0], 30);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
