/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/path.h"

#include "base/clock.h"
#include "base/minmax.h"
#include "base/sys.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define WAIT_FIRST_NS (NS_PER_S / 2)
#define WAIT_MOST_NS  (20 * NS_PER_S)
#define LONE_NS       (NS_PER_S / 4)
#define ONE_CHANGE_NS NS_PER_S /* each connection tells of a port that is up: within this it is one and the same */
#define FORGET_NS     (600 * NS_PER_S)
enum { WAIT_FACTOR = 4 };

struct verbs_path {
	LIST_ENTRY(verbs_path) link;
	struct verbs_path_ends ends;
	uint64_t begun_ns; /* the last try began, or failed */
	uint64_t wait_ns;  /* from then until the next one */
	uint64_t used_ns;  /* noted here last */
	uint64_t up_ns;    /* a port of it came up */
	bool tried;        /* since the last failure */
	bool said;         /* that it failed is in the log */
};

void verbs_paths_init(struct verbs_paths *paths)
{
	pthread_mutex_init(&paths->lock, NULL);
	LIST_INIT(&paths->list);
}

static void forget(struct verbs_path *path)
{
	LIST_REMOVE(path, link);
	sys_free(path);
}

void verbs_paths_free(struct verbs_paths *paths)
{
	while (!LIST_EMPTY(&paths->list))
		forget(LIST_FIRST(&paths->list));
	pthread_mutex_destroy(&paths->lock);
}

static struct verbs_path *find(const struct verbs_paths *paths, const struct verbs_path_ends *ends)
{
	struct verbs_path *path;

	for (path = LIST_FIRST(&paths->list); path; path = LIST_NEXT(path, link))
		if (path->ends.here == ends->here && path->ends.there.lid == ends->there.lid &&
		    memcmp(path->ends.there.gid, ends->there.gid, sizeof(ends->there.gid)) == 0)
			break;
	return path;
}

/* Lock held. NULL: no memory. */
static struct verbs_path *add(struct verbs_paths *paths, const struct verbs_path_ends *ends, uint64_t now_ns)
{
	struct verbs_path *path = find(paths, ends), *next;

	for (struct verbs_path *old = LIST_FIRST(&paths->list); !path && old; old = next) {
		next = LIST_NEXT(old, link);
		if (clock_elapsed_ns(old->used_ns, now_ns) > FORGET_NS) /* its peers are gone */
			forget(old);
	}
	if (!path) {
		path = sys_zalloc(sizeof(*path));
		if (!path)
			return NULL;
		path->ends = *ends;
		LIST_INSERT_HEAD(&paths->list, path, link);
	}
	path->used_ns = now_ns;
	return path;
}

void verbs_path_doubt(struct verbs_paths *paths, const struct verbs_path_ends *ends, uint64_t now_ns)
{
	pthread_mutex_lock(&paths->lock);
	add(paths, ends, now_ns);
	pthread_mutex_unlock(&paths->lock);
}

bool verbs_path_failed(struct verbs_paths *paths, const struct verbs_path_ends *ends, uint64_t now_ns)
{
	struct verbs_path *path;
	bool first = false;

	pthread_mutex_lock(&paths->lock);
	path = add(paths, ends, now_ns);
	if (path) {
		first = !path->said;
		path->said = true;
		if (!path->wait_ns) /* it was not in doubt, so this was one of many */
			path->wait_ns = WAIT_FIRST_NS;
		else if (path->tried)
			path->wait_ns = min_u64(WAIT_FACTOR * path->wait_ns, WAIT_MOST_NS);
		path->begun_ns = now_ns;
		path->tried = false;
	}
	pthread_mutex_unlock(&paths->lock);
	return first;
}

void verbs_path_proven(struct verbs_paths *paths, const struct verbs_path_ends *ends)
{
	struct verbs_path *path;

	pthread_mutex_lock(&paths->lock);
	path = find(paths, ends);
	if (path)
		forget(path);
	pthread_mutex_unlock(&paths->lock);
}

void verbs_path_is_up(struct verbs_paths *paths, const struct verbs_path_ends *ends, uint64_t now_ns)
{
	struct verbs_path *path;

	pthread_mutex_lock(&paths->lock);
	path = find(paths, ends);
	if (path && clock_elapsed_ns(path->up_ns, now_ns) >= ONE_CHANGE_NS) {
		path->up_ns = now_ns;
		path->wait_ns = 0;
	}
	pthread_mutex_unlock(&paths->lock);
}

static bool may_try(const struct verbs_path *path, bool lone, uint64_t now_ns)
{
	return !path ||
	       clock_elapsed_ns(path->begun_ns, now_ns) >= (lone ? min_u64(LONE_NS, path->wait_ns) : path->wait_ns);
}

bool verbs_path_is_open(struct verbs_paths *paths, const struct verbs_path_ends *ends, bool lone, uint64_t now_ns)
{
	bool may;

	pthread_mutex_lock(&paths->lock);
	may = may_try(find(paths, ends), lone, now_ns);
	pthread_mutex_unlock(&paths->lock);
	return may;
}

bool verbs_path_take(struct verbs_paths *paths, const struct verbs_path_ends *ends, bool lone, uint64_t now_ns)
{
	struct verbs_path *path;
	bool may;

	pthread_mutex_lock(&paths->lock);
	path = find(paths, ends);
	may = may_try(path, lone, now_ns);
	if (path && may) {
		path->begun_ns = path->used_ns = now_ns;
		path->wait_ns = path->wait_ns ? path->wait_ns : WAIT_FIRST_NS;
		path->tried = true;
	}
	pthread_mutex_unlock(&paths->lock);
	return may;
}

static const char *address_text(bool ethernet, const uint8_t gid[static VERBS_WIRE_GID_BYTES], unsigned lid,
				char text[static INET6_ADDRSTRLEN])
{
	static const uint8_t ipv4[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	if (!ethernet)
		snprintf(text, INET6_ADDRSTRLEN, "LID %u", lid);
	else if (memcmp(gid, ipv4, sizeof(ipv4)) == 0)
		inet_ntop(AF_INET, gid + sizeof(ipv4), text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
	return text;
}

const char *verbs_path_text(const struct verbs_path_ends *ends, char text[static VERBS_PATH_TEXT_BYTES])
{
	const struct verbs_port *here = ends->here;
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];

	snprintf(text, VERBS_PATH_TEXT_BYTES, "%s (%s) to %s", here->name,
		 address_text(here->ethernet, here->gid, here->lid, from),
		 address_text(ends->there.ethernet, ends->there.gid, ends->there.lid, to));
	return text;
}

/* ---- tries ---- */

static void *run(void *arg)
{
	struct verbs_try *try = arg;

	try->result = verbs_pair_connect(try->api, try->ends.here, try->qp, try->psn, &try->to, &try->ends.there,
					 &try->options);
	atomic_store_explicit(&try->done, true, memory_order_release);
	return NULL;
}

int verbs_try_begin(struct verbs_try *try)
{
	int r;

	atomic_store_explicit(&try->done, false, memory_order_relaxed);
	r = sys_thread_start(run, try, "tributary-pair", &try->thread);
	try->runs = r == 0;
	return r;
}

int verbs_try_end(struct verbs_try *try)
{
	if (try->runs)
		pthread_join(try->thread, NULL);
	try->runs = false;
	return try->result;
}
