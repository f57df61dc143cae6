/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's variables of the fabric: how they are read, and what is asked of a device for them. */
#include "transport/verbs/fabric.h"

#include "base/clock.h"
#include "support/log_lines.h"
#include "support/runtime.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/link_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

static const struct transport_ops *const ops = &transport_verbs;

static struct verbs_fabric with(const char *name, const char *value)
{
	struct verbs_fabric fabric;

	setenv(name, value, 1);
	verbs_fabric_load(&fabric);
	unsetenv(name);
	return fabric;
}

static void numbers_are_read_as_nccl_reads_them(void **state)
{
	struct verbs_fabric fabric;

	(void)state;
	verbs_fabric_load(&fabric);
	assert_int_equal(fabric.pkey_index, 0);
	assert_int_equal(fabric.receivers_class, -1);
	assert_int_equal(fabric.flid_gid_index, 1);
	assert_int_equal(fabric.wish.version, 2);
	assert_false(fabric.wish.ipv6);
	assert_int_equal(with("NCCL_IB_PKEY", "0x3").pkey_index, 3);
	assert_int_equal(with("NCCL_IB_PKEY", "-1").pkey_index, 0);
	assert_int_equal(with("NCCL_IB_PKEY", "").pkey_index, 0);
	assert_int_equal(with("NCCL_IB_PKEY", "99999999999999999999").pkey_index, 0);
	assert_int_equal(with("NCCL_IB_FIFO_TC", "192").receivers_class, 192);
	assert_int_equal(with("NCCL_IB_FIFO_TC", "256").receivers_class, -1);
	assert_int_equal(with("NCCL_IB_ROUTABLE_FLID_GID_INDEX", "0").flid_gid_index, 0);
	assert_int_equal(with("NCCL_IB_ROCE_VERSION_NUM", "1").wish.version, 1);
	assert_int_equal(fabric.timeout, -1);
	assert_int_equal(fabric.retry_count, -1);
	assert_true(fabric.relaxed);
	assert_false(with("NCCL_IB_PCI_RELAXED_ORDERING", "0").relaxed);
	assert_int_equal(verbs_fabric_retries_ns(&fabric), 0);
	fabric = with("NCCL_IB_TIMEOUT", "22");
	assert_int_equal(verbs_fabric_retries_ns(&fabric), 8 * (UINT64_C(4096) << 22));
	fabric.retry_count = with("NCCL_IB_RETRY_CNT", "3").retry_count;
	assert_int_equal(verbs_fabric_retries_ns(&fabric), 4 * (UINT64_C(4096) << 22));
	assert_int_equal(with("NCCL_IB_RETRY_CNT", "8").retry_count, -1);
	assert_true(with("NCCL_IB_ADDR_FAMILY", "AF_INET6").wish.ipv6);
	assert_false(with("NCCL_IB_ADDR_FAMILY", "IPv6").wish.ipv6);
}

static void a_range_is_an_address_and_bits(void **state)
{
	static const uint8_t four[16] = { [10] = 0xff, 0xff, 10, 1, 2, 0 };
	struct verbs_fabric fabric = with("NCCL_IB_ADDR_RANGE", "10.1.2.0/23");

	(void)state;
	assert_int_equal(fabric.wish.range_bits, 96 + 23);
	assert_memory_equal(fabric.wish.range, four, sizeof(four));
	assert_int_equal(with("NCCL_IB_ADDR_RANGE", "10.1.2.0/33").wish.range_bits, 0);
	assert_int_equal(with("NCCL_IB_ADDR_RANGE", "10.1.2.0").wish.range_bits, 0);
	assert_int_equal(with("NCCL_IB_ADDR_RANGE", "10.1.2/8").wish.range_bits, 0);
	assert_int_equal(with("NCCL_IB_ADDR_RANGE", "fd00::/8").wish.range_bits, 0);
	setenv("NCCL_IB_ADDR_FAMILY", "AF_INET6", 1);
	assert_int_equal(with("NCCL_IB_ADDR_RANGE", "fd00::/8").wish.range_bits, 8);
	unsetenv("NCCL_IB_ADDR_FAMILY");
}

