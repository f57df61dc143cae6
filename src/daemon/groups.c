/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/aggregator_wire.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

/* The interface that has the address which the coordinator reached: its members are on the same network. */
static bool interface_of(const struct daemon_connection *connection, char *ret, size_t bytes)
{
	struct sockaddr_storage own = { 0 };
	socklen_t own_bytes = sizeof(own);
	uint8_t wanted[16], at[16];
	struct ifaddrs *list;
	bool found = false;

	if (getsockname(connection->fd, (struct sockaddr *)&own, &own_bytes) < 0 || getifaddrs(&list) < 0)
		return false;
	daemon_address_bytes(&own, wanted);
	for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
		struct sockaddr_storage address = { 0 };

		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
			continue;
		memcpy(&address, i->ifa_addr,
		       i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
		daemon_address_bytes(&address, at);
		found = !memcmp(at, wanted, sizeof(at));
		if (found)
			snprintf(ret, bytes, "%s", i->ifa_name);
	}
	freeifaddrs(list);
	return found;
}

static int device_for(const struct daemon *daemon, const struct daemon_connection *connection)
{
	char name[64];
	int count = daemon->ops->device_count(daemon->transport);

	if (!interface_of(connection, name, sizeof(name)))
		return 0;
	for (int i = 0; i < count; i++) {
		struct transport_properties properties;

		if (!daemon->ops->device_properties(daemon->transport, i, &properties) &&
		    !strcmp(properties.name, name))
			return i;
	}
	return 0;
}

static bool is_taken(const struct daemon *daemon, const uint8_t id[static CONTROL_ID_BYTES])
{
	for (size_t i = 0; i < daemon->connection_count; i++) {
		const struct daemon_group *group = daemon->connections[i]->group;

		if (group && !memcmp(group->id, id, CONTROL_ID_BYTES))
			return true;
	}
	return false;
}

/* Sentences end up in a training job's log: they say what to change, and where. */
static int check_request(const struct daemon *daemon, const struct daemon_connection *connection,
			 const struct control_request *request, char sentence[static CONTROL_SENTENCE_BYTES])
{
	if (daemon->draining)
		snprintf(sentence, CONTROL_SENTENCE_BYTES, "it is ending");
	else if (connection->group)
		snprintf(sentence, CONTROL_SENTENCE_BYTES, "this connection has a group already");
	else if (request->data_version != AGGREGATOR_WIRE_VERSION)
		snprintf(sentence, CONTROL_SENTENCE_BYTES,
			 "it speaks version %d of the members' protocol, not %u: install the same version everywhere",
			 AGGREGATOR_WIRE_VERSION, request->data_version);
	else if (is_taken(daemon, request->id))
		snprintf(sentence, CONTROL_SENTENCE_BYTES, "it has that group already");
	else if (daemon_group_count(daemon) >= daemon->options->groups_max)
		snprintf(sentence, CONTROL_SENTENCE_BYTES, "it has %u groups, all that --groups-max allows",
			 daemon->options->groups_max);
	else
		return 0;
	return -EBUSY;
}

int daemon_group_begin(struct daemon *daemon, const struct daemon_connection *connection,
		       const struct control_request *request, struct daemon_group **ret,
		       struct control_offer *ret_offer, char sentence[static CONTROL_SENTENCE_BYTES])
{
	struct aggregator_request wanted = { .device = device_for(daemon, connection),
					     .timeout_ns = request->timeout_ms * NS_PER_MS,
					     .member_count = request->member_count,
					     .handles = request->handles };
	struct transport_properties properties = { 0 };
	struct aggregator_status status;
	struct daemon_group *group;
	int r = check_request(daemon, connection, request, sentence);

	if (r < 0)
		return r;
	/* A timeout that makes no sense is not worth a refusal: its own counts then. */
	if (wanted.timeout_ns < NS_PER_S / 10 || wanted.timeout_ns > 3600 * NS_PER_S)
		wanted.timeout_ns = daemon->params->timeout_ns;
	memcpy(wanted.id, request->id, sizeof(wanted.id));
	group = sys_zalloc(sizeof(*group));
	r = group ? aggregator_begin(daemon->aggregator, &wanted, ret_offer->handle, &group->aggregator_group)
		  : -ENOMEM;
	if (!r)
		r = daemon->ops->device_properties(daemon->transport, wanted.device, &properties);
	if (r < 0) {
		if (r == -EDQUOT)
			log_sentence(sentence, CONTROL_SENTENCE_BYTES,
				     "a group's part of its memory is too small for %u members: raise --memory-max (it "
				     "is %llu MiB) or lower --groups-max (%u)",
				     request->member_count,
				     (unsigned long long)(daemon->options->memory_max_bytes >> 20),
				     daemon->options->groups_max);
		else
			snprintf(sentence, CONTROL_SENTENCE_BYTES, "it cannot take the group: %s", strerror(-r));
		if (group)
			aggregator_end(group->aggregator_group);
		sys_free(group);
		return r;
	}
	memcpy(group->id, request->id, sizeof(group->id));
	memcpy(group->name, request->name, sizeof(group->name));
	group->member_count = request->member_count;
	group->since_ns = clock_now_ns();
	group->timeout_ns = wanted.timeout_ns;
	aggregator_status(group->aggregator_group, &status);
	ret_offer->rate_Bps = properties.speed_Bps;
	ret_offer->window_bytes = status.window_bytes;
	ret_offer->group_count = (uint32_t)daemon_group_count(daemon) + 1;
	daemon->groups_served++;
	*ret = group;
	return 0;
}

void daemon_group_end(struct daemon *daemon, struct daemon_group *group)
{
	struct aggregator_status status;

	if (!group)
		return;
	aggregator_status(group->aggregator_group, &status);
	daemon->past.bytes_in += status.counters.bytes_in;
	daemon->past.bytes_out += status.counters.bytes_out;
	daemon->past.segments += status.counters.segments;
	aggregator_end(group->aggregator_group);
	/* No warning: groups end with a connection lost when their members do, and these know better why. */
	log_info(LOG_NET, "group %.39s of %u members has ended after %llu segments%s%s", group->name,
		 group->member_count, (unsigned long long)status.counters.segments,
		 status.state == AGGREGATOR_FAILED ? ": " : "",
		 status.state == AGGREGATOR_FAILED ? status.sentence : "");
	sys_free(group);
}
