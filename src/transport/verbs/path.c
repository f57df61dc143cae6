/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/path.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/sys.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define WAIT_FIRST_NS (NS_PER_S / 2)
#define WAIT_MOST_NS  (20 * NS_PER_S)
#define LONE_NS       (NS_PER_S / 4)
#define ONE_CHANGE_NS NS_PER_S /* each connection tells of a port that is up: within this it is one and the same */
enum { WAIT_FACTOR = 4 };

struct verbs_path {
	LIST_ENTRY(verbs_path) link;
	struct verbs_path_ends ends;
	uint64_t taken_ns, wait_ns; /* the last try, and how long it is the only one */
	bool said;
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

	LIST_FOREACH(path, &paths->list, link)
	if (path->ends.here == ends->here && path->ends.there.lid == ends->there.lid &&
	    memcmp(path->ends.there.gid, ends->there.gid, sizeof(ends->there.gid)) == 0)
		return path;
	return NULL;
}

/* Lock held. */
static void begin(struct verbs_paths *paths, struct verbs_path *path, const struct verbs_path_ends *ends,
		  uint64_t now_ns)
{
	if (!path) {
		path = sys_zalloc(sizeof(*path));
		if (!path)
			return; /* then more of them try */
		path->ends = *ends;
		LIST_INSERT_HEAD(&paths->list, path, link);
	}
	path->taken_ns = now_ns;
	path->wait_ns = path->wait_ns ? min_u64(WAIT_FACTOR * path->wait_ns, WAIT_MOST_NS) : WAIT_FIRST_NS;
}

bool verbs_path_take(struct verbs_paths *paths, const struct verbs_path_ends *ends, bool lone, uint64_t now_ns)
{
	struct verbs_path *path;
	bool may;

	pthread_mutex_lock(&paths->lock);
	path = find(paths, ends);
	may = !path ||
	      clock_elapsed_ns(path->taken_ns, now_ns) >= (lone ? min_u64(LONE_NS, path->wait_ns) : path->wait_ns);
	if (may)
		begin(paths, path, ends, now_ns);
	pthread_mutex_unlock(&paths->lock);
	return may;
}

void verbs_path_failed(struct verbs_paths *paths, const struct verbs_path_ends *ends, const char *host)
{
	char text[VERBS_PATH_TEXT_BYTES];
	struct verbs_path *path;
	bool say;

	pthread_mutex_lock(&paths->lock);
	path = find(paths, ends);
	say = path && !path->said;
	if (say)
		path->said = true;
	pthread_mutex_unlock(&paths->lock);
	if (say)
		log_info(LOG_NET, "RDMA from %s of host %s carries nothing: it is tried again, in the end every %u s",
			 verbs_path_text(ends, text), host, (unsigned)(WAIT_MOST_NS / NS_PER_S));
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
	if (path && clock_elapsed_ns(path->taken_ns, now_ns) >= ONE_CHANGE_NS)
		path->wait_ns = 0;
	pthread_mutex_unlock(&paths->lock);
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
