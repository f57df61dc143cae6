/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to values, checked: the whole text must be the value, and the value must lie in the range asked for. Pure, any
 * thread, no locale. All return 0, -EINVAL (not such a value) or -ERANGE (outside min..max, or past 64 bits); outputs
 * are written on success only.
 */
#ifndef TRIBUTARY_BASE_PARSE_H
#define TRIBUTARY_BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only: no sign, no space. */
int parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret);
/* The same with an optional '-'. */
int parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret);
/* 1 to 16 hexadecimal digits, with or without "0x". */
int parse_hex64(const char *text, uint64_t *ret);
/* Exactly 16 lower-case hexadecimal digits, as names of files that are hashes have them; above 1. */
int parse_digest(const char *text, uint64_t *ret);
/*
 * A number of bytes, with up to nine decimals, rounded down. "64M" is 64 * 2^20 as in nccl-tests, and so are "64Mi" and
 * "64MiB"; "64MB" is 64 * 10^6. K, M, G or T, either case; a space may come before the unit.
 */
int parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *ret);
/*
 * Bytes per second, one direction, with up to nine decimals, rounded down. "100Gbit/s", "100Gbps" and "100Gb/s" are bits,
 * "12.5GB/s" and "12.5GBps" bytes; k, M, G, T are powers of 1000, either case; a space may come before the unit. Without a unit
 * it is bytes, and one below 1 Mbit/s is refused: "100" was meant to be 100 Gbit/s.
 */
int parse_rate(const char *text, uint64_t min_Bps, uint64_t max_Bps, uint64_t *ret_Bps);
enum { PARSE_BARE_RATE_LEAST_BPS = 125000 };
/* What a caller says it expected where it took no rate. */
#define PARSE_RATE_EXPECTED "a rate with its unit, as 100Gbit/s or 12.5GB/s"
/* Seconds, with up to nine decimals: "10", "0.5". min and max are nanoseconds. */
int parse_seconds(const char *text, uint64_t min_ns, uint64_t max_ns, uint64_t *ret_ns);
/* "low-high", low not above high. */
int parse_range(const char *text, uint64_t min, uint64_t max, uint64_t *ret_low, uint64_t *ret_high);
/* 0/1, no/yes, false/true, off/on, in any case. */
int parse_bool(const char *text, bool *ret);
/*
 * The plain name of a collective, over the text: "all_reduce", "AllReduce", "all_reduce_perf" become "allreduce",
 * "all_gather_into_tensor" "allgather". Any other text loses its '_', '-' and capitals.
 */
void parse_collective(char *text);
/* Index of text in names (any case), which ends with NULL. */
int parse_choice(const char *text, const char *const *names, size_t *ret_index);

/*
 * The next item of a list, its bounds inside the list's own text; empty items are passed over. *rest starts at the
 * list and is moved on. False: no more.
 */
bool parse_list_next(const char **rest, char separator, const char **ret_item, size_t *ret_bytes);

/*
 * Whether this device is wanted, by a list as NCCL_IB_HCA and NCCL_SOCKET_IFNAME have it: "mlx5" (names that begin so),
 * "mlx5_0:2" (that port; `port` 0: whichever), "=mlx5_0" (whole names), "^mlx5_1" (all but), several with commas. An empty
 * list wants all, "^" none. nccl: misc/utils.cc, parseStringList, matchIfList
 */
bool parse_list_wants(const char *list, const char *device, unsigned port);
/* Also its rail and plane, "mlx5_0:1:RAIL:PLANE"; -1: not given. */
bool parse_list_finds(const char *list, const char *device, unsigned port, int *ret_rail, int *ret_plane);

/* Without the spaces, tabs and newlines at its end, as files of sysfs have them. Writes NULs over them. */
void parse_trim(char *text);

/* Edit distance of two names (insert, delete, replace, swap of neighbours: 1 each), or limit + 1 if it is above limit. */
unsigned parse_distance(const char *a, const char *b, unsigned limit);
enum { PARSE_NO_SLIP = 99 };
/* The same where typed may be meant for name: its beginning, or as far from it as a third of what was typed. Else PARSE_NO_SLIP. */
unsigned parse_slip(const char *typed, const char *name);

#endif
