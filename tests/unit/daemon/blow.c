/* SPDX-License-Identifier: Apache-2.0 */
#include "blow.h"

#include "aggregate/tags.h"
#include "aggregate/aggregator_wire.h"

#include <errno.h>
#include <stdatomic.h>

const char *const blow_names[STROKE_COUNT] = { "none", "head", "input", "partial", "result", "up", "down", "any" };

/* Calls of a kind until the stroke, then turns until it falls; from then on every call fails, of all who use this. */
static struct {
	_Atomic unsigned stroke;
	_Atomic bool one_way; /* only the connection on which it fell */
	_Atomic int64_t calls_left, turns_left;
	_Atomic uint64_t calls;
	_Atomic bool fallen;
	struct transport_connection *_Atomic connection;
} blow;

void blow_set(enum stroke stroke, bool one_way, int64_t calls, int64_t turns)
{
	blow.stroke = stroke;
	blow.one_way = one_way;
	atomic_store(&blow.fallen, false);
	atomic_store(&blow.connection, NULL);
	atomic_store(&blow.turns_left, turns);
	atomic_store(&blow.calls, 0);
	atomic_store(&blow.calls_left, calls);
}

static void blow_count(enum stroke stroke, struct transport_connection *connection)
{
	if (stroke != blow.stroke && blow.stroke != STROKE_ANY)
		return;
	atomic_fetch_add(&blow.calls, 1);
	if (atomic_fetch_sub(&blow.calls_left, 1) == 1)
		atomic_store(&blow.connection, connection);
}

static bool has_fallen(const struct transport_connection *connection)
{
	const struct transport_connection *struck = atomic_load(&blow.connection);

	return atomic_load(&blow.fallen) && (!blow.one_way || struck == connection);
}

static int blow_send(struct transport_connection *connection, void *data, size_t bytes, int tag, void *registration,
		     struct transport_request **ret)
{
	*ret = NULL;
	if (has_fallen(connection))
		return -EREMOTEIO;
	if ((tag & 7) == AGGREGATE_TAG_UP_ROOT)
		blow_count(STROKE_UP, connection);
	else if ((tag & 7) == AGGREGATE_TAG_DOWN)
		blow_count(STROKE_DOWN, connection);
	return transport_tcp.send(connection, data, bytes, tag, registration, ret);
}

static int blow_receive(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
			const int *tags, void *const *registrations, struct transport_request **ret)
{
	static const enum stroke of[8] = { [AGGREGATE_TAG_HEAD] = STROKE_HEAD,
					   [AGGREGATE_TAG_UP_LEAF] = STROKE_INPUT,
					   [AGGREGATE_TAG_UP_ROOT] = STROKE_PARTIAL,
					   [AGGREGATE_TAG_DOWN] = STROKE_RESULT };

	*ret = NULL;
	if (has_fallen(connection))
		return -EREMOTEIO;
	if (of[tags[0] & 7] != STROKE_NONE)
		blow_count(of[tags[0] & 7], connection);
	return transport_tcp.receive(connection, count, data, bytes, tags, registrations, ret);
}

static int blow_test(struct transport_request *request, bool *ret_done, size_t *sizes)
{
	if (atomic_load(&blow.fallen) && !blow.one_way)
		return -EREMOTEIO;
	return transport_tcp.test(request, ret_done, sizes);
}

static int blow_progress(struct transport_connection *connection, enum transport_next *ret_next)
{
	if (atomic_load(&blow.connection) && atomic_fetch_sub(&blow.turns_left, 1) <= 0)
		atomic_store(&blow.fallen, true);
	if (has_fallen(connection))
		return -EREMOTEIO;
	return transport_tcp.progress(connection, ret_next);
}

struct transport_ops blow_ops;

void blow_start(void)
{
	blow_ops = transport_tcp;
	blow_ops.send = blow_send;
	blow_ops.receive = blow_receive;
	blow_ops.test = blow_test;
	blow_ops.progress = blow_progress;
}

bool blow_has_fallen(void)
{
	return atomic_load(&blow.fallen);
}
