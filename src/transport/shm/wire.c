#include "transport/shm/wire.h"

#include "base/bytes.h"

#include <errno.h>
#include <string.h>

#define MAGIC_HANDLE 0x53425254u /* "TRBS" */
#define MAGIC_HELLO  0x73425254u /* "TRBs" */

/* Handle: 0 magic, 4 version, 8 host id, 16 name[16], 32 secret[16], 48 pid, 116 sum, 120 cookie. */
enum { HANDLE_SUM_AT = 116, HANDLE_COOKIE_AT = 120 };

void shm_wire_put_handle(const struct shm_wire_handle *handle, uint8_t bytes[static SHM_WIRE_HANDLE_BYTES])
{
	memset(bytes, 0, SHM_WIRE_HANDLE_BYTES);
	bytes_put(bytes, MAGIC_HANDLE, 4);
	bytes_put(bytes + 4, SHM_WIRE_VERSION, 4);
	bytes_put(bytes + 8, handle->host_id, 8);
	memcpy(bytes + 16, handle->name, SHM_WIRE_NAME_BYTES);
	memcpy(bytes + 32, handle->secret, SHM_WIRE_SECRET_BYTES);
	bytes_put(bytes + 48, handle->pid, 4);
	bytes_put(bytes + HANDLE_SUM_AT, bytes_checksum(bytes, HANDLE_SUM_AT), 4);
}

int shm_wire_get_handle(const uint8_t bytes[static SHM_WIRE_HANDLE_BYTES], struct shm_wire_handle *ret)
{
	if ((uint32_t)bytes_get(bytes, 4) != MAGIC_HANDLE)
		return -EBADMSG;
	if ((uint32_t)bytes_get(bytes + 4, 4) != SHM_WIRE_VERSION)
		return -EPROTO;
	if ((uint32_t)bytes_get(bytes + HANDLE_SUM_AT, 4) != bytes_checksum(bytes, HANDLE_SUM_AT))
		return -EBADMSG;
	ret->host_id = bytes_get(bytes + 8, 8);
	memcpy(ret->name, bytes + 16, SHM_WIRE_NAME_BYTES);
	memcpy(ret->secret, bytes + 32, SHM_WIRE_SECRET_BYTES);
	ret->pid = (uint32_t)bytes_get(bytes + 48, 4);
	return 0;
}

void shm_wire_put_cookie(uint8_t bytes[static SHM_WIRE_HANDLE_BYTES], uint64_t cookie)
{
	bytes_put(bytes + HANDLE_COOKIE_AT, cookie, 8);
}

uint64_t shm_wire_get_cookie(const uint8_t bytes[static SHM_WIRE_HANDLE_BYTES])
{
	return bytes_get(bytes + HANDLE_COOKIE_AT, 8);
}

/* Hello: 0 magic, 4 version, 8 secret[16], 24 nonce[16], 40 nonce address, 60 sum. */
enum { HELLO_SUM_AT = 60 };

void shm_wire_put_hello(const struct shm_wire_hello *hello, uint8_t bytes[static SHM_WIRE_HELLO_BYTES])
{
	memset(bytes, 0, SHM_WIRE_HELLO_BYTES);
	bytes_put(bytes, MAGIC_HELLO, 4);
	bytes_put(bytes + 4, SHM_WIRE_VERSION, 4);
	memcpy(bytes + 8, hello->secret, SHM_WIRE_SECRET_BYTES);
	memcpy(bytes + 24, hello->nonce, SHM_WIRE_NONCE_BYTES);
	bytes_put(bytes + 40, hello->nonce_address, 8);
	bytes_put(bytes + HELLO_SUM_AT, bytes_checksum(bytes, HELLO_SUM_AT), 4);
}

int shm_wire_get_hello(const uint8_t bytes[static SHM_WIRE_HELLO_BYTES], struct shm_wire_hello *ret)
{
	if ((uint32_t)bytes_get(bytes, 4) != MAGIC_HELLO)
		return -EBADMSG;
	if ((uint32_t)bytes_get(bytes + 4, 4) != SHM_WIRE_VERSION)
		return -EPROTO;
	if ((uint32_t)bytes_get(bytes + HELLO_SUM_AT, 4) != bytes_checksum(bytes, HELLO_SUM_AT))
		return -EBADMSG;
	memcpy(ret->secret, bytes + 8, SHM_WIRE_SECRET_BYTES);
	memcpy(ret->nonce, bytes + 24, SHM_WIRE_NONCE_BYTES);
	ret->nonce_address = bytes_get(bytes + 40, 8);
	return 0;
}
