/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agreement. Every member reports its facts to the coordinator; the coordinator tells all of them who is in the group
 * and in which order; every member connects to every other and reports that it is ready; the coordinator says go. Whatever
 * goes wrong before that ends in the coordinator's "no", with one reason for all. The coordinator decides after three
 * quarters of the time at the latest, so that its decision still reaches those who wait for it.
 */
#include "aggregate/bootstrap.h"
#include "aggregate/schedule.h"
#include "aggregate/aggregators.h"
#include "base/clock.h"
#include "base/params.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Room for others that start after this one. Seven tenths: what may wait for a member; the coordinator decides later. */
enum { FLAT_BYTES_LEAST = 512 };
#define MEMBER_TENTHS      7
#define COORDINATOR_TENTHS 8

static void facts_of_self(const struct bootstrap *bootstrap, struct member_wire_facts *ret)
{
	const struct aggregate_setup *setup = &bootstrap->engine->setup;
	struct transport_properties properties = { 0 };
	const struct cluster_host *host;

	*ret = (struct member_wire_facts){
		.host_id = bootstrap->engine->host_id,
		.process_id = (uint32_t)getpid(),
		.index = (uint16_t)bootstrap->self,
		.leaf = AGGREGATE_LEAF_NO_CLUSTER,
		.flat_bytes = setup->params->aggregate_flat_bytes,
		.segment_bytes = setup->params->aggregate_segment_bytes,
		.eager_bytes = setup->params->eager_bytes,
		.timeout_ns = setup->params->timeout_ns,
		.verify = setup->params->verify,
		.as_said = !setup->params->aggregate_measure,
		.rank_count = (uint32_t)bootstrap->listener->terms.rank_count,
		.tuning = bootstrap->listener->terms.tuning,
		.wiring = bootstrap->listener->terms.wiring,
	};
	memcpy(ret->host, bootstrap->engine->host_name, sizeof(ret->host));
	if (setup->ops->device_properties(setup->transport, bootstrap->listener->device, &properties) == 0) {
		ret->rate_Bps = properties.speed_Bps;
		snprintf(ret->device, sizeof(ret->device), "%.*s", (int)sizeof(ret->device) - 1, properties.name);
	}
	if (!setup->cluster)
		return;
	ret->cluster = setup->cluster->fingerprint;
	ret->leaf = AGGREGATE_LEAF_UNKNOWN;
	host = cluster_find(setup->cluster, bootstrap->engine->host_name);
	if (!host)
		return;
	ret->leaf = host->leaf;
	ret->up_rate_Bps = setup->cluster->switches[host->leaf].up_rate_Bps;
	ret->down_rate_Bps = setup->cluster->switches[host->leaf].down_rate_Bps;
	if (host->rate_Bps)
		ret->rate_Bps = host->rate_Bps;
}

/* The order in which sums are taken: it depends on names as far as it can, so that it is the same in every run. */
static int compare_members(const void *a, const void *b)
{
	const struct member_wire_facts *one = &((const struct group_member *)a)->facts;
	const struct member_wire_facts *other = &((const struct group_member *)b)->facts;
	int order = strcmp(one->host, other->host);

	if (!order && one->host_id != other->host_id)
		order = one->host_id < other->host_id ? -1 : 1;
	if (!order)
		order = strcmp(one->device, other->device);
	if (!order && one->process_id != other->process_id)
		order = one->process_id < other->process_id ? -1 : 1;
	return order ? order : one->index < other->index ? -1 : 1;
}

/* --------------------------------------------------------------------------------------------------- the coordinator */

