/*
 * What two processes of a host say to each other before they share memory: the handle, which travels out of band, and the
 * hello, the one packet of the socket, which also carries three descriptors (the segment, the receiver's bell, the
 * sender's bell). Little-endian, encoded byte by byte; docs/shm.md. Pure.
 *
 * Decoders return -EPROTO for another version, -EBADMSG for anything else, and write *ret only on success.
 */
#ifndef TRIBUTARY_TRANSPORT_SHM_WIRE_H
#define TRIBUTARY_TRANSPORT_SHM_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum {
	SHM_WIRE_VERSION = 2, /* of the handle, the hello and the segment together */
	SHM_WIRE_HANDLE_BYTES = 128,
	SHM_WIRE_HELLO_BYTES = 64,
	SHM_WIRE_NAME_BYTES = 16,
	SHM_WIRE_SECRET_BYTES = 16,
	SHM_WIRE_NONCE_BYTES = 16,
	SHM_WIRE_DESCRIPTORS = 3,
};

struct shm_wire_handle {
	uint64_t host_id; /* equal for processes that share this start of the kernel and the network namespace */
	uint32_t pid;     /* for people: it means something in its own namespace alone */
	uint8_t name[SHM_WIRE_NAME_BYTES]; /* of the listening socket */
	uint8_t secret[SHM_WIRE_SECRET_BYTES];
};

struct shm_wire_hello {
	uint8_t secret[SHM_WIRE_SECRET_BYTES];
	uint8_t nonce[SHM_WIRE_NONCE_BYTES]; /* what lies at nonce_address in the sender's memory */
	uint64_t nonce_address;
};

void shm_wire_put_handle(const struct shm_wire_handle *handle, uint8_t bytes[static SHM_WIRE_HANDLE_BYTES]);
int shm_wire_get_handle(const uint8_t bytes[static SHM_WIRE_HANDLE_BYTES], struct shm_wire_handle *ret);
/* The last eight bytes of a handle are not part of it: there the connecting side notes when it began. */
void shm_wire_put_cookie(uint8_t bytes[static SHM_WIRE_HANDLE_BYTES], uint64_t cookie);
uint64_t shm_wire_get_cookie(const uint8_t bytes[static SHM_WIRE_HANDLE_BYTES]);

void shm_wire_put_hello(const struct shm_wire_hello *hello, uint8_t bytes[static SHM_WIRE_HELLO_BYTES]);
int shm_wire_get_hello(const uint8_t bytes[static SHM_WIRE_HELLO_BYTES], struct shm_wire_hello *ret);

#endif