static void variables_without_effect_are_named_once(void **state)
{
	struct verbs_link_harness harness;
	char text[64], little[16];

	(void)state;
	assert_string_equal(verbs_fabric_unread(text, sizeof(text)), "");
	setenv("NCCL_IB_HCA", "fake", 1);
	setenv("NCCL_IB_USE_INLINE", "1", 1);
	setenv("NCCL_IB_PKEYS", "1", 1);
	verbs_fabric_unread(text, sizeof(text));
	assert_non_null(strstr(text, "NCCL_IB_USE_INLINE"));
	assert_non_null(strstr(text, "NCCL_IB_PKEYS"));
	assert_null(strstr(text, "HCA"));
	assert_int_equal(strlen(verbs_fabric_unread(little, sizeof(little))), sizeof(little) - 1);
	log_lines_start("without effect on Tributary's RDMA: NCCL_IB_");
	verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 1 }, NULL);
	assert_int_equal(log_lines()->found, 1);
	log_set_sink(NULL);
	assert_int_equal(link_open(ops, harness.transport, 0, &harness.link), 0);
	verbs_link_harness_close(&harness);
	unsetenv("NCCL_IB_HCA");
	unsetenv("NCCL_IB_USE_INLINE");
	unsetenv("NCCL_IB_PKEYS");
}

/* Of the queue pairs of both ends, and of a receiver's with itself. */
static void the_partition_key_is_the_one_that_was_asked_for(void **state)
{
	struct fake_verbs_gpu gpu = fake_verbs_gpu_new(8192);
	struct verbs_link_harness harness;
	void *registration;

	(void)state;
	setenv("NCCL_IB_PKEY", "1", 1);
	log_lines_start("port 1 of RDMA device fake0 is a limited member of partition 0x1");
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1, .dmabuf = true }, 1, false);
	assert_int_equal(log_lines()->found, 1);
	log_set_sink(NULL);
	assert_int_equal(fake_verbs_last_pkey(0), 1);
	assert_int_equal(ops->memory_register_dmabuf(harness.link.receiver, gpu.address, gpu.bytes,
						     TRANSPORT_MEMORY_CUDA, 0, gpu.fd, &registration),
			 0);
	assert_int_equal(fake_verbs_last_pkey(0), 1);
	verbs_link_harness_close(&harness);
	fake_verbs_gpu_free(&gpu);
	log_lines_start("port 1 of RDMA device fake0 has 2 partition keys (NCCL_IB_PKEY=2)");
	setenv("NCCL_IB_PKEY", "2", 1);
	verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 1 }, NULL);
	unsetenv("NCCL_IB_PKEY");
	assert_int_equal(log_lines()->found, 1);
	log_set_sink(NULL);
	assert_int_equal(ops->device_count(harness.transport), 0);
	verbs_link_harness_close(&harness);
}

static void retries_and_order_are_as_they_were_asked_for(void **state)
{
	static uint8_t memory[4096];
	struct verbs_link_harness harness;
	void *registration;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_qp_attr ready;

		if (i) {
			setenv("NCCL_IB_TIMEOUT", "9", 1);
			setenv("NCCL_IB_RETRY_CNT", "4", 1);
			setenv("NCCL_IB_PCI_RELAXED_ORDERING", "0", 1);
		}
		verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 1, false);
		ready = fake_verbs_last_ready(0);
		assert_int_equal(ready.timeout == 9, i);
		assert_int_equal(ready.retry_cnt == 4, i);
		assert_int_equal(ops->memory_register(harness.link.sender, memory, sizeof(memory),
						      TRANSPORT_MEMORY_HOST, &registration),
				 0);
		assert_int_equal(!!(fake_verbs_access(memory) & IBV_ACCESS_RELAXED_ORDERING), !i);
		verbs_link_harness_close(&harness);
	}
	unsetenv("NCCL_IB_TIMEOUT");
	unsetenv("NCCL_IB_RETRY_CNT");
	unsetenv("NCCL_IB_PCI_RELAXED_ORDERING");
}