static int report_read(struct bootstrap *bootstrap, size_t index)
{
	struct bootstrap_peer *peer = &bootstrap->peers[index];
	struct member_wire_report report = { 0 };
	int r = member_wire_report(CODEC_FROM(peer->report_bytes, peer->report_in.received), &report);

	if (r == -EPROTO)
		return bootstrap_fail(
			bootstrap, EPROTO,
			"host %s speaks another version of Tributary's aggregation protocol than host %s: "
			"install the same release on all hosts",
			bootstrap_host(bootstrap, index), bootstrap->engine->host_name);
	if (r < 0)
		return bootstrap_broken_by(bootstrap, index);
	if (report.kind == AGGREGATE_REPORT_FAILED)
		return bootstrap_fail(bootstrap, EREMOTEIO, "%s", report.reason);
	if (report.kind == AGGREGATE_REPORT_READY && bootstrap->group &&
	    report.gain_permille != bootstrap->group->facts.gain_permille)
		return bootstrap_fail(bootstrap, EPROTO,
				      "hosts %s and %s expect %u and %u thousandths of the rate of NCCL's ring or tree",
				      bootstrap->engine->host_name, bootstrap_host(bootstrap, index),
				      bootstrap->group->facts.gain_permille, report.gain_permille);
	if (report.kind == AGGREGATE_REPORT_READY) {
		bootstrap->aggregators_standing &= report.aggregators;
		peer->ready = true;
		return 0;
	}
	peer->facts = report.facts;
	peer->facts.index = (uint16_t)index;
	peer->reported = true;
	bootstrap_receive(&peer->report_in, peer->ways[BOOTSTRAP_SMALL].in, peer->report_bytes,
			  sizeof(peer->report_bytes));
	return 0;
}

/* One step of the talk with one member. */
static int coordinator_hear(struct bootstrap *bootstrap, size_t index)
{
	struct bootstrap_peer *peer = &bootstrap->peers[index];
	int r;

	if (peer->report_in.state == MESSAGE_NONE) {
		r = bootstrap_reach(bootstrap, index);
		if (r <= 0)
			return r;
		bootstrap_receive(&peer->report_in, peer->ways[BOOTSTRAP_SMALL].in, peer->report_bytes,
				  sizeof(peer->report_bytes));
	}
	r = bootstrap_step(bootstrap, &peer->report_in);
	if (r == 0 && peer->decision_out.state != MESSAGE_NONE)
		r = bootstrap_step(bootstrap, &peer->decision_out);
	if (r < 0)
		return bootstrap_fail(bootstrap, EREMOTEIO, "host %s is gone", bootstrap_host(bootstrap, index));
	return peer->report_in.state == MESSAGE_DONE && !peer->ready ? report_read(bootstrap, index) : 0;
}

static int coordinator_too_late(struct bootstrap *bootstrap, bool ready)
{
	size_t missing = 0, first = 0;

	for (size_t i = bootstrap->count; i-- > 1;)
		if (!(ready ? bootstrap->peers[i].ready && bootstrap->peers[i].reached
			    : bootstrap->peers[i].reported)) {
			missing++;
			first = i;
		}
	return bootstrap_fail(
		bootstrap, ETIMEDOUT,
		"%zu of %zu members (the first: host %s) were not %s within %.1f s (TRIBUTARY_TIMEOUT), as "
		"host %s saw it",
		missing, bootstrap->count, bootstrap_host(bootstrap, first), ready ? "ready" : "there",
		(double)bootstrap->timeout_ns / (double)NS_PER_S, bootstrap->engine->host_name);
}

/* Until every member has reported, or is ready. */
static int coordinator_gather(struct bootstrap *bootstrap, bool ready)
{
	for (;;) {
		size_t here = 1;
		int r = bootstrap_receive_incoming(bootstrap);

		for (size_t i = 1; i < bootstrap->count && r == 0; i++) {
			r = coordinator_hear(bootstrap, i);
			if (r == 0 && ready && bootstrap_reach(bootstrap, i) < 0)
				r = -EREMOTEIO; /* it has said why */
			here += ready ? bootstrap->peers[i].ready && bootstrap->peers[i].reached
				      : bootstrap->peers[i].reported;
		}
		if (ready && !aggregators_reach(bootstrap) && here == bootstrap->count)
			here--;
		if (r < 0 || here == bootstrap->count)
			return r;
		if (bootstrap_pause(bootstrap) < 0)
			return coordinator_too_late(bootstrap, ready);
	}
}

