/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: what sysfs and the library say of them, which are taken and which address, and why none is. */
#include "transport/verbs/device.h"

#include "base/log.h"
#include "base/params.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/tcp/fake_sysfs.h"
#include "unit/transport/verbs/fake_verbs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NIC "pci0000:80/0000:80:01.0/0000:81:00.1"

/* ---- names and addresses ---- */

static void the_best_address_is_roce_2_with_ipv4(void **state)
{
	static const uint8_t none[16], local[16] = { 0xfe, 0x80, [15] = 1 }, global[16] = { 0x20, 1, [15] = 1 },
				       mapped[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };
	const struct verbs_address_wish usual = { .version = 2 }, six = { .ipv6 = true, .version = 2 };

	(void)state;
	assert_int_equal(verbs_facts_gid_worth(VERBS_GID_ROCE_V2, none, &usual, true), 0);
	assert_int_equal(verbs_facts_gid_worth(VERBS_GID_UNKNOWN, mapped, &usual, true), 0);
	assert_true(verbs_facts_gid_worth(VERBS_GID_ROCE_V2, mapped, &usual, true) >
		    verbs_facts_gid_worth(VERBS_GID_ROCE_V2, global, &usual, true));
	assert_true(verbs_facts_gid_worth(VERBS_GID_ROCE_V2, mapped, &six, true) <
		    verbs_facts_gid_worth(VERBS_GID_ROCE_V2, global, &six, true));
	assert_true(verbs_facts_gid_worth(VERBS_GID_ROCE_V2, global, &usual, true) >
		    verbs_facts_gid_worth(VERBS_GID_ROCE_V2, local, &usual, true));
	assert_true(verbs_facts_gid_worth(VERBS_GID_ROCE_V2, local, &usual, true) >
		    verbs_facts_gid_worth(VERBS_GID_ROCE_V1, mapped, &usual, true));
	assert_true(verbs_facts_gid_worth(VERBS_GID_ROCE_V1, local, &usual, true) > 0);
	/* An interface that was asked for before a better address, not before a newer version. */
	assert_true(verbs_facts_gid_worth(VERBS_GID_ROCE_V2, local, &usual, true) >
		    verbs_facts_gid_worth(VERBS_GID_ROCE_V2, mapped, &usual, false));
	assert_true(verbs_facts_gid_worth(VERBS_GID_ROCE_V1, mapped, &usual, true) <
		    verbs_facts_gid_worth(VERBS_GID_ROCE_V2, local, &usual, false));
}

static void another_version_or_range_may_be_wished(void **state)
{
	static const uint8_t inside[16] = { [10] = 0xff, 0xff, 10, 0, 3, 1 },
			     outside[16] = { [10] = 0xff, 0xff, 10, 0, 4, 1 };
	const struct verbs_address_wish first = { .version = 1 }, range = { .version = 2,
									    .range = { [10] = 0xff, 0xff, 10, 0, 2 },
									    .range_bits = 96 + 23 };

	(void)state;
	assert_true(verbs_facts_gid_worth(VERBS_GID_ROCE_V1, inside, &first, false) >
		    verbs_facts_gid_worth(VERBS_GID_ROCE_V2, inside, &first, true));
	assert_true(verbs_facts_gid_worth(VERBS_GID_ROCE_V1, inside, &range, false) >
		    verbs_facts_gid_worth(VERBS_GID_ROCE_V2, outside, &range, true));
	assert_true(verbs_facts_gid_worth(VERBS_GID_ROCE_V2, outside, &range, true) > 0);
}

/* ---- a tree ---- */

static void gid_row(struct fake_sysfs *tree, const char *device, unsigned row, const char *type, const char *netdev)
{
	char path[160];

	snprintf(path, sizeof(path), "class/infiniband/%s/ports/1/gid_attrs/types/%u", device, row);
	tree_text(&tree->tree, path, type);
	snprintf(path, sizeof(path), "class/infiniband/%s/ports/1/gid_attrs/ndevs/%u", device, row);
	tree_text(&tree->tree, path, netdev);
}

