#include "transport/tcp/wire.h"

#include "base/bytes.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define MAGIC_HANDLE  0x31425254u /* "TRB1" */
#define MAGIC_HELLO   0x48425254u /* "TRBH" */
#define MAGIC_WELCOME 0x57425254u /* "TRBW" */

static void put_address(uint8_t *to, const struct tcp_wire_address *address)
{
	to[0] = address->family;
	to[1] = 0;
	bytes_put(to + 2, address->port, 2);
	memcpy(to + 4, address->bytes, sizeof(address->bytes));
}

static bool get_address(const uint8_t *from, struct tcp_wire_address *address)
{
	address->family = from[0];
	address->port = (uint16_t)bytes_get(from + 2, 2);
	memcpy(address->bytes, from + 4, sizeof(address->bytes));
	return (address->family == 4 || address->family == 6) && address->port != 0;
}

static void get_host(const uint8_t *from, char *host)
{
	memcpy(host, from, TCP_WIRE_HOST_BYTES);
	host[TCP_WIRE_HOST_BYTES - 1] = '\0';
	/* It ends up in log lines: nothing but printable characters. */
	for (char *c = host; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

/*
 * Handle: 0 magic, 4 version, 6 rails, 8 address[20], 28 listener, 32 secret[16], 48 host[40], 88 host id, 96 pid,
 * 100 tied port, 116 sum.
 */
enum { HANDLE_SUM_AT = 116, HANDLE_COOKIE_AT = 120 };

void tcp_wire_put_handle(const struct tcp_wire_handle *handle, uint8_t bytes[static TCP_WIRE_HANDLE_BYTES])
{
	memset(bytes, 0, TCP_WIRE_HANDLE_BYTES);
	bytes_put(bytes, MAGIC_HANDLE, 4);
	bytes_put(bytes + 4, TCP_WIRE_VERSION, 2);
	bytes[6] = handle->rail_count;
	put_address(bytes + 8, &handle->address);
	bytes_put(bytes + 28, handle->listener_id, 4);
	memcpy(bytes + 32, handle->secret, TCP_WIRE_SECRET_BYTES);
	memcpy(bytes + 48, handle->host, TCP_WIRE_HOST_BYTES);
	bytes_put(bytes + 88, handle->host_id, 8);
	bytes_put(bytes + 96, handle->process_id, 4);
	bytes_put(bytes + 100, handle->address.tied_port, 2);
	bytes_put(bytes + HANDLE_SUM_AT, bytes_checksum(bytes, HANDLE_SUM_AT), 4);
}

int tcp_wire_get_handle(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], struct tcp_wire_handle *ret)
{
	struct tcp_wire_handle handle;

	if ((uint32_t)bytes_get(bytes, 4) != MAGIC_HANDLE)
		return -EBADMSG;
	if ((uint16_t)bytes_get(bytes + 4, 2) != TCP_WIRE_VERSION)
		return -EPROTO;
	if ((uint32_t)bytes_get(bytes + HANDLE_SUM_AT, 4) != bytes_checksum(bytes, HANDLE_SUM_AT))
		return -EBADMSG;
	memset(&handle, 0, sizeof(handle));
	if (!get_address(bytes + 8, &handle.address))
		return -EBADMSG;
	handle.rail_count = bytes[6];
	if (!handle.rail_count || handle.rail_count > TCP_WIRE_RAILS_MAX)
		return -EBADMSG;
	handle.listener_id = (uint32_t)bytes_get(bytes + 28, 4);
	memcpy(handle.secret, bytes + 32, TCP_WIRE_SECRET_BYTES);
	get_host(bytes + 48, handle.host);
	handle.host_id = bytes_get(bytes + 88, 8);
	handle.process_id = (uint32_t)bytes_get(bytes + 96, 4);
	handle.address.tied_port = (uint16_t)bytes_get(bytes + 100, 2);
	*ret = handle;
	return 0;
}

void tcp_wire_peek_host(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], char host[static TCP_WIRE_HOST_BYTES],
			uint16_t *ret_version)
{
	*ret_version = 0;
	memcpy(host, "?", 2);
	if ((uint32_t)bytes_get(bytes, 4) != MAGIC_HANDLE)
		return;
	*ret_version = (uint16_t)bytes_get(bytes + 4, 2);
	get_host(bytes + 48, host);
}

void tcp_wire_put_cookie(uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], uint64_t cookie)
{
	bytes_put(bytes + HANDLE_COOKIE_AT, cookie, 8);
}

uint64_t tcp_wire_get_cookie(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES])
{
	return bytes_get(bytes + HANDLE_COOKIE_AT, 8);
}

