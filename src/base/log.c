/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	LINE_BYTES = 1024,
	WHOLE_BYTES = 4096,
	QUEUE_ENTRIES = 128,
	QUEUE_ENTRIES_INFO = 96, /* the rest is for warnings */
	NAP_NS = 200000,
	FLUSH_MS = 1000,
};

struct entry {
	void (*run)(void *arg); /* NULL: a line */
	void *arg;
	log_sink *sink; /* that was set when it was queued */
	int level, line;
	unsigned long subsystem;
	const char *file;
	char text[LINE_BYTES];
};

static _Atomic(log_sink *) current_sink;
static _Atomic pid_t queue_owner; /* 0: nothing was ever queued */
/*
 * Not NULL in a thread between log_collect and log_flush. A key in place of _Thread_local: in a library that is opened at run
 * time that needs static TLS, of which there may be none left, or dynamic TLS, which LeakSanitizer does not survive.
 */
static pthread_key_t collecting_key;
static bool has_collecting_key; /* without it nobody collects */
static pthread_once_t collecting_once = PTHREAD_ONCE_INIT;

static struct {
	pthread_mutex_t lock;
	struct entry entries[QUEUE_ENTRIES];
	unsigned first, count;
	unsigned long lost;
	uint64_t written, stuck_at; /* entries so far, and how many it were when a log_drain waited in vain */
	bool writing;               /* some thread takes out entries until there are none that it may */
	bool in_sink, in_run;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .stuck_at = UINT64_MAX };

static void make_collecting_key(void)
{
	has_collecting_key = pthread_key_create(&collecting_key, NULL) == 0;
}

static void set_collecting(bool collecting)
{
	pthread_once(&collecting_once, make_collecting_key);
	if (has_collecting_key)
		pthread_setspecific(collecting_key, collecting ? &queue : NULL);
}

static bool is_collecting(void)
{
	pthread_once(&collecting_once, make_collecting_key);
	return has_collecting_key && pthread_getspecific(collecting_key);
}

/* False in a forked child. */
static bool queue_is_usable(void)
{
	pid_t owner = 0, self = getpid();

	return atomic_compare_exchange_strong(&queue_owner, &owner, self) || owner == self;
}

static const char *base_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash ? slash + 1 : file;
}

/* One write() per line, so that lines of several processes on one terminal do not mix. */
static void write_stderr(const char *text)
{
	char line[LINE_BYTES + 32];
	int bytes = snprintf(line, sizeof(line), "tributary: %s\n", text);
	ssize_t written;

	if (bytes <= 0)
		return;
	written = write(STDERR_FILENO, line, (size_t)bytes);
	(void)written; /* there is nobody left to tell */
}

/*
 * With the lock held. What log_run was given may block, so it is for the writer's own thread alone; what was queued behind it
 * waits.
 */
static bool has_entry_for(bool own_thread)
{
	return queue.count && (own_thread || !queue.entries[queue.first].run);
}

/* Takes out the next entry; false: there is none for this thread, and the caller writes no more. */
static bool take(struct entry *ret, bool own_thread)
{
	bool found = true;

	pthread_mutex_lock(&queue.lock);
	queue.in_sink = queue.in_run = false;
	queue.stuck_at = UINT64_MAX;
	if (has_entry_for(own_thread)) {
		*ret = queue.entries[queue.first];
		queue.first = (queue.first + 1) % QUEUE_ENTRIES;
		queue.count--;
	} else if (!queue.count && queue.lost) {
		*ret = (struct entry){ .sink = atomic_load(&current_sink),
				       .level = LOG_LEVEL_WARN,
				       .line = __LINE__,
				       .subsystem = LOG_ALL,
				       .file = "log.c" };
		snprintf(ret->text, sizeof(ret->text),
			 "%lu lines of Tributary's log are lost: what they are written to does not take them",
			 queue.lost);
		queue.lost = 0;
	} else {
		queue.writing = found = false;
	}
	if (found) {
		queue.written++;
		queue.in_run = ret->run != NULL;
		queue.in_sink = !ret->run && ret->sink && ret->sink == atomic_load(&current_sink);
		if (!ret->run && !queue.in_sink)
			ret->sink = NULL; /* it has gone away */
	}
	pthread_mutex_unlock(&queue.lock);
	return found;
}

