/* SPDX-License-Identifier: Apache-2.0 */
#include "support/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const char *program_name = "test";
static uint64_t program_seed;

static void watchdog_rings(int signal_number)
{
	static const char text[] = "watchdog: the program hangs; ended\n";
	ssize_t ignored;

	(void)signal_number;
	ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)ignored;
	_exit(124);
}

unsigned runtime_slow(void)
{
	const char *slow = runtime_setting("TEST_SLOW");
	unsigned long times = slow ? strtoul(slow, NULL, 10) : 1;

	return (unsigned)(times < 1 || times > 100 ? 1 : times);
}

/* How many times longer everything may take than on a machine of its own. */
static unsigned patience(void)
{
	return runtime_slow() * (runtime_sanitized() ? 4 : 1);
}

void runtime_watchdog(unsigned watchdog_s)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = watchdog_rings;
	sigaction(SIGALRM, &action, NULL);
	/* A busy machine is no hang, nor is a variant that takes minutes by itself. */
	alarm(watchdog_s * runtime_slow() * (runtime_sanitized() ? 8 : 5) * (runtime_long() ? 3 : 1));
}

#define HIDDEN "TESTS_"

/* What the tests and the Makefile know and the plugin does not. */
static void settings_hide(void)
{
	static const char *const names[] = { "PLUGIN",       "BUILD",       "SOURCE",    "TEST_SEED", "TEST_SEEDS",
					     "TEST_VERSION", "TEST_FILTER", "TEST_LONG", "TEST_SLOW", "TEST_TRACE" };
	char name[64], hidden[64];
	const char *value;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(name, sizeof(name), "TRIBUTARY_%s", names[i]);
		snprintf(hidden, sizeof(hidden), HIDDEN "%s", names[i]);
		value = getenv(name);
		if (value)
			setenv(hidden, value, 1);
		unsetenv(name);
	}
}

const char *runtime_setting(const char *name)
{
	char variable[64];
	const char *value;

	snprintf(variable, sizeof(variable), HIDDEN "%s", name);
	value = getenv(variable);
	if (!value) { /* runtime_start() has not hidden it yet */
		snprintf(variable, sizeof(variable), "TRIBUTARY_%s", name);
		value = getenv(variable);
	}
	return value && *value ? value : NULL;
}

static uint64_t seed_choose(void)
{
	const char *text = runtime_setting("TEST_SEED");
	uint64_t seed;
	char *end;

	if (!text)
		return (runtime_now_ns() ^ ((uint64_t)getpid() << 32)) & 0xffffffffffULL;
	errno = 0;
	seed = strtoull(text, &end, 0);
	if (errno || *end) {
		fprintf(stderr, "%s: TRIBUTARY_TEST_SEED=%s is not a number\n", program_name, text);
		exit(2);
	}
	return seed;
}

void runtime_start(const char *program, unsigned watchdog_s)
{
	program_name = program;
	settings_hide();
	program_seed = seed_choose();
	fprintf(stderr, "%s: replay with TRIBUTARY_TEST_SEED=%#" PRIx64 "\n", program_name, program_seed);
	setenv("TRIBUTARY_NET", "tcp", 0);
	setenv("TRIBUTARY_IF", "lo", 0);
	/* A busy machine may keep a live peer silent for seconds; closed connects wait for twice that. */
	setenv("TRIBUTARY_TIMEOUT", "6", 0);
	runtime_watchdog(watchdog_s);
}

uint64_t runtime_seed(void)
{
	return program_seed;
}

/* Before the first draw: what whoever repeats a failure has set, or NULL. */
static void settings_given(const char **ret_streams, const char **ret_movers)
{
	static char streams[16], movers[16];
	static bool looked;

	if (!looked) {
		snprintf(streams, sizeof(streams), "%s",
			 getenv("TRIBUTARY_STREAMS") ? getenv("TRIBUTARY_STREAMS") : "");
		snprintf(movers, sizeof(movers), "%s", getenv("TRIBUTARY_MOVERS") ? getenv("TRIBUTARY_MOVERS") : "");
	}
	looked = true;
	*ret_streams = streams[0] ? streams : NULL;
	*ret_movers = movers[0] ? movers : NULL;
}

void runtime_draw_streams(uint64_t round, unsigned *ret_streams, int *ret_movers)
{
	uint64_t random = program_seed + round;
	const char *streams, *movers;

	settings_given(&streams, &movers);
	*ret_streams = (unsigned)random_below(&random, 33);
	*ret_movers = (int)random_below(&random, 10) - 1;
	if (streams)
		*ret_streams = (unsigned)strtoul(streams, NULL, 10);
	if (movers)
		*ret_movers = strcmp(movers, "auto") ? (int)strtol(movers, NULL, 10) : -1;
	fprintf(stderr, "%s: %u streams, %d movers\n", program_name, *ret_streams, *ret_movers);
}

void runtime_set_streams(uint64_t round)
{
	unsigned streams;
	char text[16];
	int movers;

	runtime_draw_streams(round, &streams, &movers);
	snprintf(text, sizeof(text), "%u", streams);
	setenv("TRIBUTARY_STREAMS", text, 1);
	snprintf(text, sizeof(text), "%d", movers);
	setenv("TRIBUTARY_MOVERS", movers < 0 ? "auto" : text, 1);
}