static int check_clusters(struct bootstrap *bootstrap)
{
	for (size_t i = 1; i < bootstrap->count; i++)
		if (bootstrap->peers[i].facts.cluster != bootstrap->peers[0].facts.cluster)
			return bootstrap_fail(bootstrap, EPROTO,
					      "hosts %s and %s have different cluster files, or one has none "
					      "(TRIBUTARY_CLUSTER)",
					      bootstrap->peers[0].facts.host, bootstrap->peers[i].facts.host);
	return 0;
}

/* NCCL's chains begin host by host, and its heads are not compared with them: they would meet in different groups. */
static int check_wiring(struct bootstrap *bootstrap)
{
	const struct member_wire_facts *first = NULL;

	for (size_t i = 0; i < bootstrap->count; i++) {
		const struct member_wire_facts *facts = &bootstrap->peers[i].facts;

		if (!facts->wiring)
			continue;
		if (!first)
			first = facts;
		else if (facts->wiring != first->wiring)
			return bootstrap_fail(
				bootstrap, EPROTO,
				"hosts %s and %s have different numbers of GPUs or network cards, or join them "
				"differently: NCCL's chains would not meet",
				first->host, facts->host);
	}
	return 0;
}

/*
 * Up to this size a flat exchange is faster: N - 1 inputs come in through each NIC instead of twice one, but in one
 * step, unasked, instead of two to four that are asked for. What these cost more is taken for 200 us.
 */
static uint64_t choose_flat_bytes(const struct bootstrap *bootstrap)
{
	uint64_t wanted = 0, eager = UINT64_MAX, rate = UINT64_MAX;

	for (size_t i = 0; i < bootstrap->count; i++) {
		const struct member_wire_facts *facts = &bootstrap->peers[i].facts;

		wanted = facts->flat_bytes > wanted ? facts->flat_bytes : wanted;
		eager = facts->eager_bytes < eager ? facts->eager_bytes : eager;
		rate = facts->rate_Bps && facts->rate_Bps < rate ? facts->rate_Bps : rate;
	}
	if (wanted)
		return wanted;
	wanted = rate == UINT64_MAX ? eager : rate / 1000000 * 200 / (bootstrap->count > 3 ? bootstrap->count - 3 : 1);
	if (wanted + MEMBER_WIRE_OPERATION_BYTES > eager)
		wanted = eager > MEMBER_WIRE_OPERATION_BYTES ? eager - MEMBER_WIRE_OPERATION_BYTES : 0;
	return wanted > FLAT_BYTES_LEAST ? wanted : FLAT_BYTES_LEAST;
}

static uint64_t choose_segment_bytes(const struct bootstrap *bootstrap)
{
	uint64_t wanted = 0, rate = UINT64_MAX;

	for (size_t i = 0; i < bootstrap->count; i++) {
		const struct member_wire_facts *facts = &bootstrap->peers[i].facts;

		wanted = facts->segment_bytes > wanted ? facts->segment_bytes : wanted;
		rate = facts->rate_Bps && facts->rate_Bps < rate ? facts->rate_Bps : rate;
	}
	return wanted ? wanted : schedule_segment_least_bytes(rate == UINT64_MAX ? 0 : rate);
}

static int decision_read_members(struct bootstrap *bootstrap);

