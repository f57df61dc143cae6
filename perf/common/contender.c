/* SPDX-License-Identifier: Apache-2.0 */
#include "contender.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "oob.h"
#include "pattern.h"
#include "tcploop.h"

void series_add(struct series *series, size_t bytes)
{
	uint64_t at;

	if (!series)
		return;
	at = (perf_now_ns() - series->start_ns) / series->interval_ns;
	if (at >= SERIES_MAX)
		return;
	series->bytes[at] += (double)bytes;
	if (series->count <= at)
		series->count = at + 1;
}

static char *slot(const struct load *load, uint64_t message)
{
	return load->memory + (size_t)(message % (uint64_t)load->window) * load->stride;
}

static void before_send(const struct contender *contender, const struct load *load, uint64_t message)
{
	if (load->verify)
		pattern_fill(slot(load, message), load->bytes, contender->sequence + message);
}

static void after_receive(const struct contender *contender, struct load *load, uint64_t message)
{
	int64_t at;

	series_add(load->series, load->bytes);
	if (!load->verify)
		return;
	at = pattern_check(slot(load, message), load->bytes, contender->sequence + message);
	if (at >= 0 && load->wrong++ == 0)
		fprintf(stderr, "%s: message %llu of %zu bytes is wrong from byte %lld on\n", contender->name,
			(unsigned long long)message, load->bytes, (long long)at);
}

/* ---- the plugin ---- */

static int post_send(struct contender *c, char *data, size_t bytes, void **request)
{
	int r = netplugin_send(c->endpoint.plugin, c->send_comm, data, bytes, 0, c->send_mhandle, request);

	return r == NCCL_SUCCESS ? 0 : endpoint_failed(&c->endpoint, "isend", r);
}

static int post_receive(struct contender *c, char *data, size_t bytes, void **request)
{
	void *to = data;
	int tag = 0, r = netplugin_receive(c->endpoint.plugin, c->receive_comm, 1, &to, &bytes, &tag,
					   &c->receive_mhandle, request);

	return r == NCCL_SUCCESS ? 0 : endpoint_failed(&c->endpoint, "irecv", r);
}

/* Sets *request to NULL when it is done. bytes: what a receive must have got; 0 with check false for a send. */
static int look(struct contender *c, void **request, bool check, size_t bytes)
{
	int done = 0, size = -1, r = netplugin_test(c->endpoint.plugin, *request, &done, &size);

	if (r != NCCL_SUCCESS)
		return endpoint_failed(&c->endpoint, "test", r);
	if (!done)
		return 0;
	if (check && size != (int)bytes) {
		fprintf(stderr, "%s: received %d bytes in place of %zu\n", c->name, size, bytes);
		return -EPROTO;
	}
	*request = NULL;
	return 0;
}

/* What both directions of a stream have in common: as NCCL's proxy, each round posts one and tests the oldest. */
static int stream(struct contender *c, struct load *load, bool out)
{
	void *requests[CONTENDER_MAX_WINDOW] = { NULL };
	uint64_t posted = 0, done = 0, filled = 0, window = (uint64_t)load->window;
	int r = 0;

	while (done < load->count) {
		bool moved = false;
		void **newest = &requests[posted % window], **oldest;

		if (posted < load->count && posted - done < window) {
			if (out && filled == posted)
				before_send(c, load, filled++);
			r = out ? post_send(c, slot(load, posted), load->bytes, newest)
				: post_receive(c, slot(load, posted), load->bytes, newest);
			if (r < 0)
				return r;
			moved = *newest != NULL;
			posted += moved;
		}
		oldest = &requests[done % window];
		if (posted > done) {
			r = look(c, oldest, !out, load->bytes);
			if (r < 0)
				return r;
			if (!*oldest) {
				if (!out)
					after_receive(c, load, done);
				done++;
				moved = true;
			}
		}
		if (moved)
			poller_moved(&load->poller);
		else if (!poller_idle(&load->poller))
			return -ETIMEDOUT;
	}
	c->sequence += load->count;
	return 0;
}

static int plugin_stream_out(struct contender *c, struct load *load)
{
	return stream(c, load, true);
}

static int plugin_stream_in(struct contender *c, struct load *load)
{
	return stream(c, load, false);
}

/*
 * The requests of one end of ping-pong. Receives are posted ahead, as NCCL does whenever it has a free buffer, and the
 * completion of a send is collected behind: neither is on the way of the message.
 */
