/*
 * Transport between processes of one host (docs/shm.md); the structures shared by the files of this folder.
 *
 * A connection is a memory segment that both map: two rings of fixed entries, a window for eager messages, and pieces for
 * long ones where the receiver may not read the sender's memory by itself. Its descriptors came with the first packet of a
 * Unix socket, so nothing has a name that could be left behind, and the end of a process shows by its process
 * descriptor. There is no thread: callers move the data, and nothing here needs a lock but what the kernel has.
 *
 * What the peer can write is read once, into memory of our own, and bounded there.
 */
#ifndef TRIBUTARY_TRANSPORT_SHM_SHM_H
#define TRIBUTARY_TRANSPORT_SHM_SHM_H

#include "base/params.h"
#include "transport/open_requests.h"
#include "transport/shm/wire.h"
#include "transport/transport.h"

#include <stdatomic.h>
#include <sys/types.h>

enum {
	SHM_EAGER_MESSAGES = 256, /* in the window at once */
	SHM_MESSAGES = SHM_EAGER_MESSAGES + TRANSPORT_MAX_REQUESTS, /* that the receiver knows: announced ones are open sends */
	/* Neither ring ever fills: at most SHM_MESSAGES messages and SHM_PIECES pieces are on their way in one, one entry
	 * for each request and piece in the other. */
	SHM_FORWARD = 512,
	SHM_BACKWARD = 128,
	SHM_EAGER_WINDOW = 64 << 10,
	SHM_EAGER_UNIT = 64,
	SHM_PIECES = 8,
	SHM_PIECE_BYTES = 64 << 10,
	SHM_PULL_BYTES = 512 << 10, /* by one system call */
	SHM_TURN_BYTES = 1 << 20,   /* pulled by one call of ours, which is not to last */
	SHM_PENDING_MAX = 64,       /* accepted sockets that have not said who they are */
};

/*
 * Messages and entries of a ring are counted from here on, in 64 bits: a count that is kept in 32 anywhere fails in every
 * test, and not after hours.
 */
#define SHM_FIRST_COUNT (UINT32_MAX - UINT64_C(50))

enum shm_entry_type {
	SHM_ENTRY_NONE, /* never sent */
	/* forward */
	SHM_ENTRY_EAGER,    /* sequence, tag, size, value: place in the window */
	SHM_ENTRY_ANNOUNCE, /* sequence, tag, size, value: where it is in the sender's memory */
	SHM_ENTRY_PUSHED,   /* piece: it is filled as asked */
	/* backward */
	SHM_ENTRY_DONE,      /* sequence: every byte is in place */
	SHM_ENTRY_PUSH,      /* sequence, size bytes from offset `value` of the message, into piece */
	SHM_ENTRY_TRUNCATED, /* a message was longer than its receive */
	SHM_ENTRY_TYPE_COUNT
};

/* Of one kernel's processes: the same layout at both ends. */
struct shm_entry {
	uint32_t type; /* enum shm_entry_type */
	int32_t tag;
	uint64_t sequence;
	uint64_t size, value;
	uint32_t piece;
	uint32_t unused[7];
};

struct shm_ring {
	_Alignas(64) _Atomic uint64_t tail;   /* entries ever put in; the consumer keeps its own count */
	_Alignas(64) _Atomic uint32_t sleeps; /* the consumer wants its bell rung */
};

struct shm_segment {
	_Alignas(64) _Atomic uint32_t sender_closed;
	_Alignas(64) _Atomic uint32_t receiver_closed;
	_Alignas(64) _Atomic uint64_t eager_free; /* written by the receiver: the window is free up to here */
	struct shm_ring forward, backward;
	_Alignas(4096) struct shm_entry forward_entries[SHM_FORWARD];
	_Alignas(4096) struct shm_entry backward_entries[SHM_BACKWARD];
	_Alignas(4096) uint8_t eager[SHM_EAGER_WINDOW];
	_Alignas(4096) uint8_t pieces[SHM_PIECES][SHM_PIECE_BYTES]; /* memory only once they are used */
};

enum shm_role { SHM_SENDER, SHM_RECEIVER };
enum shm_request_kind { SHM_REQUEST_SEND, SHM_REQUEST_RECEIVE };

struct shm_slot {
	uint8_t *data;
	size_t bytes, received;
	int tag;
	bool matched;
};

