/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner of a stream changes in mid-message (docs/design/streams.md, "How many threads"). A connection has two
 * streams, whose calls are made by a thread that holds the connection's lock or, without it, by a mover or a caller
 * that helps. Each step here is what the code does under one lock: a mover takes a stream, prepares a call, makes it
 * piece by piece, notes the result and returns the stream (movers.c, move.c). Pieces stand for bytes.
 *
 * Meanwhile the network loses streams, which are dialled anew, and both ends post a second message. Once in a run an
 * end deregisters memory, is closed, fails, or its movers' threads end.
 *
 * Left out: what messages.pml has, the order of messages and the ways of words. FIN, SUSPECT and DEAD arrive while a
 * stream lives.
 *
 * Checked in every state: a stream has one call at a time, and its socket is neither closed nor replaced meanwhile. No
 * call uses the memory of a request that is done, of a connection that is closed or whose error was told, or that was
 * deregistered. A piece counts once. A send that FIN has come for is done. At every end: no stream is with a mover, no
 * thread waits for one, and each request is done or its user has the error.
 *
 * tests/model/check runs it. -DMOVING=1: the sender has movers; 2: the receiver; 3: both; others: see below;
 * -DBROKEN=1 to 15: one rule is not kept, which must be found.
 */
#ifndef MOVING
#define MOVING 1
#endif
#ifndef MOVERS
#define MOVERS 1 /* threads of such an end */
#endif
#ifndef CUTS
#define CUTS 1 /* streams that are lost */
#endif
#ifndef ROOM
#define ROOM 1 /* pieces in a socket */
#endif
#ifndef PIECES
#define PIECES 2 /* one of the second message, the others of the first */
#endif
#ifndef HELPS
#define HELPS 0 /* 1: its caller helps them */
#endif
#ifndef BOTH
#define BOTH 0 /* 1: movers make calls of both streams, not of the first alone, and either is lost first */
#endif
#ifndef BROKEN
#define BROKEN 0
#endif

#define S 0 /* the sender */
#define R 1 /* the receiver */
#define AT(e, s)     ((e) * 2 + (s))
#define OTHER(x)     (1 - (x))
#define MESSAGE(p)   ((p) * 2 / PIECES)
#define LAST         (1 << (PIECES - 1))
#define PIECES_OF(m) ((m) -> LAST : LAST - 1) /* a set */
#define MOST         2 /* pieces of one call */

/* enum tcp_move_state */
#define NONE 0
#define HELD 1
#define CALL 2

/* Streams of both ends. */
byte move[4];
bool live[4] = true;
bool lost[4];  /* lost_why */
bool shut[4];  /* shut down or closed */
byte using[4]; /* by a mover's call that has not returned: a set of messages, or STAGING */
#define STAGING 4

/* Both ends, and their movers. */
byte posted[2] = 1;
bool failed[2], error_told[2], closing[2], freed[2];
byte gone[2]; /* messages that were open as memory was deregistered */
byte moving[2];
bool leaves[2], leaver_waits[2];
bool on[2] = true;
chan queue[2] = [2] of { byte };
byte threads[2], idle[2];
byte waiting[2], woken[2]; /* of those that are idle */

/* A socket keeps what was written before an end has shut it down, but not what the network loses. */
chan pipe[2] = [ROOM] of { byte };
bool cut[2];
byte cuts;
bool last_words; /* the receiver has closed, and its FINs arrive */

byte todo = LAST - 1;  /* the sender: pieces to be sent */
byte log[2 * PIECES];  /* on a stream: written up to next, queued up to tail */
byte next[2], tail[2], giving[2];
bool awaits[2];        /* DEAD; until then its log is what DEAD is about */
byte received, sent;   /* messages: FIN has come; done */

byte rx[2];            /* the receiver: 1 + the piece whose payload is under way */
byte position[2], dead_position[2];
bool dead[2];
byte placed, done;     /* pieces, messages */

/* Scratch, within one atomic step. */
hidden byte i, j, k, p, found;

