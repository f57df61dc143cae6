/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of all versions over the fake transport: every slot filled that may be called, a message through each, and what
 * NCCL's int sizes cannot say is refused. The same through the built library over TCP is in tests/conformance.
 */
#include "plugin/versions/slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <string.h>

#include "nccl/v10.h"
#include "nccl/v11.h"
#include "nccl/v12.h"
#include "nccl/v6.h"
#include "nccl/v7.h"
#include "nccl/v8.h"
#include "nccl/v9.h"
#include "unit/plugin/fake_transport.h"

extern const struct nccl_net_v6 ncclNetPlugin_v6;
extern const struct nccl_net_v7 ncclNetPlugin_v7;
extern const struct nccl_net_v8 ncclNetPlugin_v8;
extern const struct nccl_net_v9 ncclNetPlugin_v9;
extern const struct nccl_net_v10 ncclNetPlugin_v10;
extern const struct nccl_net_v11 ncclNetPlugin_v11;
extern const struct nccl_net_v12 ncclNetPlugin_v12;
extern const struct nccl_collnet_v6 ncclCollNetPlugin_v6;
extern const struct nccl_collnet_v7 ncclCollNetPlugin_v7;
extern const struct nccl_collnet_v8 ncclCollNetPlugin_v8;
extern const struct nccl_collnet_v9 ncclCollNetPlugin_v9;
extern const struct nccl_collnet_v10 ncclCollNetPlugin_v10;
extern const struct nccl_collnet_v11 ncclCollNetPlugin_v11;
extern const struct nccl_collnet_v12 ncclCollNetPlugin_v12;

#define NONE      99
#define ABSENT(n) (offsetof(struct nccl_collnet_v##n, iallgather) / sizeof(void *))

static void every_slot_is_filled_that_may_be_called(void **state)
{
	static const struct {
		const void *table;
		size_t bytes,
			absent; /* the first of two slots, which NCCL takes for "not there": iallgather, ireducescatter */
	} tables[] = {
		{ &ncclNetPlugin_v6, sizeof(ncclNetPlugin_v6), NONE },
		{ &ncclNetPlugin_v7, sizeof(ncclNetPlugin_v7), NONE },
		{ &ncclNetPlugin_v8, sizeof(ncclNetPlugin_v8), NONE },
		{ &ncclNetPlugin_v9, sizeof(ncclNetPlugin_v9), NONE },
		{ &ncclNetPlugin_v10, sizeof(ncclNetPlugin_v10), NONE },
		{ &ncclNetPlugin_v11, sizeof(ncclNetPlugin_v11), NONE },
		{ &ncclNetPlugin_v12, sizeof(ncclNetPlugin_v12), NONE },
		{ &ncclCollNetPlugin_v6, sizeof(ncclCollNetPlugin_v6), NONE },
		{ &ncclCollNetPlugin_v7, sizeof(ncclCollNetPlugin_v7), NONE },
		{ &ncclCollNetPlugin_v8, sizeof(ncclCollNetPlugin_v8), ABSENT(8) },
		{ &ncclCollNetPlugin_v9, sizeof(ncclCollNetPlugin_v9), ABSENT(9) },
		{ &ncclCollNetPlugin_v10, sizeof(ncclCollNetPlugin_v10), ABSENT(10) },
		{ &ncclCollNetPlugin_v11, sizeof(ncclCollNetPlugin_v11), ABSENT(11) },
		{ &ncclCollNetPlugin_v12, sizeof(ncclCollNetPlugin_v12), ABSENT(12) },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		uintptr_t slots[32];

		assert_true(tables[i].bytes <= sizeof(slots) && tables[i].bytes % sizeof(slots[0]) == 0);
		memcpy(slots, tables[i].table, tables[i].bytes);
		assert_string_equal(*(const char *const *)tables[i].table, "Tributary");
		for (size_t k = 0; k < tables[i].bytes / sizeof(slots[0]); k++)
			assert_int_equal(slots[k] == 0, k >= tables[i].absent && k < tables[i].absent + 2);
	}
}

#define OK(call) assert_int_equal((call), NCCL_SUCCESS)

static char sent[] = "tributary";
static char received[sizeof(sent)];

/* What is the same in the life of a connection in all versions. `listen`, `connect` and so on are expressions. */
#define ESTABLISH(listen_call, connect_call, accept_call) \
	do {                                              \
		OK(listen_call);                          \
		assert_non_null(listener);                \
		while (!sender)                           \
			OK(connect_call);                 \
		OK(accept_call);                          \
		assert_non_null(receiver);                \
	} while (0)

