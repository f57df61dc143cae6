/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message layer of docs/design/transport.md between one sender and one receiver over two streams: three messages of two tags,
 * of two pieces each, while the network loses one stream, or both at once, or the way in one direction. Pieces stand for bytes: the first may go
 * unscheduled, with its RTS, or both; otherwise the second needs credit. While one stream is active what is unscheduled follows
 * its RTS on the primary, later than it. While several are it is queued with it, each part on either stream, on the other one
 * behind a second RTS. The sender may change that whenever growth.c's may_change allows it; the receiver is not told.
 * Receives are posted at any time, those of one tag by any delay.
 *
 * Left out: a third stream, so with several the primary may take data; that what needs credit takes only active streams; and that
 * the first stream is the primary again some time after a loss.
 *
 * Checked in every state: messages are admitted in order, each once; a piece is written once, and only where its place is known;
 * messages of one tag meet receives in order. At every end: each message that has a receive is done at both ends, whatever
 * messages of the other tag wait for.
 *
 * tests/model/check runs it. -DALL=1: both streams are lost; -DWAY=1 to 4: detour.c takes another way; -DSENT=2: two messages;
 * others: see below; -DBROKEN=1 to 8: one rule is not kept, which must be found.
 */
#define MESSAGES 3
#define STREAMS  2
#define TAG(m)   (m & 1)
#define OTHER(s) (1 - s)
#define LOG      16 /* frames written on a stream in one epoch */
#define NONE     99
#ifndef PLACES
#define PLACES 5 /* a set of messages: the window had room for their first piece */
#endif
#ifndef WHOLES
#define WHOLES 0 /* of PLACES: room for both pieces */
#endif
#ifndef LATER
#define LATER 0 /* a set of messages: with one stream active what is unscheduled may be queued later than RTS */
#endif
#ifndef CHANGES
#define CHANGES 1 /* 0: one stream is active from first to last; 2: several are */
#endif
#ifndef READY
#define READY 0 /* 2: all receives are posted at first */
#endif
#ifndef SENT
#define SENT MESSAGES
#endif
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef ALL
#define ALL 0
#endif

#ifndef WAY
#define WAY 0 /* of both streams, 1: what is sent is lost; 2: what comes back; 3: both; 4: nothing, the peer was stopped */
#endif

mtype = { RTS, PIECE, SUSPECT, CREDIT, FIN, DEAD };

/* type, message or stream, piece or position, epoch */
chan down[STREAMS] = [12] of { mtype, byte, byte, byte };
chan up[STREAMS] = [10] of { mtype, byte, byte, byte };

/* The network: one stream is lost, or (ALL) both at once. */
bool cut[STREAMS], lost;
bool cut_down[STREAMS], cut_up[STREAMS]; /* one direction, which neither end sees */
bool taken;                              /* the other way */

/* Scratch, within one atomic step. */
hidden mtype type;
hidden byte m, p, e, i, j, k, s, announced;

/* The sender. */
byte sent;               /* messages of which the RTS went out */
bool unscheduled[MESSAGES];
bool known[MESSAGES];    /* the receiver has spoken of it: its RTS has arrived */
bool credited[MESSAGES];
bool sent_first[MESSAGES], sent_second[MESSAGES], sent_done[MESSAGES];
bool live[STREAMS] = true, awaits[STREAMS];
byte primary, epoch[STREAMS];
mtype log_type[32];      /* STREAMS * LOG */
byte log_message[32], log_piece[32];
byte logged[STREAMS];
byte lost_epoch[STREAMS];
mtype again_type[LOG];
byte again_message[LOG], again_piece[LOG], again;
bool suspect[STREAMS];   /* to be said of it */
bool several = CHANGES == 2; /* streams are active, not one */

/* The receiver. */
bool r_live[STREAMS] = true;
byte r_epoch[STREAMS], position[STREAMS];
byte dead_epoch[STREAMS], dead_position[STREAMS];
bool say_dead[STREAMS], died[STREAMS];
byte next;                               /* the message to be admitted */
bool early[MESSAGES];                    /* announced, maybe before its turn */
bool matched[MESSAGES], say_credit[MESSAGES], say_fin[MESSAGES], done[MESSAGES];
bool first[MESSAGES], second[MESSAGES];  /* written */
byte posted[2] = READY, met[2];          /* receives of a tag, and those that a message has met */