#define MOVES(e)       (MOVING >> (e) & 1)
#define LEAVES(e)      (leaves[e] && BROKEN != 9)
#define MAY_TAKE(e, s) (MOVES(e) && (BOTH || !(s)) && on[e] && !LEAVES(e))
#define LINKED(s)      (live[AT(S, s)] && live[AT(R, s)] && !cut[s] && !shut[AT(S, s)] && !shut[AT(R, s)])
#define LINK           (LINKED(0) || LINKED(1))
#define DOWN(e)        (failed[e] || freed[e])
#define ENDED(e)       ((e) == S -> sent : done)
#define OPEN(e)        (((1 << posted[e]) - 1) & ~ENDED(e))
#define USED(e)        (using[AT(e, 0)] | using[AT(e, 1)])
#define UNHEARD        (done & ~received)
#define UNSENT(s)      (next[s] != tail[s] && !awaits[s])
#define WRITABLE(s)    (len(pipe[s]) < ROOM || cut[s])
#define POSTED(s)      (MESSAGE(rx[s] - 1) < posted[R])
#define MOVED_IN(s)    (!rx[s] || POSTED(s) || BROKEN == 12)
#define CALLED(e, s)   (move[AT(e, s)] == CALL)
#define HAS_LOST(e, s) \
	(live[AT(e, s)] && !lost[AT(e, s)] && (cut[s] || (shut[AT(OTHER(e), s)] && ((e) == S || !len(pipe[s])))) && \
	 !((e) == S && last_words && UNHEARD))
/* Lost: asked over the other one how far the receiver got, or over a new socket if there is none. */
#define TO_DIAL(s) \
	(!live[AT(S, s)] && !DOWN(R) && (!awaits[s] || !live[AT(S, OTHER(s))]) && (!CALLED(R, s) || !lost[AT(R, s)]))

inline drain(s)
{
	do
	:: nempty(pipe[s]) -> pipe[s]?_
	:: empty(pipe[s]) -> break
	od
}

inline close_socket(e, s)
{
	assert(!using[AT(e, s)]);
	shut[AT(e, s)] = true
}

/* movers.c */
inline wait_in_queue(e, s)
{
	queue[e]!s;
	if
	:: waiting[e] && BROKEN != 5 -> waiting[e]--; woken[e]++
	:: else
	fi
}

inline take(e, s)
{
	move[AT(e, s)] = HELD;
	moving[e]++;
	wait_in_queue(e, s)
}

inline is_not_moving(e)
{
	moving[e]--;
	if
	:: !moving[e] -> leaver_waits[e] = false
	:: else
	fi
}

/* failover.c: tcp_failover_lost */
inline sender_lost(s)
{
	if
	:: live[AT(S, s)] && CALLED(S, s) && BROKEN != 3 -> lost[AT(S, s)] = true; shut[AT(S, s)] = true
	:: live[AT(S, s)] && (!CALLED(S, s) || BROKEN == 3) ->
		close_socket(S, s);
		live[AT(S, s)] = false;
		awaits[s] = true
	:: else
	fi
}

inline receiver_lost(s)
{
	if
	:: live[AT(R, s)] && CALLED(R, s) && BROKEN != 4 -> lost[AT(R, s)] = true; shut[AT(R, s)] = true
	:: live[AT(R, s)] && (!CALLED(R, s) || BROKEN == 4) ->
		close_socket(R, s);
		live[AT(R, s)] = false;
		rx[s] = 0;
		if
		:: !dead[s] -> dead[s] = true; dead_position[s] = position[s]
		:: else /* this socket carried only words */
		fi;
		position[s] = 0
	:: else
	fi
}

/* request.c: tcp_connection_fail */
inline fail(e)
{
	failed[e] = true;
	for (i : 0 .. 1) {
		if
		:: CALLED(e, i) && BROKEN != 7 -> shut[AT(e, i)] = true
		:: else -> close_socket(e, i)
		fi;
		live[AT(e, i)] = false;
		lost[AT(e, i)] = false
	}
}

/* sender.c: is_in_call */
inline finish_if_unused(m)
{
	found = false;
	for (j : 0 .. 1) {
		for (k : 0 .. PIECES - 1) {
			found = found || (CALLED(S, j) && !awaits[j] && k >= next[j] && k < tail[j] &&
					  MESSAGE(log[j * PIECES + k]) == m)
		}
	}
	if
	:: !found || BROKEN == 1 ->
		assert(!(USED(S) >> m & 1));
		sent = sent | 1 << m
	:: else
	fi
}

inline call_ended()
{
	for (i : 0 .. 1) {
		if
		:: (received & ~sent) >> i & 1 -> finish_if_unused(i)
		:: else
		fi
	}
}

inline hear_fin(m)
{
	for (i : 0 .. 1) {
		assert(!LINKED(i) || awaits[i] || position[i] <= next[i] + (BROKEN == 14 -> 0 : giving[i]))
	}
	assert(!(todo & PIECES_OF(m)));
	received = received | 1 << m;
	finish_if_unused(m)
}

