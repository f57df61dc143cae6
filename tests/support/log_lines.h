/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log sinks for tests: one that remembers, one that forgets. Lines come from one thread at a time (base/log.h); read what
 * is remembered while none is on its way.
 */
#ifndef TESTS_SUPPORT_LOG_LINES_H
#define TESTS_SUPPORT_LOG_LINES_H

#include "base/log.h"

struct log_lines {
	int warnings, infos, found;     /* how many; found: those that hold what was sought */
	char warning[1024], info[1024]; /* the last of each */
	char text[4096];                /* all warnings, one after the other, as far as there is room */
};
extern struct log_lines log_lines_now;

/* Forgets all, and log_lines_sink becomes the sink. sought: NULL, or what is counted. log_set_sink(NULL) ends it. */
void log_lines_start(const char *sought);
void log_lines_forget(void);
/* log_lines_now, with all in it that was logged so far. */
struct log_lines *log_lines(void);
/* Sets errno, as a sink may do. */
void log_lines_sink(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);

static inline void log_lines_ignore(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)fmt;
}

#endif