#define USABLE(s) (live[s] && !awaits[s])
#define HELD      (again || awaits[0] || awaits[1])
#define R_LEAD    (r_live[0] -> 0 : 1)
#define WANTS(m)  (credited[m] && !(sent_first[m] && sent_second[m]))
#define FREE(m)   (known[m] || !unscheduled[m]) /* its RTS has arrived */
#define WHOLE(m)  (WHOLES >> m & 1)
/* Unscheduled and not queued yet. */
#define OWED(m)   (!FREE(m) && !(sent_first[m] && (sent_second[m] || !WHOLE(m))))
#define OWING     (OWED(0) || OWED(1) || OWED(2))
/* Of several streams the primary is not asked for what is owed while another one is usable. */
#define ASKED     (!several || !USABLE(OTHER(primary)))
/* may_change. After the last message a change would change nothing. */
#define MAY_CHANGE (CHANGES == 1 && sent < SENT && primary == 0 && live[0] && !HELD && (!OWING || BROKEN == 7))
#define NEWS      (say_dead[0] || say_dead[1] || say_credit[0] || say_credit[1] || say_credit[2] || \
		   say_fin[0] || say_fin[1] || say_fin[2])
#define R_ANY     (r_live[0] || r_live[1])

/* On a stream that is cut nothing arrives. */
inline write(s, type, m, p)
{
	if
	:: !cut[s] && !cut_down[s] -> down[s]!type, m, p, epoch[s]
	:: else
	fi
}

inline put(s, type, m, p)
{
	log_type[s * LOG + logged[s]] = type;
	log_message[s * LOG + logged[s]] = m;
	log_piece[s * LOG + logged[s]] = p;
	logged[s]++;
	assert(logged[s] < LOG);
	write(s, type, m, p)
}

inline say(type, m, p, e)
{
	if
	:: !cut[R_LEAD] && !cut_up[R_LEAD] -> up[R_LEAD]!type, m, p, e
	:: else
	fi
}

inline drain(s)
{
	do
	:: nempty(down[s]) -> down[s]?_, _, _, _
	:: nempty(up[s]) -> up[s]?_, _, _, _
	:: empty(down[s]) && empty(up[s]) -> break
	od
}

inline sender_lost(s)
{
	if
	:: live[s] ->
		live[s] = false;
		if
		:: !awaits[s] -> awaits[s] = true; lost_epoch[s] = epoch[s]
		:: else /* its second socket carried nothing that counts */
		fi;
		suspect[s] = true;
		if
		:: primary == s && live[OTHER(s)] -> primary = OTHER(s)
		:: else
		fi
	:: else
	fi
}

/* All that the sender cannot do without is said again. */
inline retell()
{
	if
	:: BROKEN != 2 ->
		for (i : 0 .. MESSAGES - 1) {
			say_credit[i] = say_credit[i] || (matched[i] && !done[i]);
			say_fin[i] = say_fin[i] || done[i]
		}
		for (i : 0 .. STREAMS - 1) {
			say_dead[i] = say_dead[i] || (died[i] && !r_live[i])
		}
	:: else
	fi
}

inline receiver_lost(s)
{
	if
	:: r_live[s] ->
		r_live[s] = false;
		died[s] = true;
		if
		:: position[s] != NONE -> dead_epoch[s] = r_epoch[s]; dead_position[s] = position[s]
		:: else
		fi;
		say_dead[s] = true;
		retell()
	:: else
	fi
}

/* Behind what the dead stream delivered: in front of what waits already. */
inline requeue(s, from)
{
	for (i : 1 .. LOG - 1) {
		if
		:: logged[s] ->
			logged[s]--;
			k = s * LOG + logged[s];
			if
			:: (logged[s] >= from || BROKEN == 5) && (log_type[k] == RTS || !sent_done[log_message[k]]) ->
				assert(again < LOG);
				for (j : 1 .. LOG - 1) {
					again_type[LOG - j] = again_type[LOG - j - 1];
					again_message[LOG - j] = again_message[LOG - j - 1];
					again_piece[LOG - j] = again_piece[LOG - j - 1]
				}
				again_type[0] = log_type[k];
				again_message[0] = log_message[k];
				again_piece[0] = log_piece[k];
				again++
			:: else
			fi;
			log_type[k] = 0;
			log_message[k] = 0;
			log_piece[k] = 0
		:: else
		fi
	}
}

inline again_shift()
{
	for (j : 1 .. LOG - 1) {
		again_type[j - 1] = again_type[j];
		again_message[j - 1] = again_message[j];
		again_piece[j - 1] = again_piece[j]
	}
	again_type[LOG - 1] = 0;
	again_message[LOG - 1] = 0;
	again_piece[LOG - 1] = 0;
	again--
}

/* Part x of what is unscheduled. */
inline queue_part(x)
{
	s = primary;
	if
	:: several && USABLE(OTHER(primary)) ->
		s = OTHER(primary);
		if
		:: !announced && BROKEN != 4 -> put(s, RTS, m, 0)
		:: else
		fi;
		announced = 1
	:: true
	fi;
	put(s, PIECE, m, x)
}