/* DEAD: what has not arrived goes out again. */
inline hear_dead(s)
{
	assert(dead_position[s] <= next[s]);
	for (i : 0 .. PIECES - 1) {
		if
		:: i >= dead_position[s] && i < tail[s] && !(sent >> MESSAGE(log[s * PIECES + i]) & 1) ->
			todo = todo | 1 << log[s * PIECES + i]
		:: else
		fi;
		log[s * PIECES + i] = 0
	}
	next[s] = 0;
	tail[s] = 0;
	dead_position[s] = 0;
	dead[s] = false;
	awaits[s] = false
}

/* acceptor.c: rejoin. During a call the new socket is refused, and dialled again. */
inline dial(s)
{
	if
	:: BROKEN != 15 -> receiver_lost(s)
	:: else -> live[AT(R, s)] = false; dead[s] = true
	fi;
	if
	:: !live[AT(R, s)] ->
		assert(!using[AT(S, s)] && !using[AT(R, s)]);
		drain(s);
		cut[s] = false;
		shut[AT(S, s)] = false;
		shut[AT(R, s)] = false;
		live[AT(S, s)] = true;
		live[AT(R, s)] = true
	:: else
	fi
}

/* Posts the second message. request.c: tcp_request_get */
inline post(e)
{
	if
	:: leaves[e] && !OPEN(e) -> leaves[e] = false; leaver_waits[e] = false
	:: else
	fi;
	posted[e] = 2
}

inline tell_error(e)
{
	assert(!USED(e));
	assert(e == R || !(received & ~sent));
	error_told[e] = true
}

inline cut_frame(s)
{
	p = (todo & 1 -> 0 : (todo & 2 -> 1 : 2));
	todo = todo & ~(1 << p);
	log[s * PIECES + tail[s]] = p;
	tail[s]++
}

inline put(s, x)
{
	if
	:: !cut[s] -> pipe[s]!x
	:: else
	fi
}

inline flush(s)
{
	if
	:: move[AT(S, s)] != NONE || !WRITABLE(s)
	:: move[AT(S, s)] == NONE && WRITABLE(s) && MAY_TAKE(S, s) -> take(S, s)
	:: move[AT(S, s)] == NONE && WRITABLE(s) ->
		assert(!using[AT(S, s)]);
		put(s, log[s * PIECES + next[s]]);
		next[s]++
	fi
}

inline whole(m)
{
	if
	:: m < posted[R] && (placed & PIECES_OF(m)) == PIECES_OF(m) && !(done >> m & 1) ->
		assert(!(USED(R) >> m & 1));
		done = done | 1 << m
	:: else
	fi
}

inline note(s)
{
	p = rx[s] - 1;
	assert(!(placed >> p & 1));
	placed = placed | 1 << p;
	position[s]++;
	rx[s] = 0;
	whole(MESSAGE(p))
}

/* The header, or the payload behind it. */
inline read(s)
{
	if
	:: !rx[s] -> pipe[s]?<p>; rx[s] = p + 1
	:: else
	fi;
	if
	:: MAY_TAKE(R, s) && MOVED_IN(s) -> take(R, s)
	:: true ->
		assert(!using[AT(R, s)]);
		pipe[s]?_;
		note(s)
	fi
}

/* Whoever has the lock: the caller that polls, or the service thread. */
proctype sender()
{
end:	do
	:: atomic { posted[S] == 1 && !closing[S] && !DOWN(S) -> post(S); todo = todo | PIECES_OF(1) }
	:: atomic { todo && live[AT(S, 0)] && !awaits[0] -> cut_frame(0); flush(0) }
	:: atomic { todo && live[AT(S, 1)] && !awaits[1] -> cut_frame(1); flush(1) }
	:: atomic { live[AT(S, 0)] && move[AT(S, 0)] == NONE && UNSENT(0) && WRITABLE(0) -> flush(0) }
	:: atomic { live[AT(S, 1)] && move[AT(S, 1)] == NONE && UNSENT(1) && WRITABLE(1) -> flush(1) }
	:: atomic { UNHEARD & 1 && !DOWN(S) && (LINK || last_words) -> hear_fin(0) }
	:: atomic { UNHEARD & 2 && !DOWN(S) && (LINK || last_words) -> hear_fin(1) }
	:: atomic { HAS_LOST(S, 0) -> sender_lost(0) }
	:: atomic { HAS_LOST(S, 1) -> sender_lost(1) }
	:: atomic { live[AT(S, 0)] && !lost[AT(S, 0)] && !live[AT(R, 0)] && LINK -> sender_lost(0) }
	:: atomic { live[AT(S, 1)] && !lost[AT(S, 1)] && !live[AT(R, 1)] && LINK -> sender_lost(1) }
	:: atomic { awaits[0] && dead[0] && LINK -> hear_dead(0) }
	:: atomic { awaits[1] && dead[1] && LINK -> hear_dead(1) }
	:: atomic { !DOWN(S) && TO_DIAL(0) -> dial(0) }
	:: atomic { !DOWN(S) && TO_DIAL(1) -> dial(1) }
	:: atomic { !DOWN(S) && DOWN(R) && !(last_words && UNHEARD) -> fail(S) }
	:: atomic { failed[S] && !error_told[S] && !freed[S] && (!moving[S] || BROKEN == 6) -> tell_error(S) }
	od
}

