/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the aggregation engine share, and nobody else: an engine, its groups, and what is under way in them.
 * docs/design/aggregation.md says how it fits together.
 *
 * Threads. A group is made by its caller's thread (connect.c) and then belongs to whoever has engine.drive, the engine's
 * thread or a caller that waits (engine_help), who holds group.lock while it polls the group. Callers
 * post operations into a ring and look at atomics, and wait for no lock; only closing takes group.lock, and so waits for
 * the end of a poll at most. Locks in this order: engine.drive, engine.lock, group.lock.
 */
#ifndef TRIBUTARY_AGGREGATE_GROUP_H
#define TRIBUTARY_AGGREGATE_GROUP_H

#include "aggregate/aggregate.h"
#include "aggregate/schedule.h"
#include "aggregate/tags.h"
#include "aggregate/member_wire.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

enum {
	GROUP_SEGMENTS = 64,       /* between the oldest unfinished and the newest */
	GROUP_FLAT_OPERATIONS = 8, /* under way at a time */
	GROUP_EAGER_BYTES =
		30592, /* in one connection's window: half of it theirs (docs/design/aggregation.md, Small operations) */
	GROUP_BUFFER_BYTES = 64 << 20, /* of slots, at most, if one segment's need is not more than that */
	GROUP_SEGMENTS_OF_SLOTS = 8,   /* that one node may aggregate at a time, if that fits in it */
	/* Requests of a connection for large operations: so many, and so many more for the oldest segment and for
	 * recomputations. */
	QUEUE_SEGMENTED_REQUESTS = 26,
	QUEUE_OLDEST_REQUESTS = 2,
	QUEUE_RECOMPUTE_REQUESTS = 4,
	/* And of one for small ones, where checksums have some of their own. */
	QUEUE_SMALL_REQUESTS = 24,
	QUEUE_URGENT_REQUESTS = 8,
	/*
	 * What recomputations may overtake: a connection numbers its messages and has an end to them, 256,
	 * and of these 128 may be segments'. docs/design/aggregation.md, What overtakes.
	 */
	QUEUE_AHEAD = 96,
	/*
	 * Groups with aggregators: so many large operations may be begun beyond the first that is not agreed on, and so many be
	 * in their agreement. docs/design/aggregation.md, Losing an aggregator.
	 */
	COMMIT_WINDOW = 12,
	COMMIT_OPEN = 4,
	DISSEMINATION_STEPS = 8,
	DISSEMINATION_BYTES = 24,                /* of a message, at most */
	AGGREGATE_SEGMENT_BYTES_MAX = 512 << 10, /* of a slot */
	/* Operations up to this size come alone: all leaders take part in one, in segments of no less than the other. */
	AGGREGATE_ALONE_BYTES = 128 << 10,
	AGGREGATE_ALONE_SEGMENT_BYTES = 16 << 10,
};
_Static_assert(QUEUE_SEGMENTED_REQUESTS + QUEUE_OLDEST_REQUESTS + QUEUE_RECOMPUTE_REQUESTS <= TRANSPORT_MAX_REQUESTS &&
		       QUEUE_SMALL_REQUESTS + QUEUE_URGENT_REQUESTS <= TRANSPORT_MAX_REQUESTS,
	       "requests of a connection");

struct group;
struct group_commit;

enum transfer_class {
	TRANSFER_SEGMENTED, /* of a segment */
	TRANSFER_SMALL,     /* of a small operation, in the order of operations; most travel unasked */
	TRANSFER_URGENT,    /* both sides are at it, so it never waits for what a caller does */
};

/* One message on its way, or waiting to be posted. Belongs to whoever waits for it. */
TAILQ_HEAD(transfer_list, transfer);
struct transfer {
	TAILQ_ENTRY(transfer) link;
	uint8_t *data;
	size_t bytes;
	size_t received; /* of a receive that is done */
	int tag;
	enum transfer_class class;
	uint64_t number; /* of the segment; of others: not used */
	uint64_t posted; /* its number among those of the queue, in order of posting */
	struct transport_request *request;
	void (*done)(struct group *group, struct transfer *transfer); /* may add transfers, and break the group */
	void *owner;
	unsigned what; /* the owner's own */
};