static void a_card_says_where_it_is(void **state)
{
	struct fake_sysfs *tree = *state;
	struct verbs_place place;
	char netdev[IFNAMSIZ];

	fake_interface(tree, "eth2", NIC, 3, "02:00:00:00:00:01", "100000");
	tree_link(&tree->tree, "class/infiniband/mlx5_0/device", "../../../devices/" NIC);
	gid_row(tree, "mlx5_0", 1, "RoCE v2\n", "eth2\n");
	errno = EXDEV;
	verbs_facts_netdev(tree->tree.root, "mlx5_0", 1, 1, netdev);
	assert_string_equal(netdev, "eth2");
	assert_int_equal(verbs_facts_gid_type(tree->tree.root, "mlx5_0", 1, 1), VERBS_GID_ROCE_V2);
	assert_int_equal(verbs_facts_gid_type(tree->tree.root, "mlx5_0", 1, 2), VERBS_GID_UNKNOWN);
	verbs_facts_place(tree->tree.root, "mlx5_0", netdev, &place);
	assert_string_equal(place.pci_path, "/sys/devices/" NIC);
	assert_int_equal(place.function, 1);
	assert_int_equal(place.speed_Bps, 0); /* the port knows better */
	assert_int_equal(errno, EXDEV);
}

/* SoftRoCE has no card: it is where its network interface is. */
static void a_software_device_is_where_its_interface_is(void **state)
{
	struct fake_sysfs *tree = *state;
	struct verbs_place place;

	fake_interface(tree, "eth2", NIC, 3, "02:00:00:00:00:01", "10000");
	tree_text(&tree->tree, "class/infiniband/rxe0/parent", "eth2\n");
	verbs_facts_place(tree->tree.root, "rxe0", "eth2", &place);
	assert_string_equal(place.pci_path, "/sys/devices/" NIC);
	assert_int_equal(place.speed_Bps, UINT64_C(1250000000));
	verbs_facts_place(tree->tree.root, "rxe0", "", &place);
	assert_string_equal(place.pci_path, "");
}

/* ---- opening ---- */

struct opened {
	struct params params;
	struct verbs_devices devices;
	struct diag diag;
	int r;
};

static void open_with(struct opened *opened, const struct verbs_api *api, const char *root)
{
	memset(&opened->diag, 0, sizeof(opened->diag));
	opened->r = verbs_devices_open(api, root, &opened->params, &opened->devices, &opened->diag);
}

static void close_and_check(struct opened *opened)
{
	verbs_devices_close(&opened->devices);
	assert_int_equal(fake_verbs_stop(), 0);
}

static void a_port_is_described(void **state)
{
	static const uint8_t mapped[16] = { [10] = 0xff, 0xff, 10, 1, 1, 1 };
	struct fake_sysfs *tree = *state;
	const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 2 });
	struct opened opened;

	params_defaults(&opened.params);
	gid_row(tree, "fake0", 0, "RoCE v2\n", "eth2\n");
	gid_row(tree, "fake0", 1, "IB/RoCE v1\n", "eth2\n");
	gid_row(tree, "fake0", 3, "RoCE v2\n", "eth3\n");
	fake_verbs_set_gid(0, 3, mapped);
	fake_verbs_set_port(1, false, true);
	open_with(&opened, api, tree->tree.root);
	assert_int_equal(opened.r, 0);
	assert_int_equal(opened.devices.port_count, 1);
	assert_int_equal(opened.devices.ports[0].gid_index, 3);
	assert_memory_equal(opened.devices.ports[0].gid, mapped, 16);
	assert_string_equal(opened.devices.ports[0].netdev, "eth3");
	assert_string_equal(opened.devices.ports[0].name, "fake0");
	assert_int_equal(opened.devices.ports[0].speed_Bps, UINT64_C(12500000000));
	assert_int_equal(opened.devices.ports[0].guid, 0x2000);
	assert_int_equal(opened.devices.ports[0].mtu, IBV_MTU_4096);
	close_and_check(&opened);
}

static struct verbs_api of_xdr;
static int (*query_of_fake)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *ret);

/* As libibverbs' exported ibv_query_port() has a ConnectX-8 of 800 Gbit/s: NDR, four lanes. */
static int query_xdr(struct ibv_context *context, uint8_t port, struct ibv_port_attr *ret)
{
	int r = query_of_fake(context, port, ret);

	ret->active_speed = 128;
	ret->active_width = 2;
	return r;
}