#define FINISH(table)                                                                                       \
	do {                                                                                                \
		int is_done = 0, got_bytes = -1;                                                            \
                                                                                                            \
		OK((table).test(receive, &is_done, &got_bytes));                                            \
		assert_int_equal(is_done, 1);                                                               \
		assert_int_equal(got_bytes, sizeof(sent));                                                  \
		OK((table).test(send, &is_done, NULL));                                                     \
		assert_string_equal(received, sent);                                                        \
		memset(received, 0, sizeof(received));                                                      \
		OK((table).iflush(receiver, 1, &data, &int_size, &mhandle, &flush));                        \
		assert_null(flush);                                                                         \
		OK((table).deregMr(receiver, mhandle));                                                     \
		assert_int_equal((table).regMrDmaBuf(receiver, data, 1, NCCL_POINTER_CUDA, 0, 0, &mhandle), \
				 NCCL_INTERNAL_ERROR);                                                      \
		OK((table).closeSend(sender));                                                              \
		OK((table).closeRecv(receiver));                                                            \
		OK((table).closeListen(listener));                                                          \
	} while (0)

#define VARIABLES                                                                                   \
	uint8_t handle[NCCL_HANDLE_BYTES];                                                          \
	void *listener = NULL, *sender = NULL, *receiver = NULL, *mhandle = NULL, *data = received; \
	void *send = NULL, *receive = NULL, *flush = NULL;                                          \
	int count = 0, tag = 5, int_size = sizeof(sent)

#define POST_INT(table)                                                                       \
	do {                                                                                  \
		OK((table).regMr(receiver, data, sizeof(sent), NCCL_POINTER_HOST, &mhandle)); \
		assert_int_equal(fake_transport.last_registered_bytes, sizeof(sent));         \
		OK((table).irecv(receiver, 1, &data, &int_size, &tag, &mhandle, &receive));   \
		OK((table).isend(sender, sent, sizeof(sent), tag, mhandle, &send));           \
	} while (0)

/* isend, irecv, iflush refuse what an int cannot say. */
#define REFUSE_NEGATIVE(table)                                                                                         \
	do {                                                                                                           \
		int wrong = -1;                                                                                        \
		void *nothing = NULL;                                                                                  \
                                                                                                                       \
		assert_int_equal((table).irecv(receiver, 1, &data, &wrong, &tag, &mhandle, &nothing),                  \
				 NCCL_INVALID_ARGUMENT);                                                               \
		assert_int_equal((table).irecv(receiver, 9, &data, &wrong, &tag, &mhandle, &nothing),                  \
				 NCCL_INVALID_ARGUMENT);                                                               \
		assert_int_equal((table).isend(sender, sent, INT_MIN, tag, mhandle, &nothing), NCCL_INVALID_ARGUMENT); \
		assert_null(nothing);                                                                                  \
		assert_int_equal(log_lines()->warnings, 3);                                                            \
	} while (0)

static void version_6_moves_a_message(void **state)
{
	const struct nccl_net_v6 *net = &ncclNetPlugin_v6;
	struct nccl_net_properties_v6 properties;
	VARIABLES;

	(void)state;
	OK(net->init(log_lines_sink));
	OK(net->devices(&count));
	assert_int_equal(count, FAKE_PHYSICAL);
	OK(net->getProperties(1, &properties));
	assert_string_equal(properties.name, "fake1");
	assert_int_equal(properties.speed, 2500);
	assert_int_equal(net->getProperties(2, &properties), NCCL_INVALID_ARGUMENT);
	ESTABLISH(net->listen(0, handle, &listener), net->connect(0, handle, &sender),
		  net->accept(listener, &receiver));
	assert_int_equal(fake_transport.last_traffic_class, -1);
	assert_int_equal(net->regMr(receiver, data, -1, NCCL_POINTER_HOST, &mhandle), NCCL_INVALID_ARGUMENT);
	log_lines()->warnings = 0;
	REFUSE_NEGATIVE(*net);
	POST_INT(*net);
	FINISH(*net);
}

