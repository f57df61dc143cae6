/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of payload in src/transport go through here, so that tests can assert that an announced message is copied
 * nowhere on its way. Copies of up to 64 bytes are not counted: headers, and the payload that came in the same read.
 */
#ifndef TRIBUTARY_BASE_COPY_H
#define TRIBUTARY_BASE_COPY_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define COPY_UNCOUNTED_BYTES 64

struct copy_counts {
	_Atomic uint64_t calls, bytes;
};
extern struct copy_counts copy_counts; /* of the process; tests read it, nothing depends on it */

static inline void copy_bytes(void *to, const void *from, size_t bytes)
{
	if (bytes > COPY_UNCOUNTED_BYTES) {
		atomic_fetch_add_explicit(&copy_counts.calls, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&copy_counts.bytes, bytes, memory_order_relaxed);
	}
	memcpy(to, from, bytes);
}

#endif