struct shm_request {
	struct transport_open open; /* first, for the casts below */
	struct shm_connection *connection;
	enum shm_request_kind kind;
	bool used, done;
	/* A send. */
	uint64_t sequence;
	const uint8_t *data;
	size_t size;
	int tag;
	/* A group of receives. */
	unsigned count, open_count;
	struct shm_slot slots[TRANSPORT_MAX_RECVS];
};

/* At the receiver. */
struct shm_message {
	struct shm_message *prev, *next; /* of those that wait for a receive, or of those that come; oldest first */
	uint64_t sequence;
	bool eager, pushed; /* pushed: the sender's memory cannot be read */
	int tag;
	uint64_t size;
	uint64_t value;           /* eager: place in the window; else address in the sender */
	unsigned place;           /* eager: index of its place */
	uint64_t asked, received; /* asked: of the sender, in pieces */
	struct shm_request *request;
	unsigned slot;
};
struct shm_messages {
	struct shm_message *first, *last;
};

struct shm_sender {
	uint64_t next_sequence;
	uint64_t window_begin, window_end;
	uint64_t ends[SHM_EAGER_MESSAGES]; /* of the eager messages that lie in the window */
	uint64_t end_head, end_tail;
	uint8_t nonce[SHM_WIRE_NONCE_BYTES]; /* the receiver reads it along with each message */
};

struct shm_place {
	uint64_t end;
	bool is_free;
};

struct shm_piece {
	struct shm_message *message; /* NULL: free */
	uint64_t offset;
	size_t bytes;
};

struct shm_receiver {
	struct shm_message messages[SHM_MESSAGES];
	struct shm_message *unused; /* of the first used_count */
	unsigned used_count;
	struct shm_messages waiting; /* no receive matches yet */
	struct shm_messages coming;  /* announced and matched */
	uint64_t next_sequence;
	struct shm_place places[SHM_EAGER_MESSAGES]; /* of the window, in order: it is freed so */
	uint64_t place_head, place_tail;
	uint64_t window_free;
	struct shm_piece pieces[SHM_PIECES];
	uint8_t nonce[SHM_WIRE_NONCE_BYTES];
	uint64_t nonce_address;
	_Atomic uint32_t reads; /* of the sender's memory: see pull() */
	bool pulls;             /* the sender's memory can be read */
	bool smallest_turn;
};

struct shm_peer {
	pid_t pid;
	int pid_fd;    /* readable when it has ended */
	int socket_fd; /* hung up when no process holds the other end */
	uint64_t looked_ns, stop_looked_ns, stopped_since_ns, switches;
};

struct shm_connection {
	struct shm_transport *transport;
	enum shm_role role;
	int error;
	unsigned polls;
	size_t eager_bytes; /* a sender: the longest message that goes into the window */
	struct shm_segment *segment;
	struct shm_peer peer;
	int bell_fd, peer_bell_fd;
	uint64_t put, taken; /* entries of the ring that we fill, and of the other one */
	bool watched;        /* by an owner with an epoll set, watch_fd */
	int watch_fd;
	struct shm_request requests[TRANSPORT_MAX_REQUESTS];
	struct transport_open_list open;
	unsigned request_count;
	union {
		struct shm_sender s;
		struct shm_receiver r;
	};
};

static inline struct shm_request *shm_request_first(const struct shm_connection *connection)
{
	return (struct shm_request *)connection->open.first;
}
static inline struct shm_request *shm_request_next(const struct shm_request *request)
{
	return (struct shm_request *)request->open.next;
}

struct shm_pending {
	int fd;
	uint64_t since_ns;
};

struct shm_listener {
	struct shm_transport *transport;
	int fd;
	uint8_t secret[SHM_WIRE_SECRET_BYTES];
	struct shm_pending pending[SHM_PENDING_MAX];
	unsigned pending_count;
	uint64_t rejected_said_ns, rejected_unsaid; /* connections that proved nothing */
};

struct shm_transport {
	uint64_t host_id, timeout_ns;
	size_t eager_bytes;
};

