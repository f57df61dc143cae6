/*
 * What the two ends of probe_tcp.h tell each other: eight bytes from who connects, the same eight back when the server
 * agrees, then the bytes of the flow. Little-endian. Pure; inner header.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_TCP_WIRE_H
#define TRIBUTARY_MEASURE_PROBE_TCP_WIRE_H

#include <stdint.h>

enum { PROBE_TCP_HELLO_BYTES = 8, PROBE_TCP_CHUNK_BYTES = 256 << 10 };

enum probe_tcp_task {
	PROBE_TCP_TAKE = 1, /* the server receives */
	PROBE_TCP_GIVE = 2, /* the server sends */
	PROBE_TCP_ECHO = 3, /* the server sends each byte back */
};

void probe_tcp_hello_encode(enum probe_tcp_task task, uint8_t ret[static PROBE_TCP_HELLO_BYTES]);
/* -EBADMSG: not our protocol; -EPROTO: another version of it. */
int probe_tcp_hello_decode(const uint8_t bytes[static PROBE_TCP_HELLO_BYTES], enum probe_tcp_task *ret);

#endif
