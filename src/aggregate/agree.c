/*
 * The agreement. Every member reports its facts to the coordinator; the coordinator tells all of them who is in the group
 * and in which order; every member connects to every other and reports that it is ready; the coordinator says go. Whatever
 * goes wrong before that ends in the coordinator's "no", with one reason for all. The coordinator decides after three
 * quarters of the time at the latest, so that its word still reaches those who wait for it.
 */
#include "aggregate/meeting.h"
#include "aggregate/schedule.h"
#include "aggregate/servers.h"
#include "base/clock.h"
#include "base/params.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Room for others that start after this one. Seven tenths: what may wait for a member; the coordinator decides later. */
enum { DIRECT_BYTES_LEAST = 512 };
#define MEMBER_TENTHS      7
#define COORDINATOR_TENTHS 8

static int out_of_memory(struct meeting *meeting)
{
	return meeting_fail(meeting, ENOMEM, "host %s is out of memory", meeting->engine->host_name);
}

static void facts_of_self(const struct meeting *meeting, struct aggregate_wire_facts *ret)
{
	const struct aggregate_setup *setup = &meeting->engine->setup;
	struct transport_properties properties = { 0 };
	const struct cluster_host *host;

	*ret = (struct aggregate_wire_facts){
		.host_id = meeting->engine->host_id,
		.process_id = (uint32_t)getpid(),
		.index = (uint16_t)meeting->self,
		.leaf = AGGREGATE_LEAF_NO_CLUSTER,
		.direct_bytes = setup->params->aggregate_direct_bytes,
		.segment_bytes = setup->params->aggregate_segment_bytes,
		.eager_bytes = setup->params->eager_bytes,
		.timeout_ns = setup->params->timeout_ns,
		.verify = setup->params->verify,
		.as_said = !setup->params->aggregate_measure,
		.rank_count = (uint32_t)meeting->listener->terms.rank_count,
	};
	memcpy(ret->host, meeting->engine->host_name, sizeof(ret->host));
	if (setup->ops->device_properties(setup->transport, meeting->listener->device, &properties) == 0) {
		ret->rate_Bps = properties.speed_Bps;
		snprintf(ret->device, sizeof(ret->device), "%.*s", (int)sizeof(ret->device) - 1, properties.name);
	}
	if (!setup->cluster)
		return;
	ret->cluster = setup->cluster->fingerprint;
	ret->leaf = AGGREGATE_LEAF_UNKNOWN;
	host = cluster_find(setup->cluster, meeting->engine->host_name);
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
	const struct aggregate_wire_facts *one = &((const struct group_member *)a)->facts;
	const struct aggregate_wire_facts *other = &((const struct group_member *)b)->facts;
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

static int report_read(struct meeting *meeting, size_t index)
{
	struct meeting_peer *peer = &meeting->peers[index];
	struct aggregate_wire_report report = { 0 };
	int r = peer->report_in.received == AGGREGATE_WIRE_REPORT_BYTES
			? aggregate_wire_get_report(peer->report_bytes, &report)
			: -EBADMSG;

	if (r == -EPROTO)
		return meeting_fail(meeting, EPROTO,
				    "host %s speaks another version of Tributary's aggregation protocol than host %s: "
				    "install the same release on all hosts",
				    meeting_host(meeting, index), meeting->engine->host_name);
	if (r < 0)
		return meeting_fail(meeting, EREMOTEIO, "host %s broke the aggregation protocol",
				    meeting_host(meeting, index));
	if (report.kind == AGGREGATE_REPORT_FAILED)
		return meeting_fail(meeting, EREMOTEIO, "%s", report.reason);
	if (report.kind == AGGREGATE_REPORT_READY && meeting->group &&
	    report.gain_permille != meeting->group->facts.gain_permille)
		return meeting_fail(meeting, EPROTO, "hosts %s and %s expect %u and %u thousandths of a ring's rate",
				    meeting->engine->host_name, meeting_host(meeting, index),
				    meeting->group->facts.gain_permille, report.gain_permille);
	if (report.kind == AGGREGATE_REPORT_READY) {
		meeting->servers_standing &= report.servers;
		peer->ready = true;
		return 0;
	}
	peer->facts = report.facts;
	peer->facts.index = (uint16_t)index;
	peer->reported = true;
	mail_receive(&peer->report_in, peer->ways[MEETING_SMALL].in, peer->report_bytes, sizeof(peer->report_bytes));
	return 0;
}

/* One step of the talk with one member. */
static int coordinator_hear(struct meeting *meeting, size_t index)
{
	struct meeting_peer *peer = &meeting->peers[index];
	int r;

	if (peer->report_in.state == MAIL_NONE) {
		r = meeting_reach(meeting, index);
		if (r <= 0)
			return r;
		mail_receive(&peer->report_in, peer->ways[MEETING_SMALL].in, peer->report_bytes,
			     sizeof(peer->report_bytes));
	}
	r = mail_step(meeting, &peer->report_in);
	if (r == 0 && peer->verdict_out.state != MAIL_NONE)
		r = mail_step(meeting, &peer->verdict_out);
	if (r < 0)
		return meeting_fail(meeting, EREMOTEIO, "host %s is gone", meeting_host(meeting, index));
	return peer->report_in.state == MAIL_DONE && !peer->ready ? report_read(meeting, index) : 0;
}

static int coordinator_too_late(struct meeting *meeting, bool ready)
{
	size_t missing = 0, first = 0;

	for (size_t i = meeting->count; i-- > 1;)
		if (!(ready ? meeting->peers[i].ready && meeting->peers[i].reached : meeting->peers[i].reported)) {
			missing++;
			first = i;
		}
	return meeting_fail(meeting, ETIMEDOUT,
			    "%zu of %zu members (the first: host %s) were not %s within %.1f s (TRIBUTARY_TIMEOUT), as "
			    "host %s saw it",
			    missing, meeting->count, meeting_host(meeting, first), ready ? "ready" : "there",
			    (double)meeting->timeout_ns / (double)NS_PER_S, meeting->engine->host_name);
}

/* Until every member has reported, or is ready. */
static int coordinator_gather(struct meeting *meeting, bool ready)
{
	for (;;) {
		size_t here = 1;
		int r = meeting_receive_visitors(meeting);

		for (size_t i = 1; i < meeting->count && r == 0; i++) {
			r = coordinator_hear(meeting, i);
			if (r == 0 && ready && meeting_reach(meeting, i) < 0)
				r = -EREMOTEIO; /* it has said why */
			here += ready ? meeting->peers[i].ready && meeting->peers[i].reached
				      : meeting->peers[i].reported;
		}
		if (ready && !servers_reach(meeting) && here == meeting->count)
			here--;
		if (r < 0 || here == meeting->count)
			return r;
		if (meeting_pause(meeting) < 0)
			return coordinator_too_late(meeting, ready);
	}
}

static int check_clusters(struct meeting *meeting)
{
	for (size_t i = 1; i < meeting->count; i++)
		if (meeting->peers[i].facts.cluster != meeting->peers[0].facts.cluster)
			return meeting_fail(meeting, EPROTO,
					    "hosts %s and %s have different cluster files, or one has none "
					    "(TRIBUTARY_CLUSTER)",
					    meeting->peers[0].facts.host, meeting->peers[i].facts.host);
	return 0;
}

/*
 * Up to this size a direct exchange is faster: N - 1 inputs come in through each NIC instead of twice one, but in one
 * step, unasked, instead of two to four that are asked for. What these cost more is taken for 200 us.
 */
static uint64_t choose_direct_bytes(const struct meeting *meeting)
{
	uint64_t wanted = 0, eager = UINT64_MAX, rate = UINT64_MAX;

	for (size_t i = 0; i < meeting->count; i++) {
		const struct aggregate_wire_facts *facts = &meeting->peers[i].facts;

		wanted = facts->direct_bytes > wanted ? facts->direct_bytes : wanted;
		eager = facts->eager_bytes < eager ? facts->eager_bytes : eager;
		rate = facts->rate_Bps && facts->rate_Bps < rate ? facts->rate_Bps : rate;
	}
	if (wanted)
		return wanted;
	wanted = rate == UINT64_MAX ? eager : rate / 1000000 * 200 / (meeting->count > 3 ? meeting->count - 3 : 1);
	if (wanted + AGGREGATE_WIRE_OPERATION_BYTES > eager)
		wanted = eager > AGGREGATE_WIRE_OPERATION_BYTES ? eager - AGGREGATE_WIRE_OPERATION_BYTES : 0;
	return wanted > DIRECT_BYTES_LEAST ? wanted : DIRECT_BYTES_LEAST;
}

static uint64_t choose_segment_bytes(const struct meeting *meeting)
{
	uint64_t wanted = 0, rate = UINT64_MAX;

	for (size_t i = 0; i < meeting->count; i++) {
		const struct aggregate_wire_facts *facts = &meeting->peers[i].facts;

		wanted = facts->segment_bytes > wanted ? facts->segment_bytes : wanted;
		rate = facts->rate_Bps && facts->rate_Bps < rate ? facts->rate_Bps : rate;
	}
	return wanted ? wanted : schedule_segment_least_bytes(rate == UINT64_MAX ? 0 : rate);
}

static int verdict_read_members(struct meeting *meeting);

/* Who is in the group, and in which order: told to all. */
static int coordinator_tell_members(struct meeting *meeting)
{
	struct aggregate_wire_verdict *verdict = &meeting->verdict;
	struct group *group;
	int r = check_clusters(meeting);

	if (r < 0)
		return r;
	r = group_new(meeting->engine, meeting->listener->device, meeting->count, &group);
	if (r < 0)
		return out_of_memory(meeting);
	*verdict = (struct aggregate_wire_verdict){ .kind = AGGREGATE_VERDICT_MEMBERS,
						    .count = (uint16_t)meeting->count };
	verdict->settings.direct_bytes = choose_direct_bytes(meeting);
	verdict->settings.segment_bytes = choose_segment_bytes(meeting);
	verdict->settings.measures = true;
	for (size_t i = 0; i < meeting->count; i++) {
		const struct aggregate_wire_facts *facts = &meeting->peers[i].facts;

		group->members[i].facts = *facts;
		verdict->settings.verify |= facts->verify;
		verdict->settings.measures &= !facts->as_said;
	}
	qsort(group->members, meeting->count, sizeof(*group->members), compare_members);
	aggregate_wire_put_verdict(verdict, meeting->verdict_bytes);
	for (size_t i = 0; i < meeting->count; i++)
		aggregate_wire_put_facts(&group->members[i].facts, meeting->verdict_bytes +
									   AGGREGATE_WIRE_VERDICT_BYTES +
									   i * AGGREGATE_WIRE_FACTS_BYTES);
	r = servers_ask(meeting, group,
			meeting->verdict_bytes + AGGREGATE_WIRE_VERDICT_BYTES +
				meeting->count * AGGREGATE_WIRE_FACTS_BYTES);
	group_free(group);
	if (r < 0)
		return r;
	for (size_t i = 1; i < meeting->count; i++)
		mail_send(&meeting->peers[i].verdict_out, meeting->peers[i].ways[MEETING_SMALL].out,
			  meeting->verdict_bytes, meeting->verdict_size);
	return verdict_read_members(meeting);
}

/*
 * True: this member has still to be told. One that was not reached so far is on its way here, and must not be left in
 * doubt.
 */
static bool coordinator_end_with(struct meeting *meeting, size_t index, uint8_t *bytes)
{
	struct meeting_peer *peer = &meeting->peers[index];
	const struct meeting_way *way = &peer->ways[MEETING_SMALL];
	struct mail *mail = &peer->verdict_out;

	/* All of its connections: it listens to us when they stand. */
	if (!peer->lost && !peer->reached)
		peer->lost = meeting_reach(meeting, index) < 0;
	if (peer->lost)
		return false;
	if (!way->out || way->hello.state != MAIL_DONE)
		return true;
	/* Received, and not just sent: what a connection holds that ends before it was accepted is lost with it. */
	if (!peer->ended && meeting->reason[0] && meeting->ops->limit_eager)
		meeting->ops->limit_eager(way->out, 0);
	if (!peer->ended && (mail->state == MAIL_NONE || mail->state == MAIL_DONE)) {
		mail_send(mail, peer->ways[MEETING_SMALL].out, bytes, AGGREGATE_WIRE_VERDICT_BYTES);
		peer->ended = true;
	}
	peer->lost = mail_step(meeting, mail) < 0; /* after a "go" its next operation finds it gone */
	return !peer->lost && !(peer->ended && mail->state == MAIL_DONE);
}

/* Best effort, a little while: whoever is reached has the same reason; for the others it is a time-out. */
static int coordinator_end(struct meeting *meeting, int error)
{
	struct aggregate_wire_verdict verdict = { .kind = error ? AGGREGATE_VERDICT_NO : AGGREGATE_VERDICT_GO,
						  .error = error,
						  .servers = error ? 0 : meeting->servers_standing };
	uint8_t bytes[AGGREGATE_WIRE_VERDICT_BYTES];
	size_t left = 1;

	memcpy(verdict.reason, meeting->reason, sizeof(verdict.reason));
	aggregate_wire_put_verdict(&verdict, bytes);
	meeting->deadline_ns = clock_now_ns() + meeting->timeout_ns / 10;
	while (left) {
		left = 0;
		if (error)
			(void)meeting_receive_visitors(meeting); /* who listens is who was let in */
		for (size_t i = 1; i < meeting->count; i++)
			left += coordinator_end_with(meeting, i, bytes);
		if (left && meeting_pause(meeting) < 0)
			break;
	}
	return error;
}

static int coordinate(struct meeting *meeting)
{
	int r;

	meeting->deadline_ns -= meeting->timeout_ns / 10 * (10 - COORDINATOR_TENTHS);
	facts_of_self(meeting, &meeting->peers[0].facts);
	r = coordinator_gather(meeting, false);
	if (r == 0)
		r = coordinator_tell_members(meeting);
	meeting->servers_standing = UINT32_MAX;
	if (r == 0)
		r = coordinator_gather(meeting, true);
	if (r == 0) {
		meeting->servers_standing &= servers_standing(meeting);
		r = servers_settle(meeting, meeting->servers_standing);
	}
	if (r == 0 && meeting->group->facts.rank_count && meeting->group->facts.gain_permille &&
	    !group_gain(meeting->group, false))
		r = meeting_fail(meeting, EHOSTUNREACH,
				 "the aggregators without which nothing is gained cannot be had");
	return coordinator_end(meeting, r);
}

/* --------------------------------------------------------------------------------------------------------- members */

/* Before anybody has a group: struct aggregate_terms. */
static int tell(struct meeting *meeting, struct group *group)
{
	const struct aggregate_terms *terms = &meeting->listener->terms;
	int r;

	for (size_t i = 0; i < group->count; i++)
		group->facts.rank_count += group->members[i].facts.rank_count;
	group->facts.gain_permille = group_gain(group, true);
	r = terms->tell ? terms->tell(terms->arg, group->facts.gain_permille, group->facts.rank_count) : 0;
	return r < 0 ? meeting_fail(meeting, -r, "host %s cannot tell its ranks what was agreed on: %s",
				    meeting->engine->host_name, strerror(-r))
		     : 0;
}

/* What the coordinator said about the members becomes a group. */
static int verdict_read_members(struct meeting *meeting)
{
	const uint8_t *bytes = meeting->verdict_bytes + AGGREGATE_WIRE_VERDICT_BYTES;
	struct group *group;
	size_t found = 0;
	int r;

	if (meeting->verdict.count != meeting->count)
		return meeting_fail(meeting, EREMOTEIO, "host %s broke the aggregation protocol",
				    meeting_host(meeting, 0));
	r = group_new(meeting->engine, meeting->listener->device, meeting->count, &group);
	if (r < 0)
		return out_of_memory(meeting);
	meeting->group = group;
	group->settings = meeting->verdict.settings;
	for (size_t i = 0; i < meeting->count && r == 0; i++) {
		struct aggregate_wire_facts *facts = &group->members[i].facts;

		r = aggregate_wire_get_facts(bytes + i * AGGREGATE_WIRE_FACTS_BYTES, facts);
		if (r == 0 && (facts->index >= meeting->count || meeting->peers[facts->index].known))
			r = -EBADMSG;
		if (r < 0)
			break;
		meeting->peers[facts->index].known = true;
		if (facts->index == meeting->self) {
			group->self = i;
			found++;
		} else {
			memcpy(meeting->peers[facts->index].host, facts->host, sizeof(facts->host));
		}
	}
	if (r < 0 || found != 1)
		return meeting_fail(meeting, EREMOTEIO, "host %s broke the aggregation protocol",
				    meeting_host(meeting, 0));
	r = engine_start(meeting->engine, meeting->listener->device);
	if (r < 0)
		return meeting_fail(meeting, -r, "host %s cannot start a thread: %s", meeting->engine->host_name,
				    strerror(-r));
	if (servers_learn(meeting, bytes + meeting->count * AGGREGATE_WIRE_FACTS_BYTES) < 0)
		return meeting_fail(meeting, EREMOTEIO, "host %s broke the aggregation protocol",
				    meeting_host(meeting, 0));
	return group_settle(group) < 0 ? out_of_memory(meeting) : tell(meeting, group);
}

/* 1: the coordinator has spoken; an error: it said no, or is gone. */
static int member_hear(struct meeting *meeting)
{
	struct mail *mail = &meeting->verdict_in;
	int r;

	if (mail->state == MAIL_NONE)
		mail_receive(mail, meeting->peers[0].ways[MEETING_SMALL].in, meeting->verdict_bytes,
			     meeting->verdict_size);
	r = mail_step(meeting, mail);
	if (r < 0)
		return meeting_fail(meeting, EREMOTEIO, "host %s is gone", meeting_host(meeting, 0));
	if (mail->state != MAIL_DONE)
		return 0;
	r = mail->received >= AGGREGATE_WIRE_VERDICT_BYTES
		    ? aggregate_wire_get_verdict(meeting->verdict_bytes, &meeting->verdict)
		    : -EBADMSG;
	mail->state = MAIL_NONE;
	if (r == 0 && meeting->verdict.kind == AGGREGATE_VERDICT_MEMBERS && mail->received != meeting->verdict_size)
		r = -EBADMSG;
	if (r < 0)
		return meeting_fail(meeting, EREMOTEIO, "host %s broke the aggregation protocol",
				    meeting_host(meeting, 0));
	if (meeting->verdict.kind == AGGREGATE_VERDICT_NO) {
		meeting->said_no = true;
		meeting->reason[0] = '\0'; /* all have the coordinator's */
		return meeting_fail(meeting, meeting->verdict.error ? -meeting->verdict.error : EREMOTEIO, "%s",
				    meeting->verdict.reason);
	}
	return 1;
}

static int member_silent(struct meeting *meeting)
{
	return meeting_fail(meeting, ETIMEDOUT, "host %s had no word from host %s within %.1f s (TRIBUTARY_TIMEOUT)",
			    meeting->engine->host_name, meeting_host(meeting, 0),
			    (double)meeting->timeout_ns / (double)NS_PER_S);
}

static int member_report(struct meeting *meeting, enum aggregate_report kind)
{
	struct aggregate_wire_report report = { .kind = kind };
	int r = 0;

	facts_of_self(meeting, &report.facts);
	report.servers = kind == AGGREGATE_REPORT_READY ? servers_standing(meeting) : 0;
	report.gain_permille = kind == AGGREGATE_REPORT_READY ? meeting->group->facts.gain_permille : 0;
	memcpy(report.reason, meeting->reason, sizeof(report.reason));
	aggregate_wire_put_report(&report, meeting->report_bytes);
	mail_send(&meeting->report_out, meeting->peers[0].ways[MEETING_SMALL].out, meeting->report_bytes,
		  sizeof(meeting->report_bytes));
	while (r == 0 && meeting->report_out.state != MAIL_DONE) {
		r = mail_step(meeting, &meeting->report_out);
		if (r == 0 && meeting->report_out.state != MAIL_DONE && meeting_pause(meeting) < 0)
			return member_silent(meeting);
	}
	return r < 0 ? meeting_fail(meeting, EREMOTEIO, "host %s is gone", meeting_host(meeting, 0)) : 0;
}

/* Until both connections with the coordinator, or with everybody, stand. */
static int member_reach(struct meeting *meeting, bool everybody)
{
	for (;;) {
		size_t end = everybody ? meeting->count : 1, stand = 0, behind = 0;
		int r = meeting_receive_visitors(meeting);

		/* Member r begins with r + 1: not all at the same. */
		for (size_t i = 0; i < end && r == 0; i++) {
			size_t index = (i + meeting->self) % end;

			r = meeting_reach(meeting, index);
			if (r == 1)
				stand++;
			else
				behind = index;
			r = r < 0 ? r : 0;
		}
		if (r == 0 && everybody) {
			if (!servers_reach(meeting) && stand == end)
				stand--;
			r = member_hear(meeting);
			if (r == 1)
				r = meeting_fail(meeting, EREMOTEIO, "host %s broke the aggregation protocol",
						 meeting_host(meeting, 0));
		}
		if (r < 0 || stand == end)
			return r;
		if (clock_now_ns() > meeting->late_ns || meeting_pause(meeting) < 0)
			return everybody ? meeting_fail(meeting, ETIMEDOUT,
							"hosts %s and %s did not reach each other within %.1f s "
							"(TRIBUTARY_TIMEOUT)",
							meeting->engine->host_name, meeting_host(meeting, behind),
							(double)meeting->timeout_ns / (double)NS_PER_S)
					 : member_silent(meeting);
	}
}

static int member_await(struct meeting *meeting, enum aggregate_verdict wanted)
{
	for (;;) {
		int r = member_hear(meeting);

		if (r == 0)
			r = meeting_receive_visitors(meeting);
		else if (r == 1)
			return meeting->verdict.kind == wanted
				       ? 0
				       : meeting_fail(meeting, EREMOTEIO, "host %s broke the aggregation protocol",
						      meeting_host(meeting, 0));
		if (r < 0)
			return r;
		if (meeting_pause(meeting) < 0)
			return member_silent(meeting);
	}
}

/* Both connections with the coordinator stand, even if the trouble came first. */
static bool member_can_speak(struct meeting *meeting)
{
	const struct meeting_way *way = &meeting->peers[0].ways[MEETING_SMALL];

	while (way->hello.state != MAIL_DONE || !way->in) {
		if (meeting_reach(meeting, 0) < 0 || clock_now_ns() > meeting->late_ns || meeting_pause(meeting) < 0)
			return false;
		(void)meeting_receive_visitors(meeting);
	}
	return true;
}

/* The coordinator hears of it, and its "no" has the reason that everybody gets. */
static int member_give_up(struct meeting *meeting, int error)
{
	if (meeting->said_no || !member_can_speak(meeting) || member_report(meeting, AGGREGATE_REPORT_FAILED) < 0)
		return error;
	member_await(meeting, AGGREGATE_VERDICT_NO);
	return meeting->said_no && meeting->verdict.error ? meeting->verdict.error : error;
}

static int take_part(struct meeting *meeting)
{
	int r;

	meeting->late_ns = meeting->deadline_ns - meeting->timeout_ns / 10 * (10 - MEMBER_TENTHS);
	r = member_reach(meeting, false);
	if (r == 0)
		r = member_report(meeting, AGGREGATE_REPORT_FACTS);
	if (r == 0)
		r = member_await(meeting, AGGREGATE_VERDICT_MEMBERS);
	if (r == 0)
		r = verdict_read_members(meeting);
	if (r == 0)
		r = member_reach(meeting, true);
	if (r == 0)
		r = member_report(meeting, AGGREGATE_REPORT_READY);
	if (r == 0)
		r = member_await(meeting, AGGREGATE_VERDICT_GO);
	if (r == 0)
		return servers_settle(meeting, meeting->verdict.servers);
	return member_give_up(meeting, r);
}

int meeting_agree(struct meeting *meeting)
{
	return meeting->self == 0 ? coordinate(meeting) : take_part(meeting);
}