/* One direction between two members. */
struct queue {
	const struct transport_ops *ops;
	struct transport_connection *connection; /* NULL: to oneself */
	bool sends;
	bool over; /* to an aggregator that is lost: whatever is here, or comes, is through at once, and brings nothing */
	bool ready, soon;                      /* to be polled now; within a millisecond */
	bool added;                            /* worth posting */
	bool asks;                             /* a receive was posted whose message is asked for */
	bool lost;                             /* nothing more comes than what has come */
	struct transfer_list small, urgent;    /* not posted yet, in order of adding */
	struct transfer_list segmented;        /* the same, in order of numbers */
	struct transfer_list posted;           /* in order of posting */
	unsigned small_count, segmented_count; /* posted */
	uint64_t next_posted;                  /* number of the next to be posted */
};

/*
 * A dissemination (dissemination.c): in step i each member sends what it knows to the one 2^i positions on, and hears as much from
 * the one 2^i back. So after log2 N steps everybody knows what all knew in the beginning.
 */
struct dissemination {
	enum aggregate_tag tag;
	uint64_t number; /* of the operation */
	size_t bytes;    /* of each message */
	void (*write)(const struct dissemination *dissemination, uint8_t *bytes);
	/* False: the group ends. */
	bool (*read)(struct group *group, struct dissemination *dissemination, size_t from, const uint8_t *bytes,
		     size_t count);
	void (*done)(struct group *group, struct dissemination *dissemination);
	void *owner;
	unsigned heard; /* bit i: the message of step i is here */
	unsigned steps; /* that are through, in order */
	unsigned waits; /* transfers; 0: done */
	struct transfer sends[DISSEMINATION_STEPS], receives[DISSEMINATION_STEPS];
	uint8_t out[DISSEMINATION_STEPS][DISSEMINATION_BYTES], in[DISSEMINATION_STEPS][DISSEMINATION_BYTES];
};

/* Between a caller and the engine: the caller frees and posts, the engine ends. */
enum operation_state { OPERATION_FREE, OPERATION_POSTED, OPERATION_DONE };

/* By the operation's size alone, so that all members choose the same. */
enum operation_scheme {
	OPERATION_ALONE,     /* a group of one: the input is the result */
	OPERATION_FLAT,      /* each member sends all of its input to all others (small.c) */
	OPERATION_PARTS,     /* one member, or several, sum a part each and send it to all (small.c) */
	OPERATION_SEGMENTED, /* cut, by the schedule (segment.c) */
};

/*
 * Of an operation that is under way. operation_step (progress.c) goes from one to the next when nothing is waited for.
 *
 *   phase        waits for                                       next
 *   MOVING       its messages, or its segments                   COMMITTING, where aggregators may be lost, else COMMITTED
 *   COMMITTING   the agreement of all that nothing is missing,   COMMITTED
 *                or what was missing made again (commit.c)
 *   COMMITTED    nothing: the result is here                     VERIFYING with TRIBUTARY_VERIFY, else done
 *   VERIFYING    the others' checksums (check.c)                 done
 */
enum operation_phase { OPERATION_MOVING, OPERATION_COMMITTING, OPERATION_COMMITTED, OPERATION_VERIFYING };

STAILQ_HEAD(operation_list, operation);
struct operation {
	_Atomic int state; /* enum operation_state; posted by the caller, done by the engine, freed by the caller */
	struct group *group;
	STAILQ_ENTRY(operation) small_link, segmented_link, ready_link, commit_link; /* of the lists it is in */
	bool ready;                                                                  /* it is one of them */
	enum operation_scheme scheme;
	enum operation_phase phase;
	enum reduce_type type;
	enum reduce_operation operation;
	const uint8_t *send;
	uint8_t *recv;
	size_t count, bytes;
	uint64_t number;   /* in order of posting, from 0 */
	size_t root;       /* the member that hears what all have posted, and sums the first part */
	size_t part_count; /* parts: one for each of the members from the root on */
	bool check_apart;  /* what is posted goes to the root in a message of its own */
	/* Segmented. */
	size_t segment_count, next_segment, segments_done;
	/* Segmented, in groups with aggregators (commit.c). */
	uint64_t segmented_number;
	uint32_t without; /* bit i: aggregator i has no part in it, for a calibration */
	bool commits;     /* it is done when all agree that it is */
	bool poisoned;    /* some of its segments brought nothing */
	/* Roots that another aggregator may have lost, or that lack another's part; all with a part in those segments. */
	uint32_t doubted, doubted_with;
	uint8_t *kept;     /* the input, where the result overwrites the caller's */
	size_t kept_bytes; /* allocated */
	/* What others must still say about it, and what must still go out. */
	unsigned waits;
	uint8_t check_out[MEMBER_WIRE_OPERATION_BYTES];
	struct transfer send_check;
	struct check_message *messages; /* [member] at the member that compares them */
	uint32_t checksum;              /* of the result, with TRIBUTARY_VERIFY */
	struct dissemination verify;
	struct exchange *exchange; /* flat or in parts: what it was given */
	size_t eager_bytes;        /* what its messages take of a window */
};

