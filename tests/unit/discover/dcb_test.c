/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of the kernel, as it builds them. */
#include "discover/ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

struct reply {
	_Alignas(struct nlmsghdr) unsigned char bytes[1024];
	size_t used;
};

static void begin(struct reply *reply, unsigned short type)
{
	struct nlmsghdr header = { .nlmsg_type = type };

	memset(reply, 0, sizeof(*reply));
	memcpy(reply->bytes, &header, sizeof(header));
	reply->used = NLMSG_SPACE(sizeof(struct dcbmsg));
}

/* The place of the attribute, for end_attribute(). */
static size_t add_attribute(struct reply *reply, unsigned short type, const void *data, size_t bytes)
{
	struct rtattr attribute = { .rta_type = type, .rta_len = (unsigned short)RTA_LENGTH(bytes) };
	size_t at = reply->used;

	memcpy(reply->bytes + at, &attribute, sizeof(attribute));
	if (bytes)
		memcpy(reply->bytes + at + RTA_LENGTH(0), data, bytes);
	reply->used += RTA_SPACE(bytes);
	return at;
}

static void end_attribute(struct reply *reply, size_t at)
{
	unsigned short length = (unsigned short)(reply->used - at);

	memcpy(reply->bytes + at + offsetof(struct rtattr, rta_len), &length, sizeof(length));
}

static int read_reply(struct reply *reply, struct discover_dcb *ret)
{
	uint32_t length = (uint32_t)reply->used;

	memcpy(reply->bytes + offsetof(struct nlmsghdr, nlmsg_len), &length, sizeof(length));
	return discover_dcb_read(reply->bytes, reply->used, ret);
}

/* The interface's name, then the nest: flow control for priority 3, a rate for each class, DSCP 26 and 48, TCP port 80. */
static void build(struct reply *reply, bool with_dscp)
{
	const struct ieee_pfc pfc = { .pfc_cap = 8, .pfc_en = 1 << 3 };
	const struct dcb_app apps[] = { { IEEE_8021QAZ_APP_SEL_STREAM, 2, 80 },
					{ IEEE_8021QAZ_APP_SEL_DSCP, 3, 26 },
					{ IEEE_8021QAZ_APP_SEL_DSCP, 6, 48 },
					{ IEEE_8021QAZ_APP_SEL_DSCP, 1, 64 } };
	const struct ieee_maxrate rates = { .tc_maxrate = { 1 } };
	size_t ieee, table;

	begin(reply, RTM_GETDCB);
	add_attribute(reply, DCB_ATTR_IFNAME, "eth0", 5);
	ieee = add_attribute(reply, DCB_ATTR_IEEE | NLA_F_NESTED, NULL, 0);
	add_attribute(reply, DCB_ATTR_IEEE_MAXRATE, &rates, sizeof(rates));
	add_attribute(reply, DCB_ATTR_IEEE_PFC, &pfc, sizeof(pfc));
	table = add_attribute(reply, DCB_ATTR_IEEE_APP_TABLE | NLA_F_NESTED, NULL, 0);
	for (size_t i = 0; i < (with_dscp ? 4 : 1); i++)
		add_attribute(reply, DCB_ATTR_IEEE_APP, &apps[i], sizeof(apps[i]));
	end_attribute(reply, table);
	end_attribute(reply, ieee);
}

static void flow_control_and_priorities_are_read(void **state)
{
	struct discover_dcb dcb;
	struct reply reply;

	(void)state;
	build(&reply, true);
	assert_int_equal(read_reply(&reply, &dcb), 0);
	assert_true(dcb.has_pfc && dcb.pfc == 1 << 3 && dcb.trusts_dscp);
	for (unsigned i = 0; i < DISCOVER_DSCPS; i++)
		assert_int_equal(dcb.priority[i], i == 26 ? 3 : i == 48 ? 6 : DISCOVER_NO_PRIORITY);
}

static void without_an_entry_for_a_dscp_it_is_the_vlans_tag(void **state)
{
	const uint8_t selectors[] = { IEEE_8021QAZ_APP_SEL_ETHERTYPE, IEEE_8021QAZ_APP_SEL_DSCP };
	struct discover_dcb dcb;
	struct reply reply;
	size_t ieee, table;

	(void)state;
	build(&reply, false);
	assert_int_equal(read_reply(&reply, &dcb), 0);
	assert_true(dcb.has_pfc && !dcb.trusts_dscp);
	/* Since Linux 6.2 a driver may say what it trusts. */
	for (size_t count = 1; count <= 2; count++) {
		begin(&reply, RTM_GETDCB);
		ieee = add_attribute(&reply, DCB_ATTR_IEEE, NULL, 0);
		table = add_attribute(&reply, 11, NULL, 0);
		for (size_t i = 0; i < count; i++)
			add_attribute(&reply, 0, &selectors[i], 1);
		end_attribute(&reply, table);
		end_attribute(&reply, ieee);
		assert_int_equal(read_reply(&reply, &dcb), 0);
		assert_true(!dcb.has_pfc && dcb.trusts_dscp == (count == 2));
	}
}

static void errors_are_no_answer(void **state)
{
	struct discover_dcb dcb;
	struct reply reply;

	(void)state;
	begin(&reply, NLMSG_ERROR);
	assert_int_equal(read_reply(&reply, &dcb), -EOPNOTSUPP);
	begin(&reply, RTM_GETDCB);
	assert_int_equal(read_reply(&reply, &dcb), -ENODATA);
	add_attribute(&reply, DCB_ATTR_IFNAME, "eth0", 5);
	assert_int_equal(read_reply(&reply, &dcb), -ENODATA);
}

/* Nothing behind the end is looked at: each prefix is in memory of its own, for the sanitizers. */
static void a_reply_may_end_anywhere(void **state)
{
	struct discover_dcb dcb;
	struct reply reply;

	(void)state;
	build(&reply, true);
	for (size_t bytes = 0; bytes < reply.used; bytes++) {
		unsigned char *copy = malloc(bytes ? bytes : 1);
		uint32_t length = (uint32_t)bytes;

		assert_non_null(copy);
		memcpy(copy, reply.bytes, bytes);
		if (bytes >= sizeof(length))
			memcpy(copy, &length, sizeof(length));
		(void)discover_dcb_read(copy, bytes, &dcb);
		free(copy);
	}
}

static void an_interface_that_is_not_there_has_no_priorities(void **state)
{
	struct discover_dcb dcb;

	(void)state;
	assert_true(discover_dcb_ask("none-such", &dcb) < 0);
	assert_int_equal(discover_dcb_ask("a-name-that-is-longer-than-any-interface-has", &dcb), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flow_control_and_priorities_are_read),
		cmocka_unit_test(without_an_entry_for_a_dscp_it_is_the_vlans_tag),
		cmocka_unit_test(errors_are_no_answer),
		cmocka_unit_test(a_reply_may_end_anywhere),
		cmocka_unit_test(an_interface_that_is_not_there_has_no_priorities),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