/* Who is in the group, and in which order: told to all. */
static int coordinator_tell_members(struct bootstrap *bootstrap)
{
	struct member_wire_decision *decision = &bootstrap->decision;
	struct group *group;
	int r = check_clusters(bootstrap);

	if (r == 0)
		r = check_wiring(bootstrap);
	if (r < 0)
		return r;
	r = group_new(bootstrap->engine, bootstrap->listener->device, bootstrap->count, &group);
	if (r < 0)
		return bootstrap_out_of_memory(bootstrap);
	*decision = (struct member_wire_decision){ .kind = AGGREGATE_DECISION_MEMBERS,
						   .count = (uint16_t)bootstrap->count };
	decision->settings.flat_bytes = choose_flat_bytes(bootstrap);
	decision->settings.segment_bytes = choose_segment_bytes(bootstrap);
	decision->settings.measures = true;
	for (size_t i = 0; i < bootstrap->count; i++) {
		const struct member_wire_facts *facts = &bootstrap->peers[i].facts;

		group->members[i].facts = *facts;
		decision->settings.verify |= facts->verify;
		decision->settings.measures &= !facts->as_said;
	}
	qsort(group->members, bootstrap->count, sizeof(*group->members), compare_members);
	member_wire_decision(CODEC_TO(bootstrap->decision_bytes), decision);
	for (size_t i = 0; i < bootstrap->count; i++)
		member_wire_facts(
			CODEC_TO(bootstrap->decision_bytes + MEMBER_WIRE_DECISION_BYTES + i * MEMBER_WIRE_FACTS_BYTES),
			&group->members[i].facts);
	aggregators_ask(bootstrap, group,
			bootstrap->decision_bytes + MEMBER_WIRE_DECISION_BYTES +
				bootstrap->count * MEMBER_WIRE_FACTS_BYTES);
	group_free(group);
	for (size_t i = 1; i < bootstrap->count; i++)
		bootstrap_send(&bootstrap->peers[i].decision_out, bootstrap->peers[i].ways[BOOTSTRAP_SMALL].out,
			       bootstrap->decision_bytes, bootstrap->decision_size);
	return decision_read_members(bootstrap);
}

/*
 * True: this member has still to be told. One that was not reached so far is on its way here, and must not be left in
 * doubt.
 */
static bool coordinator_end_with(struct bootstrap *bootstrap, size_t index, uint8_t *bytes)
{
	struct bootstrap_peer *peer = &bootstrap->peers[index];
	const struct bootstrap_way *way = &peer->ways[BOOTSTRAP_SMALL];
	struct bootstrap_message *message = &peer->decision_out;

	/* All of its connections: it listens to us when they stand. */
	if (!peer->lost && !peer->reached)
		peer->lost = bootstrap_reach(bootstrap, index) < 0;
	if (peer->lost)
		return false;
	if (!way->out || way->hello.state != MESSAGE_DONE)
		return true;
	/* Received, and not just sent: what a connection holds that ends before it was accepted is lost with it. */
	if (!peer->ended && bootstrap->reason[0])
		bootstrap->ops->set(way->out, TRANSPORT_SET_EAGER_LIMIT, 0);
	if (!peer->ended && (message->state == MESSAGE_NONE || message->state == MESSAGE_DONE)) {
		bootstrap_send(message, peer->ways[BOOTSTRAP_SMALL].out, bytes, MEMBER_WIRE_DECISION_BYTES);
		peer->ended = true;
	}
	peer->lost = bootstrap_step(bootstrap, message) < 0; /* after a "go" its next operation finds it gone */
	return !peer->lost && !(peer->ended && message->state == MESSAGE_DONE);
}

/* Best effort, a little while: whoever is reached has the same reason; for the others it is a time-out. */
static int coordinator_end(struct bootstrap *bootstrap, int error)
{
	struct member_wire_decision decision = { .kind = error ? AGGREGATE_DECISION_NO : AGGREGATE_DECISION_GO,
						 .error = error,
						 .aggregators = error ? 0 : bootstrap->aggregators_standing };
	uint8_t bytes[MEMBER_WIRE_DECISION_BYTES];
	size_t left = 1;

	memcpy(decision.reason, bootstrap->reason, sizeof(decision.reason));
	member_wire_decision(CODEC_TO(bytes), &decision);
	bootstrap->deadline_ns = clock_now_ns() + bootstrap->timeout_ns / 10;
	while (left) {
		left = 0;
		if (error)
			(void)bootstrap_receive_incoming(bootstrap); /* who listens is who was let in */
		for (size_t i = 1; i < bootstrap->count; i++)
			left += coordinator_end_with(bootstrap, i, bytes);
		if (left && bootstrap_pause(bootstrap) < 0)
			break;
	}
	return error;
}