inline queue_unscheduled()
{
	announced = 0;
	sent_first[m] = true;
	queue_part(0);
	if
	:: WHOLE(m) -> sent_second[m] = true; queue_part(1)
	:: else
	fi
}

/* Where it makes no difference any more its states are one. */
inline forget_several()
{
	several = several && (sent < SENT || OWING)
}

inline begin()
{
	m = sent;
	sent++;
	unscheduled[m] = PLACES >> m & 1;
	put(primary, RTS, m, 0);
	if
	:: unscheduled[m] && (several || !(LATER >> m & 1)) -> queue_unscheduled()
	:: else
	fi;
	forget_several()
}

/* The oldest first. */
inline queue_owed()
{
	m = (OWED(0) -> 0 : (OWED(1) -> 1 : 2));
	queue_unscheduled();
	forget_several()
}

/* RTS, and what is unscheduled behind one that may be lost, go on one stream in order; the rest anywhere. */
inline send_again()
{
	s = primary;
	if
	:: again_type[0] == PIECE && (FREE(again_message[0]) || BROKEN == 1) && live[OTHER(primary)] -> s = OTHER(primary)
	:: true
	fi;
	put(s, again_type[0], again_message[0], again_piece[0]);
	again_shift()
}

inline send_piece(x, y)
{
	s = y;
	m = x;
	if
	:: !sent_first[m] -> sent_first[m] = true; put(s, PIECE, m, 0)
	:: else -> sent_second[m] = true; put(s, PIECE, m, 1)
	fi
}

/* A new socket, known to both ends at once. While DEAD of the old one is awaited it carries only words. */
inline dial(x)
{
	s = x;
	drain(s);
	cut[s] = false;
	cut_down[s] = false;
	cut_up[s] = false;
	receiver_lost(s);
	epoch[s]++;
	live[s] = true;
	suspect[s] = suspect[s] || awaits[s];
	if
	:: !live[primary] -> primary = s
	:: else
	fi;
	r_live[s] = true;
	r_epoch[s] = epoch[s];
	position[s] = (awaits[s] -> NONE : 0);
	retell();
	say_dead[s] = awaits[s] && died[s]
}

inline hear(x)
{
	up[x]?type, m, p, e;
	if
	:: type == CREDIT -> known[m] = true; credited[m] = true
	:: type == FIN ->
		assert(sent_first[m] && sent_second[m]);
		known[m] = true;
		sent_done[m] = true
	:: type == DEAD ->
		if
		:: live[m] && !awaits[m] && epoch[m] == e -> sender_lost(m)
		:: else
		fi;
		if
		:: awaits[m] && lost_epoch[m] == e ->
			requeue(m, p);
			awaits[m] = false;
			suspect[m] = false;
			if /* the receiver has read nothing but words from its new socket: it counts from here on */
			:: live[m] -> position[m] = 0
			:: else
			fi
		:: else
		fi
	fi
}

active proctype sender()
{
end:	do
	:: atomic { sent < SENT && live[primary] && !HELD -> begin() }
	:: atomic { OWING && ASKED && !HELD && live[primary] -> queue_owed() }
	:: atomic { MAY_CHANGE -> several = !several }
	:: atomic { again && (!awaits[0] && !awaits[1] || BROKEN == 3) && live[primary] -> send_again() }
	:: atomic { nempty(up[0]) && live[0] -> hear(0) }
	:: atomic { nempty(up[1]) && live[1] -> hear(1) }
	:: atomic { cut[0] && live[0] -> sender_lost(0) }
	:: atomic { cut[1] && live[1] -> sender_lost(1) }
	/* Nothing comes, and a socket that goes another way is ready. */
	:: atomic { WAY && lost && !taken ->
		taken = true;
		sender_lost(1);
		sender_lost(0);
		dial(1);
		suspect[0] = suspect[0] && BROKEN != 8
	}
	:: atomic { suspect[0] && live[1] -> suspect[0] = false; write(1, SUSPECT, 0, lost_epoch[0]) }
	:: atomic { suspect[1] && live[0] -> suspect[1] = false; write(0, SUSPECT, 1, lost_epoch[1]) }
	/* Dialled anew, when it is known what the old one brought, or when nothing else is left to ask over. */
	:: atomic { !live[0] && (!awaits[0] || !live[1]) -> dial(0) }
	:: atomic { !live[1] && (!awaits[1] || !live[0]) -> dial(1) }
	:: atomic { WANTS(0) && USABLE(0) -> send_piece(0, 0) }
	:: atomic { WANTS(0) && USABLE(1) -> send_piece(0, 1) }
	:: atomic { WANTS(1) && USABLE(0) -> send_piece(1, 0) }
	:: atomic { WANTS(1) && USABLE(1) -> send_piece(1, 1) }
	:: atomic { WANTS(2) && USABLE(0) -> send_piece(2, 0) }
	:: atomic { WANTS(2) && USABLE(1) -> send_piece(2, 1) }
	od
}