static void a_port_beyond_ndr_has_its_rate(void **state)
{
	struct fake_sysfs *tree = *state;
	const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 });
	struct opened opened;

	params_defaults(&opened.params);
	gid_row(tree, "fake0", 0, "RoCE v2\n", "eth2\n");
	tree_text(&tree->tree, "class/infiniband/fake0/ports/1/rate", "800 Gb/sec (4X XDR)\n");
	of_xdr = *api;
	query_of_fake = api->query_port;
	of_xdr.query_port = query_xdr;
	open_with(&opened, &of_xdr, tree->tree.root);
	assert_int_equal(opened.devices.ports[0].speed_Bps, UINT64_C(100000000000));
	close_and_check(&opened);
}

/* One port, an untagged interface and a VLAN on it: each has its rows, and by type and address they are alike. */
static void an_interface_chooses_its_address(void **state)
{
	static const struct {
		const char *list, *netdev;
		unsigned row;
	} cases[] = {
		{ "", "eth2", 1 },      { "eth2", "eth2", 1 },       { "eth2.100", "eth2.100", 2 },
		{ "=eth2", "eth2", 1 }, { "^=eth2", "eth2.100", 2 }, { "lo,=eth2.200", "eth2.200", 3 },
		{ "eno1", "eth2", 1 }, /* of none of them: the list was meant for other traffic */
	};
	static const uint8_t vlan[16] = { [10] = 0xff, 0xff, 10, 9, 3, 1 }, local[16] = { 0xfe, 0x80, [15] = 9 };
	struct fake_sysfs *tree = *state;

	gid_row(tree, "fake0", 0, "IB/RoCE v1\n", "eth2.100\n");
	gid_row(tree, "fake0", 1, "RoCE v2\n", "eth2\n");
	gid_row(tree, "fake0", 2, "RoCE v2\n", "eth2.100\n");
	gid_row(tree, "fake0", 3, "RoCE v2\n", "eth2.200\n");
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 });
		struct opened opened;

		fake_verbs_set_gid(0, 2, vlan);
		fake_verbs_set_gid(0, 3, local);
		params_defaults(&opened.params);
		snprintf(opened.params.interfaces, sizeof(opened.params.interfaces), "%s", cases[i].list);
		open_with(&opened, api, tree->tree.root);
		assert_int_equal(opened.devices.port_count, 1);
		if (opened.devices.ports[0].gid_index != cases[i].row)
			fail_msg("TRIBUTARY_IF=%s: row %u", cases[i].list, opened.devices.ports[0].gid_index);
		assert_string_equal(opened.devices.ports[0].netdev, cases[i].netdev);
		close_and_check(&opened);
	}
}

static void the_parameters_choose_device_and_address(void **state)
{
	struct fake_sysfs *tree = *state;
	const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 2 });
	struct opened opened;

	params_defaults(&opened.params);
	opened.params.gid_index = 0;
	snprintf(opened.params.hca, sizeof(opened.params.hca), "=fake1");
	open_with(&opened, api, tree->tree.root);
	assert_int_equal(opened.devices.port_count, 1);
	assert_string_equal(opened.devices.ports[0].name, "fake1");
	assert_int_equal(opened.devices.ports[0].gid_index, 0);
	verbs_devices_close(&opened.devices);
	/* InfiniBand needs no such row, for its ports have a LID, and one that was chosen for RoCE is none for it. */
	opened.params.gid_index = 3;
	fake_verbs_set_port(1, true, false);
	open_with(&opened, api, tree->tree.root);
	assert_int_equal(opened.devices.port_count, 1);
	assert_int_equal(opened.devices.ports[0].lid, 8);
	assert_int_equal(opened.devices.ports[0].gid_index, 0);
	close_and_check(&opened);
}

/* 0, no port, and the reason. */
static void none(const struct verbs_api *api, const char *root, const char *hca, int gid_index, const char *reason)
{
	struct opened opened;

	params_defaults(&opened.params);
	opened.params.gid_index = gid_index;
	snprintf(opened.params.hca, sizeof(opened.params.hca), "%s", hca);
	open_with(&opened, api, root);
	assert_int_equal(opened.r, 0);
	assert_int_equal(opened.devices.port_count, 0);
	if (!strstr(opened.diag.text, reason))
		fail_msg("\"%s\" is not in \"%s\"", reason, opened.diag.text);
	close_and_check(&opened);
}

