/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/versions/properties.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "nccl/v10.h"
#include "nccl/v11.h"
#include "nccl/v12.h"
#include "nccl/v6.h"
#include "nccl/v7.h"
#include "nccl/v8.h"
#include "nccl/v9.h"
#include "unit/plugin/fake_transport.h"

/* No two fields alike, and none 0: a forgotten or a crossed assignment shows. */
static const struct plugin_net_properties inner = {
	.name = "eth5",
	.pci_path = "/sys/devices/pci0000:00/0000:00:02.0",
	.guid = 0x1122334455667788,
	.memory = NCCL_POINTER_HOST | NCCL_POINTER_DMABUF,
	.registration_is_global = true,
	.force_flush = true,
	.speed_Bps = 12500000000,
	.latency_ns = 1500,
	.port = 3,
	.max_connections = 4096,
	.max_recvs = 8,
	.max_p2p_bytes = (size_t)1 << 40,
	.max_collective_bytes = (size_t)1 << 39,
	.max_multi_request = 7,
	.rail = 2,
	.plane = -1,
	.member_count = 4,
	.members = { 10, 11, 12, 13 },
};

static struct plugin_properties converted(int greatest_members)
{
	struct plugin_properties from;

	assert_int_equal(plugin_properties_convert(&inner, greatest_members, &from), 0);
	return from;
}

/* What the fields of each version must be, by the names that all versions share. */
#define ASSERT_V6(to)                                                                      \
	do {                                                                               \
		assert_string_equal((to).name, "eth5");                                    \
		assert_string_equal((to).pciPath, "/sys/devices/pci0000:00/0000:00:02.0"); \
		assert_true((to).guid == 0x1122334455667788);                              \
		assert_int_equal((to).ptrSupport, 5);                                      \
		assert_int_equal((to).speed, 100000);                                      \
		assert_int_equal((to).port, 3);                                            \
		assert_true((to).latency == 1.5f);                                         \
		assert_int_equal((to).maxComms, 4096);                                     \
		assert_int_equal((to).maxRecvs, 8);                                        \
	} while (0)
#define ASSERT_V7(to)                                       \
	do {                                                \
		ASSERT_V6(to);                              \
		assert_int_equal((to).netDeviceType, 0);    \
		assert_int_equal((to).netDeviceVersion, 0); \
	} while (0)
#define ASSERT_V8(to)                                  \
	do {                                           \
		ASSERT_V7(to);                         \
		assert_int_equal((to).regIsGlobal, 1); \
	} while (0)
#define ASSERT_V9(to)                                              \
	do {                                                       \
		ASSERT_V8(to);                                     \
		assert_int_equal((to).forceFlush, 1);              \
		assert_int_equal((to).vProps.ndevs, 4);            \
		assert_int_equal((to).vProps.devs[0], 10);         \
		assert_int_equal((to).vProps.devs[3], 13);         \
		assert_true((to).maxP2pBytes == (size_t)1 << 40);  \
		assert_true((to).maxCollBytes == (size_t)1 << 39); \
	} while (0)

static void version_6_has_its_fields(void **state)
{
	struct plugin_properties from = converted(0);
	struct nccl_net_properties_v6 to;

	(void)state;
	memset(&to, 0xa5, sizeof(to));
	PLUGIN_PROPERTIES_SET_V6(&to, &from);
	ASSERT_V6(to);
}

static void version_7_has_its_fields(void **state)
{
	struct plugin_properties from = converted(0);
	struct nccl_net_properties_v7 to;

	(void)state;
	memset(&to, 0xa5, sizeof(to));
	PLUGIN_PROPERTIES_SET_V7(&to, &from);
	ASSERT_V7(to);
}

static void version_8_has_its_fields(void **state)
{
	struct plugin_properties from = converted(0);
	struct nccl_net_properties_v8 to;

	(void)state;
	memset(&to, 0xa5, sizeof(to));
	PLUGIN_PROPERTIES_SET_V8(&to, &from);
	ASSERT_V8(to);
}

