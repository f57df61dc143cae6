/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging. The plugin lives in a process of others: it never writes to stdout, and it writes to stderr only before NCCL handed it a
 * logger. Every function here keeps errno, is safe from any thread, and never fails.
 *
 * Invariant: with a sink set, log_write never calls it. The sink may block for as long as it likes (NCCL's holds a lock of
 * its own and writes to stdout), and callers hold locks that heartbeats and data need. Lines go to a bounded queue, which
 * a thread of its own writes, in order; it is there only while there is something to write. When the queue is full, lines
 * are counted instead, and the count is written. Without a sink a warning goes to stderr at once.
 *
 * A thread that holds no lock and is not one of the library's own may write instead (log_collect, log_flush), so that
 * NCCL prints that thread's identity in front of the line. log_drain waits for the queue, for a bounded time: before an
 * error is returned after which the process may end, and before the sink goes away. A forked child has no writer, and
 * never touches the queue, which may be locked for good: there the sink is called at once.
 *
 * Rule: the function that first decides what an error is logs it, once, with the object's name; callers pass the
 * errno on silently. Pure code fills a struct diag instead, and its caller prints it.
 */
#ifndef TRIBUTARY_BASE_LOG_H
#define TRIBUTARY_BASE_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_WARN = 2, LOG_LEVEL_INFO = 3, LOG_LEVEL_TRACE = 5 }; /* NCCL's own numbers */

/* What a line is about, NCCL's NCCL_DEBUG_SUBSYS bits: INIT for once-a-communicator lines, NET for the transport. */
enum log_subsystem { LOG_INIT = 0x1, LOG_NET = 0x10, LOG_GRAPH = 0x20, LOG_TUNING = 0x40, LOG_ENV = 0x80 };
/* NCCL drops a line of no subsystem that NCCL_DEBUG_SUBSYS names, warnings too; so its own have all bits. */
#define LOG_ALL (~0UL)

/*
 * Same shape as ncclDebugLogger_t. NULL restores the stderr sink (warnings only, prefixed "tributary: "). The old sink
 * gets the lines that are queued, within a second; what it has not taken by then is dropped, and it is not called again.
 */
typedef void log_sink(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);
void log_set_sink(log_sink *sink);

void log_write(enum log_level level, unsigned long subsystem, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

#define log_warn(...)            log_write(LOG_LEVEL_WARN, LOG_ALL, __FILE__, __LINE__, __VA_ARGS__)
#define log_info(subsystem, ...) log_write(LOG_LEVEL_INFO, (subsystem), __FILE__, __LINE__, __VA_ARGS__)
#define log_trace(...)           log_write(LOG_LEVEL_TRACE, LOG_NET, __FILE__, __LINE__, __VA_ARGS__)

/* The lines of this thread wait for its log_flush, which must follow soon. */
void log_collect(void);
/*
 * Writes what is queued, on this thread, as far as there is nothing to be run (log_run). Where another thread is writing:
 * waits for it, a second at most; where that one runs something: not at all.
 */
void log_flush(void);
/* Waits until everything queued so far is written; false: it is not after that time, or nothing moves at all. */
bool log_drain(unsigned most_ms);
/*
 * Calls run(arg) on the queue's own thread, in order with the lines: for a file that may block. -ENOBUFS: the queue is full.
 */
int log_run(void (*run)(void *arg), void *arg);

/* True the first time it is called for this flag, from whichever thread: `if (log_once(&said)) log_warn(...)`. */
static inline bool log_once(atomic_flag *said)
{
	return !atomic_flag_test_and_set_explicit(said, memory_order_relaxed);
}

/*
 * Whether to log a value that comes and goes: true if it differs from the one logged last, and has not
 * changed for 1 s; for 2 s once one was logged, then for 4 s, and so on. The caller logs it. Both
 * values begin as one that needs no line.
 */
struct log_change {
	unsigned logged, latest;
	unsigned doubled; /* times, at most 12 */
	uint64_t since_ns;
};
bool log_lasts(struct log_change *change, unsigned value, uint64_t now_ns);

/*
 * A sentence of at most bytes - 1. One that is longer loses whole words in its middle, "..." in their place, because its end
 * says what to do. ret may be among the arguments.
 */
void log_sentence(char *ret, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void log_sentence_v(char *ret, size_t bytes, const char *fmt, va_list args) __attribute__((format(printf, 3, 0)));

/* Where pure code says what was wrong, a log_sentence. line and column are 1-based, 0 when they mean nothing. */
struct diag {
	int line, column;
	char text[512];
};
void diag_set(struct diag *diag, int line, int column, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void diag_set_v(struct diag *diag, int line, int column, const char *fmt, va_list args)
	__attribute__((format(printf, 4, 0)));

#endif