static void every_reason_for_none_is_said(void **state)
{
	const char *root = ((struct fake_sysfs *)*state)->tree.root;
	const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 0 });

	none(api, root, "", 0, "this host has no RDMA device");
	api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1, .open_error = EACCES });
	none(api, root, "", 0, "RDMA device fake0 cannot be opened: Permission denied (this user, or this container");
	api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 });
	fake_verbs_set_port(0, false, true);
	none(api, root, "", 0, "no port of RDMA device fake0 is active");
	api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 2 });
	none(api, root, "mlx5", 0, "TRIBUTARY_HCA=mlx5 leaves out every RDMA device");
	api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 });
	none(api, root, "", -1, "no usable address on port 1"); /* the tree tells of no row */
	api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 });
	none(api, root, "", FAKE_VERBS_GIDS, "no usable address");
}

static void load(struct opened *opened, const char *variable, const char *value)
{
	struct params_source source;

	setenv(variable, value, 1);
	source = params_from_environment();
	params_load(&source, NULL, NULL, &opened->params);
	unsetenv(variable);
	opened->params.gid_index = 1;
}

static void the_user_reads_of_the_variable_that_he_set(void **state)
{
	const char *root = ((struct fake_sysfs *)*state)->tree.root;
	const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 });
	struct opened opened;

	load(&opened, "NCCL_IB_HCA", "mlx5:1:2");
	open_with(&opened, api, root);
	assert_string_equal(opened.diag.text, "NCCL_IB_HCA=mlx5:1:2 leaves out every RDMA device");
	close_and_check(&opened);
}

static void rails_and_planes_are_as_the_user_has_them(void **state)
{
	const char *root = ((struct fake_sysfs *)*state)->tree.root;
	const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 2 });
	struct opened opened;

	load(&opened, "NCCL_IB_HCA", "=fake1:1:5:7,fake0:1");
	open_with(&opened, api, root);
	assert_int_equal(opened.devices.port_count, 2);
	assert_int_equal(opened.devices.ports[0].rail, -1);
	assert_int_equal(opened.devices.ports[0].plane, -1);
	assert_int_equal(opened.devices.ports[1].rail, 5);
	assert_int_equal(opened.devices.ports[1].plane, 7);
	close_and_check(&opened);
}

/* Cards of another kind have ports that are active, and no queue pairs as ours. */
static void only_infiniband_and_roce_are_used(void **state)
{
	static const enum ibv_transport_type others[] = { IBV_TRANSPORT_UNKNOWN, IBV_TRANSPORT_IWARP,
							  IBV_TRANSPORT_UNSPECIFIED };
	const char *root = ((struct fake_sysfs *)*state)->tree.root;
	struct opened opened;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 });

		fake_verbs_set_transport(0, others[i]);
		fake_verbs_set_port(0, true, i & 1);
		none(api, root, "", 1, "RDMA device fake0 is neither InfiniBand nor RoCE");
		/* Beside one that is. */
		api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 2 });
		fake_verbs_set_transport(0, others[i]);
		params_defaults(&opened.params);
		opened.params.gid_index = 1;
		open_with(&opened, api, root);
		assert_int_equal(opened.devices.port_count, 1);
		assert_string_equal(opened.devices.ports[0].name, "fake1");
		close_and_check(&opened);
	}
}

/* The transport without a device is open, and has none. */
static void a_transport_without_devices_says_so(void **state)
{
	struct transport *transport;
	struct params params;
	struct diag diag = { 0 };

	(void)state;
	params_defaults(&params);
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	verbs_transport_use(fake_verbs_start(&(struct fake_verbs_options){ .devices = 0 }), NULL);
	assert_int_equal(transport_verbs.open(&params, &transport), 0);
	assert_int_equal(transport_verbs.device_count(transport), 0);
	transport_verbs.close(transport);
	assert_false(transport_verbs_is_there(&params, &diag));
	assert_string_equal(diag.text, "this host has no RDMA device");
	assert_int_equal(fake_verbs_stop(), 0);
	params.gid_index = 1;
	verbs_transport_use(fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 }), NULL);
	assert_true(transport_verbs_is_there(&params, &diag));
	assert_int_equal(fake_verbs_stop(), 0);
	verbs_transport_use(NULL, NULL);
}