/*
 * Hello: 0 magic, 4 version, 6 stream, 7 count, 8 listener, 12 epoch, 16 secret[16], 32 connection, 40 eager window,
 * 44 timeout, 48 pid, 52 active, 56 host id, 64 host[40], 124 sum.
 */
enum { HELLO_SUM_AT = 124 };

void tcp_wire_put_hello(const struct tcp_wire_hello *hello, uint8_t bytes[static TCP_WIRE_HELLO_BYTES])
{
	memset(bytes, 0, TCP_WIRE_HELLO_BYTES);
	bytes_put(bytes, MAGIC_HELLO, 4);
	bytes_put(bytes + 4, TCP_WIRE_VERSION, 2);
	bytes[6] = hello->stream;
	bytes[7] = hello->stream_count;
	bytes_put(bytes + 8, hello->listener_id, 4);
	bytes_put(bytes + 12, hello->epoch, 4);
	memcpy(bytes + 16, hello->secret, TCP_WIRE_SECRET_BYTES);
	bytes_put(bytes + 32, hello->connection_id, 8);
	bytes_put(bytes + 40, hello->eager_window_bytes, 4);
	bytes_put(bytes + 44, hello->timeout_ms, 4);
	bytes_put(bytes + 48, hello->process_id, 4);
	bytes[52] = hello->active_count;
	bytes_put(bytes + 56, hello->host_id, 8);
	memcpy(bytes + 64, hello->host, TCP_WIRE_HOST_BYTES);
	bytes_put(bytes + HELLO_SUM_AT, bytes_checksum(bytes, HELLO_SUM_AT), 4);
}

int tcp_wire_get_hello(const uint8_t bytes[static TCP_WIRE_HELLO_BYTES], struct tcp_wire_hello *ret)
{
	struct tcp_wire_hello hello;

	if ((uint32_t)bytes_get(bytes, 4) != MAGIC_HELLO)
		return -EBADMSG;
	if ((uint16_t)bytes_get(bytes + 4, 2) != TCP_WIRE_VERSION)
		return -EPROTO;
	if ((uint32_t)bytes_get(bytes + HELLO_SUM_AT, 4) != bytes_checksum(bytes, HELLO_SUM_AT))
		return -EBADMSG;
	memset(&hello, 0, sizeof(hello));
	hello.stream = bytes[6];
	hello.stream_count = bytes[7];
	hello.listener_id = (uint32_t)bytes_get(bytes + 8, 4);
	hello.epoch = (uint32_t)bytes_get(bytes + 12, 4);
	memcpy(hello.secret, bytes + 16, TCP_WIRE_SECRET_BYTES);
	hello.connection_id = bytes_get(bytes + 32, 8);
	hello.eager_window_bytes = (uint32_t)bytes_get(bytes + 40, 4);
	hello.timeout_ms = (uint32_t)bytes_get(bytes + 44, 4);
	hello.process_id = (uint32_t)bytes_get(bytes + 48, 4);
	hello.active_count = bytes[52];
	hello.host_id = bytes_get(bytes + 56, 8);
	get_host(bytes + 64, hello.host);
	if (!hello.stream_count || hello.stream_count > TCP_WIRE_STREAMS_MAX || hello.stream >= hello.stream_count ||
	    !hello.active_count || hello.active_count > hello.stream_count)
		return -EBADMSG;
	*ret = hello;
	return 0;
}

/*
 * Welcome: 0 magic, 4 version, 6 status, 7 rails, 8 connection, 16 eager window, 20 unscheduled, 32 host[40],
 * 72 rails[8 × 20], 232 their tied ports[8 × 2], 252 sum.
 */
enum { WELCOME_SUM_AT = 252, WELCOME_RAIL_BYTES = 20, WELCOME_TIED_AT = 232 };

void tcp_wire_put_welcome(const struct tcp_wire_welcome *welcome, uint8_t bytes[static TCP_WIRE_WELCOME_BYTES])
{
	memset(bytes, 0, TCP_WIRE_WELCOME_BYTES);
	bytes_put(bytes, MAGIC_WELCOME, 4);
	bytes_put(bytes + 4, welcome->version, 2);
	bytes[6] = welcome->status;
	bytes[7] = welcome->rail_count;
	bytes_put(bytes + 8, welcome->connection_id, 8);
	bytes_put(bytes + 16, welcome->eager_window_bytes, 4);
	bytes_put(bytes + 20, welcome->unscheduled_bytes, 4);
	memcpy(bytes + 32, welcome->host, TCP_WIRE_HOST_BYTES);
	for (size_t i = 0; i < welcome->rail_count && i < TCP_WIRE_RAILS_MAX; i++) {
		put_address(bytes + 72 + i * WELCOME_RAIL_BYTES, &welcome->rails[i]);
		bytes_put(bytes + WELCOME_TIED_AT + 2 * i, welcome->rails[i].tied_port, 2);
	}
	bytes_put(bytes + WELCOME_SUM_AT, bytes_checksum(bytes, WELCOME_SUM_AT), 4);
}

