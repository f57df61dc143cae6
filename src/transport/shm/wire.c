#include "transport/shm/wire.h"

#include <errno.h>
#include <string.h>

#define MAGIC_HANDLE 0x53425254u /* "TRBS" */
#define MAGIC_HELLO  0x73425254u /* "TRBs" */

static void put32(uint8_t *to, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

static void put64(uint8_t *to, uint64_t value)
{
	put32(to, (uint32_t)value);
	put32(to + 4, (uint32_t)(value >> 32));
}

static uint32_t get32(const uint8_t *from)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < 4; i++)
		value |= (uint32_t)from[i] << 8 * i;
	return value;
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

/* Handle: 0 magic, 4 version, 8 host id, 16 name[16], 32 secret[16], 48 pid, 116 sum, 120 cookie. */
enum { HANDLE_SUM_AT = 116, HANDLE_COOKIE_AT = 120 };

void shm_wire_put_handle(const struct shm_wire_handle *handle, uint8_t bytes[static SHM_WIRE_HANDLE_BYTES])
{
	memset(bytes, 0, SHM_WIRE_HANDLE_BYTES);
	put32(bytes, MAGIC_HANDLE);
	put32(bytes + 4, SHM_WIRE_VERSION);
	put64(bytes + 8, handle->host_id);
	memcpy(bytes + 16, handle->name, SHM_WIRE_NAME_BYTES);
	memcpy(bytes + 32, handle->secret, SHM_WIRE_SECRET_BYTES);
	put32(bytes + 48, handle->pid);
	put32(bytes + HANDLE_SUM_AT, checksum(bytes, HANDLE_SUM_AT));
}

int shm_wire_get_handle(const uint8_t bytes[static SHM_WIRE_HANDLE_BYTES], struct shm_wire_handle *ret)
{
	if (get32(bytes) != MAGIC_HANDLE)
		return -EBADMSG;
	if (get32(bytes + 4) != SHM_WIRE_VERSION)
		return -EPROTO;
	if (get32(bytes + HANDLE_SUM_AT) != checksum(bytes, HANDLE_SUM_AT))
		return -EBADMSG;
	ret->host_id = get64(bytes + 8);
	memcpy(ret->name, bytes + 16, SHM_WIRE_NAME_BYTES);
	memcpy(ret->secret, bytes + 32, SHM_WIRE_SECRET_BYTES);
	ret->pid = get32(bytes + 48);
	return 0;
}

void shm_wire_put_cookie(uint8_t bytes[static SHM_WIRE_HANDLE_BYTES], uint64_t cookie)
{
	put64(bytes + HANDLE_COOKIE_AT, cookie);
}

uint64_t shm_wire_get_cookie(const uint8_t bytes[static SHM_WIRE_HANDLE_BYTES])
{
	return get64(bytes + HANDLE_COOKIE_AT);
}

/* Hello: 0 magic, 4 version, 8 secret[16], 24 nonce[16], 40 nonce address, 60 sum. */
enum { HELLO_SUM_AT = 60 };

void shm_wire_put_hello(const struct shm_wire_hello *hello, uint8_t bytes[static SHM_WIRE_HELLO_BYTES])
{
	memset(bytes, 0, SHM_WIRE_HELLO_BYTES);
	put32(bytes, MAGIC_HELLO);
	put32(bytes + 4, SHM_WIRE_VERSION);
	memcpy(bytes + 8, hello->secret, SHM_WIRE_SECRET_BYTES);
	memcpy(bytes + 24, hello->nonce, SHM_WIRE_NONCE_BYTES);
	put64(bytes + 40, hello->nonce_address);
	put32(bytes + HELLO_SUM_AT, checksum(bytes, HELLO_SUM_AT));
}

int shm_wire_get_hello(const uint8_t bytes[static SHM_WIRE_HELLO_BYTES], struct shm_wire_hello *ret)
{
	if (get32(bytes) != MAGIC_HELLO)
		return -EBADMSG;
	if (get32(bytes + 4) != SHM_WIRE_VERSION)
		return -EPROTO;
	if (get32(bytes + HELLO_SUM_AT) != checksum(bytes, HELLO_SUM_AT))
		return -EBADMSG;
	memcpy(ret->secret, bytes + 8, SHM_WIRE_SECRET_BYTES);
	memcpy(ret->nonce, bytes + 24, SHM_WIRE_NONCE_BYTES);
	ret->nonce_address = get64(bytes + 40);
	return 0;
}