static int coordinate(struct bootstrap *bootstrap)
{
	int r;

	bootstrap->deadline_ns -= bootstrap->timeout_ns / 10 * (10 - COORDINATOR_TENTHS);
	facts_of_self(bootstrap, &bootstrap->peers[0].facts);
	r = coordinator_gather(bootstrap, false);
	if (r == 0)
		r = coordinator_tell_members(bootstrap);
	bootstrap->aggregators_standing = UINT32_MAX;
	if (r == 0)
		r = coordinator_gather(bootstrap, true);
	if (r == 0) {
		bootstrap->aggregators_standing &= aggregators_standing(bootstrap);
		r = aggregators_settle(bootstrap, bootstrap->aggregators_standing);
	}
	if (r == 0 && bootstrap->group->facts.rank_count && bootstrap->group->facts.gain_permille &&
	    !group_gain(bootstrap->group, false))
		r = bootstrap_fail(bootstrap, EHOSTUNREACH,
				   "the aggregators without which nothing is gained cannot be reached");
	return coordinator_end(bootstrap, r);
}

/* --------------------------------------------------------------------------------------------------------- members */

/* Before anybody has a group: struct aggregate_terms. */
static int tell(struct bootstrap *bootstrap, struct group *group)
{
	const struct aggregate_terms *terms = &bootstrap->listener->terms;
	int r;

	group->facts.tuning = group->members[0].facts.tuning;
	for (size_t i = 0; i < group->count; i++) {
		group->facts.rank_count += group->members[i].facts.rank_count;
		if (group->members[i].facts.tuning != group->facts.tuning)
			group->facts.tuning = 0;
	}
	group->facts.gain_permille = group_gain(group, true);
	r = terms->tell ? terms->tell(terms->arg, &group->facts) : 0;
	return r < 0 ? bootstrap_fail(bootstrap, -r, "host %s cannot tell its ranks what was agreed on: %s",
				      bootstrap->engine->host_name, strerror(-r))
		     : 0;
}

/* What the coordinator said about the members becomes a group. */
static int decision_read_members(struct bootstrap *bootstrap)
{
	const uint8_t *bytes = bootstrap->decision_bytes + MEMBER_WIRE_DECISION_BYTES;
	struct group *group;
	size_t found = 0;
	int r;

	if (bootstrap->decision.count != bootstrap->count)
		return bootstrap_broken_by(bootstrap, 0);
	r = group_new(bootstrap->engine, bootstrap->listener->device, bootstrap->count, &group);
	if (r < 0)
		return bootstrap_out_of_memory(bootstrap);
	bootstrap->group = group;
	group->settings = bootstrap->decision.settings;
	for (size_t i = 0; i < bootstrap->count && r == 0; i++) {
		struct member_wire_facts *facts = &group->members[i].facts;

		r = member_wire_facts(CODEC_FROM(bytes + i * MEMBER_WIRE_FACTS_BYTES, MEMBER_WIRE_FACTS_BYTES), facts);
		if (r == 0 && (facts->index >= bootstrap->count || bootstrap->peers[facts->index].known))
			r = -EBADMSG;
		if (r < 0)
			break;
		bootstrap->peers[facts->index].known = true;
		if (facts->index == bootstrap->self) {
			group->self = i;
			found++;
		} else {
			memcpy(bootstrap->peers[facts->index].host, facts->host, sizeof(facts->host));
		}
	}
	if (r < 0 || found != 1)
		return bootstrap_broken_by(bootstrap, 0);
	r = engine_start(bootstrap->engine, bootstrap->listener->device);
	if (r < 0)
		return bootstrap_fail(bootstrap, -r, "host %s cannot start a thread: %s", bootstrap->engine->host_name,
				      strerror(-r));
	r = aggregators_learn(bootstrap, bytes + bootstrap->count * MEMBER_WIRE_FACTS_BYTES);
	if (r < 0)
		return r;
	return group_settle(group) < 0 ? bootstrap_out_of_memory(bootstrap) : tell(bootstrap, group);
}