static void write_all(bool own_thread)
{
	struct entry entry;

	while (take(&entry, own_thread)) {
		if (entry.run)
			entry.run(entry.arg);
		else if (entry.sink)
			entry.sink(entry.level, entry.subsystem, entry.file, entry.line, "%s", entry.text);
	}
}

static void *writer(void *arg)
{
	write_all(true);
	return arg;
}

/* True: the caller must see to it that they are written. */
static bool become_writer(bool own_thread)
{
	bool mine;

	pthread_mutex_lock(&queue.lock);
	mine = !queue.writing && (has_entry_for(own_thread) || (!queue.count && queue.lost));
	queue.writing |= mine;
	pthread_mutex_unlock(&queue.lock);
	return mine;
}

static void start_writer(void)
{
	pthread_t thread;

	if (!become_writer(true))
		return;
	if (sys_thread_start(writer, NULL, "tributary-log", &thread) == 0) {
		pthread_detach(thread);
		return;
	}
	pthread_mutex_lock(&queue.lock);
	queue.writing = false; /* the next line tries again, or log_flush */
	pthread_mutex_unlock(&queue.lock);
}

/* An entry to fill, with the lock held; NULL: it is full, and the lock is not held. */
static struct entry *entry_new(unsigned most)
{
	struct entry *entry;

	pthread_mutex_lock(&queue.lock);
	if (queue.count >= most) {
		queue.lost++;
		pthread_mutex_unlock(&queue.lock);
		return NULL;
	}
	entry = &queue.entries[(queue.first + queue.count++) % QUEUE_ENTRIES];
	entry->run = NULL;
	return entry;
}

static void entry_done(void)
{
	pthread_mutex_unlock(&queue.lock);
	if (!is_collecting())
		start_writer();
}

int log_run(void (*run)(void *arg), void *arg)
{
	struct entry *entry;
	int saved_errno = errno;

	if (!queue_is_usable()) {
		run(arg);
		errno = saved_errno;
		return 0;
	}
	entry = entry_new(QUEUE_ENTRIES_INFO);
	if (!entry)
		return -ENOBUFS;
	entry->run = run;
	entry->arg = arg;
	entry_done();
	errno = saved_errno;
	return 0;
}

void log_write(enum log_level level, unsigned long subsystem, const char *file, int line, const char *fmt, ...)
{
	log_sink *sink = atomic_load_explicit(&current_sink, memory_order_acquire);
	int saved_errno = errno;
	struct entry *entry;
	char text[LINE_BYTES];
	va_list args;

	if (!sink && level != LOG_LEVEL_WARN)
		return;
	/* Formatted here: the sink gets one finished string, whatever its own printf understands. */
	va_start(args, fmt);
	log_sentence_v(text, sizeof(text), fmt, args);
	va_end(args);
	if (!sink) {
		write_stderr(text);
	} else if (!queue_is_usable()) {
		sink((int)level, subsystem, base_name(file), line, "%s", text);
	} else if ((entry = entry_new(level == LOG_LEVEL_WARN ? QUEUE_ENTRIES : QUEUE_ENTRIES_INFO)) != NULL) {
		entry->sink = sink;
		entry->level = (int)level;
		entry->subsystem = subsystem;
		entry->file = base_name(file);
		entry->line = line;
		memcpy(entry->text, text, strlen(text) + 1);
		entry_done();
	}
	errno = saved_errno;
}

void log_collect(void)
{
	set_collecting(true);
}

/* 1: all is written; 0: not yet; -1: not yet, and nothing moved since a log_drain waited in vain. */
static int look(uint64_t *ret_written, bool *ret_running)
{
	int r;

	pthread_mutex_lock(&queue.lock);
	r = !queue.writing && !queue.count && !queue.lost ? 1 : queue.written == queue.stuck_at ? -1 : 0;
	*ret_written = queue.written;
	*ret_running = queue.in_run;
	pthread_mutex_unlock(&queue.lock);
	return r;
}

