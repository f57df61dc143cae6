#include "transport/tcp/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define MAGIC_HANDLE  0x31425254u /* "TRB1" */
#define MAGIC_HELLO   0x48425254u /* "TRBH" */
#define MAGIC_WELCOME 0x57425254u /* "TRBW" */

static void put16(uint8_t *to, uint16_t value)
{
	to[0] = (uint8_t)value;
	to[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *to, uint32_t value)
{
	put16(to, (uint16_t)value);
	put16(to + 2, (uint16_t)(value >> 16));
}

static void put64(uint8_t *to, uint64_t value)
{
	put32(to, (uint32_t)value);
	put32(to + 4, (uint32_t)(value >> 32));
}

static uint16_t get16(const uint8_t *from)
{
	return (uint16_t)(from[0] | from[1] << 8);
}

static uint32_t get32(const uint8_t *from)
{
	return get16(from) | (uint32_t)get16(from + 2) << 16;
}

static uint64_t get64(const uint8_t *from)
{
	return get32(from) | (uint64_t)get32(from + 4) << 32;
}

/* FNV-1a: not against an attacker (the secret is), but against a handle that is somebody else's. */
static uint32_t checksum(const uint8_t *bytes, size_t count)
{
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < count; i++)
		sum = (sum ^ bytes[i]) * 16777619u;
	return sum;
}

static void put_address(uint8_t *to, const struct tcp_wire_address *address)
{
	to[0] = address->family;
	to[1] = 0;
	put16(to + 2, address->port);
	memcpy(to + 4, address->bytes, sizeof(address->bytes));
}

static bool get_address(const uint8_t *from, struct tcp_wire_address *address)
{
	address->family = from[0];
	address->port = get16(from + 2);
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

/* Handle: 0 magic, 4 version, 6 rails, 8 address[20], 28 listener, 32 secret[16], 48 host[40], 88 host id, 96 pid, 116 sum. */
enum { HANDLE_SUM_AT = 116, HANDLE_COOKIE_AT = 120 };

void tcp_wire_put_handle(const struct tcp_wire_handle *handle, uint8_t bytes[static TCP_WIRE_HANDLE_BYTES])
{
	memset(bytes, 0, TCP_WIRE_HANDLE_BYTES);
	put32(bytes, MAGIC_HANDLE);
	put16(bytes + 4, TCP_WIRE_VERSION);
	bytes[6] = handle->rail_count;
	put_address(bytes + 8, &handle->address);
	put32(bytes + 28, handle->listener_id);
	memcpy(bytes + 32, handle->secret, TCP_WIRE_SECRET_BYTES);
	memcpy(bytes + 48, handle->host, TCP_WIRE_HOST_BYTES);
	put64(bytes + 88, handle->host_id);
	put32(bytes + 96, handle->process_id);
	put32(bytes + HANDLE_SUM_AT, checksum(bytes, HANDLE_SUM_AT));
}

int tcp_wire_get_handle(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], struct tcp_wire_handle *ret)
{
	struct tcp_wire_handle handle;

	if (get32(bytes) != MAGIC_HANDLE)
		return -EBADMSG;
	if (get16(bytes + 4) != TCP_WIRE_VERSION)
		return -EPROTO;
	if (get32(bytes + HANDLE_SUM_AT) != checksum(bytes, HANDLE_SUM_AT))
		return -EBADMSG;
	memset(&handle, 0, sizeof(handle));
	if (!get_address(bytes + 8, &handle.address))
		return -EBADMSG;
	handle.rail_count = bytes[6];
	if (!handle.rail_count || handle.rail_count > TCP_WIRE_RAILS_MAX)
		return -EBADMSG;
	handle.listener_id = get32(bytes + 28);
	memcpy(handle.secret, bytes + 32, TCP_WIRE_SECRET_BYTES);
	get_host(bytes + 48, handle.host);
	handle.host_id = get64(bytes + 88);
	handle.process_id = get32(bytes + 96);
	*ret = handle;
	return 0;
}

void tcp_wire_peek_host(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], char host[static TCP_WIRE_HOST_BYTES],
			uint16_t *ret_version)
{
	*ret_version = 0;
	memcpy(host, "?", 2);
	if (get32(bytes) != MAGIC_HANDLE)
		return;
	*ret_version = get16(bytes + 4);
	get_host(bytes + 48, host);
}

