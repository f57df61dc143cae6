/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every test program that drives a transport needs: a watchdog, deadlines, a replayable seed, and counts of what
 * the process holds. Any thread, but for runtime_start, which main calls first.
 */
#ifndef TESTS_SUPPORT_RUNTIME_H
#define TESTS_SUPPORT_RUNTIME_H

#include "support/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Names the program, prints the seed to stderr, ends the process with 124 after five times watchdog_s seconds (eight times
 * in a sanitized build; TRIBUTARY_TEST_SLOW=N: N times, and all deadlines with it, for an emulated machine), and sets what
 * the tests need in the environment unless it is set: TRIBUTARY_NET=tcp, TRIBUTARY_IF=lo, TRIBUTARY_TIMEOUT=30. A test in
 * which that time has to pass sets its own.
 */
void runtime_start(const char *program, unsigned watchdog_s);
/* The watchdog alone, for the other processes of a test. */
void runtime_watchdog(unsigned watchdog_s);

/*
 * TRIBUTARY_<name> of the environment, NULL when it is unset or empty. It is for the tests alone: runtime_start takes
 * such variables away, because the plugin reports every TRIBUTARY_ variable that it does not know. Peers have it, too.
 */
const char *runtime_setting(const char *name);

/* TRIBUTARY_TEST_SEED, else taken from the clock; the same for the whole run. */
uint64_t runtime_seed(void);
/*
 * TRIBUTARY_STREAMS (0 to 32) and TRIBUTARY_MOVERS (-1: auto, to 8) by the seed and `round`, or as the environment has them. They
 * are printed.
 */
void runtime_draw_streams(uint64_t round, unsigned *ret_streams, int *ret_movers);
/* The same into the environment, for a plugin that is opened later, here or in peers. */
void runtime_set_streams(uint64_t round);
/* TRIBUTARY_TEST_LONG set: the variants that take minutes, gigabytes or a quiet machine. */
bool runtime_long(void);
/* TRIBUTARY_TEST_SLOW: 1 when it is unset. */
unsigned runtime_slow(void);
/* Built with AddressSanitizer or ThreadSanitizer: memory counts mean nothing and everything is slower. */
bool runtime_sanitized(void);

uint64_t runtime_now_ns(void);
/*
 * For how long, all in all, the machine kept back a thread of this process that wanted to go on: what a test may add to a
 * bound in time. It counts from runtime_watch_stalls() on, which starts that thread.
 */
void runtime_watch_stalls(void);
uint64_t runtime_stalled_ns(void);
uint64_t runtime_own_ns(void); /* runtime_now_ns() less that */
uint64_t runtime_deadline_ns(unsigned milliseconds);
bool runtime_past(uint64_t deadline_ns);
/* Between two polls that found nothing: gives the core to the other end. */
void runtime_nap(void);

unsigned runtime_fd_count(void);
/* Without those that move data: they come with what there is to move, up to TRIBUTARY_MOVERS. */
unsigned runtime_thread_count(void);
/* Threads of the plugin's. In a forked child, where ThreadSanitizer begins threads of its own, they alone can be counted. */
unsigned runtime_plugin_threads(void);
size_t runtime_resident_bytes(void);
uint64_t runtime_cpu_ns(void); /* user and system time of the process */

/* One line to stderr, "program: text", and -error, so that `return runtime_complain(EIO, ...)` reads well. */
int runtime_complain(int error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Bytes that depend on the seed and their place, so that a byte from elsewhere is noticed. */
void pattern_fill(void *data, size_t bytes, uint64_t seed);
/* Index of the first byte that is not as filled, or SIZE_MAX. */
size_t pattern_wrong_at(const void *data, size_t bytes, uint64_t seed);

#endif