proctype receiver()
{
end:	do
	:: atomic { posted[R] == 1 && !closing[R] && !DOWN(R) -> post(R); whole(1) }
	:: atomic { live[AT(R, 0)] && move[AT(R, 0)] == NONE && nempty(pipe[0]) -> read(0) }
	:: atomic { live[AT(R, 1)] && move[AT(R, 1)] == NONE && nempty(pipe[1]) -> read(1) }
	:: atomic { HAS_LOST(R, 0) -> receiver_lost(0) }
	:: atomic { HAS_LOST(R, 1) -> receiver_lost(1) }
	:: atomic { live[AT(R, 0)] && !lost[AT(R, 0)] && !live[AT(S, 0)] && LINK -> receiver_lost(0) }
	:: atomic { live[AT(R, 1)] && !lost[AT(R, 1)] && !live[AT(S, 1)] && LINK -> receiver_lost(1) }
	:: atomic { !DOWN(R) && DOWN(S) -> fail(R) }
	:: atomic { failed[R] && !error_told[R] && !freed[R] && (!moving[R] || BROKEN == 6) -> tell_error(R) }
	od
}

/* move.c: call_begin */
inline begin(e, s)
{
	assert(!freed[e]);
	count = 0;
	given = 0;
	if
	:: failed[e] || leaves[e] || !live[AT(e, s)] || (e == S && !UNSENT(s)) || (e == R && !MOVED_IN(s)) ->
		move[AT(e, s)] = NONE;
		more = false
	:: else ->
		assert(!using[AT(e, s)]);
		move[AT(e, s)] = (BROKEN == 2 -> NONE : CALL);
		if
		:: e == S ->
			count = (tail[s] - next[s] > MOST -> MOST : tail[s] - next[s]);
			giving[s] = count;
			for (i : 0 .. count - 1) {
				using[AT(e, s)] = using[AT(e, s)] | 1 << MESSAGE(log[s * PIECES + next[s] + i])
			}
		:: else ->
			count = 1;
			using[AT(e, s)] = (rx[s] && POSTED(s) -> 1 << MESSAGE(rx[s] - 1) : STAGING)
		fi
	fi
}

/* A piece, or the header before it: its memory is still that of the message. */
inline copy(e, s)
{
	assert(!((using[AT(e, s)] & gone[e] & ~ENDED(e))));
	if
	:: e == S -> put(s, log[s * PIECES + next[s] + given])
	:: e == R && rx[s] ->
		assert(using[AT(e, s)] == (POSTED(s) -> 1 << MESSAGE(rx[s] - 1) : STAGING));
		pipe[s]?_
	:: else -> pipe[s]?<p>; header = p + 1
	fi;
	given++
}

#define COPIES(e, s) (given < count && ((e) == S -> WRITABLE(s) && !shut[AT(e, s)] : len(pipe[s])))

