#include "command/fleet/fleet.h"

#include "base/sys.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

int fleet_line_say(struct fleet_line *line, const struct fleet_message *message)
{
	static _Thread_local uint8_t payload[CONTROL_PAYLOAD_MAX];
	enum control_type type = line->channel.side == CONTROL_SERVER ? CONTROL_TELL : CONTROL_REPORT;
	int r = control_channel_send(&line->channel, type, payload, fleet_message_put(message, payload));

	if (r == 0)
		r = control_channel_move(&line->channel, line->fd);
	return r;
}

int fleet_line_step(struct fleet_line *line, struct fleet_message *ret)
{
	const struct control_header *header;
	const uint8_t *payload;
	int moved = control_channel_move(&line->channel, line->fd), r;

	header = control_channel_frame(&line->channel, &payload);
	if (!header)
		return moved < 0 ? moved : 0;
	r = header->type == CONTROL_TELL || header->type == CONTROL_REPORT
		    ? fleet_message_get(payload, header->payload_bytes, header->type == CONTROL_REPORT, ret)
		    : -EBADMSG;
	control_channel_take(&line->channel);
	if (r == -EPROTO)
		snprintf(line->channel.why, sizeof(line->channel.why), "it speaks version %u of this protocol, not %d",
			 ret->version, FLEET_VERSION);
	else if (r < 0)
		snprintf(line->channel.why, sizeof(line->channel.why), "it says what nobody understands");
	return r < 0 ? r : 1;
}

short fleet_line_events(const struct fleet_line *line)
{
	const uint8_t *at;

	return (short)(POLLIN | (control_channel_pending(&line->channel, &at) ? POLLOUT : 0));
}

void fleet_line_fini(struct fleet_line *line)
{
	sys_close(&line->fd);
	control_channel_fini(&line->channel);
}