/* ---- events and memory ---- */

static void ports_go_down_and_come_back(void **state)
{
	const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 2 });
	struct opened opened;

	(void)state;
	params_defaults(&opened.params);
	opened.params.gid_index = 1;
	open_with(&opened, api, "/nowhere");
	assert_int_equal(opened.devices.port_count, 2);
	fake_verbs_port(1, false);
	verbs_devices_listen(&opened.devices);
	assert_false(verbs_port_is_down(&opened.devices.ports[0]));
	assert_true(verbs_port_is_down(&opened.devices.ports[1]));
	fake_verbs_port(1, true);
	verbs_devices_listen(&opened.devices);
	assert_false(verbs_port_is_down(&opened.devices.ports[1]));
	fake_verbs_set_lid(1, 42);
	verbs_devices_listen(&opened.devices);
	assert_int_equal(opened.devices.ports[1].lid, 42);
	assert_int_equal(opened.devices.ports[0].lid, 7);
	verbs_devices_listen(&opened.devices); /* nothing is left to be told */
	close_and_check(&opened);
}

/* Two transports of a process, such as NCCL's and a collective network's. */
static void each_who_has_opened_a_device_hears_of_it(void **state)
{
	const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 });
	struct fake_verbs_counts counts;
	struct opened first, second;

	(void)state;
	params_defaults(&first.params);
	first.params.gid_index = 1;
	second.params = first.params;
	open_with(&first, api, "/nowhere");
	open_with(&second, api, "/nowhere");
	fake_verbs_port(0, false);
	verbs_devices_listen(&second.devices);
	verbs_devices_listen(&first.devices);
	assert_true(verbs_port_is_down(&first.devices.ports[0]));
	assert_true(verbs_port_is_down(&second.devices.ports[0]));
	verbs_devices_close(&second.devices);
	fake_verbs_port(0, true);
	verbs_devices_listen(&first.devices);
	assert_false(verbs_port_is_down(&first.devices.ports[0]));
	close_and_check(&first);
	fake_verbs_counts(&counts);
	assert_int_equal(counts.wrong_calls, 0);
}

static int get(struct verbs_card *card, void *data, size_t bytes, bool stays, struct verbs_memory **ret)
{
	const struct verbs_range range = { data, bytes, .stays = stays, .memory = TRANSPORT_MEMORY_HOST };

	return verbs_memory_get(card, &range, ret);
}

static void the_same_pages_are_registered_once(void **state)
{
	const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1, .most_regions = 2 });
	uint8_t *data = aligned_alloc(4096, 5 * 4096);
	struct verbs_memory *whole, *same, *part, *none_left = NULL;
	struct verbs_card *card;
	struct opened opened;

	(void)state;
	assert_non_null(data);
	params_defaults(&opened.params);
	opened.params.gid_index = 1;
	open_with(&opened, api, "/nowhere");
	card = opened.devices.cards[0];
	assert_int_equal(get(card, data + 100, 3 * 4096, false, &whole), 0);
	assert_int_equal(get(card, data + 4000, 3 * 4096 - 3000, false, &same), 0); /* the same pages */
	assert_ptr_equal(whole, same);
	/* The other pages of the longer one may be gone before this one is. */
	assert_int_equal(get(card, data + 5000, 100, false, &part), 0);
	assert_ptr_not_equal(whole, part);
	assert_int_equal(get(card, &opened, 1, false, &none_left), -ENOMEM);
	assert_null(none_left);
	verbs_memory_put(card, whole, false);
	assert_int_equal(get(card, data + 200, 3 * 4096, false, &whole), 0); /* `same` still holds it */
	assert_ptr_equal(whole, same);
	verbs_memory_put(card, whole, false);
	verbs_memory_put(card, same, false);
	assert_int_equal(get(card, &opened, 1, false, &whole), 0); /* there is room again */
	verbs_memory_put(card, whole, false);
	verbs_memory_put(card, part, false);
	assert_true(LIST_EMPTY(&card->memories));
	close_and_check(&opened);
	free(data);
}