/* move.c: call_end, has_more */
inline end_call(e, s)
{
	assert(!freed[e]);
	move[AT(e, s)] = HELD;
	giving[s] = (e == S -> 0 : giving[s]);
	if
	:: failed[e] ->
		close_socket(e, s);
		if
		:: e == S && BROKEN != 10 -> call_ended()
		:: else
		fi
	:: !failed[e] && e == S ->
		next[s] = next[s] + (lost[AT(e, s)] && BROKEN == 13 -> 0 : given);
		if
		:: BROKEN != 11 -> call_ended()
		:: else
		fi;
		if
		:: lost[AT(e, s)] -> lost[AT(e, s)] = false; sender_lost(s)
		:: else
		fi
	:: !failed[e] && e == R ->
		if
		:: lost[AT(e, s)] -> lost[AT(e, s)] = false; receiver_lost(s)
		:: !lost[AT(e, s)] && given && rx[s] -> note(s)
		:: !lost[AT(e, s)] && given && !rx[s] -> rx[s] = header
		:: !lost[AT(e, s)] && !given
		fi
	fi;
	more = !failed[e] && live[AT(e, s)] && on[e] && !LEAVES(e) && given == count;
	more = more && (e == S -> UNSENT(s) : MOVED_IN(s));
	move[AT(e, s)] = (more -> HELD : NONE)
}

/* movers.c: run and work; a caller that helps takes a stream that no thread is free for. */
proctype mover(byte e; bool helps)
{
	byte s, count, given, header;
	bool more;

end:	do
	:: atomic { nempty(queue[e]) && (!helps || !idle[e]) -> queue[e]?s };
again:
		atomic { begin(e, s) };
		do
		:: atomic { COPIES(e, s) -> copy(e, s) }
		:: atomic { count && !COPIES(e, s) -> using[AT(e, s)] = 0; break }
		:: atomic { !count -> break }
		od;
		if
		:: atomic { count -> end_call(e, s) }
		:: atomic { !count }
		fi;
		atomic {
			assert(!freed[e]);
			if
			:: more && helps && !threads[e] -> goto again
			:: more && (!helps || threads[e]) -> wait_in_queue(e, s)
			:: else -> is_not_moving(e)
			fi;
			s = 0;
			count = 0;
			given = 0;
			header = 0;
			more = false
		}
	:: atomic { !helps && empty(queue[e]) && on[e] -> idle[e]++; waiting[e]++ };
end_idle:
		atomic { woken[e] -> woken[e]--; idle[e]-- }
	:: atomic { !helps && empty(queue[e]) && !on[e] -> threads[e]--; break }
	od
}

/* movers.c: tcp_movers_leave */
inline leave(e)
{
	atomic {
		leaves[e] = true;
		open = OPEN(e);
		do
		:: nempty(queue[e]) -> queue[e]?x; move[AT(e, x)] = NONE; is_not_moving(e)
		:: empty(queue[e]) -> break
		od;
		x = 0
	}
	do
	:: atomic { !moving[e] || !leaves[e] || BROKEN == 8 -> break }
	:: atomic { moving[e] && leaves[e] && BROKEN != 8 -> leaver_waits[e] = true };
		atomic { !leaver_waits[e] }
	od
}

inline close(e)
{
	closing[e] = true;
	leave(e);
	atomic {
		last_words = e == R && !failed[e] && LINK;
		for (i : 0 .. 1) {
			close_socket(e, i);
			live[AT(e, i)] = false
		}
		freed[e] = true
	}
}

/* Memory is deregistered while requests are open; a job that was aborted closes then. */
inline pause(e)
{
	atomic { OPEN(e) && !DOWN(e) };
	leave(e);
	atomic { gone[e] = open & ~ENDED(e); open = 0 };
	if
	:: close(e)
	:: true
	fi
}

proctype user(byte e)
{
	byte x, open;

end:	if
	:: pause(e)
	:: close(e)
	:: atomic { !DOWN(e) -> fail(e) }
	:: atomic { MOVES(e) -> on[e] = false; woken[e] = woken[e] + waiting[e]; waiting[e] = 0 }
	:: true
	fi
}

proctype network()
{
end:	do
	:: atomic { cuts < CUTS && !cut[0] -> cuts++; cut[0] = true; drain(0) }
	:: atomic { (BOTH || cuts) && cuts < CUTS && !cut[1] -> cuts++; cut[1] = true; drain(1) }
	:: atomic { timeout ->
		for (i : 0 .. 1) {
			assert(!moving[i] && !leaver_waits[i]);
			assert(freed[i] || error_told[i] || !OPEN(i))
		}
		break
	}
	od
}

init
{
	byte e, n;

	atomic {
		for (e : 0 .. 1) {
			if
			:: MOVES(e) ->
				threads[e] = MOVERS;
				for (n : 1 .. MOVERS) {
					run mover(e, false)
				}
				if
				:: HELPS -> run mover(e, true)
				:: !HELPS
				fi
			:: else
			fi
		}
		run sender();
		run receiver();
		run network();
		if
		:: run user(S)
		:: run user(R)
		fi
	}
}