static void version_7_moves_a_message(void **state)
{
	const struct nccl_net_v7 *net = &ncclNetPlugin_v7;
	struct nccl_net_device_handle *device_handle = NULL;
	struct nccl_net_properties_v7 properties;
	VARIABLES;

	(void)state;
	OK(net->init(log_lines_sink));
	OK(net->devices(&count));
	OK(net->getProperties(1, &properties));
	assert_int_equal(properties.netDeviceType, NCCL_NET_DEVICE_HOST);
	ESTABLISH(net->listen(0, handle, &listener), net->connect(0, handle, &sender, &device_handle),
		  net->accept(listener, &receiver, &device_handle));
	assert_null(device_handle);
	assert_int_equal(net->regMr(receiver, data, INT_MIN, NCCL_POINTER_HOST, &mhandle), NCCL_INVALID_ARGUMENT);
	log_lines()->warnings = 0;
	REFUSE_NEGATIVE(*net);
	assert_int_equal(net->getDeviceMr(receiver, mhandle, &data), NCCL_INTERNAL_ERROR);
	OK(net->irecvConsumed(receiver, 1, NULL));
	POST_INT(*net);
	FINISH(*net);
}

static void version_8_moves_a_message(void **state)
{
	const struct nccl_net_v8 *net = &ncclNetPlugin_v8;
	struct nccl_net_device_handle *device_handle = NULL;
	struct nccl_net_properties_v8 properties;
	VARIABLES;

	(void)state;
	OK(net->init(log_lines_sink));
	OK(net->devices(&count));
	OK(net->getProperties(0, &properties));
	assert_int_equal(properties.regIsGlobal, 1);
	ESTABLISH(net->listen(0, handle, &listener), net->connect(0, handle, &sender, &device_handle),
		  net->accept(listener, &receiver, &device_handle));
	OK(net->regMr(receiver, data, (size_t)INT_MAX + 1, NCCL_POINTER_HOST, &mhandle));
	assert_true(fake_transport.last_registered_bytes == (size_t)INT_MAX + 1);
	REFUSE_NEGATIVE(*net);
	POST_INT(*net);
	FINISH(*net);
}

static void version_9_moves_a_message(void **state)
{
	const struct nccl_net_v9 *net = &ncclNetPlugin_v9;
	struct nccl_net_vdevice_v9 members = { .ndevs = 2, .devs = { 0, 1 } };
	struct nccl_net_device_handle *device_handle = NULL;
	struct nccl_net_properties_v9 properties;
	size_t size = sizeof(sent);
	int joined = -1;
	VARIABLES;

	(void)state;
	fake_transport.devices[1].pci_path = "/sys/devices/pci0000:00/0000:00:02.0";
	OK(net->init(log_lines_sink));
	OK(net->devices(&count));
	OK(net->makeVDevice(&joined, &members));
	assert_int_equal(joined, FAKE_PHYSICAL);
	OK(net->getProperties(joined, &properties));
	assert_int_equal(properties.vProps.ndevs, 2);
	members.ndevs = NCCL_VDEVICE_MEMBERS_V9 + 1;
	assert_int_equal(net->makeVDevice(&joined, &members), NCCL_INVALID_ARGUMENT);
	members.ndevs = -1;
	assert_int_equal(net->makeVDevice(&joined, &members), NCCL_INVALID_ARGUMENT);
	ESTABLISH(net->listen(joined, handle, &listener), net->connect(joined, handle, &sender, &device_handle),
		  net->accept(listener, &receiver, &device_handle));
	OK(net->regMr(receiver, data, size, NCCL_POINTER_HOST, &mhandle));
	OK(net->irecv(receiver, 1, &data, &size, &tag, &mhandle, &receive));
	OK(net->isend(sender, sent, size, tag, mhandle, &send));
	FINISH(*net);
}

