/*
 * Logging. The plugin is a guest: it never writes to stdout, and it writes to stderr only before NCCL handed it a
 * logger. Every function here keeps errno, is safe from any thread, and never fails.
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

enum log_level { LOG_LEVEL_WARN = 2, LOG_LEVEL_INFO = 3, LOG_LEVEL_TRACE = 5 }; /* NCCL's own numbers */

/* What a line is about, NCCL's NCCL_DEBUG_SUBSYS bits: INIT for once-a-communicator lines, NET for the transport. */
enum log_subsystem { LOG_INIT = 0x1, LOG_NET = 0x10, LOG_GRAPH = 0x20, LOG_TUNING = 0x40, LOG_ENV = 0x80 };

/* Same shape as ncclDebugLogger_t. NULL restores the stderr sink (warnings only, prefixed "tributary: "). */
typedef void log_sink(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);
void log_set_sink(log_sink *sink);

void log_write(enum log_level level, unsigned long subsystem, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

#define log_warn(...)            log_write(LOG_LEVEL_WARN, LOG_NET, __FILE__, __LINE__, __VA_ARGS__)
#define log_info(subsystem, ...) log_write(LOG_LEVEL_INFO, (subsystem), __FILE__, __LINE__, __VA_ARGS__)
#define log_trace(...)           log_write(LOG_LEVEL_TRACE, LOG_NET, __FILE__, __LINE__, __VA_ARGS__)

/* True the first time it is called for this flag, from whichever thread: `if (log_once(&said)) log_warn(...)`. */
static inline bool log_once(atomic_flag *said)
{
	return !atomic_flag_test_and_set_explicit(said, memory_order_relaxed);
}

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