int tcp_wire_get_welcome(const uint8_t bytes[static TCP_WIRE_WELCOME_BYTES], struct tcp_wire_welcome *ret,
			 uint16_t *ret_version)
{
	struct tcp_wire_welcome welcome;

	if ((uint32_t)bytes_get(bytes, 4) != MAGIC_WELCOME)
		return -EBADMSG;
	*ret_version = (uint16_t)bytes_get(bytes + 4, 2);
	if (*ret_version != TCP_WIRE_VERSION)
		return -EPROTO;
	if ((uint32_t)bytes_get(bytes + WELCOME_SUM_AT, 4) != bytes_checksum(bytes, WELCOME_SUM_AT))
		return -EBADMSG;
	memset(&welcome, 0, sizeof(welcome));
	welcome.version = *ret_version;
	welcome.status = bytes[6];
	welcome.rail_count = bytes[7];
	welcome.connection_id = bytes_get(bytes + 8, 8);
	welcome.eager_window_bytes = (uint32_t)bytes_get(bytes + 16, 4);
	welcome.unscheduled_bytes = (uint32_t)bytes_get(bytes + 20, 4);
	get_host(bytes + 32, welcome.host);
	if (welcome.status >= TCP_WELCOME_COUNT || welcome.rail_count > TCP_WIRE_RAILS_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < welcome.rail_count; i++) {
		if (!get_address(bytes + 72 + i * WELCOME_RAIL_BYTES, &welcome.rails[i]))
			return -EBADMSG;
		welcome.rails[i].tied_port = (uint16_t)bytes_get(bytes + WELCOME_TIED_AT + 2 * i, 2);
	}
	*ret = welcome;
	return 0;
}

/*
 * Frame: 0 type, 1 stream or request, 2 epoch or unit, 4 message, 8 value, and then what the direction needs: the
 * receiver's frames have 16 position[8]; the sender's 16 payload or unscheduled bytes[4], 20 tag[4].
 */
static bool from_receiver(uint8_t type)
{
	return type >= TCP_FRAME_GRANT && type <= TCP_FRAME_TRUNCATED;
}

static bool names_request(uint8_t type)
{
	return type == TCP_FRAME_RTS || type == TCP_FRAME_DATA;
}

void tcp_wire_put_frame(const struct tcp_frame *frame, uint8_t bytes[static TCP_WIRE_FRAME_BYTES])
{
	bytes[0] = frame->type;
	bytes[1] = frame->stream;
	bytes_put(bytes + 2, frame->epoch, 2);
	bytes_put(bytes + 4, frame->message, 4);
	bytes_put(bytes + 8, frame->value, 8);
	if (from_receiver(frame->type)) {
		bytes_put(bytes + 16, frame->position, 8);
		return;
	}
	bytes_put(bytes + 16, frame->payload_bytes, 4);
	bytes_put(bytes + 20, (uint32_t)frame->tag, 4);
}

int tcp_wire_get_frame(const uint8_t bytes[static TCP_WIRE_FRAME_BYTES], struct tcp_frame *ret)
{
	struct tcp_frame frame = {
		.type = bytes[0],
		.stream = bytes[1],
		.epoch = (uint16_t)bytes_get(bytes + 2, 2),
		.message = (uint32_t)bytes_get(bytes + 4, 4),
		.value = bytes_get(bytes + 8, 8),
	};

	if (frame.type == TCP_FRAME_NONE || frame.type >= TCP_FRAME_TYPE_COUNT ||
	    frame.stream >= (names_request(frame.type) ? TCP_WIRE_REQUESTS_MAX : TCP_WIRE_STREAMS_MAX))
		return -EBADMSG;
	if (from_receiver(frame.type)) {
		frame.position = bytes_get(bytes + 16, 8);
	} else {
		frame.payload_bytes = (uint32_t)bytes_get(bytes + 16, 4);
		frame.tag = (int32_t)(uint32_t)bytes_get(bytes + 20, 4);
		if (frame.payload_bytes && frame.type != TCP_FRAME_EAGER && frame.type != TCP_FRAME_DATA &&
		    (frame.type != TCP_FRAME_RTS || frame.unscheduled_bytes > frame.value))
			return -EBADMSG;
		if (frame.type == TCP_FRAME_DATA && !frame.payload_bytes)
			return -EBADMSG;
	}
	*ret = frame;
	return 0;
}
