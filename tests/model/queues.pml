/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA's queues when they fail (docs/design/transport.md, "Failing over"): how both ends stop a queue, settle what it
 * brought, and build another. A connection has its own queue and the spare, each on its own path; the connecting side
 * sends items over whichever is live. Each step is what failover.c does under the connection's lock, or the card, or
 * the thread that connects a queue pair.
 *
 * Faults, FAULTS in a run: a port of the own path goes down or up at either end, the path swallows all, a queue pair
 * fails with or without what was on its way. The control connection is reliable and in order (messages.pml has that).
 *
 * Left out: descriptors and their order, memory, the waits before a new try. A queue is built EPOCHS times at most.
 *
 * Checked in every state: an item counts once, and never after it was given to another queue. What a peer counts is
 * between what was acknowledged and what was posted. Only its thread touches a queue pair that connects. BUILD finds a
 * queue that rests. At every end all items have arrived and are known to.
 *
 * tests/model/check runs it. -DBROKEN=1 to 5: one rule is not kept, which must be found.
 */
#ifndef ITEMS
#define ITEMS 2
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef EPOCHS
#define EPOCHS 3
#endif
#ifndef BROKEN
#define BROKEN 0
#endif

#define S 0 /* connects, and sends */
#define R 1
#define OWN   0
#define SPARE 1
#define AT(e, q) ((e) * 2 + (q))
#define OTHER(x) (1 - (x))
#define ALL      ((1 << ITEMS) - 1)
#define DEPTH    (ITEMS + 1) /* the proof, and each item once */
#define PROOF    ITEMS

/* enum verbs_queue_state */
#define RESTING    0
#define CONNECTING 1
#define JOINING    2
#define PROVING    3
#define LIVE       4
#define STOPPING   5
#define STOPPED    6

/* enum verbs_frame_type */
#define F_READY   0
#define F_STOPPED 1
#define F_BUILD   2
#define F_BUILT   3

byte state[4];
byte epoch[4];
bool connects[4];              /* a thread is at its queue pair */
bool asked[2];                 /* S: BUILD was said */
bool peer_stopped[4];
byte peer_notices[4];
byte tail[4], head[4], there[4]; /* posted, acknowledged, arrived in the peer's memory */
byte arrived[4];               /* completions of receives that were not taken yet */
byte notices[4];               /* taken */
bool forgets[4];               /* its queue pair fails now: nothing more of it arrives */
byte item[2 * DEPTH];          /* of S, by queue and place */
byte todo = ALL, done, got;    /* sets */
bool down[2];                  /* the own port, of each end */
bool swallows;                 /* the own path */
byte faults;
chan frames[2] = [6] of { byte, byte, byte, byte }; /* to S, to R: type, queue, epoch, count */

hidden byte i, d, kind, fq, fe, fc;

#define STANDS(e, q)  (state[AT(e, q)] == JOINING || state[AT(e, q)] == PROVING || state[AT(e, q)] == LIVE)
#define SENDS(e, q)   (state[AT(e, q)] == PROVING || state[AT(e, q)] == LIVE)
/* R is ready once its thread is done, S once that has connected it, which it has as it proves. */
#define TAKES(e, q)   (((e) == R && STANDS(R, q)) || ((e) == S && SENDS(S, q)))
#define WORKS(q)      ((q) == SPARE || (!down[S] && !down[R] && !swallows))
#define REACHES(e, q) \
	(SENDS(e, q) && TAKES(OTHER(e), q) && epoch[AT(e, q)] == epoch[AT(OTHER(e), q)] && WORKS(q) && !forgets[AT(e, q)])
#define LIVES(e)      (state[AT(e, OWN)] == LIVE || state[AT(e, SPARE)] == LIVE)

inline say(e, type, q, count)
{
	frames[OTHER(e)]!type, q, epoch[AT(e, q)], count
}

inline clear(e, q)
{
	tail[AT(e, q)] = 0;
	head[AT(e, q)] = 0;
	there[AT(e, q)] = 0;
	arrived[AT(e, q)] = 0;
	notices[AT(e, q)] = 0;
	forgets[AT(e, q)] = false;
	peer_stopped[AT(e, q)] = false;
	peer_notices[AT(e, q)] = 0
}

inline rest(e, q)
{
	assert(!connects[AT(e, q)]);
	state[AT(e, q)] = RESTING;
	clear(e, q);
	if
	:: (e) == S -> asked[q] = false
	:: else
	fi
}

