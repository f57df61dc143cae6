/* SPDX-License-Identifier: Apache-2.0 */
#include "support/log_lines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct log_lines log_lines_now;
static const char *sought_now;

void log_lines_sink(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	size_t used = strlen(log_lines_now.text);
	const char *text;
	va_list args;

	(void)flags, (void)file, (void)line;
	va_start(args, fmt);
	text = va_arg(args, const char *); /* the format is "%s", always */
	va_end(args);
	if (level == LOG_LEVEL_WARN) {
		log_lines_now.warnings++;
		snprintf(log_lines_now.warning, sizeof(log_lines_now.warning), "%s", text);
		snprintf(log_lines_now.text + used, sizeof(log_lines_now.text) - used, "%s\n", text);
	} else {
		log_lines_now.infos++;
		snprintf(log_lines_now.info, sizeof(log_lines_now.info), "%s", text);
	}
	log_lines_now.found += sought_now && strstr(text, sought_now);
	errno = EXDEV;
}

void log_lines_forget(void)
{
	memset(&log_lines_now, 0, sizeof(log_lines_now));
}

void log_lines_start(const char *sought)
{
	sought_now = sought;
	log_lines_forget();
	log_set_sink(log_lines_sink);
}

struct log_lines *log_lines(void)
{
	(void)log_drain(10000);
	return &log_lines_now;
}