inline whole(x)
{
	if
	:: matched[x] && first[x] && second[x] && !done[x] -> done[x] = true; say_fin[x] = true; say_credit[x] = false
	:: else
	fi
}

inline meet(x)
{
	if
	:: x < next && !matched[x] && posted[TAG(x)] > met[TAG(x)] ->
		assert(x < 2 && !met[TAG(x)] || x == 2 && met[0] == 1); /* its turn */
		met[TAG(x)]++;
		matched[x] = true;
		say_credit[x] = !(unscheduled[x] && WHOLE(x));
		whole(x)
	:: else
	fi
}

/* Of one tag the n-th receive meets the n-th message. */
inline post(t)
{
	posted[t]++;
	m = (posted[t] == 2 -> 2 : t);
	meet(m)
}

inline read(x)
{
	down[x]?type, m, p, e;
	if
	:: position[x] != NONE -> position[x]++
	:: else
	fi;
	if
	:: type == RTS ->
		early[m] = early[m] || m >= next;
		say_credit[m] = say_credit[m] || BROKEN == 6; /* though no receive matches it */
		do
		:: next < MESSAGES && early[next] -> early[next] = false; next++; meet(next - 1)
		:: next == MESSAGES || !early[next] -> break
		od
	:: type == PIECE ->
		assert((m < next || early[m]) && !done[m]);
		if
		:: p == 0 ->
			assert(!first[m] && (matched[m] || unscheduled[m]));
			first[m] = true
		:: else ->
			assert(!second[m] && (matched[m] || unscheduled[m] && WHOLE(m)));
			assert(CHANGES || first[m] || matched[m]); /* on one stream in its order */
			second[m] = true
		fi;
		whole(m)
	:: type == SUSPECT ->
		if
		:: r_live[m] && r_epoch[m] == p -> receiver_lost(m)
		:: (!r_live[m] || r_epoch[m] != p) && died[m] && dead_epoch[m] == p -> say_dead[m] = true
		:: else
		fi
	fi
}

inline flush()
{
	for (i : 0 .. STREAMS - 1) {
		if
		:: say_dead[i] -> say_dead[i] = false; say(DEAD, i, dead_position[i], dead_epoch[i])
		:: else
		fi
	}
	for (i : 0 .. MESSAGES - 1) {
		if
		:: say_credit[i] -> say_credit[i] = false; say(CREDIT, i, 0, 0)
		:: else
		fi;
		if
		:: say_fin[i] -> say_fin[i] = false; say(FIN, i, 0, 0)
		:: else
		fi
	}
}

active proctype receiver()
{
end:	do
	:: atomic { posted[0] < 2 -> post(0) }
	:: atomic { posted[1] < 1 -> post(1) }
	:: atomic { nempty(down[0]) && r_live[0] -> read(0) }
	:: atomic { nempty(down[1]) && r_live[1] -> read(1) }
	:: atomic { cut[0] && r_live[0] -> receiver_lost(0) }
	:: atomic { cut[1] && r_live[1] -> receiver_lost(1) }
	:: atomic { R_ANY && NEWS && len(up[R_LEAD]) <= 2 -> flush() } /* it has room for all */
	od
}

active proctype network()
{
end:	do
	:: atomic { !lost ->
		lost = true;
		if
		:: WAY ->
			for (i : 0 .. STREAMS - 1) {
				cut_down[i] = WAY & 1;
				cut_up[i] = (WAY & 2) != 0;
				do
				:: cut_down[i] && nempty(down[i]) -> down[i]?_, _, _, _
				:: cut_up[i] && nempty(up[i]) -> up[i]?_, _, _, _
				:: (!cut_down[i] || empty(down[i])) && (!cut_up[i] || empty(up[i])) -> break
				od
			}
		:: !WAY -> cut[0] = true; drain(0)
		:: !WAY && !ALL -> cut[1] = true; drain(1)
		fi;
		if
		:: ALL -> cut[1] = true; drain(1)
		:: else
		fi
	}
	/* Nothing else moves: all that have a receive are through. */
	:: atomic { timeout ->
		for (i : 0 .. MESSAGES - 1) {
			assert(i >= SENT || posted[TAG(i)] <= (i == 2) || (done[i] && sent_done[i]))
		}
		break
	}
	od
}
