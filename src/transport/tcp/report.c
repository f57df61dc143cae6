/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom: one line in the log, and the whole state of the connection in a file if the user wants it. */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void dump_stream(FILE *file, const struct tcp_stream *stream, uint64_t now_ns)
{
	char text[TCP_ADDRESS_TEXT];

	fprintf(file,
		"  stream %u %s epoch %" PRIu32 " peer %s sent %" PRIu64 " of %" PRIu64 " acknowledged %" PRIu64
		" consumed %" PRIu64 " last heard %.3f s ago%s\n",
		stream->index,
		stream->live          ? "live"
		: stream->awaits_dead ? "awaits dead"
				      : "dead",
		stream->epoch, tcp_socket_text(&stream->peer, text), stream->tx_written, stream->tx_queued,
		stream->tx_acknowledged, stream->rx_position,
		(double)(clock_elapsed_ns(stream->last_rx_ns, now_ns)) / NS_PER_S,
		stream->tx_full ? ", socket full" : "");
}

static void dump_request(FILE *file, const struct tcp_request *request, uint64_t now_ns)
{
	double age_s = (double)(clock_elapsed_ns(request->posted_ns, now_ns)) / NS_PER_S;

	if (request->kind == TCP_REQUEST_SEND) {
		fprintf(file,
			"  send %" PRIu64 " tag %d: %" PRIu64 " of %" PRIu64 " bytes out, %" PRIu64
			" granted, %.3f s old%s\n",
			request->sequence, request->tag, request->next_offset, request->size, request->granted, age_s,
			request == request->connection->s.buffered ? ", buffered" : "");
		return;
	}
	for (unsigned i = 0; i < request->count; i++)
		fprintf(file, "  receive tag %d: room for %zu bytes, %s, %.3f s old\n", request->slots[i].tag,
			request->slots[i].bytes,
			request->slots[i].done      ? "done"
			: request->slots[i].matched ? "on its way"
						    : "no message yet",
			age_s);
}

/* A file on its way: formatted under the connection's lock, written where a folder that hangs blocks nobody. */
struct dump {
	char path[PARAMS_STRING_BYTES + 64];
	char *text;
	size_t bytes;
};

static void dump_free(struct dump *dump)
{
	free(dump->text);
	sys_free(dump);
}

static void dump_write(void *arg)
{
	struct dump *dump = arg;
	int fd, r;

	r = fd = sys_openat(AT_FDCWD, dump->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd >= 0)
		r = sys_pwrite_whole(fd, dump->text, dump->bytes, 0);
	sys_close(&fd);
	if (r < 0)
		log_warn("cannot write the state of a connection to %s (TRIBUTARY_DUMP_DIR): %s", dump->path,
			 strerror(-r));
	dump_free(dump);
}

static void dump_connection(FILE *file, const struct tcp_connection *connection, uint64_t now_ns)
{
	const struct tcp_receiver *r = &connection->r;

	fprintf(file, "connection %016" PRIx64 " %s host %s, error %d, %u of %u streams live\n", connection->id,
		connection->role == TCP_SENDER ? "to" : "from", connection->peer_host, connection->error,
		connection->live_count, connection->stream_count);
	for (unsigned i = 0; i < connection->stream_count; i++)
		dump_stream(file, &connection->streams[i], now_ns);
	for (const struct tcp_request *request = TAILQ_FIRST(&connection->open); request;
	     request = TAILQ_NEXT(request, link))
		dump_request(file, request, now_ns);
	if (connection->role == TCP_RECEIVER) {
		struct pace_state pace;

		pace_state(r->pace, &pace);
		fprintf(file,
			"  next message %" PRIu64 ", %" PRIu64
			" bytes expected, %u of %u units of the eager window held\n",
			r->next_sequence, r->expected_bytes, r->window.taken_units, TCP_WIRE_EAGER_UNITS);
		fprintf(file, "  pace: budget %" PRIu64 ", outstanding %" PRIu64 " bytes, %zu waiting\n",
			pace.budget_bytes, pace.outstanding_bytes, pace.waiting_count);
	}
}

static void dump(const struct tcp_connection *connection, uint64_t now_ns)
{
	struct dump *dump = sys_zalloc(sizeof(*dump));
	FILE *file = dump ? open_memstream(&dump->text, &dump->bytes) : NULL;
	int r = -ENOMEM;

	if (file) {
		snprintf(dump->path, sizeof(dump->path), "%s/tributary-%ld-%016" PRIx64 ".txt",
			 connection->transport->params->dump_dir, (long)getpid(), connection->id);
		dump_connection(file, connection, now_ns);
		r = fclose(file) ? -ENOMEM : log_run(dump_write, dump);
	}
	if (r == 0)
		return;
	log_warn("cannot write the state of a connection to %s (TRIBUTARY_DUMP_DIR): %s",
		 connection->transport->params->dump_dir, strerror(-r));
	if (dump)
		dump_free(dump);
}

void tcp_report_waiting(struct tcp_connection *connection, uint64_t now_ns)
{
	const struct tcp_request *request = tcp_request_awaited(connection);
	double age_s = (double)(clock_elapsed_ns(request->posted_ns, now_ns)) / NS_PER_S;
	double heard_s = (double)(clock_elapsed_ns(connection->last_rx_ns, now_ns)) / NS_PER_S;
	const char *host = connection->transport->host;

	connection->reported = true;
	connection->counted.long_waits++;
	if (request->kind == TCP_REQUEST_SEND)
		log_warn("host %s has waited %.0f s to send %llu bytes to host %s, which %s (last heard %.1f s ago)",
			 host, age_s, (unsigned long long)request->size, connection->peer_host,
			 request->granted ? "has taken a part of them" : "has not posted or granted the receive",
			 heard_s);
	else
		log_warn("host %s has waited %.0f s to receive from host %s, which %s (last heard %.1f s ago)", host,
			 age_s, connection->peer_host,
			 request->slots[0].matched ? "has sent a part of it" : "has sent nothing for it", heard_s);
	if (connection->transport->params->dump_dir[0])
		dump(connection, now_ns);
}