/* Without runs it also ends, with false, when what log_run was given is being run. */
static bool drain(unsigned most_ms, bool runs)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	bool running = false;
	uint64_t written = 0;
	int r;

	start_writer();
	r = look(&written, &running);
	/* Counted, not timed: a clock may be the test's own. */
	for (uint64_t naps = (uint64_t)most_ms * 1000000 / NAP_NS; r == 0 && naps && (runs || !running); naps--) {
		nanosleep(&nap, NULL);
		r = look(&written, &running);
	}
	if (r == 0 && (runs || !running)) {
		pthread_mutex_lock(&queue.lock);
		queue.stuck_at = written;
		pthread_mutex_unlock(&queue.lock);
	}
	return r == 1;
}

bool log_drain(unsigned most_ms)
{
	int saved_errno = errno;
	bool drained = !queue_is_usable() || drain(most_ms, true);

	errno = saved_errno;
	return drained;
}

void log_flush(void)
{
	int saved_errno = errno;

	set_collecting(false);
	if (queue_is_usable()) {
		if (become_writer(false))
			write_all(false);
		else
			drain(FLUSH_MS, false);
		start_writer(); /* what only its thread may run */
	}
	errno = saved_errno;
}

void log_set_sink(log_sink *sink)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	log_sink *old = atomic_load_explicit(&current_sink, memory_order_acquire);
	int saved_errno = errno;
	bool busy = old && old != sink && queue_is_usable();

	if (busy)
		log_drain(FLUSH_MS);
	atomic_store(&current_sink, sink);
	/* A call that began before may still be under way. */
	for (unsigned naps = FLUSH_MS * 1000000ULL / NAP_NS; busy && naps; naps--) {
		pthread_mutex_lock(&queue.lock);
		busy = queue.in_sink;
		pthread_mutex_unlock(&queue.lock);
		if (busy)
			nanosleep(&nap, NULL);
	}
	errno = saved_errno;
}

/* ---------------------------------------------------------------------------------------------------------- sentences */

/* The first of the last `room` bytes at which a word begins; the last word is cut where it is longer than that. */
static const char *last_words(const char *whole, size_t length, size_t room)
{
	const char *tail = whole + length - room, *blank = tail[-1] == ' ' ? tail - 1 : strchr(tail, ' ');

	return blank ? blank + 1 : tail;
}

static void put_shortened(char *ret, size_t bytes, const char *whole, size_t length)
{
	static const char gap[] = " ... ";
	size_t room = bytes - sizeof(gap), head = room / 2;
	const char *tail;

	while (head && whole[head] != ' ')
		head--;
	if (!head)
		head = room / 2;
	tail = last_words(whole, length, room - head);
	snprintf(ret, bytes, "%.*s%s%s", (int)head, whole, gap, tail);
}

void log_sentence_v(char *ret, size_t bytes, const char *fmt, va_list args)
{
	int saved_errno = errno, length;
	char whole[WHOLE_BYTES];

	length = vsnprintf(whole, sizeof(whole), fmt, args);
	if (length < 0)
		length = snprintf(whole, sizeof(whole), "(a message that could not be formatted)");
	if ((size_t)length >= sizeof(whole))
		length = sizeof(whole) - 1;
	if ((size_t)length < bytes)
		memcpy(ret, whole, (size_t)length + 1);
	else
		put_shortened(ret, bytes, whole, (size_t)length);
	errno = saved_errno;
}

void log_sentence(char *ret, size_t bytes, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_sentence_v(ret, bytes, fmt, args);
	va_end(args);
}

void diag_set_v(struct diag *diag, int line, int column, const char *fmt, va_list args)
{
	if (!diag)
		return;
	diag->line = line;
	diag->column = column;
	log_sentence_v(diag->text, sizeof(diag->text), fmt, args);
}

void diag_set(struct diag *diag, int line, int column, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	diag_set_v(diag, line, column, fmt, args);
	va_end(args);
}

bool log_lasts(struct log_change *change, unsigned value, uint64_t now_ns)
{
	enum { DOUBLED_MOST = 12 };

	if (value != change->latest) {
		change->latest = value;
		change->since_ns = now_ns;
	}
	if (value == change->logged || clock_elapsed_ns(change->since_ns, now_ns) < NS_PER_S << change->doubled)
		return false;
	change->logged = value;
	change->doubled += change->doubled < DOUBLED_MOST;
	return true;
}