/* segment.c */
/* A new one, sealed against being cut short; the caller maps it and closes the descriptor. */
int shm_segment_create(int *ret_fd);
/* -EPROTO: what came is no segment of ours, or could be cut short under us. */
int shm_segment_map(int fd, struct shm_segment **ret);
void shm_segment_unmap(struct shm_segment *segment);
/* Puts an entry into our ring and rings the peer's bell if it sleeps. Never full with honest peers: see SHM_FORWARD. */
void shm_put(struct shm_connection *connection, const struct shm_entry *entry);
/* 1: one was taken; 0: there is none; -EPROTO: the ring is broken. */
int shm_take(struct shm_connection *connection, struct shm_entry *ret);
void shm_ring_bell(int fd);
/* The peer has something to look at besides its ring; for flags in the segment. */
void shm_wake(struct shm_connection *connection);
/* True: nothing has come, and the peer rings when something does. */
bool shm_may_sleep(struct shm_connection *connection);
bool shm_peer_closed(const struct shm_connection *connection);

/* peer.c */
int shm_random(void *bytes, size_t count);
bool shm_equal(const uint8_t *a, const uint8_t *b, size_t count); /* in constant time */
/* Boot and network namespace. */
uint64_t shm_host_id(void);
/*
 * Who holds the other end. -EPERM: another user. -EOPNOTSUPP: it is in another process id namespace, or the kernel has no
 * process descriptors (before Linux 5.3): then nothing would tell of its end while a forked child holds its socket.
 */
int shm_peer_open(int socket_fd, struct shm_peer *ret);
void shm_peer_close(struct shm_peer *peer);
bool shm_peer_is_gone(const struct shm_peer *peer);
/* It was stopped (SIGSTOP, a debugger) for the whole of the time-out. Looks at most ten times in that time, and
 * sees whether it ran in between. */
bool shm_peer_is_stopped(struct shm_peer *peer, uint64_t timeout_ns, uint64_t now_ns);
/*
 * Reads from the sender's memory; the nonce comes along in the same call, so what was read is of the process that said
 * hello, whatever has become of its number. -EFAULT: not all of it can be read; -EREMOTEIO: it is another process; else as
 * the system said.
 */
int shm_peer_read(const struct shm_connection *connection, uint64_t address, void *data, size_t bytes);
/* Tests: sender's memory counts as unreadable for connections accepted from now on. */
void shm_set_pull(bool allowed);
bool shm_pull_is_allowed(void);

/* What an eager message takes of the window. An empty one, too: so the window tells which messages were received. */
static inline uint64_t shm_place_bytes(uint64_t bytes)
{
	return bytes ? (bytes + SHM_EAGER_UNIT - 1) / SHM_EAGER_UNIT * SHM_EAGER_UNIT : SHM_EAGER_UNIT;
}

/* sender.c */
int shm_sender_send(struct shm_connection *connection, const void *data, size_t bytes, int tag,
		    struct shm_request **ret);
int shm_sender_entry(struct shm_connection *connection, const struct shm_entry *entry);

/* receiver.c */
int shm_receiver_receive(struct shm_connection *connection, int count, void *const *data, const size_t *bytes,
			 const int *tags, struct shm_request **ret);
int shm_receiver_entry(struct shm_connection *connection, const struct shm_entry *entry);
/* Moves announced messages by at most a turn. 0, or an error that ends the connection. *ret_more: there is more. */
int shm_receiver_move(struct shm_connection *connection, bool *ret_more);
bool shm_receiver_has_kept(const struct shm_connection *connection);

/* connection.c */
/* Descriptors and segment are still to be set: all are -1 and NULL. */
int shm_connection_new(struct shm_transport *transport, enum shm_role role, struct shm_connection **ret);
void shm_connection_close(struct shm_connection *connection); /* half-built ones too; NULL is fine */
/* Ends it, once, says so here and to the peer. Returns the error. */
int shm_connection_fail(struct shm_connection *connection, int error, const char *why);
struct shm_request *shm_request_get(struct shm_connection *connection, enum shm_request_kind kind);
/* No longer open, and done. */
void shm_request_finish(struct shm_connection *connection, struct shm_request *request);
void shm_request_append(struct shm_connection *connection, struct shm_request *request);
int shm_connection_progress(struct shm_connection *connection, enum transport_next *ret_next);
int shm_connection_test(struct shm_request *request, bool *ret_done, size_t *sizes);
int shm_connection_watch(struct shm_connection *connection, int epoll_fd, uint64_t key);

#endif
