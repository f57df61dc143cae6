/* SPDX-License-Identifier: Apache-2.0 */
#include "clusterprobe/clusterprobe.h"

#include "base/sys.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* r: of read or write, 0 or below. */
static int end_of_pipe(struct clusterprobe_control *control, ssize_t r)
{
	int error = r < 0 ? -errno : -EPIPE;

	if (error == -EAGAIN || error == -EINTR)
		return 0;
	snprintf(control->channel.why, sizeof(control->channel.why), "%s",
		 r < 0 ? strerror(-error) : "the connection was closed");
	return error;
}

static int move_pipe(struct clusterprobe_control *control)
{
	struct control_channel *channel = &control->channel;
	const uint8_t *from;
	uint8_t *to;
	size_t count;
	int r = 0;

	while (r == 0 && (count = control_channel_wants(channel, &to)) > 0) {
		ssize_t got = read(control->pipe->in, to, count);

		if (got <= 0) {
			r = end_of_pipe(control, got);
			break;
		}
		r = control_channel_came(channel, (size_t)got);
	}
	while ((count = control_channel_pending(channel, &from)) > 0) {
		ssize_t went = write(control->pipe->out, from, count);

		if (went <= 0)
			return r < 0 ? r : end_of_pipe(control, went);
		control_channel_went(channel, (size_t)went);
	}
	return r;
}

int clusterprobe_control_move(struct clusterprobe_control *control)
{
	return control->pipe ? move_pipe(control) : control_channel_move(&control->channel, control->fd);
}

int clusterprobe_control_say(struct clusterprobe_control *control, struct clusterprobe_message *message)
{
	static _Thread_local uint8_t payload[CONTROL_PAYLOAD_MAX];
	enum control_type type = control->channel.side == CONTROL_SERVER ? CONTROL_TELL : CONTROL_REPORT;
	int r = control_channel_send(&control->channel, type, payload, clusterprobe_message_put(message, payload));

	if (r == 0)
		r = clusterprobe_control_move(control);
	return r;
}

int clusterprobe_control_step(struct clusterprobe_control *control, struct clusterprobe_message *ret)
{
	const struct control_header *header;
	const uint8_t *payload;
	int moved = clusterprobe_control_move(control), r;

	header = control_channel_frame(&control->channel, &payload);
	if (!header)
		return moved < 0 ? moved : 0;
	r = header->type == CONTROL_TELL || header->type == CONTROL_REPORT
		    ? clusterprobe_message_get(payload, header->payload_bytes, header->type == CONTROL_REPORT, ret)
		    : -EBADMSG;
	control_channel_take(&control->channel);
	if (r == -EPROTO)
		snprintf(control->channel.why, sizeof(control->channel.why),
			 "it speaks version %u of this protocol, not %d", ret->version, CLUSTERPROBE_VERSION);
	else if (r < 0)
		snprintf(control->channel.why, sizeof(control->channel.why), "it says what nobody understands");
	return r < 0 ? r : 1;
}

short clusterprobe_control_events(const struct clusterprobe_control *control)
{
	const uint8_t *at;

	return (short)(POLLIN | (control_channel_pending(&control->channel, &at) ? POLLOUT : 0));
}

void clusterprobe_control_fini(struct clusterprobe_control *control)
{
	if (!control->pipe)
		sys_close(&control->fd);
	control_channel_fini(&control->channel);
}