/* 1: the coordinator has spoken; an error: it said no, or is gone. */
static int member_hear(struct bootstrap *bootstrap)
{
	struct bootstrap_message *message = &bootstrap->decision_in;
	int r;

	if (message->state == MESSAGE_NONE)
		bootstrap_receive(message, bootstrap->peers[0].ways[BOOTSTRAP_SMALL].in, bootstrap->decision_bytes,
				  bootstrap->decision_size);
	r = bootstrap_step(bootstrap, message);
	if (r < 0)
		return bootstrap_fail(bootstrap, EREMOTEIO, "host %s is gone", bootstrap_host(bootstrap, 0));
	if (message->state != MESSAGE_DONE)
		return 0;
	r = message->received >= MEMBER_WIRE_DECISION_BYTES
		    ? member_wire_decision(CODEC_FROM(bootstrap->decision_bytes, MEMBER_WIRE_DECISION_BYTES),
					   &bootstrap->decision)
		    : -EBADMSG;
	message->state = MESSAGE_NONE;
	if (r == 0 && bootstrap->decision.kind == AGGREGATE_DECISION_MEMBERS &&
	    message->received != bootstrap->decision_size)
		r = -EBADMSG;
	if (r < 0)
		return bootstrap_broken_by(bootstrap, 0);
	if (bootstrap->decision.kind == AGGREGATE_DECISION_NO) {
		bootstrap->said_no = true;
		bootstrap->reason[0] = '\0'; /* all have the coordinator's */
		return bootstrap_fail(bootstrap, bootstrap->decision.error ? -bootstrap->decision.error : EREMOTEIO,
				      "%s", bootstrap->decision.reason);
	}
	return 1;
}

static int member_silent(struct bootstrap *bootstrap)
{
	return bootstrap_fail(bootstrap, ETIMEDOUT,
			      "host %s had no word from host %s within %.1f s (TRIBUTARY_TIMEOUT)",
			      bootstrap->engine->host_name, bootstrap_host(bootstrap, 0),
			      (double)bootstrap->timeout_ns / (double)NS_PER_S);
}

static int member_report(struct bootstrap *bootstrap, enum aggregate_report kind)
{
	struct member_wire_report report = { .kind = kind };
	int r = 0;

	facts_of_self(bootstrap, &report.facts);
	report.aggregators = kind == AGGREGATE_REPORT_READY ? aggregators_standing(bootstrap) : 0;
	report.gain_permille = kind == AGGREGATE_REPORT_READY ? bootstrap->group->facts.gain_permille : 0;
	memcpy(report.reason, bootstrap->reason, sizeof(report.reason));
	member_wire_report(CODEC_TO(bootstrap->report_bytes), &report);
	bootstrap_send(&bootstrap->report_out, bootstrap->peers[0].ways[BOOTSTRAP_SMALL].out, bootstrap->report_bytes,
		       sizeof(bootstrap->report_bytes));
	while (r == 0 && bootstrap->report_out.state != MESSAGE_DONE) {
		r = bootstrap_step(bootstrap, &bootstrap->report_out);
		if (r == 0 && bootstrap->report_out.state != MESSAGE_DONE && bootstrap_pause(bootstrap) < 0)
			return member_silent(bootstrap);
	}
	return r < 0 ? bootstrap_fail(bootstrap, EREMOTEIO, "host %s is gone", bootstrap_host(bootstrap, 0)) : 0;
}