bool runtime_long(void)
{
	return runtime_setting("TEST_LONG") != NULL;
}

bool runtime_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	return true;
#else
	return false;
#endif
#else
	return false;
#endif
}

uint64_t runtime_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

#define STEP_NS UINT64_C(5000000)

static _Atomic uint64_t step_began_ns, stalls_ns;

static uint64_t beyond_a_step_ns(void)
{
	uint64_t took_ns = runtime_now_ns() - atomic_load(&step_began_ns);

	return took_ns > STEP_NS ? took_ns - STEP_NS : 0;
}

static void *watch_stalls(void *arg)
{
	const struct timespec step = { .tv_nsec = STEP_NS };

	for (;;) {
		nanosleep(&step, NULL);
		atomic_fetch_add(&stalls_ns, beyond_a_step_ns());
		atomic_store(&step_began_ns, runtime_now_ns());
	}
	return arg;
}

void runtime_watch_stalls(void)
{
	sigset_t all, before;
	pthread_t thread;

	if (atomic_load(&step_began_ns))
		return;
	atomic_store(&step_began_ns, runtime_now_ns());
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the test's own threads */
	if (pthread_create(&thread, NULL, watch_stalls, NULL) == 0)
		pthread_detach(thread);
	else
		atomic_store(&step_began_ns, 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* With the step that has not ended: whoever asks may have been faster than that thread. */
uint64_t runtime_stalled_ns(void)
{
	return atomic_load(&step_began_ns) ? atomic_load(&stalls_ns) + beyond_a_step_ns() : 0;
}

uint64_t runtime_own_ns(void)
{
	return runtime_now_ns() - runtime_stalled_ns();
}

uint64_t runtime_deadline_ns(unsigned milliseconds)
{
	return runtime_now_ns() + milliseconds * 1000000ULL * patience();
}

bool runtime_past(uint64_t deadline_ns)
{
	return runtime_now_ns() >= deadline_ns;
}

void runtime_nap(void)
{
	sched_yield();
}

unsigned runtime_fd_count(void)
{
	DIR *directory = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned count = 0;

	if (!directory)
		return 0;
	while ((entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count - 1; /* the directory's own */
}

/* The number after `name` in /proc/self/status, 0 when it is not there. */
static unsigned long status_number(const char *name)
{
	FILE *file = fopen("/proc/self/status", "re");
	size_t name_bytes = strlen(name);
	unsigned long value = 0;
	char line[256];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, name, name_bytes)) {
			value = strtoul(line + name_bytes, NULL, 10);
			break;
		}
	}
	fclose(file);
	return value;
}

static unsigned foreign_threads; /* there before the program is: qemu-user's own */

__attribute__((constructor)) static void count_foreign_threads(void)
{
	foreign_threads = (unsigned)status_number("Threads:") - 1;
}

/* As sys_thread_start() names them. */
static unsigned threads_named(const char *prefix)
{
	DIR *directory = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned count = 0;

	while (directory && (entry = readdir(directory))) {
		char path[64], name[16] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		count += fgets(name, sizeof(name), file) && !strncmp(name, prefix, strlen(prefix));
		fclose(file);
	}
	if (directory)
		closedir(directory);
	return count;
}

unsigned runtime_thread_count(void)
{
	return (unsigned)status_number("Threads:") - foreign_threads - threads_named("tributary-move");
}

unsigned runtime_plugin_threads(void)
{
	return threads_named("tributary");
}

size_t runtime_resident_bytes(void)
{
	return status_number("VmRSS:") * 1024;
}

uint64_t runtime_cpu_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000ULL +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000ULL;
}

int runtime_complain(int error, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "%s[%d]: %s\n", program_name, (int)getpid(), text);
	return -error;
}

static uint64_t pattern_word(uint64_t seed, uint64_t index)
{
	uint64_t x = (seed + index) * 0x9e3779b97f4a7c15ULL;

	return x ^ (x >> 29);
}

void pattern_fill(void *data, size_t bytes, uint64_t seed)
{
	uint8_t *at = data;
	uint64_t word, index = 0, start = random_next(&seed);

	for (; bytes >= sizeof(word); bytes -= sizeof(word), at += sizeof(word)) {
		word = pattern_word(start, index++);
		memcpy(at, &word, sizeof(word));
	}
	word = pattern_word(start, index);
	memcpy(at, &word, bytes);
}

size_t pattern_wrong_at(const void *data, size_t bytes, uint64_t seed)
{
	const uint8_t *at = data;
	uint64_t word, found, start = random_next(&seed);
	size_t done, piece, i;

	for (done = 0; done < bytes; done += piece) {
		piece = bytes - done < sizeof(word) ? bytes - done : sizeof(word);
		word = pattern_word(start, done / sizeof(word));
		found = word;
		memcpy(&found, at + done, piece);
		if (found == word)
			continue;
		for (i = 0; i < piece; i++)
			if (at[done + i] != ((const uint8_t *)&word)[i])
				return done + i;
	}
	return SIZE_MAX;
}
