/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process did with NCCL: how often each collective ran, how NCCL ran it, and the times of samples. The profiler half
 * (plugin/profiler.h) counts in a struct operations that lies in shared memory while the process lives (o-ID beside t-ID,
 * plugin/steer/registry.h), so that whoever reads it needs nobody's help. When the process ends, or another finds it
 * killed, it becomes lines of job text among the recent jobs (job_text.h, store_jobs.h):
 *
 *     operations times TIMES lost N captured N
 *     operation COLLECTIVE to BYTES algorithm A protocol P channels N of COMM communicators N ranks N nodes N rank N
 *         count N bytes N sampled N sampled_bytes N ns N least N most N                (one line)
 *
 * One "operation" line for each communicator, collective, size class, algorithm, protocol and number of channels. COLLECTIVE:
 * as in tuning tables, or send, recv, other; "to BYTES": the power of two that ends its size class; A and
 * P: as in tuning tables, "-" for those of send and recv. Bytes as NCCL's tuner counts them: the larger of one rank's buffers.
 * COMM: NCCL's id of the last of so many communicators of that shape, one after another. Every process writes its
 * own, so the ranks of a host can be compared.
 *
 * A time is from the first channel's start to the last one's end on this rank's GPU, with the wait for later ranks: of ranks
 * that do the same, the one with the least time is the one that the others waited for. ns is the sum over the samples.
 * Where NCCL does not say how many channels there are (collnet), the time is up to when all that had begun had ended.
 *
 * What NCCL does not tell: operations of CUDA graphs beside their capture, or where a graph has host functions each replay
 * (counted as captured and not in the lines); symmetric kernels; in 2.30 how broadcasts run; communicators of one rank.
 *
 * Only the profiler half writes, any thread of it, atomically; readers may see sums of which the last operation is half in.
 */
#ifndef TRIBUTARY_PROFILE_OPERATIONS_H
#define TRIBUTARY_PROFILE_OPERATIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	OPERATIONS_COMMS = 64, /* shapes of communicators */
	OPERATIONS_ROWS = 2048,
	OPERATIONS_LINES = 48, /* of text, at most: the rows with the most bytes */
	OPERATIONS_LINE_BYTES = 512,
	OPERATIONS_TEXT_BYTES = (OPERATIONS_LINES + 1) * OPERATIONS_LINE_BYTES,
	OPERATIONS_WORD_BYTES = 16,
};

/* Beside the collectives of tributary/predict.h: NCCL's numbers, and one for what is none of them. */
enum { OPERATIONS_SEND = 6, OPERATIONS_RECV = 7, OPERATIONS_OTHER = 8, OPERATIONS_KINDS = 9 };

/* Whether there are times. In files: only added to. */
enum operations_times {
	OPERATIONS_TIMES_OFF,    /* nobody has asked for them */
	OPERATIONS_TIMES_ON,     /* samples are taken */
	OPERATIONS_TIMES_OLD,    /* this NCCL does not say which operations are captured, so none may be timed */
	OPERATIONS_TIMES_GRAPHS, /* were taken until a CUDA graph was captured; NCCL's counters do not fit behind that */
	OPERATIONS_TIMES_COUNT
};

struct operations_row {
	_Atomic uint64_t key; /* 0: free; operations_key() */
	_Atomic uint64_t count, bytes;
	_Atomic uint64_t sampled, sampled_bytes, sampled_ns, least_ns, most_ns; /* least_ns 0: none yet */
};
struct operations_comm {
	_Atomic uint64_t last_id, communicators; /* communicators 0: free */
	_Atomic uint32_t rank_count, node_count; /* 0: NCCL did not say, as in versions 1 to 3 of its interface */
	_Atomic int32_t rank;                    /* -1 */
	uint32_t unused;
};
struct operations {
	_Atomic uint64_t magic; /* OPERATIONS_MAGIC; written last */
	_Atomic uint64_t times; /* enum operations_times */
	_Atomic uint64_t lost;  /* operations for which there was no room */
	_Atomic uint64_t captured;
	_Atomic uint64_t row_count;
	uint64_t unused[3];
	struct operations_comm comms[OPERATIONS_COMMS];
	struct operations_row rows[OPERATIONS_ROWS];
};
#define OPERATIONS_MAGIC UINT64_C(0x5452494f50530001) /* another one whenever the layout changes */

/* A row as it is written and read. */
struct operations_line {
	int collective;                  /* enum predict_collective, OPERATIONS_SEND ... */
	int algorithm, protocol;         /* enum predict_algorithm, predict_protocol; -1 */
	unsigned size_class;             /* tuning_size_class() of the bytes */
	unsigned channels;               /* 0: NCCL did not say */
	unsigned rank_count, node_count; /* 0: not known */
	int rank;                        /* -1 */
	uint64_t comm_id, communicators;
	uint64_t count, bytes, sampled, sampled_bytes, sampled_ns, least_ns, most_ns;
};
struct operations_head {
	enum operations_times times;
	uint64_t lost, captured;
};

/* comm: its index. Of `line` what is before rank_count. */
uint64_t operations_key(size_t comm, const struct operations_line *line);

/* False: it is not a whole one of this layout. */
bool operations_is_whole(const struct operations *operations, size_t bytes);
/* NULL: no. */
bool operations_any(const struct operations *operations);
void operations_head(const struct operations *operations, struct operations_head *ret);
/* All rows, in no order. */
void operations_each(const struct operations *operations, void (*each)(void *arg, const struct operations_line *line),
		     void *arg);

/* NUL-terminated; the bytes without that. Nothing ("") if nothing was counted. The rest is in "lost". */
size_t operations_print(const struct operations *operations, char text[static OPERATIONS_TEXT_BYTES]);
/* From a line and what is behind it; false: it is no such line. */
bool operations_read_line(const char *line, struct operations_line *ret);
bool operations_read_head(const char *line, struct operations_head *ret);

/* "allreduce", "send", "other"; NULL: there is no such number. */
const char *operations_collective_word(int collective);
const char *operations_times_word(enum operations_times times);

#endif