/* Until both connections with the coordinator, or with everybody, stand. */
static int member_reach(struct bootstrap *bootstrap, bool everybody)
{
	for (;;) {
		size_t end = everybody ? bootstrap->count : 1, stand = 0, behind = 0;
		int r = bootstrap_receive_incoming(bootstrap);

		/* Member r begins with r + 1: not all at the same. */
		for (size_t i = 0; i < end && r == 0; i++) {
			size_t index = (i + bootstrap->self) % end;

			r = bootstrap_reach(bootstrap, index);
			if (r == 1)
				stand++;
			else
				behind = index;
			r = r < 0 ? r : 0;
		}
		if (r == 0 && everybody) {
			if (!aggregators_reach(bootstrap) && stand == end)
				stand--;
			r = member_hear(bootstrap);
			if (r == 1)
				r = bootstrap_broken_by(bootstrap, 0);
		}
		if (r < 0 || stand == end)
			return r;
		if (clock_now_ns() > bootstrap->late_ns || bootstrap_pause(bootstrap) < 0)
			return everybody
				       ? bootstrap_fail(bootstrap, ETIMEDOUT,
							"hosts %s and %s did not reach each other within %.1f s "
							"(TRIBUTARY_TIMEOUT)",
							bootstrap->engine->host_name, bootstrap_host(bootstrap, behind),
							(double)bootstrap->timeout_ns / (double)NS_PER_S)
				       : member_silent(bootstrap);
	}
}

static int member_await(struct bootstrap *bootstrap, enum aggregate_decision wanted)
{
	for (;;) {
		int r = member_hear(bootstrap);

		if (r == 0)
			r = bootstrap_receive_incoming(bootstrap);
		else if (r == 1)
			return bootstrap->decision.kind == wanted ? 0 : bootstrap_broken_by(bootstrap, 0);
		if (r < 0)
			return r;
		if (bootstrap_pause(bootstrap) < 0)
			return member_silent(bootstrap);
	}
}

/* Both connections with the coordinator stand, even if the trouble came first. */
static bool member_can_speak(struct bootstrap *bootstrap)
{
	const struct bootstrap_way *way = &bootstrap->peers[0].ways[BOOTSTRAP_SMALL];

	while (way->hello.state != MESSAGE_DONE || !way->in) {
		if (bootstrap_reach(bootstrap, 0) < 0 || clock_now_ns() > bootstrap->late_ns ||
		    bootstrap_pause(bootstrap) < 0)
			return false;
		(void)bootstrap_receive_incoming(bootstrap);
	}
	return true;
}

/* The coordinator hears of it, and its "no" has the reason that everybody gets. */
static int member_give_up(struct bootstrap *bootstrap, int error)
{
	if (bootstrap->said_no || !member_can_speak(bootstrap) || member_report(bootstrap, AGGREGATE_REPORT_FAILED) < 0)
		return error;
	member_await(bootstrap, AGGREGATE_DECISION_NO);
	return bootstrap->said_no && bootstrap->decision.error ? bootstrap->decision.error : error;
}

static int take_part(struct bootstrap *bootstrap)
{
	int r;

	bootstrap->late_ns = bootstrap->deadline_ns - bootstrap->timeout_ns / 10 * (10 - MEMBER_TENTHS);
	r = member_reach(bootstrap, false);
	if (r == 0)
		r = member_report(bootstrap, AGGREGATE_REPORT_FACTS);
	if (r == 0)
		r = member_await(bootstrap, AGGREGATE_DECISION_MEMBERS);
	if (r == 0)
		r = decision_read_members(bootstrap);
	if (r == 0)
		r = member_reach(bootstrap, true);
	if (r == 0)
		r = member_report(bootstrap, AGGREGATE_REPORT_READY);
	if (r == 0)
		r = member_await(bootstrap, AGGREGATE_DECISION_GO);
	if (r == 0)
		return aggregators_settle(bootstrap, bootstrap->decision.aggregators);
	return member_give_up(bootstrap, r);
}

int bootstrap_agree(struct bootstrap *bootstrap)
{
	return bootstrap->self == 0 ? coordinate(bootstrap) : take_part(bootstrap);
}