static void few_descriptors_are_told_of(void **state)
{
	static const rlim_t limits[] = { 1024, 4096 };
	struct verbs_link_harness harness;
	struct rlimit before, limit;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (unsigned i = 0; i < 2 && limits[i] <= before.rlim_max; i++) {
		limit = before;
		limit.rlim_cur = limits[i];
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		log_lines_start("RDMA takes 4 descriptors for a connection, and this process may have 1024");
		verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 1 }, NULL);
		assert_int_equal(log_lines()->found, !i);
		log_set_sink(NULL);
		verbs_link_harness_close(&harness);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void ports_beyond_the_room_are_left_out_with_a_line(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	log_lines_start("RDMA: the first 32 ports are used, and 2 devices or ports left out");
	verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 34 }, NULL);
	assert_int_equal(log_lines()->found, 1);
	assert_int_equal(ops->device_count(harness.transport), 32);
	ops->close(harness.transport);
	snprintf(harness.params.hca, sizeof(harness.params.hca), "^=fake0,fake1");
	assert_int_equal(ops->open(&harness.params, &harness.transport), 0);
	assert_int_equal(log_lines()->found, 1);
	log_set_sink(NULL);
	assert_int_equal(ops->device_count(harness.transport), 32);
	verbs_link_harness_close(&harness);
}

/* ---- adaptive routing ---- */

/* Whether notices of so long a message come in writes of their own. */
static bool notices_come_apart(bool ethernet, size_t bytes)
{
	struct verbs_link_harness harness;
	struct fake_verbs_counts counts;

	verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 1 }, NULL);
	ops->close(harness.transport);
	fake_verbs_set_port(0, true, ethernet);
	assert_int_equal(ops->open(&harness.params, &harness.transport), 0);
	assert_int_equal(link_open(ops, harness.transport, 0, &harness.link), 0);
	for (unsigned i = 0; i < 200; i++) /* more than there are places for numbers */
		assert_int_equal(link_exchange(&harness.link, bytes, i), 0);
	fake_verbs_counts(&counts);
	verbs_link_harness_close(&harness);
	return counts.silent_writes > 0;
}

static void long_messages_may_take_several_paths(void **state)
{
	enum { LONG = 1 << 20 };

	(void)state;
	assert_false(notices_come_apart(true, LONG));
	assert_true(notices_come_apart(false, LONG));
	setenv("NCCL_IB_ADAPTIVE_ROUTING", "0", 1);
	assert_false(notices_come_apart(false, LONG));
	setenv("NCCL_IB_ADAPTIVE_ROUTING", "1", 1);
	assert_true(notices_come_apart(true, LONG));
	verbs_survive(2, true, verbs_link_harness_lose_one_of_the_first, 4);
	setenv("NCCL_IB_AR_THRESHOLD", "1048576", 1);
	assert_false(notices_come_apart(true, LONG));
	setenv("NCCL_IB_AR_THRESHOLD", "1048575", 1);
	assert_true(notices_come_apart(true, LONG));
	unsetenv("NCCL_IB_AR_THRESHOLD");
	unsetenv("NCCL_IB_ADAPTIVE_ROUTING");
}

/* ---- ECE ---- */

/* So many queue pairs were told what the peer's can: at the accepting side the whole offer, then at the other what is left. */
static void expect_ece(uint64_t pairs)
{
	struct fake_verbs_counts counts;

	fake_verbs_counts(&counts);
	assert_int_equal(counts.ece_sets[0], pairs);
	assert_int_equal(counts.ece_sets[1], pairs);
}

static void cards_agree_on_what_both_can(void **state)
{
	struct verbs_link_harness harness;
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct fake_verbs_counts counts;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1, .ece = true }, 2, false);
	expect_ece(2);
	fake_verbs_lose(0, FAKE_VERBS_ARRIVES_NOT);
	do { /* the queue pair that is made in place of one that failed, too */
		assert_int_equal(link_exchange(&harness.link, 1 << 20, 1), 0);
		fake_verbs_counts(&counts);
		assert_false(runtime_past(deadline_ns));
	} while (counts.connected[0] < 6);
	assert_int_equal(counts.failed_queues > 0, 1);
	expect_ece(3);
	verbs_link_harness_close(&harness);
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 2, false);
	expect_ece(0);
	verbs_link_harness_close(&harness);
	setenv("NCCL_IB_ECE_ENABLE", "0", 1);
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1, .ece = true }, 2, false);
	unsetenv("NCCL_IB_ECE_ENABLE");
	expect_ece(0);
	verbs_link_harness_close(&harness);
}

/* ---- InfiniBand ---- */

