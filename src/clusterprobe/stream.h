/*
 * One TCP connection between two hosts of a cluster that is measured, at either end: it waits with a limit, and looks at a flag
 * that ends it.
 */
#ifndef TRIBUTARY_CLUSTERPROBE_STREAM_H
#define TRIBUTARY_CLUSTERPROBE_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROBE_TCP_CHUNK_BYTES = 256 << 10 };

struct clusterprobe_stream {
	int fd; /* -1: none */
	atomic_bool *stop;
	const _Atomic bool *interrupt; /* of the user; NULL: none */
	_Atomic uint64_t received_bytes;
};

/*
 * Moves bytes in one direction until `stop`, with the flow's own buffer of PROBE_TCP_CHUNK_BYTES. 0: stopped; -ECONNRESET:
 * the other end closed; -ETIMEDOUT: it was silent; otherwise as the system says.
 */
int clusterprobe_stream_take(struct clusterprobe_stream *stream, uint8_t *buffer);
int clusterprobe_stream_give(struct clusterprobe_stream *stream, const uint8_t *buffer);
int clusterprobe_stream_echo(struct clusterprobe_stream *stream, uint8_t *buffer);

/* Exactly so many bytes. Results as above, but -ECANCELED: stopped. */
int clusterprobe_stream_send(struct clusterprobe_stream *stream, const uint8_t *bytes, size_t count);
int clusterprobe_stream_receive(struct clusterprobe_stream *stream, uint8_t *bytes, size_t count);

/* Waits until the descriptor is ready for `events` of poll: 0, -ECANCELED (stopped) or -ETIMEDOUT. */
int clusterprobe_stream_wait(const struct clusterprobe_stream *stream, short events);

#endif
