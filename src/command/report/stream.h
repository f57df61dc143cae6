/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of JSON that need not fit into memory, piece by piece: the values of each outermost object by their keys, and in
 * place of an array "traceEvents", or of an outermost array, its elements. Several objects may follow each other, as in JSON
 * lines. Files may be compressed (gzip, zstd). What is held is one value. One thread.
 */
#ifndef TRIBUTARY_COMMAND_REPORT_STREAM_H
#define TRIBUTARY_COMMAND_REPORT_STREAM_H

#include <stddef.h>

struct diag;
struct report_stream;

enum report_piece_kind {
	REPORT_VALUE,    /* of an outermost object */
	REPORT_EVENT,    /* an element of the array */
	REPORT_END,      /* of an outermost object */
	REPORT_FINISHED, /* of the file */
};
/* The texts are whole JSON values, not yet checked inside; they end with a NUL and live until the next piece is read. */
struct report_piece {
	enum report_piece_kind kind;
	char key[64]; /* cut off where it is longer */
	const char *text;
	size_t bytes;
	int line, column; /* where it begins */
};

/* "-" is standard input. -errno, or -EINVAL with the reason in *diag. */
int report_stream_open(const char *path, struct report_stream **ret, struct diag *diag);
void report_stream_close(struct report_stream *stream);
/* 0, or as above; -EPIPE: the file ends within a value. */
int report_stream_next(struct report_stream *stream, struct report_piece *ret, struct diag *diag);

#endif
