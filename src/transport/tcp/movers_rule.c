/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/movers_rule.h"

#include "base/clock.h"
#include "base/minmax.h"

/* The thread is the limit while so much of its time goes to long calls, and none of its kind while less does. */
#define SATURATED 0.7
#define RELIEVED  0.5
/* Less than that is no work that could show a gain. */
#define IDLE      0.3
#define GAIN      1.125
#define GAIN_SOON 1.5
#define LOSS      0.8
enum { WINDOWS_BASE = 5, WINDOWS = 10, WINDOWS_SOON = 2, WINDOWS_CHECK = 3, DOUBLED_MOST = 8, CHECKS_DOUBLED_MOST = 5, LOST_DOUBLED_MOST = 3, IDLE_PART = 10 };
#define TRIAL_NS    NS_PER_S /* the peer's movers may begin later */
#define CHECK_NS    (300 * NS_PER_MS)
#define RELIEVED_NS NS_PER_S
#define HOLD_NS     NS_PER_S
#define LOST_NS     NS_PER_S
#define AGAIN_NS    (10 * NS_PER_S) /* of the first check in TCP_MOVERS_ON: 60 ms in 10 s, later in 5 minutes */

static double share_of(const struct tcp_movers_window *window)
{
	return (double)(window->time.calls_ns + window->time.movers_ns) / (double)(window->polled_ns ? window->polled_ns : 1);
}

static double rate_of(const struct tcp_movers_rule *rule)
{
	return (double)rule->bytes / (double)(rule->polled_ns ? rule->polled_ns : 1);
}

static void sum_begin(struct tcp_movers_rule *rule)
{
	rule->windows = 0;
	rule->polled_ns = rule->bytes = 0;
}

/* In the first window of a state threads begin or end. */
static void sum(struct tcp_movers_rule *rule, const struct tcp_movers_window *window)
{
	const bool idle = share_of(window) < IDLE, first = !rule->since_ns;

	rule->since_ns += idle ? window->polled_ns / IDLE_PART : window->polled_ns;
	if (first || idle)
		return;
	rule->windows++;
	rule->polled_ns += window->polled_ns;
	rule->bytes += window->time.bytes;
}

static void go_to(struct tcp_movers_rule *rule, enum tcp_movers_state state)
{
	rule->state = state;
	rule->since_ns = rule->relieved_ns = 0;
	sum_begin(rule);
	if (state == TCP_MOVERS_OFF)
		rule->thread = 0;
}

void tcp_movers_rule_fail(struct tcp_movers_rule *rule, uint64_t now_ns)
{
	rule->after_ns = now_ns + (HOLD_NS << rule->failures);
	rule->failures += rule->failures < DOUBLED_MOST;
	go_to(rule, TCP_MOVERS_OFF);
}

static void step_off(struct tcp_movers_rule *rule, const struct tcp_movers_window *window)
{
	if (window->now_ns < rule->after_ns || (rule->thread && rule->thread != window->thread))
		return;
	if (share_of(window) < SATURATED) {
		go_to(rule, TCP_MOVERS_OFF);
		return;
	}
	rule->thread = window->thread;
	sum(rule, window);
	if (rule->windows < WINDOWS_BASE)
		return;
	if (!rule->bytes) {
		sum_begin(rule);
		return;
	}
	rule->without = rate_of(rule);
	rule->checks = 0;
	go_to(rule, TCP_MOVERS_TRIAL);
}

static void step_trial(struct tcp_movers_rule *rule, const struct tcp_movers_window *window)
{
	double gain;

	sum(rule, window);
	gain = rate_of(rule) / rule->without;
	if ((rule->windows >= WINDOWS && gain >= GAIN) || (rule->windows >= WINDOWS_SOON && gain >= GAIN_SOON)) {
		rule->with = rate_of(rule);
		go_to(rule, TCP_MOVERS_CHECK);
	} else if (rule->since_ns >= TRIAL_NS || (rule->windows >= WINDOWS && gain < LOSS)) {
		tcp_movers_rule_fail(rule, window->now_ns);
	} else if (rule->windows >= WINDOWS) {
		sum_begin(rule);
	}
}

static void step_check(struct tcp_movers_rule *rule, const struct tcp_movers_window *window)
{
	sum(rule, window);
	if (rule->windows < WINDOWS_CHECK && rule->since_ns < CHECK_NS)
		return;
	if (!rule->windows) { /* nothing is known */
		go_to(rule, TCP_MOVERS_OFF);
		return;
	}
	if (rule->with < GAIN * rate_of(rule)) {
		tcp_movers_rule_fail(rule, window->now_ns);
		return;
	}
	rule->check_ns = window->now_ns + (AGAIN_NS << rule->checks);
	rule->checks += rule->checks < CHECKS_DOUBLED_MOST;
	rule->failures = 0;
	rule->with = 0;
	go_to(rule, TCP_MOVERS_ON);
}

/* A thread that has much to do keeps them for all. */
static void step_on(struct tcp_movers_rule *rule, const struct tcp_movers_window *window)
{
	if (share_of(window) >= RELIEVED)
		rule->relieved_ns = 0;
	else
		rule->relieved_ns += window->polled_ns;
	if (rule->relieved_ns >= RELIEVED_NS) {
		go_to(rule, TCP_MOVERS_OFF);
		return;
	}
	if (rule->thread != window->thread)
		return;
	sum(rule, window);
	if (rule->windows < WINDOWS)
		return;
	rule->with = rate_of(rule);
	sum_begin(rule);
	if (window->now_ns >= rule->check_ns)
		go_to(rule, TCP_MOVERS_CHECK);
}

/* Nothing is known of a trial that nobody ends, but two threads by turns may not try for ever. */
static void lose(struct tcp_movers_rule *rule, uint64_t now_ns)
{
	if (rule->state != TCP_MOVERS_OFF) {
		rule->after_ns = now_ns + (HOLD_NS << min_u64(rule->failures, LOST_DOUBLED_MOST));
		rule->failures += rule->failures < LOST_DOUBLED_MOST;
	}
	go_to(rule, TCP_MOVERS_OFF);
}

bool tcp_movers_step(struct tcp_movers_rule *rule, const struct tcp_movers_window *window)
{
	static void (*const steps[TCP_MOVERS_STATE_COUNT])(struct tcp_movers_rule *, const struct tcp_movers_window *) = {
		[TCP_MOVERS_OFF] = step_off,
		[TCP_MOVERS_TRIAL] = step_trial,
		[TCP_MOVERS_CHECK] = step_check,
		[TCP_MOVERS_ON] = step_on,
	};

	/* The thread that is judged has ended, or has nothing to do: another one's turn. */
	if (rule->thread && rule->thread != window->thread && clock_elapsed_ns(rule->seen_ns, window->now_ns) > LOST_NS) {
		if (rule->state == TCP_MOVERS_ON)
			rule->thread = window->thread;
		else
			lose(rule, window->now_ns);
	}
	if (rule->state == TCP_MOVERS_OFF || rule->state == TCP_MOVERS_ON || rule->thread == window->thread)
		steps[rule->state](rule, window);
	if (rule->thread == window->thread)
		rule->seen_ns = window->now_ns;
	return rule->state == TCP_MOVERS_TRIAL || rule->state == TCP_MOVERS_ON;
}
