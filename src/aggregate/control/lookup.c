/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/control/lookup.h"

#include "base/sys.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256 };

struct control_lookup {
	/* The one who asks and the thread that looks: the last to leave frees it. Nothing can call a resolver back. */
	atomic_uint users;
	atomic_bool done; /* what follows `port` is written before it is set */
	char name[NAME_BYTES];
	uint16_t port;
	int error; /* EAI_ */
	struct sockaddr_storage address;
	socklen_t address_bytes;
};

static void leave(struct control_lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->users, 1) == 1)
		sys_free(lookup);
}

/* Returns EAI_, 0 if it is known. */
static int look_up(struct control_lookup *lookup, int flags)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV }, *found = NULL;
	char port[8];
	int error;

	snprintf(port, sizeof(port), "%u", lookup->port);
	error = getaddrinfo(lookup->name, port, &hints, &found);
	if (error)
		return error;
	memcpy(&lookup->address, found->ai_addr, found->ai_addrlen);
	lookup->address_bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static void *run(void *arg)
{
	struct control_lookup *lookup = arg;

	lookup->error = look_up(lookup, 0);
	atomic_store(&lookup->done, true);
	leave(lookup);
	return NULL;
}

int control_lookup_start(const char *address, uint16_t port, struct control_lookup **ret)
{
	struct control_lookup *lookup = sys_zalloc(sizeof(*lookup));
	pthread_t thread;
	int r;

	if (!lookup)
		return -ENOMEM;
	snprintf(lookup->name, sizeof(lookup->name), "%s", address);
	lookup->port = port;
	atomic_store(&lookup->users, 1);
	lookup->error = look_up(lookup, AI_NUMERICHOST);
	atomic_store(&lookup->done, lookup->error != EAI_NONAME);
	if (lookup->error == EAI_NONAME) {
		atomic_store(&lookup->users, 2);
		r = sys_thread_start(run, lookup, "tributary-name", &thread);
		if (r < 0) {
			sys_free(lookup);
			return r;
		}
		pthread_detach(thread);
	}
	*ret = lookup;
	return 0;
}

int control_lookup_result(struct control_lookup *lookup, struct sockaddr_storage *address, socklen_t *address_bytes,
			  const char **ret_why)
{
	if (!atomic_load(&lookup->done))
		return 0;
	if (lookup->error) {
		*ret_why = gai_strerror(lookup->error);
		return -EIO;
	}
	*address = lookup->address;
	*address_bytes = lookup->address_bytes;
	return 1;
}

void control_lookup_end(struct control_lookup *lookup)
{
	if (lookup)
		leave(lookup);
}
