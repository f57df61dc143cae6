/* SPDX-License-Identifier: Apache-2.0 */
#include "control_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

struct control_secret control_pair_secret(const char *text)
{
	struct control_secret secret = { .count = strlen(text) };

	memcpy(secret.bytes, text, secret.count);
	return secret;
}

bool control_pair_byte(struct control_channel *from, struct control_channel *to, int *ret)
{
	const uint8_t *out;
	uint8_t *in;

	if (!control_channel_pending(from, &out) || !control_channel_wants(to, &in))
		return false;
	*in = *out;
	control_channel_went(from, 1);
	*ret = control_channel_came(to, 1);
	return true;
}

void control_pair_run(struct control_channel *a, struct control_channel *b)
{
	bool moved = true;
	int r;

	while (moved) {
		moved = control_pair_byte(a, b, &r);
		moved |= control_pair_byte(b, a, &r);
	}
}

void control_pair_prove(struct control_channel *client, struct control_channel *aggregator,
			const struct control_secret *secret)
{
	assert_int_equal(control_channel_init(client, CONTROL_CLIENT, secret, "here"), 0);
	assert_int_equal(control_channel_init(aggregator, CONTROL_SERVER, secret, "there"), 0);
	control_pair_run(client, aggregator);
	assert_true(control_channel_proved(client) && control_channel_proved(aggregator));
}