void tcp_wire_put_cookie(uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], uint64_t cookie)
{
	put64(bytes + HANDLE_COOKIE_AT, cookie);
}

uint64_t tcp_wire_get_cookie(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES])
{
	return get64(bytes + HANDLE_COOKIE_AT);
}

/*
 * Hello: 0 magic, 4 version, 6 stream, 7 count, 8 listener, 12 epoch, 16 secret[16], 32 connection, 40 eager window,
 * 44 timeout, 48 pid, 52 active, 56 host id, 64 host[40], 124 sum.
 */
enum { HELLO_SUM_AT = 124 };

void tcp_wire_put_hello(const struct tcp_wire_hello *hello, uint8_t bytes[static TCP_WIRE_HELLO_BYTES])
{
	memset(bytes, 0, TCP_WIRE_HELLO_BYTES);
	put32(bytes, MAGIC_HELLO);
	put16(bytes + 4, TCP_WIRE_VERSION);
	bytes[6] = hello->stream;
	bytes[7] = hello->stream_count;
	put32(bytes + 8, hello->listener_id);
	put32(bytes + 12, hello->epoch);
	memcpy(bytes + 16, hello->secret, TCP_WIRE_SECRET_BYTES);
	put64(bytes + 32, hello->connection_id);
	put32(bytes + 40, hello->eager_window_bytes);
	put32(bytes + 44, hello->timeout_ms);
	put32(bytes + 48, hello->process_id);
	bytes[52] = hello->active_count;
	put64(bytes + 56, hello->host_id);
	memcpy(bytes + 64, hello->host, TCP_WIRE_HOST_BYTES);
	put32(bytes + HELLO_SUM_AT, checksum(bytes, HELLO_SUM_AT));
}

int tcp_wire_get_hello(const uint8_t bytes[static TCP_WIRE_HELLO_BYTES], struct tcp_wire_hello *ret)
{
	struct tcp_wire_hello hello;

	if (get32(bytes) != MAGIC_HELLO)
		return -EBADMSG;
	if (get16(bytes + 4) != TCP_WIRE_VERSION)
		return -EPROTO;
	if (get32(bytes + HELLO_SUM_AT) != checksum(bytes, HELLO_SUM_AT))
		return -EBADMSG;
	memset(&hello, 0, sizeof(hello));
	hello.stream = bytes[6];
	hello.stream_count = bytes[7];
	hello.listener_id = get32(bytes + 8);
	hello.epoch = get32(bytes + 12);
	memcpy(hello.secret, bytes + 16, TCP_WIRE_SECRET_BYTES);
	hello.connection_id = get64(bytes + 32);
	hello.eager_window_bytes = get32(bytes + 40);
	hello.timeout_ms = get32(bytes + 44);
	hello.process_id = get32(bytes + 48);
	hello.active_count = bytes[52];
	hello.host_id = get64(bytes + 56);
	get_host(bytes + 64, hello.host);
	if (!hello.stream_count || hello.stream_count > TCP_WIRE_STREAMS_MAX || hello.stream >= hello.stream_count ||
	    !hello.active_count || hello.active_count > hello.stream_count)
		return -EBADMSG;
	*ret = hello;
	return 0;
}

/*
 * Welcome: 0 magic, 4 version, 6 status, 7 rails, 8 connection, 16 eager window, 32 host[40], 72 rails[8 × 20],
 * 252 sum.
 */
enum { WELCOME_SUM_AT = 252, WELCOME_RAIL_BYTES = 20 };

void tcp_wire_put_welcome(const struct tcp_wire_welcome *welcome, uint8_t bytes[static TCP_WIRE_WELCOME_BYTES])
{
	memset(bytes, 0, TCP_WIRE_WELCOME_BYTES);
	put32(bytes, MAGIC_WELCOME);
	put16(bytes + 4, welcome->version);
	bytes[6] = welcome->status;
	bytes[7] = welcome->rail_count;
	put64(bytes + 8, welcome->connection_id);
	put32(bytes + 16, welcome->eager_window_bytes);
	memcpy(bytes + 32, welcome->host, TCP_WIRE_HOST_BYTES);
	for (size_t i = 0; i < welcome->rail_count && i < TCP_WIRE_RAILS_MAX; i++)
		put_address(bytes + 72 + i * WELCOME_RAIL_BYTES, &welcome->rails[i]);
	put32(bytes + WELCOME_SUM_AT, checksum(bytes, WELCOME_SUM_AT));
}

