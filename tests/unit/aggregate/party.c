#include "unit/aggregate/party.h"

#include "support/runtime.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

void party_params(struct params *ret)
{
	params_defaults(ret);
	ret->net = NET_CHOICE_TCP;
	/* What aggregators do here depends on who else is on this machine; tests of the measuring ask for it. */
	ret->aggregate_measure = false;
	snprintf(ret->interfaces, sizeof(ret->interfaces), "lo");
	/* Parts of it are for the aggregators to answer: on a busy machine, too. */
	ret->timeout_ns = 120000000000;
}

static void party_place(struct party *party, const char *leaves)
{
	size_t host = 0;

	for (const char *at = leaves; *at; at++) {
		unsigned members = at[1] >= '1' && at[1] <= '9' ? (unsigned)(at[1] - '0') : 1;

		for (unsigned i = 0; i < members; i++)
			snprintf(party->members[party->count++].host, sizeof(party->members[0].host), "host%02zu",
				 host);
		party->hosts[host].name = party->members[party->count - 1].host;
		party->hosts[host].leaf = *at - 'a';
		host++;
		at += members > 1 || at[1] == '1';
	}
	for (size_t i = 0; i < PARTY_MAX; i++)
		party->switches[i] = (struct cluster_switch){ .name = "leaf", .parent = CLUSTER_NONE };
	party->cluster = (struct cluster){ .switch_count = PARTY_MAX,
					   .host_count = host,
					   .switches = party->switches,
					   .hosts = party->hosts,
					   .fingerprint = 4711 };
}

struct aggregate_setup party_setup(struct party *party, size_t i)
{
	struct party_member *member = &party->members[i];

	return (struct aggregate_setup){ .params = &member->params,
					 .ops = party->ops,
					 .transport = party->transport,
					 .cluster = &party->cluster,
					 .host_name = member->host };
}

int party_gather(struct party *party, const struct params *params, const char *leaves)
{
	int r;

	memset(party, 0, sizeof(*party));
	party->params = *params;
	party->ops = params->net == NET_CHOICE_VERBS ? &transport_verbs : &transport_tcp;
	party_place(party, leaves);
	r = party->ops->open(&party->params, &party->transport);
	for (size_t i = 0; i < party->count && r == 0; i++) {
		struct party_member *member = &party->members[i];
		struct aggregate_setup setup = party_setup(party, i);

		member->params = party->params;
		setup.cluster = leaves[0] == '-' ? NULL : &party->cluster;
		r = aggregate_open(&setup, &member->engine);
		if (r == 0)
			r = aggregate_listen(member->engine, 0, member->handle, &member->listener);
	}
	return r;
}

struct party_connect {
	struct party *party;
	struct party_member *member;
	pthread_t thread;
	bool runs;
};

static void *connect_run(void *arg)
{
	struct party_connect *connect = arg;
	const uint8_t *handles[PARTY_MAX];

	for (size_t i = 0; i < connect->party->count; i++)
		handles[i] = connect->party->members[i].handle;
	connect->member->error = aggregate_connect(connect->member->listener, connect->party->count, handles,
						   &connect->member->group, connect->member->reason);
	return NULL;
}

void party_slow_hosts(struct party *party)
{
	for (size_t i = 0; i < party->cluster.host_count; i++)
		party->hosts[i].rate_Bps = PARTY_SLOW_HOST_BPS;
}

int party_connect(struct party *party)
{
	struct party_connect connects[PARTY_MAX] = { 0 };
	int r = 0;

	for (size_t i = 0; i < party->count; i++) {
		connects[i] = (struct party_connect){ .party = party, .member = &party->members[i] };
		if (!party->members[i].listener)
			continue;
		connects[i].runs = pthread_create(&connects[i].thread, NULL, connect_run, &connects[i]) == 0;
	}
	for (size_t i = 0; i < party->count; i++) {
		if (connects[i].runs)
			pthread_join(connects[i].thread, NULL);
		r = r == 0 ? party->members[i].error : r;
	}
	return r;
}

int party_open(struct party *party, const struct params *params, const char *leaves)
{
	int r = party_gather(party, params, leaves);

	if (r == 0)
		r = party_connect(party);
	for (size_t i = 0; r < 0 && i < party->count; i++)
		runtime_complain(-party->members[i].error, "member %zu: %s", i, party->members[i].reason);
	return r;
}

void party_close(struct party *party)
{
	for (size_t i = 0; i < party->count; i++) {
		aggregate_close_group(party->members[i].group);
		aggregate_close_listener(party->members[i].listener);
		aggregate_close(party->members[i].engine);
	}
	if (party->transport)
		party->ops->close(party->transport);
	memset(party, 0, sizeof(*party));
}

int party_finish(struct party *party, struct aggregate_request **requests)
{
	uint64_t deadline_ns = runtime_deadline_ns(PARTY_PATIENCE_MS);
	size_t left = 1;

	while (left) {
		left = 0;
		for (size_t i = 0; i < party->count; i++) {
			bool done = false;
			int r = requests[i] ? aggregate_test(requests[i], &done, NULL) : 0;

			if (r < 0)
				return r;
			if (done)
				requests[i] = NULL;
			left += requests[i] != NULL;
		}
		if (left && runtime_past(deadline_ns))
			return runtime_complain(ETIMEDOUT, "%zu of %zu members wait", left, party->count);
		if (left)
			runtime_nap();
	}
	return 0;
}

int party_all_fail(struct party *party, size_t but, struct aggregate_request **requests)
{
	uint64_t deadline_ns = runtime_deadline_ns(PARTY_PATIENCE_MS);

	for (size_t i = 0; i < party->count; i++) {
		bool done = false;
		int r = 0;

		while (i != but && r == 0 && !done) {
			r = requests[i] ? aggregate_test(requests[i], &done, NULL) : -EINVAL;
			if (r == 0 && runtime_past(deadline_ns))
				return runtime_complain(ETIMEDOUT, "member %zu waits", i);
			runtime_nap();
		}
		if (i != but && r != -EREMOTEIO)
			return runtime_complain(EBADMSG, "member %zu: %d", i, r);
	}
	return 0;
}

int party_reduce(struct party_member *member, const void *send, void *recv, size_t count, enum reduce_type type,
		 enum reduce_operation operation, struct aggregate_request **ret)
{
	uint64_t deadline_ns = runtime_deadline_ns(PARTY_PATIENCE_MS);
	int r;

	for (;;) {
		r = aggregate_reduce_all(member->group, send, recv, count, type, operation, ret);
		if (r < 0 || *ret)
			return r;
		if (runtime_past(deadline_ns))
			return -ETIMEDOUT;
		runtime_nap();
	}
}