static void what_stays_serves_its_parts_until_it_is_taken_back(void **state)
{
	const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 });
	uint8_t *data = aligned_alloc(4096, 5 * 4096);
	struct verbs_memory *user, *part, *other, *again;
	struct verbs_card *card;
	struct opened opened;

	(void)state;
	assert_non_null(data);
	params_defaults(&opened.params);
	opened.params.gid_index = 1;
	open_with(&opened, api, "/nowhere");
	card = opened.devices.cards[0];
	assert_int_equal(get(card, data, 4 * 4096, true, &user), 0);
	assert_int_equal(get(card, data + 5000, 100, false, &part), 0);
	assert_ptr_equal(part, user);
	assert_int_equal(get(card, data + 4 * 4096 - 1, 2, false, &other), 0); /* reaches beyond */
	assert_ptr_not_equal(other, user);
	verbs_memory_put(card, other, false);
	assert_int_equal(get(card, data + 4096, 4096, true, &other), 0); /* another's, who stays longer */
	assert_ptr_not_equal(other, user);
	verbs_memory_put(card, other, true);
	/* Taken back: the part goes on, but the same addresses may be other memory now. */
	verbs_memory_put(card, user, true);
	assert_int_equal(fake_verbs_regions(), 1);
	assert_int_equal(get(card, data + 5000, 100, false, &other), 0);
	assert_ptr_not_equal(other, part);
	assert_int_equal(get(card, data, 4 * 4096, true, &again), 0);
	assert_ptr_not_equal(again, part);
	verbs_memory_put(card, again, true);
	verbs_memory_put(card, other, false);
	verbs_memory_put(card, part, false);
	assert_true(LIST_EMPTY(&card->memories));
	close_and_check(&opened);
	free(data);
}

/* ---- the library ---- */

static void a_library_that_is_not_there_is_a_reason(void **state)
{
	struct verbs_api api;
	struct diag diag = { 0 };

	(void)state;
	errno = EXDEV;
	assert_int_equal(verbs_api_load("libno-such-verbs.so.1", &api, &diag), -ENODEV);
	assert_non_null(strstr(diag.text, "libno-such-verbs.so.1 cannot be loaded"));
	assert_int_equal(verbs_api_load("libc.so.6", &api, &diag), -ENOSYS);
	assert_non_null(strstr(diag.text, "libc.so.6 has no ibv_get_device_list"));
	assert_int_equal(errno, EXDEV);
}

/* With the package that the build needs for its header comes the library. */
static void the_real_library_has_all_that_is_called(void **state)
{
	struct diag diag = { 0 };
	const struct verbs_api *api = verbs_api_open(&diag);
	struct ibv_device **list;
	int count = -1;

	(void)state;
	if (!api) {
		print_message("skipped: %s\n", diag.text);
		skip();
	}
	assert_ptr_equal(api, verbs_api_open(&diag));
	assert_non_null(api->modify_qp);
	assert_string_equal(api->wc_status_str(IBV_WC_SUCCESS), "success");
	list = api->get_device_list(&count);
	assert_true(!list || count >= 0);
	if (list)
		api->free_device_list(list);
}

#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, fake_sysfs_new, fake_sysfs_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_best_address_is_roce_2_with_ipv4),
		cmocka_unit_test(another_version_or_range_may_be_wished),
		TREE_TEST(a_card_says_where_it_is),
		TREE_TEST(a_software_device_is_where_its_interface_is),
		TREE_TEST(a_port_is_described),
		TREE_TEST(a_port_beyond_ndr_has_its_rate),
		TREE_TEST(an_interface_chooses_its_address),
		TREE_TEST(the_parameters_choose_device_and_address),
		TREE_TEST(every_reason_for_none_is_said),
		TREE_TEST(the_user_reads_of_the_variable_that_he_set),
		TREE_TEST(rails_and_planes_are_as_the_user_has_them),
		TREE_TEST(only_infiniband_and_roce_are_used),
		cmocka_unit_test(a_transport_without_devices_says_so),
		cmocka_unit_test(ports_go_down_and_come_back),
		cmocka_unit_test(each_who_has_opened_a_device_hears_of_it),
		cmocka_unit_test(the_same_pages_are_registered_once),
		cmocka_unit_test(what_stays_serves_its_parts_until_it_is_taken_back),
		cmocka_unit_test(a_library_that_is_not_there_is_a_reason),
		cmocka_unit_test(the_real_library_has_all_that_is_called),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