static struct ibv_ah_attr path_to(const struct verbs_port *port, const struct verbs_wire_rail *at)
{
	const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 });
	const struct verbs_pair_options options = { .timeout_ns = NS_PER_S, .service_level = 5, .traffic_class = 104 };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	const struct verbs_wire_queue to = { .number = 1 };
	struct ibv_context *context;
	struct ibv_device **list;
	struct ibv_ah_attr path;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	int count;

	list = api->get_device_list(&count);
	context = api->open_device(list[0]);
	api->free_device_list(list);
	pd = api->alloc_pd(context);
	attr.send_cq = attr.recv_cq = api->create_cq(context, 4, NULL, NULL, 0);
	qp = api->create_qp(pd, &attr);
	assert_int_equal(verbs_pair_init(api, port, qp, 0), 0);
	assert_int_equal(verbs_pair_connect(api, port, qp, 0, &to, at, &options), 0);
	path = fake_verbs_last_path(0);
	api->destroy_qp(qp);
	api->destroy_cq(attr.send_cq);
	api->dealloc_pd(pd);
	api->close_device(context);
	assert_int_equal(fake_verbs_stop(), 0);
	return path;
}

/* By the LID within a subnet, unless the port asks for more; across, by the address, and its FLID. */
static void the_way_across_subnets_has_an_address(void **state)
{
	struct verbs_port port = {
		.number = 1, .mtu = IBV_MTU_1024, .gid_index = 2, .gid = { 0xfe, 0x80, [7] = 1, [15] = 1 }
	};
	struct verbs_wire_rail near = { .mtu = IBV_MTU_4096, .lid = 9, .gid = { 0xfe, 0x80, [7] = 1, [15] = 2 } },
			       far = near;
	struct ibv_ah_attr path = path_to(&port, &near);

	(void)state;
	assert_int_equal(path.dlid, 9);
	assert_int_equal(path.sl, 5);
	assert_false(path.is_global);
	port.needs_grh = true;
	path = path_to(&port, &near);
	assert_int_equal(path.dlid, 9);
	assert_true(path.is_global);
	assert_memory_equal(path.grh.dgid.raw, near.gid, sizeof(near.gid));
	assert_int_equal(path.grh.sgid_index, 2);
	assert_int_equal(path.grh.traffic_class, 0);
	port.needs_grh = false;
	far.gid[7] = 2;
	path = path_to(&port, &far);
	assert_int_equal(path.dlid, 9);
	assert_true(path.is_global);
	far.gid[4] = 0x12;
	far.gid[5] = 0x34;
	assert_int_equal(path_to(&port, &far).dlid, 0x1234);
}

static void a_port_with_a_flid_shows_that_address(void **state)
{
	static const uint8_t plain[16] = { 0xfe, 0x80, [15] = 9 }, routed[16] = { 0xfe, 0x80, [5] = 7, [15] = 9 };
	struct verbs_link_harness harness;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const struct verbs_port *port;

		verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 1 }, NULL);
		ops->close(harness.transport);
		fake_verbs_set_port(0, true, false);
		fake_verbs_set_gid(0, 1, i ? routed : plain);
		if (i)
			fake_verbs_needs_grh(0);
		harness.params.gid_index = 3; /* of RoCE */
		assert_int_equal(ops->open(&harness.params, &harness.transport), 0);
		port = &((struct verbs_transport *)harness.transport)->cards.ports[0];
		assert_int_equal(port->gid_index, i);
		assert_int_equal(port->needs_grh, i);
		assert_int_equal(link_open(ops, harness.transport, 0, &harness.link), 0);
		assert_int_equal(link_exchange(&harness.link, 1 << 20, 1), 0);
		verbs_link_harness_close(&harness);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_read_as_nccl_reads_them),
		cmocka_unit_test(a_range_is_an_address_and_bits),
		cmocka_unit_test(variables_without_effect_are_named_once),
		cmocka_unit_test(the_partition_key_is_the_one_that_was_asked_for),
		cmocka_unit_test(retries_and_order_are_as_they_were_asked_for),
		cmocka_unit_test(few_descriptors_are_told_of),
		cmocka_unit_test(ports_beyond_the_room_are_left_out_with_a_line),
		cmocka_unit_test(long_messages_may_take_several_paths),
		cmocka_unit_test(cards_agree_on_what_both_can),
		cmocka_unit_test(the_way_across_subnets_has_an_address),
		cmocka_unit_test(a_port_with_a_flid_shows_that_address),
	};

	runtime_start("verbs_fabric_test", 100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