int tcp_wire_get_welcome(const uint8_t bytes[static TCP_WIRE_WELCOME_BYTES], struct tcp_wire_welcome *ret,
			 uint16_t *ret_version)
{
	struct tcp_wire_welcome welcome;

	if (get32(bytes) != MAGIC_WELCOME)
		return -EBADMSG;
	*ret_version = get16(bytes + 4);
	if (*ret_version != TCP_WIRE_VERSION)
		return -EPROTO;
	if (get32(bytes + WELCOME_SUM_AT) != checksum(bytes, WELCOME_SUM_AT))
		return -EBADMSG;
	memset(&welcome, 0, sizeof(welcome));
	welcome.version = *ret_version;
	welcome.status = bytes[6];
	welcome.rail_count = bytes[7];
	welcome.connection_id = get64(bytes + 8);
	welcome.eager_window_bytes = get32(bytes + 16);
	get_host(bytes + 32, welcome.host);
	if (welcome.status >= TCP_WELCOME_COUNT || welcome.rail_count > TCP_WIRE_RAILS_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < welcome.rail_count; i++)
		if (!get_address(bytes + 72 + i * WELCOME_RAIL_BYTES, &welcome.rails[i]))
			return -EBADMSG;
	*ret = welcome;
	return 0;
}

/*
 * Frame: 0 type, 1 stream, 2 epoch, 4 message, 8 value, and then what the direction needs: the receiver's frames have
 * 16 position[8]; the sender's 16 payload bytes[4], 20 tag[4].
 */
static bool from_receiver(uint8_t type)
{
	return type >= TCP_FRAME_GRANT && type <= TCP_FRAME_TRUNCATED;
}

void tcp_wire_put_frame(const struct tcp_frame *frame, uint8_t bytes[static TCP_WIRE_FRAME_BYTES])
{
	bytes[0] = frame->type;
	bytes[1] = frame->stream;
	put16(bytes + 2, frame->epoch);
	put32(bytes + 4, frame->message);
	put64(bytes + 8, frame->value);
	if (from_receiver(frame->type)) {
		put64(bytes + 16, frame->position);
		return;
	}
	put32(bytes + 16, frame->payload_bytes);
	put32(bytes + 20, (uint32_t)frame->tag);
}

int tcp_wire_get_frame(const uint8_t bytes[static TCP_WIRE_FRAME_BYTES], struct tcp_frame *ret)
{
	struct tcp_frame frame = {
		.type = bytes[0],
		.stream = bytes[1],
		.epoch = get16(bytes + 2),
		.message = get32(bytes + 4),
		.value = get64(bytes + 8),
	};

	if (frame.type == TCP_FRAME_NONE || frame.type >= TCP_FRAME_TYPE_COUNT || frame.stream >= TCP_WIRE_STREAMS_MAX)
		return -EBADMSG;
	if (from_receiver(frame.type)) {
		frame.position = get64(bytes + 16);
	} else {
		frame.payload_bytes = get32(bytes + 16);
		frame.tag = (int32_t)get32(bytes + 20);
		if (frame.payload_bytes && frame.type != TCP_FRAME_EAGER && frame.type != TCP_FRAME_DATA)
			return -EBADMSG;
		if (frame.type == TCP_FRAME_DATA && !frame.payload_bytes)
			return -EBADMSG;
	}
	*ret = frame;
	return 0;
}

const char *tcp_frame_type_str(enum tcp_frame_type type)
{
	static const char *const names[TCP_FRAME_TYPE_COUNT] = {
		[TCP_FRAME_NONE] = "none",           [TCP_FRAME_EAGER] = "eager",
		[TCP_FRAME_ANNOUNCE] = "announce",   [TCP_FRAME_DATA] = "data",
		[TCP_FRAME_SUSPECT] = "suspect",     [TCP_FRAME_GRANT] = "grant",
		[TCP_FRAME_DONE] = "done",           [TCP_FRAME_EAGER_DONE] = "eager done",
		[TCP_FRAME_READY] = "ready",         [TCP_FRAME_ACK] = "acknowledgement",
		[TCP_FRAME_DEAD] = "dead",           [TCP_FRAME_TRUNCATED] = "truncated",
		[TCP_FRAME_HEARTBEAT] = "heartbeat", [TCP_FRAME_BYE] = "bye",
	};

	return type < TCP_FRAME_TYPE_COUNT ? names[type] : "unknown";
}
