/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums. Pure, any thread. */
#ifndef TRIBUTARY_BASE_CRC_H
#define TRIBUTARY_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 as IEEE 802.3, gzip and PNG have it: polynomial 0x04c11db7 reflected, all ones before and inverted after. */
uint32_t crc_ieee32(const void *data, size_t bytes);

#endif
