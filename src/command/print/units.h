/* SPDX-License-Identifier: Apache-2.0 */
/* Rates, sizes and times in words, each in one form. All write to text, and return it. */
#ifndef TRIBUTARY_COMMAND_PRINT_UNITS_H
#define TRIBUTARY_COMMAND_PRINT_UNITS_H

#include <stdint.h>

enum { UNITS_BYTES = 24 };

/* "12.3", "9.00", "0.967": GB/s, three digits, without the unit, for columns and sums that name it once. "?" for 0. */
const char *units_GBps(uint64_t rate_Bps, char text[static UNITS_BYTES]);
/* "12.3 GB/s": the same with it. "-" for one that is not finite: nothing that took no time has a rate. */
const char *units_rate(double rate_Bps, char text[static UNITS_BYTES]);
/* "100 Gbit/s", "16 Mbit/s": of a link or a NIC. */
const char *units_bits(double rate_Bps, char text[static UNITS_BYTES]);
/* "128 KiB" */
const char *units_size(double bytes, char text[static UNITS_BYTES]);
/* "1.2 s", "168.6 ms", "20 us" */
const char *units_time(double time_s, char text[static UNITS_BYTES]);

#endif