struct volley {
	void *out[PING_DEPTH], *in[PING_DEPTH];
	uint64_t out_wanted, out_posted, out_done;
	uint64_t in_all, in_posted, in_done;
};

static int volley_send(struct contender *c, struct load *load, struct volley *v, bool *moved)
{
	void **request = &v->out[v->out_posted % PING_DEPTH];
	int r;

	if (v->out_posted == v->out_wanted || v->out_posted - v->out_done == PING_DEPTH)
		return 0;
	r = post_send(c, load->memory, load->bytes, request);
	v->out_posted += *request != NULL;
	*moved |= *request != NULL;
	return r;
}

static int volley_receive(struct contender *c, struct load *load, struct volley *v, bool *moved)
{
	uint64_t at = v->in_posted % PING_DEPTH;
	int r;

	if (v->in_posted == v->in_all || v->in_posted - v->in_done == PING_DEPTH)
		return 0;
	r = post_receive(c, load->memory + ((size_t)load->window + (size_t)at) * load->stride, load->bytes, &v->in[at]);
	v->in_posted += v->in[at] != NULL;
	*moved |= v->in[at] != NULL;
	return r;
}

/* Tests the oldest request of one direction. */
static int volley_look(struct contender *c, void **requests, uint64_t posted, uint64_t *done, size_t bytes, bool *moved)
{
	void **oldest = &requests[*done % PING_DEPTH];
	int r;

	if (posted == *done)
		return 0;
	r = look(c, oldest, bytes > 0, bytes);
	if (r == 0 && !*oldest) {
		++*done;
		*moved = true;
	}
	return r;
}

static int volley_step(struct contender *c, struct load *load, struct volley *v)
{
	bool moved = false;
	int r;

	r = volley_send(c, load, v, &moved);
	if (r == 0)
		r = volley_look(c, v->in, v->in_posted, &v->in_done, load->bytes, &moved);
	if (r < 0 || moved)
		goto out; /* something is on its way or here: everything else can wait */
	r = volley_look(c, v->out, v->out_posted, &v->out_done, 0, &moved);
	if (r == 0)
		r = volley_receive(c, load, v, &moved);
out:
	if (r < 0)
		return r;
	if (moved)
		poller_moved(&load->poller);
	else if (!poller_idle(&load->poller))
		return -ETIMEDOUT;
	return 0;
}

/* Posts the first receives, before anybody sends. */
static int volley_begin(struct contender *c, struct load *load, struct volley *v)
{
	uint64_t ahead = load->count < PING_DEPTH ? load->count : PING_DEPTH;
	int r = 0;

	v->in_all = load->count;
	while (r == 0 && v->in_posted < ahead)
		r = volley_step(c, load, v);
	return r;
}

static int volley_end(struct contender *c, struct load *load, struct volley *v)
{
	int r = 0;

	while (r == 0 && (v->out_done < load->count || v->in_done < load->count))
		r = volley_step(c, load, v);
	return r;
}

static int plugin_ping(struct contender *c, struct load *load, double *ret_round_trips_s)
{
	uint64_t i, start_ns, now_ns;
	struct volley v = { .out_wanted = 0 };
	int r = volley_begin(c, load, &v);

	now_ns = perf_now_ns();
	for (i = 0; r == 0 && i < load->count; i++) {
		start_ns = now_ns;
		v.out_wanted = i + 1;
		while (r == 0 && v.in_done <= i)
			r = volley_step(c, load, &v);
		now_ns = perf_now_ns();
		ret_round_trips_s[i] = (double)(now_ns - start_ns) * 1e-9;
	}
	return r < 0 ? r : volley_end(c, load, &v);
}

static int plugin_pong(struct contender *c, struct load *load)
{
	struct volley v = { .out_wanted = 0 };
	int r = volley_begin(c, load, &v);

	while (r == 0 && v.in_done < load->count) {
		r = volley_step(c, load, &v);
		v.out_wanted = v.in_done;
	}
	return r < 0 ? r : volley_end(c, load, &v);
}

static void plugin_close(struct contender *c)
{
	struct netplugin *plugin = c->endpoint.plugin;

	if (c->send_mhandle)
		netplugin_dereg(plugin, c->send_comm, c->send_mhandle);
	if (c->receive_mhandle)
		netplugin_dereg(plugin, c->receive_comm, c->receive_mhandle);
	if (c->send_comm)
		netplugin_close_send(plugin, c->send_comm);
	if (c->receive_comm)
		netplugin_close_recv(plugin, c->receive_comm);
	endpoint_close(&c->endpoint);
}

