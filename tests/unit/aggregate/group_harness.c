/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/aggregate/group_harness.h"

#include "support/runtime.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

void group_harness_params(struct params *ret)
{
	params_defaults(ret);
	ret->net = NET_CHOICE_TCP;
	/* What aggregators do here depends on who else is on this machine; tests of the measuring ask for it. */
	ret->aggregate_measure = false;
	snprintf(ret->interfaces, sizeof(ret->interfaces), "lo");
	/* Parts of it are for the aggregators to answer: on a busy machine, too. */
	ret->timeout_ns = 120000000000;
}

static void group_harness_place(struct harness *harness, const char *leaves)
{
	size_t host = 0;

	for (const char *at = leaves; *at; at++) {
		unsigned members = at[1] >= '1' && at[1] <= '9' ? (unsigned)(at[1] - '0') : 1;

		for (unsigned i = 0; i < members; i++)
			snprintf(harness->members[harness->count++].host, sizeof(harness->members[0].host), "host%02zu",
				 host);
		harness->hosts[host].name = harness->members[harness->count - 1].host;
		harness->hosts[host].leaf = *at - 'a';
		host++;
		at += members > 1 || at[1] == '1';
	}
	for (size_t i = 0; i < GROUP_HARNESS_MAX; i++)
		harness->switches[i] = (struct cluster_switch){ .name = "leaf", .parent = CLUSTER_NONE };
	harness->cluster = (struct cluster){ .switch_count = GROUP_HARNESS_MAX,
					     .host_count = host,
					     .switches = harness->switches,
					     .hosts = harness->hosts,
					     .fingerprint = 4711 };
}

struct aggregate_setup group_harness_setup(struct harness *harness, size_t i)
{
	struct group_harness_member *member = &harness->members[i];

	return (struct aggregate_setup){ .params = &member->params,
					 .ops = harness->ops,
					 .transport = harness->transport,
					 .cluster = &harness->cluster,
					 .host_name = member->host };
}

int group_harness_gather(struct harness *harness, const struct params *params, const char *leaves)
{
	int r;

	memset(harness, 0, sizeof(*harness));
	harness->params = *params;
	harness->ops = params->net == NET_CHOICE_VERBS ? &transport_verbs : &transport_tcp;
	group_harness_place(harness, leaves);
	r = harness->ops->open(&harness->params, &harness->transport);
	for (size_t i = 0; i < harness->count && r == 0; i++) {
		struct group_harness_member *member = &harness->members[i];
		struct aggregate_setup setup = group_harness_setup(harness, i);

		member->params = harness->params;
		setup.cluster = leaves[0] == '-' ? NULL : &harness->cluster;
		r = aggregate_open(&setup, &member->engine);
		if (r == 0)
			r = aggregate_listen(member->engine, 0, member->handle, &member->listener);
	}
	return r;
}

struct group_harness_connect {
	struct harness *harness;
	struct group_harness_member *member;
	pthread_t thread;
	bool runs;
};

static void *connect_run(void *arg)
{
	struct group_harness_connect *connect = arg;
	const uint8_t *handles[GROUP_HARNESS_MAX];

	for (size_t i = 0; i < connect->harness->count; i++)
		handles[i] = connect->harness->members[i].handle;
	connect->member->error = aggregate_connect(connect->member->listener, connect->harness->count, handles,
						   &connect->member->group, connect->member->reason);
	return NULL;
}

void group_harness_slow_hosts(struct harness *harness)
{
	for (size_t i = 0; i < harness->cluster.host_count; i++)
		harness->hosts[i].rate_Bps = GROUP_HARNESS_SLOW_HOST_BPS;
}

int group_harness_connect(struct harness *harness)
{
	struct group_harness_connect connects[GROUP_HARNESS_MAX] = { 0 };
	int r = 0;

	for (size_t i = 0; i < harness->count; i++) {
		connects[i] = (struct group_harness_connect){ .harness = harness, .member = &harness->members[i] };
		if (!harness->members[i].listener)
			continue;
		connects[i].runs = pthread_create(&connects[i].thread, NULL, connect_run, &connects[i]) == 0;
	}
	for (size_t i = 0; i < harness->count; i++) {
		if (connects[i].runs)
			pthread_join(connects[i].thread, NULL);
		r = r == 0 ? harness->members[i].error : r;
	}
	return r;
}

int group_harness_open(struct harness *harness, const struct params *params, const char *leaves)
{
	int r = group_harness_gather(harness, params, leaves);

	if (r == 0)
		r = group_harness_connect(harness);
	for (size_t i = 0; r < 0 && i < harness->count; i++)
		runtime_complain(-harness->members[i].error, "member %zu: %s", i, harness->members[i].reason);
	return r;
}

void group_harness_close(struct harness *harness)
{
	for (size_t i = 0; i < harness->count; i++) {
		aggregate_close_group(harness->members[i].group);
		aggregate_close_listener(harness->members[i].listener);
		aggregate_close(harness->members[i].engine);
	}
	if (harness->transport)
		harness->ops->close(harness->transport);
	memset(harness, 0, sizeof(*harness));
}

int group_harness_finish(struct harness *harness, struct aggregate_request **requests)
{
	uint64_t deadline_ns = runtime_deadline_ns(GROUP_HARNESS_PATIENCE_MS);
	size_t left = 1;

	while (left) {
		left = 0;
		for (size_t i = 0; i < harness->count; i++) {
			bool done = false;
			int r = requests[i] ? aggregate_test(requests[i], &done, NULL) : 0;

			if (r < 0)
				return r;
			if (done)
				requests[i] = NULL;
			left += requests[i] != NULL;
		}
		if (left && runtime_past(deadline_ns))
			return runtime_complain(ETIMEDOUT, "%zu of %zu members wait", left, harness->count);
		if (left)
			runtime_nap();
	}
	return 0;
}

int group_harness_all_fail(struct harness *harness, size_t but, struct aggregate_request **requests)
{
	uint64_t deadline_ns = runtime_deadline_ns(GROUP_HARNESS_PATIENCE_MS);

	for (size_t i = 0; i < harness->count; i++) {
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

int group_harness_reduce(struct group_harness_member *member, const void *send, void *recv, size_t count,
			 enum reduce_type type, enum reduce_operation operation, struct aggregate_request **ret)
{
	uint64_t deadline_ns = runtime_deadline_ns(GROUP_HARNESS_PATIENCE_MS);
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
