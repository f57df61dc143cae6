/* SPDX-License-Identifier: Apache-2.0 */
/* What all of a connection needs: the memory that is registered for it, and its requests. */
#include "base/sys.h"
#include "transport/verbs/reserve.h"

#include <errno.h>

/* ---- memory ---- */

static void put_memories(struct verbs_connection *connection, struct verbs_registration *registration)
{
	for (unsigned i = 0; i < connection->rail_count; i++) {
		verbs_memory_put(connection->rails[i].port->card, registration->memories[i], registration->stays);
		registration->memories[i] = NULL;
	}
}

static void register_with_reserve(struct verbs_connection *connection, const struct verbs_range *range,
				  struct verbs_registration *registration)
{
	const unsigned rail = connection->own_rail_count;
	struct verbs_range wanted = *range;
	int r;

	if (rail == connection->rail_count || connection->reserve_off ||
	    verbs_card_is_lost(connection->rails[rail].port->card))
		return;
	wanted.optional = true;
	r = verbs_memory_get(connection->rails[rail].port->card, &wanted, &registration->memories[rail]);
	if (r < 0)
		verbs_reserve_off(connection, r);
}

int verbs_registration_new(struct verbs_connection *connection, const struct verbs_range *range,
			   struct verbs_registration **ret)
{
	struct verbs_registration *registration = sys_zalloc(sizeof(*registration));

	if (!registration)
		return -ENOMEM;
	registration->stays = range->stays;
	registration->gpu = range->memory != TRANSPORT_MEMORY_HOST;
	for (unsigned i = 0; i < connection->own_rail_count; i++) {
		int r;

		if (verbs_card_is_lost(connection->rails[i].port->card))
			continue;
		r = verbs_memory_get(connection->rails[i].port->card, range, &registration->memories[i]);

		if (r < 0)
			put_memories(connection, registration);
		if (r < 0 && registration->gpu) {
			sys_free(registration);
			return r;
		}
		registration->copied = r < 0;
		if (r < 0) {
			verbs_memory_say_copied(connection->rails[i].port->card);
			break;
		}
	}
	if (!registration->copied)
		register_with_reserve(connection, range, registration);
	LIST_INSERT_HEAD(&connection->registrations, registration, link);
	*ret = registration;
	return 0;
}

void verbs_registration_free(struct verbs_connection *connection, struct verbs_registration *registration)
{
	if (!registration)
		return;
	LIST_REMOVE(registration, link);
	put_memories(connection, registration);
	sys_free(registration);
}

/* ---- requests ---- */

/* What was registered for one request alone: no queue uses it any more. */
void verbs_request_release(struct verbs_request *request)
{
	struct verbs_connection *connection = request->connection;

	if (request->own_registration)
		verbs_registration_free(connection, request->registration);
	request->own_registration = false;
	request->registration = NULL;
	for (unsigned i = 0; i < request->count; i++)
		if (request->slots[i].own_registration) {
			verbs_registration_free(connection, request->slots[i].registration);
			request->slots[i].own_registration = false;
		}
}

bool verbs_request_uses(const struct verbs_connection *connection, const struct verbs_registration *registration)
{
	const struct verbs_request *request;
	bool uses = false;

	TAILQ_FOREACH (request, &connection->open, link) {
		uses |= request->registration == registration;
		for (unsigned i = 0; i < request->count; i++)
			uses |= request->slots[i].registration == registration;
	}
	return registration && uses;
}

struct verbs_request *verbs_request_get(struct verbs_connection *connection, enum verbs_request_kind kind)
{
	const bool flush = kind == VERBS_REQUEST_FLUSH;
	const unsigned first = flush ? TRANSPORT_MAX_REQUESTS : 0;

	for (unsigned i = first; i < (flush ? first + VERBS_FLUSHES : TRANSPORT_MAX_REQUESTS); i++) {
		struct verbs_request *request = &connection->requests[i];

		if (request->used)
			continue;
		*request = (struct verbs_request){
			.connection = connection, .kind = kind, .used = true, .generation = request->generation
		};
		connection->request_count++;
		return request;
	}
	return NULL;
}

void verbs_request_finish(struct verbs_connection *connection, struct verbs_request *request)
{
	TAILQ_REMOVE(&connection->open, request, link);
	request->done = true;
}

void verbs_request_put(struct verbs_request *request, size_t *sizes)
{
	if (sizes && request->kind == VERBS_REQUEST_SEND)
		sizes[0] = request->size;
	for (unsigned i = 0; sizes && request->kind == VERBS_REQUEST_RECEIVE && i < request->count; i++)
		sizes[i] = (size_t)request->slots[i].received;
	verbs_request_release(request);
	request->count = 0;
	request->used = false;
	request->connection->request_count--;
}