inline lost(e, q)
{
	if
	:: STANDS(e, q) ->
		state[AT(e, q)] = STOPPING;
		if
		:: (e) == S -> asked[q] = false
		:: else
		fi
	:: else
	fi
}

inline give_back(q)
{
	i = head[AT(S, q)];
	do
	:: i < tail[AT(S, q)] ->
		d = item[(q) * DEPTH + i];
		if
		:: d != PROOF && i < peer_notices[AT(S, q)] -> done = done | 1 << d
		:: d != PROOF && i >= peer_notices[AT(S, q)] -> todo = todo | 1 << d
		:: else
		fi;
		i++
	:: else -> break
	od
}

inline settle(e, q)
{
	if
	:: state[AT(e, q)] == STOPPED && (peer_stopped[AT(e, q)] || (BROKEN == 2 && (e) == S)) ->
		if
		:: BROKEN == 2 && !peer_stopped[AT(e, q)] -> peer_notices[AT(e, q)] = head[AT(e, q)]
		:: else
		fi;
		assert(head[AT(e, q)] <= peer_notices[AT(e, q)] && peer_notices[AT(e, q)] <= tail[AT(e, q)]);
		if
		:: (e) == S -> give_back(q)
		:: else
		fi;
		rest(e, q)
	:: else
	fi
}

/* All that it had received is taken. */
inline stop(e, q)
{
	state[AT(e, q)] = STOPPED;
	say(e, F_STOPPED, q, notices[AT(e, q)]);
	settle(e, q)
}

inline stop_too(e, q)
{
	if
	:: state[AT(e, q)] == CONNECTING && BROKEN != 4 /* when its thread is done */
	:: state[AT(e, q)] == CONNECTING && BROKEN == 4 ->
		state[AT(e, q)] = STOPPED;
		say(e, F_STOPPED, q, 0);
		settle(e, q)
	:: state[AT(e, q)] == RESTING ->
		peer_stopped[AT(e, q)] = false;
		peer_notices[AT(e, q)] = 0;
		if
		:: (e) == R -> say(R, F_STOPPED, q, 0)
		:: else
		fi
	:: else ->
		lost(e, q);
		settle(e, q)
	fi
}

inline post(e, q, what)
{
	if
	:: (e) == S -> item[(q) * DEPTH + tail[AT(S, q)]] = what
	:: else
	fi;
	tail[AT(e, q)]++
}

inline proves(e, q)
{
	state[AT(e, q)] = PROVING;
	post(e, q, PROOF)
}

inline connect(e, q)
{
	state[AT(e, q)] = CONNECTING;
	connects[AT(e, q)] = true
}

inline connected(e, q, works)
{
	connects[AT(e, q)] = false;
	if
	:: (e) == R && works ->
		state[AT(R, q)] = JOINING;
		say(R, F_BUILT, q, 1)
	:: (e) == R && !works ->
		fe = peer_stopped[AT(R, q)];
		rest(R, q);
		peer_stopped[AT(R, q)] = fe;
		say(R, F_BUILT, q, 0)
	:: (e) == S && works ->
		say(S, F_READY, q, 0);
		proves(S, q)
	:: (e) == S && !works ->
		state[AT(S, q)] = JOINING;
		lost(S, q)
	fi;
	if
	:: peer_stopped[AT(e, q)] -> stop_too(e, q)
	:: else
	fi
}

inline take_frame(e)
{
	frames[e]?kind, fq, fe, fc;
	if
	:: kind == F_BUILD ->
		assert(state[AT(R, fq)] == RESTING && fe > epoch[AT(R, fq)]);
		clear(R, fq);
		epoch[AT(R, fq)] = fe;
		if
		:: fq == SPARE || !down[R] -> connect(R, fq)
		:: fq == OWN && down[R] -> say(R, F_BUILT, fq, 0)
		fi
	:: kind != F_BUILD && fe != epoch[AT(e, fq)] /* of a queue that is no more */
	:: kind == F_STOPPED && fe == epoch[AT(e, fq)] ->
		peer_stopped[AT(e, fq)] = true;
		peer_notices[AT(e, fq)] = fc;
		stop_too(e, fq)
	:: kind == F_BUILT && fe == epoch[AT(e, fq)] ->
		if
		:: state[AT(S, fq)] == JOINING && asked[fq] ->
			asked[fq] = false;
			if
			:: fc -> connect(S, fq)
			:: else -> rest(S, fq)
			fi
		:: else
		fi
	:: kind == F_READY && fe == epoch[AT(e, fq)] ->
		if
		:: state[AT(R, fq)] == JOINING -> proves(R, fq)
		:: else
		fi
	:: else
	fi;
	kind = 0;
	fq = 0;
	fe = 0;
	fc = 0
}

