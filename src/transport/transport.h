/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transport is: it moves messages from one process to another over connections that carry data one way, from
 * the side that connects to the side that accepts, in the image of NCCL's net interface. The plugin and the aggregation
 * engine use transports through this table alone, and every transport passes tests/conformance.
 *
 * Threads: a transport object may be used from any thread. One connection (or listener) is used by one thread at a
 * time; different ones by different threads at once. No call blocks.
 *
 * Errors are negative errno values:
 *   -EAGAIN        never returned: "not yet" is success with a NULL result, and the caller comes again
 *   -EREMOTEIO     the peer is gone or broke the protocol; every later call on the connection returns it too
 *   -EPROTO        the peer speaks another protocol or disagrees on a setting
 *   -EINVAL        the caller's argument (no such device, a handle that is none, a size out of range)
 *   -EMSGSIZE      a message was longer than the receive that it matched; the connection is then dead
 *   -ENOMEM, -EMFILE, … as the system said
 */
#ifndef TRIBUTARY_TRANSPORT_TRANSPORT_H
#define TRIBUTARY_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;
struct params;

enum {
	TRANSPORT_HANDLE_BYTES = 128,
	TRANSPORT_MAX_REQUESTS = 32, /* outstanding on one connection; one more is "come again" */
	TRANSPORT_MAX_RECVS = 8,     /* receives in one group */
	TRANSPORT_MAX_MEMBERS = 8,   /* physical devices in a virtual one */
};
#define TRANSPORT_MAX_MESSAGE_BYTES (1ULL << 40) /* 1 TiB, NCCL's own limit */

enum transport_memory { TRANSPORT_MEMORY_HOST = 0x1, TRANSPORT_MEMORY_CUDA = 0x2, TRANSPORT_MEMORY_DMABUF = 0x4 };

/* A device as NCCL wants to know it. Text belongs to the transport and lives as long as it does. */
struct transport_properties {
	const char *name;
	const char *pci_path; /* /sys/devices/... of the PCI function, NULL when there is none */
	uint64_t guid;        /* the same for two devices only if they are one card */
	unsigned memory;      /* enum transport_memory, a set */
	bool registration_is_global;
	bool force_flush;
	uint64_t speed_Bps;  /* one direction */
	uint64_t port_Bps;   /* of the switch's port, as a PCI card for it alone says; 0: not known */
	uint64_t latency_ns; /* 0: unknown */
	int port;            /* port number on the card, from 1 */
	int max_connections;
	int max_recvs; /* in one group, 1 to TRANSPORT_MAX_RECVS */
	size_t max_message_bytes;
	int rail, plane;  /* -1: undefined */
	int member_count; /* 1 for a physical device, which is its own member */
	int members[TRANSPORT_MAX_MEMBERS];
};

/* When a watched connection wants its next progress(). */
enum transport_next {
	TRANSPORT_NEXT_EVENT, /* when its key comes out of the epoll set */
	TRANSPORT_NEXT_SOON,  /* within a millisecond: it waits for what other connections hold (a grant of the pace) */
	TRANSPORT_NEXT_NOW,   /* at once, after the others: its turn ended before all was moved */
};

enum transport_setting {
	/*
	 * From now on this sender sends no message that is longer than so many bytes before the receiver has asked for it: 0 for
	 * none, so that every send but an empty one says, when it is done, that it was received. What may go unasked is never
	 * longer than in the beginning, which follows from params.eager_bytes: UINT64_MAX brings that back.
	 */
	TRANSPORT_SET_EAGER_LIMIT,
	/* The rest are hints, and a transport that has no use for one ignores it. */
	/*
	 * To this receiver: its peer sends to so many hosts at the same time, so that only a part of what the peer's network
	 * card can send may come here; or so many like its peer fill this host's port. More than 16 count as 16. 1 in the
	 * beginning.
	 */
	TRANSPORT_SET_SPREAD,
	/*
	 * To this sender: its peer's network card takes no more than so many bytes in a second. What is sent faster waits
	 * before it, and what the peer's host is told by others, acknowledgements too, waits behind that. 0, as in the
	 * beginning: not known.
	 */
	TRANSPORT_SET_RATE_LIMIT,
	/*
	 * To this receiver, 1: nothing is gained by holding its peer back, which may begin its messages without a grant, as far
	 * as there is room for what no receive matches.
	 */
	TRANSPORT_SET_UNPACED,
	/* To a connection that another transport uses, 1: time-outs do not end it; its user asks silent_ns, and decides. */
	TRANSPORT_SET_OUTLIVES_SILENCE,
};

/* What a device has carried since its transport was opened; these only grow. */
struct transport_totals {
	uint64_t sent_bytes, received_bytes; /* what the network carried: headers of frames, and what went out twice */
	uint64_t sent_messages, received_messages;
	uint64_t retransmitted_segments; /* by the kernel, of TCP */
	uint64_t connections_opened, connections_failed, streams_lost, streams_redialled, long_waits;
	uint64_t grant_wait_ns; /* time in which a message waited for a grant of this device */
};
/* And how it stands. */
struct transport_counters {
	struct transport_totals totals;
	uint64_t connections, streams, movers, sends_waiting, oldest_wait_ns;
	uint64_t grants_waiting, granted_bytes, grant_budget_bytes, speed_Bps;
};

struct transport; /* one per process and kind; reference counted by its users above */
struct transport_listener;
struct transport_connection; /* one end: a sender or a receiver */
struct transport_request;

struct transport_ops {
	const char *name; /* "tcp" */