static void version_10_moves_a_message(void **state)
{
	const struct nccl_net_v10 *net = &ncclNetPlugin_v10;
	struct nccl_net_comm_config config = { .trafficClass = 104 };
	struct nccl_net_device_handle *device_handle = NULL;
	struct nccl_net_properties_v10 properties;
	size_t size = sizeof(sent);
	VARIABLES;

	(void)state;
	OK(net->init(log_lines_sink, NULL));
	OK(net->devices(&count));
	OK(net->getProperties(0, &properties));
	assert_int_equal(properties.vProps.ndevs, 1);
	ESTABLISH(net->listen(0, handle, &listener), net->connect(0, &config, handle, &sender, &device_handle),
		  net->accept(listener, &receiver, &device_handle));
	assert_int_equal(fake_transport.last_traffic_class, 104);
	config.trafficClass = INT_MIN;
	OK(net->connect(0, &config, handle, &data, &device_handle));
	assert_int_equal(fake_transport.last_traffic_class, -1);
	OK(net->closeSend(data));
	OK(net->connect(0, NULL, handle, &data, &device_handle));
	assert_int_equal(fake_transport.last_traffic_class, -1);
	OK(net->closeSend(data));
	config.trafficClass = 256;
	assert_int_equal(net->connect(0, &config, handle, &data, &device_handle), NCCL_INVALID_ARGUMENT);
	data = received;
	OK(net->regMr(receiver, data, size, NCCL_POINTER_HOST, &mhandle));
	OK(net->irecv(receiver, 1, &data, &size, &tag, &mhandle, NULL, &receive));
	OK(net->isend(sender, sent, size, tag, mhandle, NULL, &send));
	FINISH(*net);
}

static void version_11_moves_a_message(void **state)
{
	const struct nccl_net_v11 *net = &ncclNetPlugin_v11;
	struct nccl_net_comm_config config = { .trafficClass = 3 };
	struct nccl_net_device_handle *device_handle = NULL;
	struct nccl_net_properties_v11 properties;
	struct nccl_net_attr attr = { .op = 1 };
	size_t size = sizeof(sent);
	void *context = NULL;
	VARIABLES;

	(void)state;
	OK(net->init(&context, 0x1234, &config, log_lines_sink, NULL));
	assert_non_null(context);
	OK(net->devices(&count));
	OK(net->getProperties(0, &properties));
	assert_int_equal(properties.maxMultiRequestSize, 1);
	OK(net->setNetAttr(context, &attr));
	ESTABLISH(net->listen(context, 0, handle, &listener), net->connect(context, 0, handle, &sender, &device_handle),
		  net->accept(listener, &receiver, &device_handle));
	assert_int_equal(fake_transport.last_traffic_class, 3);
	OK(net->regMr(receiver, data, size, NCCL_POINTER_HOST, &mhandle));
	OK(net->irecv(receiver, 1, &data, &size, &tag, &mhandle, NULL, &receive));
	OK(net->isend(sender, sent, size, tag, mhandle, NULL, &send));
	FINISH(*net);
	OK(net->finalize(context));
	assert_int_equal(fake_transport.closes, 1);
}

static void version_12_moves_a_message(void **state)
{
	const struct nccl_net_v12 *net = &ncclNetPlugin_v12;
	struct nccl_net_vdevice_v12 members = { .ndevs = 2, .devs = { 1, 0 } };
	struct nccl_net_device_handle *device_handle = NULL;
	struct nccl_net_properties_v12 properties;
	size_t size = sizeof(sent);
	void *context = NULL;
	int joined = -1;
	VARIABLES;

	(void)state;
	fake_transport.devices[1].pci_path = "/sys/devices/pci0000:00/0000:00:02.0";
	OK(net->init(&context, 0x1234, NULL, log_lines_sink, NULL));
	OK(net->devices(&count));
	OK(net->makeVDevice(&joined, &members));
	OK(net->getProperties(joined, &properties));
	assert_int_equal(properties.vProps.ndevs, 2);
	assert_int_equal(properties.vProps.devs[0], 1);
	assert_int_equal(properties.railId, 1);
	members.ndevs = NCCL_VDEVICE_MEMBERS_V12 + 1;
	assert_int_equal(net->makeVDevice(&joined, &members), NCCL_INVALID_ARGUMENT);
	ESTABLISH(net->listen(context, 0, handle, &listener), net->connect(context, 0, handle, &sender, &device_handle),
		  net->accept(listener, &receiver, &device_handle));
	assert_int_equal(fake_transport.last_traffic_class, -1);
	OK(net->regMr(receiver, data, size, NCCL_POINTER_HOST, &mhandle));
	OK(net->irecv(receiver, 1, &data, &size, &tag, &mhandle, NULL, &receive));
	OK(net->isend(sender, sent, size, tag, mhandle, NULL, &send));
	FINISH(*net);
	OK(net->finalize(context));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_transport_setup, fake_transport_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_slot_is_filled_that_may_be_called),
		TEST(version_6_moves_a_message),
		TEST(version_7_moves_a_message),
		TEST(version_8_moves_a_message),
		TEST(version_9_moves_a_message),
		TEST(version_10_moves_a_message),
		TEST(version_11_moves_a_message),
		TEST(version_12_moves_a_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