/* The connecting side. */
inline build(q)
{
	clear(S, q);
	epoch[AT(S, q)]++;
	state[AT(S, q)] = JOINING;
	asked[q] = true;
	say(S, F_BUILD, q, 0)
}

/* One queue at one end, and its card. */
proctype queue(byte e; byte q)
{
end:
	do
	:: atomic { REACHES(e, q) && there[AT(e, q)] < tail[AT(e, q)] ->
		there[AT(e, q)]++;
		arrived[AT(OTHER(e), q)]++ }
	:: atomic { head[AT(e, q)] < there[AT(e, q)] && (SENDS(e, q) || state[AT(e, q)] == STOPPING) ->
		if
		:: e == S && item[q * DEPTH + head[AT(S, q)]] != PROOF ->
			done = done | 1 << item[q * DEPTH + head[AT(S, q)]]
		:: else
		fi;
		head[AT(e, q)]++;
		if
		:: state[AT(e, q)] == PROVING -> state[AT(e, q)] = LIVE
		:: else
		fi }
	:: atomic { arrived[AT(e, q)] && (TAKES(e, q) || state[AT(e, q)] == STOPPING || BROKEN == 1) ->
		if
		:: e == R && item[q * DEPTH + notices[AT(R, q)]] != PROOF ->
			assert(!(got & 1 << item[q * DEPTH + notices[AT(R, q)]]));
			got = got | 1 << item[q * DEPTH + notices[AT(R, q)]]
		:: else
		fi;
		arrived[AT(e, q)]--;
		notices[AT(e, q)]++ }
	/* The card gives up. */
	:: atomic { SENDS(e, q) && there[AT(e, q)] < tail[AT(e, q)] && !REACHES(e, q) -> lost(e, q) }
	:: atomic { connects[AT(e, q)] -> connected(e, q, true) }
	:: atomic { connects[AT(e, q)] && !WORKS(q) -> connected(e, q, false) }
	:: atomic { state[AT(e, q)] == STOPPING && (!arrived[AT(e, q)] || BROKEN == 1) -> stop(e, q) }
	:: atomic { q == OWN && down[e] && STANDS(e, OWN) -> lost(e, OWN) }
	:: atomic { e == S && q == OWN && (state[AT(S, OWN)] == RESTING || (BROKEN == 3 && state[AT(S, OWN)] == STOPPED)) &&
		    !down[S] && epoch[AT(S, OWN)] < EPOCHS ->
		build(OWN) }
	:: atomic { e == S && q == SPARE && state[AT(S, SPARE)] == RESTING && !LIVES(S) &&
		    epoch[AT(S, SPARE)] < EPOCHS + FAULTS + 1 && (epoch[AT(S, OWN)] || state[AT(S, OWN)] != PROVING) ->
		build(SPARE) }
	:: atomic { e == S && q == SPARE && state[AT(S, SPARE)] == LIVE && state[AT(S, OWN)] == LIVE &&
		    notices[AT(S, OWN)] ->
		if
		:: BROKEN == 5 ->
			peer_notices[AT(S, SPARE)] = head[AT(S, SPARE)];
			give_back(SPARE);
			rest(S, SPARE)
		:: else -> lost(S, SPARE)
		fi }
	:: atomic { e == S && state[AT(S, q)] == LIVE && todo ->
		d = 0;
		do
		:: todo & 1 << d -> break
		:: else -> d++
		od;
		todo = todo & ~(1 << d);
		post(S, q, d) }
	od
}

proctype control(byte e)
{
end:
	do
	:: atomic { nempty(frames[e]) -> take_frame(e) }
	od
}

proctype network()
{
end:
	do
	:: atomic { faults < FAULTS -> faults++;
		if
		:: down[S] = !down[S]
		:: down[R] = !down[R]
		:: swallows = !swallows
		:: forgets[AT(S, OWN)] = true
		:: forgets[AT(R, OWN)] = true
		:: forgets[AT(S, SPARE)] = true
		:: forgets[AT(R, SPARE)] = true
		fi }
	od
}

/* Nothing can happen any more. */
proctype watch()
{
	timeout -> assert(done == ALL && got == ALL)
}

init
{
	atomic {
		proves(S, OWN);
		proves(R, OWN);
		run queue(S, OWN);
		run queue(S, SPARE);
		run queue(R, OWN);
		run queue(R, SPARE);
		run control(S);
		run control(R);
		run network();
		run watch()
	}
}
