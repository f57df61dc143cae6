/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tuning table: what was measured to be the best of NCCL's choices for one shape of communicator. Text in, values out
 * and back; docs/format/profile.md describes it. A table is known by the hash of its text, which is its file's name
 * (store_tuning.h): ranks that know the same hash make the same choices. Pure; one thread for each struct.
 */
#ifndef TRIBUTARY_PROFILE_TUNING_H
#define TRIBUTARY_PROFILE_TUNING_H

#include "base/log.h"
#include "tributary/predict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TUNING_SIZES = 41, /* size class k: above 2^(k-1) and up to 2^k bytes; class 0: up to 1 */
	TUNING_NAME_BYTES = 96,
	TUNING_TIME_BYTES = 21,
	TUNING_HASH_BYTES = 17, /* of its 16 digits, with a NUL */
	TUNING_CHANNELS_MAX = 64,
	TUNING_MOST_BYTES = 1 << 16,
};
/* Less than NCCL's grain would be none at all. */
#define TUNING_CHUNK_MIN ((size_t)4096)
#define TUNING_CHUNK_MAX ((size_t)1 << 30)

/* For one collective and size class. What NCCL does not allow is left to NCCL. */
struct tuning_choice {
	size_t bytes_max;             /* 2^k; 0: nothing is said of this size, which is left to NCCL */
	int algorithm, protocol;      /* enum predict_algorithm, predict_protocol; both -1: NCCL's */
	size_t channels;              /* 0: NCCL's, as always with collnet and NVLS */
	size_t chunk_bytes;           /* of the buffer's step, from NCCL 2.30.3 on; 0: NCCL's */
	uint64_t time_ns, untuned_ns; /* as measured, with this choice and with NCCL's own; they inform */
};

struct tuning_table {
	unsigned nccl_version; /* 22809 */
	size_t rank_count, host_count;
	char gpus[TUNING_NAME_BYTES], network[TUNING_NAME_BYTES], measured[TUNING_TIME_BYTES]; /* not empty */
	struct tuning_choice choices[PREDICT_COLLECTIVE_COUNT][TUNING_SIZES];
};

/* Of an operation of so many bytes; may be TUNING_SIZES or above, of which no table says anything. */
size_t tuning_size_class(uint64_t bytes);
/* NULL: the table leaves it to NCCL. collective: NCCL's number, checked. */
const struct tuning_choice *tuning_find(const struct tuning_table *table, int collective, uint64_t bytes);

/* -EINVAL: line and reason in *diag. */
int tuning_parse(const char *text, size_t bytes, struct tuning_table *ret, struct diag *diag);
/* *ret is NUL-terminated and freed by sys_free. -EINVAL: it has no text form; -ENOMEM. */
int tuning_print(const struct tuning_table *table, char **ret, size_t *ret_bytes);

uint64_t tuning_hash(const char *text, size_t bytes);
/* As parse_digest() of base/parse.h reads it. */
void tuning_hash_format(uint64_t hash, char text[static TUNING_HASH_BYTES]);

/* "ring", "ll128", "allreduce": as tables spell them, and ends of options, too; "-" for -1. NULL: there is no such number. */
const char *tuning_algorithm_word(int algorithm);
const char *tuning_protocol_word(int protocol);
const char *tuning_collective_word(int collective);

#endif