/* What another member says of an operation. */
struct check_message {
	struct transfer receive;
	uint8_t bytes[MEMBER_WIRE_OPERATION_BYTES];
};

enum { EXCHANGE_TRANSFERS = 4 };
/* An operation, or a round of a recomputation, in parts: exchange.c. */
struct exchange {
	struct exchange *next;
	struct operation *operation;
	bool recomputes;                                 /* its messages have no header, and go ahead of segments */
	size_t rounds, round, each;                      /* of a recomputation; elements of a part */
	uint8_t *out, *in;                               /* own header and input; [member] theirs */
	size_t in_bytes;                                 /* of each of these, at most */
	struct transfer *sends, *receives;               /* [member]; the memory of all EXCHANGE_TRANSFERS */
	struct transfer *result_sends, *result_receives; /* [member]; not flat */
	size_t missing;                                  /* the same: inputs */
};

/* One level of a segment at a node that aggregates there. */
enum stage { STAGE_HOST, STAGE_LEAF, STAGE_ROOT, STAGE_COUNT };
struct segment_stage {
	uint16_t node;         /* that aggregates here, of the own host and leaf */
	const uint16_t *nodes; /* [count]: whose inputs it has */
	bool mine;
	size_t count, missing; /* inputs; of them */
	size_t own;            /* index of the input that is made here; count: none is */
	const void **inputs;   /* [count], in order of position */
	uint8_t *scratch;      /* one of the first inputs that came from others; NULL: none did */
	size_t slot_begin, slot_end;
};

struct segment {
	uint64_t number;
	struct operation *operation;
	const uint8_t *input; /* within the operation's buffers */
	uint8_t *result;
	size_t count, bytes;
	bool active, done, has_result;
	bool poisoned;        /* an aggregator was lost: there is no result, and none for those below */
	bool passes_on;       /* ... that is to be said to them when their inputs are here */
	uint32_t aggregators; /* bit i: aggregator i has a part in it */
	uint16_t *leaf_nodes; /* [leaf_count] */
	uint16_t *host_nodes; /* [hosts of the own leaf] */
	unsigned waits;       /* transfers not done */
	unsigned ups;         /* of them upwards */
	struct segment_stage stages[STAGE_COUNT];
	struct transfer up_input, up_partial, down;
	struct transfer *receives, *sends; /* [group.fan] */
	size_t send_count;
	uint8_t **slots; /* [group.fan], those of each stage in a row; NULL: given back */
	size_t slot_count;
	uint8_t *partial; /* a slot with what this node has made so far, or NULL */
	/* To the aggregators that aggregate the leaf, and at the root: what goes ahead of the data. */
	uint64_t leaf_previous, root_previous;
	uint16_t root_leaf;
	struct transfer head;
	uint8_t head_bytes[48];
};

/* Slots of one size. */
struct pool {
	uint8_t *memory;
	size_t slot_bytes, count, free_count;
	uint8_t **free;
};

struct group_member {
	struct member_wire_facts facts;
	uint16_t host, leaf;
};

struct group {
	struct aggregate_engine *engine;
	/* Under the engine's lock. */
	struct group *next;
	unsigned users;  /* the list, the engine's thread */
	bool forgotten;  /* not in the list any more */
	uint64_t serial; /* never 0 */
	bool watched;    /* its connections' descriptors wake the engine */
	pthread_mutex_t lock;
	_Atomic bool wanted;  /* somebody waits for the lock */
	bool closed;          /* under the lock */
	int broken;           /* the engine's: 0, or why the group ends after this poll */
	_Atomic int error;    /* 0, or what every call returns from now on; set when no buffer is in use any more */
	_Atomic bool refused; /* there was no memory for an operation: the group is to end */
	int device;

