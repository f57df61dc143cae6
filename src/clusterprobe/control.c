/* SPDX-License-Identifier: Apache-2.0 */
#include "clusterprobe/clusterprobe.h"

#include "base/sys.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

int clusterprobe_control_say(struct clusterprobe_control *control, struct clusterprobe_message *message)
{
	static _Thread_local uint8_t payload[CONTROL_PAYLOAD_MAX];
	enum control_type type = control->channel.side == CONTROL_SERVER ? CONTROL_TELL : CONTROL_REPORT;
	int r = control_channel_send(&control->channel, type, payload, clusterprobe_message_put(message, payload));

	if (r == 0)
		r = control_channel_move(&control->channel, control->fd);
	return r;
}

int clusterprobe_control_step(struct clusterprobe_control *control, struct clusterprobe_message *ret)
{
	const struct control_header *header;
	const uint8_t *payload;
	int moved = control_channel_move(&control->channel, control->fd), r;

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
	sys_close(&control->fd);
	control_channel_fini(&control->channel);
}