	/* Finds the devices. *params must stay valid until close. No device found is success with a count of 0. */
	int (*open)(const struct params *params, struct transport **ret);
	/* Every connection and listener must be closed before. */
	void (*close)(struct transport *transport);

	int (*device_count)(struct transport *transport);
	int (*device_properties)(struct transport *transport, int device, struct transport_properties *ret);
	/* Joins `count` physical devices into a new one, whose index is returned. The same set again: the same index. */
	int (*device_join)(struct transport *transport, int count, const int *members, int *ret_device);

	/*
	 * Reads what is counted anyway, and waits for no connection that is in use: of such a one it is what was read last. NULL:
	 * the transport counts nothing.
	 */
	void (*device_counters)(struct transport *transport, int device, struct transport_counters *ret);

	/* The handle travels to the peer out of band; all its bytes are defined. */
	int (*listen)(struct transport *transport, int device, uint8_t handle[static TRANSPORT_HANDLE_BYTES],
		      struct transport_listener **ret);
	/*
	 * One step towards a connection. *ret is NULL until it stands; call again with the same handle bytes at the
	 * same address, in which the transport keeps its place. A connect that is never finished is freed by the
	 * time-out or by close. traffic_class: IP TOS / RoCE traffic class, -1 for none.
	 */
	int (*connect)(struct transport *transport, int device, int traffic_class,
		       uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct transport_connection **ret);
	/* One step; *ret is NULL until a peer that proved the secret is here. */
	int (*accept)(struct transport_listener *listener, struct transport_connection **ret);

	/* memory: one bit of enum transport_memory; anything the device does not do is -EOPNOTSUPP. */
	int (*memory_register)(struct transport_connection *connection, void *data, size_t bytes, unsigned memory,
			       void **ret_registration);
	int (*memory_register_dmabuf)(struct transport_connection *connection, void *data, size_t bytes,
				      unsigned memory, uint64_t offset, int fd, void **ret_registration);
	int (*memory_deregister)(struct transport_connection *connection, void *registration);

	/*
	 * *ret NULL: no room now, come again. The data stays untouched by the caller until test says done. One that is done
	 * and not received may still be one of TRANSPORT_MAX_REQUESTS.
	 */
	int (*send)(struct transport_connection *connection, void *data, size_t bytes, int tag, void *registration,
		    struct transport_request **ret);
	/* See enum transport_setting. */
	void (*set)(struct transport_connection *connection, enum transport_setting setting, uint64_t value);
	/* A group of `count` receives, each completed by the message with its tag, in whatever order they come. */
	int (*receive)(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
		       const int *tags, void *const *registrations, struct transport_request **ret);
	/* Makes received data visible to a GPU; *ret NULL with success: nothing to do. */
	int (*flush)(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
		     void *const *registrations, struct transport_request **ret);
	/*
	 * Also moves data. When *ret_done becomes true the request is gone and sizes (NULL allowed) holds, for a
	 * receive, the received bytes of each in the group, for a send the bytes sent.
	 */
	int (*test)(struct transport_request *request, bool *ret_done, size_t *sizes);

	/*
	 * For callers that sleep: the connection's descriptors, present and future, join the caller's epoll set (edge-
	 * triggered, `key` as data.u64) until close_connection, which takes them out; the set must live until then. Once
	 * for a connection; right after connect or accept, and with requests outstanding, are both fine. -EBUSY: it is
	 * watched already. A connection that has failed meanwhile is watched all the same, and reports at once.
	 *
	 * From now on progress() alone moves its data: send and receive post, test only looks, and both are cheap. Send
	 * and receive complete no other request than the one they return; that one may be done at once. So the owner:
	 *
	 *   posts, and tests what it posted;
	 *   progress() for each connection on which it posted a receive: its message may be announced already, and wait
	 *   for a grant that no event brings;
	 *   epoll_wait(): at most a millisecond if a connection said SOON, not at all if one said NOW;
	 *   progress() for each key that came, for those that said NOW, and, after a wait that was cut short by SOON or
	 *   whenever it likes, for those that said SOON; then tests the requests of each, also after an error.
	 *
	 * Events may come for nothing, and those that were fetched before a close name a connection that is gone.
	 */
	int (*watch)(struct transport_connection *connection, int epoll_fd, uint64_t key);
	/*
	 * Moves what can be moved, of any connection, watched or not; no request is needed. Returns the connection's error
	 * when there is one: requests that were complete before it still say so, and receives posted later still get the
	 * messages that had come.
	 */
	int (*progress)(struct transport_connection *connection, enum transport_next *ret_next);

	/* A clause that says why it has failed, for another transport that uses it; "": it has not. */
	void (*why)(struct transport_connection *connection, char *ret, size_t bytes);
	/* How long nothing has come from its peer, or nothing that was sent has arrived there. */
	uint64_t (*silent_ns)(struct transport_connection *connection);

	/* Never blocks, whatever is outstanding; requests of the connection are gone with it. NULL is fine. */
	void (*close_connection)(struct transport_connection *connection);
	void (*close_listener)(struct transport_listener *listener);
};

extern const struct transport_ops transport_tcp;

/*
 * RDMA: queue pairs of libibverbs, which is opened at run time (docs/design/transport.md). A connection stands when both sides have
 * called connect and accept until it does: no thread does it for them. Memory of GPUs as its properties say.
 */
extern const struct transport_ops transport_verbs;
/* Whether it would find a device. When not, *diag says why, in one clause. Opens and closes it: some milliseconds. */
bool transport_verbs_is_there(const struct params *params, struct diag *diag);

#endif