	size_t count, self;                    /* members; positions */
	size_t node_count;                     /* members, then aggregators */
	struct group_aggregators *aggregators; /* NULL: none */
	struct group_commit *commit;           /* NULL: no aggregator was ever used */
	_Atomic bool retains;                  /* inputs outlive the making of results */
	void *arrays;                          /* the block of members, out and in */
	struct group_member *members;
	/* [member] for small operations, and [count + node] for large ones. */
	struct queue *out, *in;
	struct schedule *schedule;
	struct member_wire_settings settings;
	bool small_unasked;   /* nothing on the connections of small operations is asked for */
	bool segments_chosen; /* how long they are, by somebody's wish */
	size_t eager_most;    /* the longest message that goes unasked between all members */
	size_t rooted_bytes;  /* operations up to this size are one part */
	size_t parts_bytes;   /* those up to this size are summed in parts, if they are not flat */
	size_t part_bytes;    /* that are no longer than this, or one for each member */
	/* Positions: who is where. hosts and leaves are dense. */
	size_t host_count, leaf_count;
	void *places;                        /* the block of these four */
	uint16_t *host_members, *host_begin; /* members by host; [host_count + 1] */
	uint16_t *leaf_hosts, *leaf_begin;   /* hosts by leaf; [leaf_count + 1] */
	size_t fan;                          /* the most inputs from others that one segment may need here */
	struct aggregate_facts facts;
	char unknown_host[MEMBER_WIRE_NAME_BYTES];

	struct operation operations[AGGREGATE_MAX_REQUESTS];
	unsigned ring[AGGREGATE_MAX_REQUESTS]; /* operations in order of posting */
	_Atomic uint64_t posted;
	uint64_t taken, segmented_taken;
	unsigned under_way;                          /* taken, not done */
	struct operation_list small;                 /* whose first message has not gone out */
	struct operation_list segmented;             /* not wholly cut */
	struct operation_list ready;                 /* that may go on */
	struct check_message *messages;              /* [AGGREGATE_MAX_REQUESTS × member] */
	struct exchange *exchanges, *exchanges_free; /* all of them, [GROUP_FLAT_OPERATIONS]; a list */
	size_t exchange_bytes;                       /* of one message */
	size_t eager_bytes;                          /* of those that are under way */

	struct segment segments[GROUP_SEGMENTS];
	uint64_t segment_oldest, segment_next; /* numbers */
	bool segment_drawn;                    /* the next one is cut, and waits for slots */
	struct pool pool;
	bool progressed, received; /* something moved; was received whole */
	bool soon, now;            /* a queue wants to be looked at */
	/* members.c: since when nothing has moved, when that was looked at, and whether all connections were asked since. */
	uint64_t moved_ns, looked_ns;
	bool asked;
	bool missed; /* events may have come for it while it was not polled. Under the engine's drive */

	_Atomic bool counts; /* its operations are a caller's: they are in the totals */
	uint64_t told_bytes; /* of bytes_sent, in the totals */
	_Atomic uint64_t operations_done, segments_done, flat_done, parts_done, bytes_sent, bytes_received,
		bytes_copied, messages_sent;
};

/* 0, or why nothing can be posted any more. */
static inline int group_end_of(const struct group *group)
{
	int error = atomic_load_explicit(&group->error, memory_order_acquire);

	return error ? error : atomic_load_explicit(&group->refused, memory_order_acquire) ? -ENOMEM : 0;
}

static inline size_t group_queues(const struct group *group)
{
	return group->count + group->node_count;
}

/* What the last pass over all groups came to, and when some things were polled last. */
struct engine_pass {
	const struct epoll_event *events;
	int event_count;
	bool soon, all; /* which queues are worth it, besides those of the events */
	bool progressed, received, busy, wants_soon, wants_now;
	uint64_t now_ns, soon_ns, all_ns;
};