static const struct contender_ops plugin_ops = {
	.stream_out = plugin_stream_out,
	.stream_in = plugin_stream_in,
	.ping = plugin_ping,
	.pong = plugin_pong,
	.close = plugin_close,
};

int contender_open_plugin(struct contender *contender, struct oob *oob, const struct endpoint_options *options,
			  void *memory, size_t bytes)
{
	struct contender c = { .ops = &plugin_ops, .fd = -1 };
	int peer = 1 - oob->rank, r;
	uint64_t begin_ns;

	r = endpoint_open(options, 0x7065726632703270ULL, &c.endpoint);
	if (r < 0)
		return r;
	c.name = netplugin_name(c.endpoint.plugin);
	r = endpoint_link(&c.endpoint, oob, 1, &peer, 1, &peer, &c.send_comm, &c.receive_comm);
	if (r < 0)
		goto fail;
	begin_ns = perf_now_ns();
	r = netplugin_reg(c.endpoint.plugin, c.send_comm, memory, bytes, NCCL_POINTER_HOST, &c.send_mhandle);
	if (r == NCCL_SUCCESS)
		r = netplugin_reg(c.endpoint.plugin, c.receive_comm, memory, bytes, NCCL_POINTER_HOST,
				  &c.receive_mhandle);
	c.register_ns = (perf_now_ns() - begin_ns) / 2;
	if (r != NCCL_SUCCESS) {
		r = endpoint_failed(&c.endpoint, "regMr", r);
		goto fail;
	}
	*contender = c;
	return 0;
fail:
	plugin_close(&c);
	return r;
}

/* ---- the floor ---- */

static int floor_stream_out(struct contender *c, struct load *load)
{
	uint64_t i;
	int r;

	for (i = 0; i < load->count; i++) {
		before_send(c, load, i);
		r = tcploop_send(c->fd, slot(load, i), load->bytes, &load->poller);
		if (r < 0)
			return r;
	}
	c->sequence += load->count;
	return 0;
}

static int floor_stream_in(struct contender *c, struct load *load)
{
	uint64_t i;
	int r;

	for (i = 0; i < load->count; i++) {
		r = tcploop_receive(c->fd, slot(load, i), load->bytes, &load->poller);
		if (r < 0)
			return r;
		after_receive(c, load, i);
	}
	c->sequence += load->count;
	return 0;
}

static int floor_ping(struct contender *c, struct load *load, double *ret_round_trips_s)
{
	char *answer = load->memory + (size_t)load->window * load->stride;
	uint64_t i, start_ns, now_ns = perf_now_ns();
	int r;

	for (i = 0; i < load->count; i++) {
		start_ns = now_ns;
		r = tcploop_send(c->fd, load->memory, load->bytes, &load->poller);
		if (r == 0)
			r = tcploop_receive(c->fd, answer, load->bytes, &load->poller);
		if (r < 0)
			return r;
		now_ns = perf_now_ns();
		ret_round_trips_s[i] = (double)(now_ns - start_ns) * 1e-9;
	}
	return 0;
}

static int floor_pong(struct contender *c, struct load *load)
{
	char *answer = load->memory + (size_t)load->window * load->stride;
	uint64_t i;
	int r;

	for (i = 0; i < load->count; i++) {
		r = tcploop_receive(c->fd, answer, load->bytes, &load->poller);
		if (r == 0)
			r = tcploop_send(c->fd, load->memory, load->bytes, &load->poller);
		if (r < 0)
			return r;
	}
	return 0;
}

static void floor_close(struct contender *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static const struct contender_ops floor_ops = {
	.stream_out = floor_stream_out,
	.stream_in = floor_stream_in,
	.ping = floor_ping,
	.pong = floor_pong,
	.close = floor_close,
};

int contender_open_floor(struct contender *contender, struct oob *oob)
{
	struct contender c = { .name = "floor", .ops = &floor_ops, .fd = -1 };
	int r = tcploop_pair(oob, 1, 0, &c.fd);

	if (r < 0) {
		fprintf(stderr, "the plain TCP connection failed: %s\n", strerror(-r));
		return r;
	}
	*contender = c;
	return 0;
}

void contender_close(struct contender *contender)
{
	if (contender->ops)
		contender->ops->close(contender);
	contender->ops = NULL;
}