static void version_9_has_its_fields(void **state)
{
	struct plugin_properties from = converted(NCCL_VDEVICE_MEMBERS_V9);
	struct nccl_net_properties_v9 to;

	(void)state;
	memset(&to, 0xa5, sizeof(to));
	PLUGIN_PROPERTIES_SET_V9(&to, &from);
	ASSERT_V9(to);
}

static void version_10_has_its_fields(void **state)
{
	struct plugin_properties from = converted(NCCL_VDEVICE_MEMBERS_V9);
	struct nccl_net_properties_v10 to;

	(void)state;
	memset(&to, 0xa5, sizeof(to));
	PLUGIN_PROPERTIES_SET_V10(&to, &from);
	ASSERT_V9(to);
}

static void version_11_has_its_fields(void **state)
{
	struct plugin_properties from = converted(NCCL_VDEVICE_MEMBERS_V9);
	struct nccl_net_properties_v11 to;

	(void)state;
	memset(&to, 0xa5, sizeof(to));
	PLUGIN_PROPERTIES_SET_V11(&to, &from);
	ASSERT_V9(to);
	assert_int_equal(to.maxMultiRequestSize, 7);
}

static void version_12_has_its_fields(void **state)
{
	struct plugin_properties from = converted(NCCL_VDEVICE_MEMBERS_V12);
	struct nccl_net_properties_v12 to;

	(void)state;
	memset(&to, 0xa5, sizeof(to));
	PLUGIN_PROPERTIES_SET_V12(&to, &from);
	ASSERT_V9(to);
	assert_int_equal(to.maxMultiRequestSize, 7);
	assert_int_equal(to.railId, 2);
	assert_int_equal(to.planeId, -1);
	assert_int_equal(to.vProps.devs[7], 0);
}

static void refused(const struct plugin_net_properties *properties, int greatest_members, const char *what)
{
	struct plugin_properties from;

	log_lines_forget();
	assert_int_equal(plugin_properties_convert(properties, greatest_members, &from), -EINVAL);
	assert_int_equal(log_lines()->warnings, 1);
	assert_non_null(strstr(log_lines()->warning, what));
	assert_non_null(strstr(log_lines()->warning, "eth5"));
}

static void what_does_not_fit_is_refused(void **state)
{
	struct plugin_net_properties wrong = inner;
	struct plugin_properties from;

	(void)state;
	wrong.speed_Bps = (uint64_t)INT32_MAX * 125000 + 124999;
	assert_int_equal(plugin_properties_convert(&wrong, 8, &from), 0);
	assert_int_equal(from.speed_Mbps, INT32_MAX);
	wrong.speed_Bps++;
	refused(&wrong, 8, "speed");
	wrong = inner;
	wrong.memory = (unsigned)INT32_MAX + 1;
	refused(&wrong, 8, "memory");
	wrong = inner;
	wrong.rail = INT16_MAX + 1;
	refused(&wrong, 8, "rail");
	wrong = inner;
	wrong.plane = INT16_MIN - 1;
	refused(&wrong, 8, "plane");
}

static void more_members_than_a_version_has_room_for_are_refused(void **state)
{
	struct plugin_net_properties eight = inner;
	struct plugin_properties from;

	(void)state;
	eight.member_count = 8;
	assert_int_equal(plugin_properties_convert(&eight, 0, &from), 0);
	assert_int_equal(plugin_properties_convert(&eight, NCCL_VDEVICE_MEMBERS_V12, &from), 0);
	refused(&eight, NCCL_VDEVICE_MEMBERS_V9, "members");
	eight.member_count = 0;
	refused(&eight, NCCL_VDEVICE_MEMBERS_V12, "members");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_transport_setup, fake_transport_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(version_6_has_its_fields),
		TEST(version_7_has_its_fields),
		TEST(version_8_has_its_fields),
		TEST(version_9_has_its_fields),
		TEST(version_10_has_its_fields),
		TEST(version_11_has_its_fields),
		TEST(version_12_has_its_fields),
		TEST(what_does_not_fit_is_refused),
		TEST(more_members_than_a_version_has_room_for_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