struct aggregate_engine {
	struct aggregate_setup setup;
	char host_name[MEMBER_WIRE_NAME_BYTES];
	uint64_t host_id;
	enum reduce_level level;
	pthread_mutex_t lock; /* the list, the thread's life */
	struct group *groups;
	pthread_t thread;
	bool runs;
	int device;                 /* of the first group */
	pthread_mutex_t drive;      /* before all other locks: who has it polls the groups */
	struct engine_pass pass;    /* under it */
	_Atomic uint64_t helped_ns; /* when a caller did last */
	_Atomic bool stop, sleeps;
	_Atomic uint64_t posts; /* so far, and other reasons to poll */
	uint64_t serial;        /* of the newest group */
	int epoll_fd, wake_fd;
};

struct aggregate_listener {
	struct aggregate_engine *engine;
	int device;
	uint8_t handle[AGGREGATE_HANDLE_BYTES];
	struct transport_listener *listener;
	struct aggregate_terms terms;
};

/* setup.c */
/* An empty group of so many members. Freed by group_free, which accepts half-built ones and NULL. */
int group_new(struct aggregate_engine *engine, int device, size_t count, struct group **ret);
/* Everything that follows from the members' facts: who is where, the schedule, the buffers. */
int group_settle(struct group *group);
/* All connections; what is in flight is given up. */
void group_close(struct group *group);
void group_free(struct group *group);

/* group.c */
/* By gain_of_group(), 0 below what is enough. assumed: aggregators that are not yet used count as well. 0 also if there is no memory. */
unsigned group_gain(const struct group *group, bool assumed);
/* Bit i: aggregator i is used, and brings too little. All members come to the same. */
int group_choose(const struct group *group, uint32_t *ret_left);
/* The schedule anew. without: bit i: aggregator i has no part in it for now. */
int group_plan(struct group *group, uint32_t without);
/* What it puts on the links then; the group keeps the one that it has. */
int group_expect(const struct group *group, uint32_t without, struct schedule_loads *ret);
void group_find_facts(struct group *group);
/* Of an operation of so many bytes and elements. */
size_t group_segment_count(const struct group *group, size_t bytes, size_t count);
const char *group_host(const struct group *group, size_t position);
/*
 * It is to end: nothing more is begun, and when the poll is through every connection is closed, and only then the callers
 * know. `why` names the member. The first one counts.
 */
void group_break(struct group *group, int error, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* What came from that member, or aggregator, is as long as it had to be; else the group ends with a line that says so. */
bool group_transfer_came_whole(struct group *group, const struct transfer *transfer, size_t from);
static inline void group_add(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* Perhaps nothing is missing of it any more: progress.c steps it in this poll. */
static inline void operation_ready(struct operation *operation)
{
	if (operation->ready)
		return;
	operation->ready = true;
	STAILQ_INSERT_TAIL(&operation->group->ready, operation, ready_link);
}
/* One of its operation.waits is through. */
static inline void operation_transferred(struct operation *operation)
{
	if (--operation->waits == 0)
		operation_ready(operation);
}

/* progress.c */
/* True: something moved. */
bool group_poll(struct group *group, uint64_t now_ns);
/* Connections with something under way are to be polled: those that asked for one soon, or all. */
void group_stir(struct group *group, bool all);
bool group_is_idle(const struct group *group);

/* reduce.c: aggregate_reduce_all, with a part for some aggregators alone. */
int group_reduce(struct group *group, const void *send, void *recv, size_t count, enum reduce_type type,
		 enum reduce_operation operation, uint32_t without, struct operation **ret);

/* queue.c */
static inline struct queue *queue_large(const struct group *group, struct queue *queues, size_t member)
{
	return &queues[group->count + member];
}
void queue_init(struct queue *queue, const struct transport_ops *ops, bool sends);
void queue_add(struct queue *queue, struct transfer *transfer);
/* Posts what may be posted and tests what is posted. 0, or why the connection has ended with something under way. */
int queue_progress(struct group *group, struct queue *queue);
bool queue_is_empty(const struct queue *queue);
/* All, also where nothing is under way, are polled next time: events may have been missed. */
void queue_stir_all(struct group *group);
/* Closes it; all that waits there is through in the next polls, as `received` 0. Not from within a transfer's done(). */
void queue_lose(struct queue *queue);
void queue_close(struct queue *queue);
void queue_close_all(struct group *group);

/* members.c */
/* After each poll: ends a group in which others wait for each other, as a member has left. */
void departures_watch(struct group *group, uint64_t now_ns);

/* memory.c */
/* The group's own buffers, once it has connections. */
void group_register_own(struct group *group);

/* combine.c */
/*
 * inputs[0] ∘ inputs[1] ∘ … of any number. scratch: NULL, or space for `count` elements, which may be one of the first
 * REDUCE_INPUTS_MAX inputs; needed if there are more than that. to: may be one of the inputs.
 */
void combine(const struct group *group, const struct operation *operation, void *to, void *scratch, size_t input_count,
	     const void *const *inputs, size_t count);
/* All members' inputs, level by level, as the segments do it. inputs: [members], written to; those but `own` are scratch. */
void combine_all(const struct group *group, const struct operation *operation, void *to, uint8_t **inputs,
		 size_t count);

/* segment.c */
int segment_init(struct group *group);
void segment_fini(struct group *group);
void segment_activate(struct group *group);

/* commit.c */
/* When it is known that aggregators are used. -ENOMEM. */
int commit_init(struct group *group);
void commit_fini(struct group *group);
/* Before the first segment of an operation is cut: how many it has. False: it must wait, or the group has ended. */
bool commit_begin(struct group *group, struct operation *operation);
/* An operation's segments are through; it is COMMITTING until all agree. */
void commit_drained(struct group *group);
/* It is COMMITTING: perhaps what was missing has been made. */
void commit_step(struct group *group, struct operation *operation);
/* Between operations: aggregators have other rates, or are not used any more. */
void commit_replan(struct group *group);

/* exchange.c: operation.waits is 0 when it is through. */
int exchange_init(struct exchange *exchange, size_t count); /* -ENOMEM */
void exchange_fini(struct exchange *exchange);              /* of zeros, too */
void exchange_begin(struct group *group, struct exchange *exchange);

/* recompute.c: what aggregators should have made, made by the members. One operation at a time. */
void recompute_begin(struct group *group, struct exchange *exchange, struct operation *operation);
/* Nothing is waited for. True: it is done. */
bool recompute_step(struct group *group, struct exchange *exchange);

/* dissemination.c: tag to owner are set, the rest is zeros. */
void dissemination_begin(struct group *group, struct dissemination *dissemination);

/* check.c */
/* The member that hears of all what they have posted. */
size_t check_root(const struct group *group, const struct operation *operation);
/* operation.check_out: what this member has posted. */
void check_init(struct operation *operation);
/* The same came from that member, with so many bytes behind it; else the group ends with a line that says so. */
bool check_same(struct group *group, const struct operation *operation, const struct transfer *transfer, size_t from,
		size_t payload_bytes);
/* Of a large operation: the messages about it, and how many this member sends and hears. */
unsigned check_waits(const struct group *group, const struct operation *operation);
void check_begin(struct group *group, struct operation *operation);
/* operation.waits is 0 when all members are known to have the same checksum of the result. */
void check_verify(struct group *group, struct operation *operation);

/* small.c */
/* From what all members know. */
void small_settle(struct group *group);
int small_init(struct group *group);
void small_fini(struct group *group);
bool small_checks_apart(const struct group *group, const struct operation *operation);
enum operation_scheme small_scheme(const struct group *group, size_t bytes);
size_t small_part_count(const struct group *group, size_t bytes);
/* Small operations, and the messages about large ones, as far as there is space. */
void small_begin(struct group *group);
/* All messages of a small operation are here and gone: the result. */
void small_end(struct group *group, struct operation *operation);

/* engine.c */
/* From connect: the engine's thread takes it over. */
/* device: near which the thread runs, if it does not run yet. */
int engine_start(struct aggregate_engine *engine, int device);
void engine_adopt(struct aggregate_engine *engine, struct group *group);
/* Out of the list; freed when the thread is done with it. */
void engine_forget(struct aggregate_engine *engine, struct group *group);
void engine_wake(struct aggregate_engine *engine);
/* A caller that waits polls the groups, unless somebody is at it: no wake-up of a thread, no change of one. */
void engine_help(struct aggregate_engine *engine);

#endif
