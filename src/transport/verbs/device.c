/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/device.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/params.h"
#include "base/parse.h"
#include "base/sys.h"
#include "transport/tcp/interface.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { PROBE_BYTES = 4096, FULL_MEMBER = 0x8000 };
#define BPS_OF_100_MBIT UINT64_C(12500000)

/* Gigabits per second in tenths, of one lane, by the bit that the port shows. */
static uint64_t lane_of(uint8_t speed)
{
	static const uint16_t tenths[] = { 25, 50, 100, 100, 140, 250, 500, 1000 };

	for (unsigned i = 0; i < sizeof(tenths) / sizeof(tenths[0]); i++)
		if (speed == 1U << i)
			return tenths[i];
	return tenths[0];
}

static uint64_t speed_of(const struct ibv_port_attr *attr)
{
	static const uint8_t lanes[] = { 1, 4, 8, 12, 2 };

	for (unsigned i = 0; i < sizeof(lanes); i++)
		if (attr->active_width == 1U << i)
			return lanes[i] * lane_of(attr->active_speed) * BPS_OF_100_MBIT;
	return lane_of(attr->active_speed) * BPS_OF_100_MBIT;
}

/* ---- addresses ---- */

/* As NCCL: a row with an address that leads across subnets (a FLID), if there is one. */
static int row_of_infiniband(const struct verbs_port *port, const struct ibv_port_attr *attr)
{
	const int row = port->card->fabric->flid_gid_index;
	union ibv_gid gid;

	return row < attr->gid_tbl_len &&
			       port->card->api->query_gid(port->card->context, port->number, row, &gid) == 0 &&
			       verbs_facts_gid_flid(gid.raw)
		       ? row
		       : 0;
}

/* The row to use, or -1. */
static int choose_gid(const struct verbs_api *api, const char *root, const struct params *params,
		      const struct verbs_port *port, const struct ibv_port_attr *attr)
{
	int rows = attr->gid_tbl_len < VERBS_GIDS_LOOKED_AT ? attr->gid_tbl_len : VERBS_GIDS_LOOKED_AT;
	struct verbs_address_wish wish = port->card->fabric->wish;
	int best = -1;
	unsigned best_worth = 0;

	if (!port->ethernet) /* a row that was chosen is one of RoCE */
		return row_of_infiniband(port, attr);
	if (params->gid_index >= 0)
		return params->gid_index < attr->gid_tbl_len ? params->gid_index : -1;
	wish.ipv6 |= params->family == FAMILY_IPV6;
	for (int i = 0; i < rows; i++) {
		char netdev[IFNAMSIZ];
		union ibv_gid gid;
		unsigned worth;

		if (api->query_gid(port->card->context, port->number, i, &gid) != 0)
			continue;
		verbs_facts_netdev(root, port->card->name, port->number, (unsigned)i, netdev);
		worth = verbs_facts_gid_worth(verbs_facts_gid_type(root, port->card->name, port->number, (unsigned)i),
					      gid.raw, &wish, tcp_interfaces_fit(params, netdev));
		if (worth > best_worth) {
			best_worth = worth;
			best = i;
		}
	}
	return best;
}

static bool take_gid(const struct verbs_api *api, const char *root, const struct params *params,
		     struct verbs_port *port, const struct ibv_port_attr *attr)
{
	int index = choose_gid(api, root, params, port, attr);
	union ibv_gid gid = { 0 };

	if (index < 0 || index > UINT8_MAX ||
	    (api->query_gid(port->card->context, port->number, index, &gid) != 0 && port->ethernet))
		return false;
	port->gid_index = (uint8_t)index;
	port->gid_type = verbs_facts_gid_type(root, port->card->name, port->number, port->gid_index);
	memcpy(port->gid, gid.raw, sizeof(port->gid));
	if (port->ethernet)
		verbs_facts_netdev(root, port->card->name, port->number, port->gid_index, port->netdev);
	return true;
}

static bool take_pkey(struct verbs_port *port, const struct ibv_port_attr *attr, struct diag *diag)
{
	const struct verbs_card *card = port->card;
	const int index = card->fabric->pkey_index;
	uint16_t key = 0;

	if (index >= attr->pkey_tbl_len) {
		diag_set(diag, 0, 0, "port %u of RDMA device %s has %u partition keys (NCCL_IB_PKEY=%d)", port->number,
			 card->name, attr->pkey_tbl_len, index);
		return false;
	}
	port->pkey_index = (uint16_t)index;
	if (card->api->query_pkey(card->context, port->number, index, &key) == 0 && !(be16toh(key) & FULL_MEMBER))
		log_info(
			LOG_INIT,
			"port %u of RDMA device %s is a limited member of partition %#x, and reaches full members alone",
			port->number, card->name, be16toh(key));
	return true;
}

/* ---- ports and cards ---- */

static uint64_t guid_of(const struct verbs_card *card)
{
	uint64_t guid = be64toh(card->attr.sys_image_guid);

	if (!guid)
		guid = be64toh(card->attr.node_guid);
	return guid ? guid : hash_text(HASH_START, card->name);
}

/* Whether the port can be used; when not, *diag says why. */
static bool port_fill(const struct verbs_api *api, const char *root, const struct params *params,
		      struct verbs_card *card, uint8_t number, struct verbs_port *port, struct diag *diag)
{
	struct ibv_port_attr attr = { 0 };

	if (api->query_port(card->context, number, &attr) != 0 || attr.state != IBV_PORT_ACTIVE) {
		diag_set(diag, 0, 0, "no port of RDMA device %s is active", card->name);
		return false;
	}
	memset(port, 0, sizeof(*port));
	port->card = card;
	port->number = number;
	port->ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	port->lid = attr.lid;
	port->mtu = attr.active_mtu;
	if (!take_gid(api, root, params, port, &attr)) {
		diag_set(diag, 0, 0, "RDMA device %s has no usable address on port %u (%s)", card->name, number,
			 params_origin_of(params, "TRIBUTARY_GID_INDEX"));
		return false;
	}
	if (!take_pkey(port, &attr, diag))
		return false;
	port->needs_grh = attr.flags & IBV_QPF_GRH_REQUIRED;
	if (card->attr.phys_port_cnt > 1)
		snprintf(port->name, sizeof(port->name), "%s:%u", card->name, number);
	else
		snprintf(port->name, sizeof(port->name), "%s", card->name);
	(void)parse_list_finds(params->hca, card->name, number, &port->rail, &port->plane);
	verbs_facts_place(root, card->name, port->netdev, &port->place);
	port->guid = guid_of(card);
	port->speed_Bps = port->place.speed_Bps;
	if (!port->speed_Bps) /* active_speed says NDR of all that is faster (ibv_query_port(3)) */
		port->speed_Bps = verbs_facts_rate(root, card->name, number);
	if (!port->speed_Bps)
		port->speed_Bps = speed_of(&attr);
	return true;
}

static void card_close(struct verbs_card *card)
{
	if (!card)
		return;
	while (!LIST_EMPTY(&card->memories)) {
		struct verbs_memory *memory = LIST_FIRST(&card->memories);

		LIST_REMOVE(memory, link);
		card->api->dereg_mr(memory->mr);
		sys_free(memory);
	}
	if (card->pd)
		card->api->dealloc_pd(card->pd);
	if (card->context)
		card->api->close_device(card->context);
	pthread_mutex_destroy(&card->lock);
	sys_free(card);
}

/*
 * A descriptor that is none: a device and a kernel that can register DMA-BUFs say so, others that they do not know the
 * request. For memory by its address alone it takes a card, and a module that lends it.
 */
static unsigned memory_of(const struct verbs_card *card, const char *root)
{
	const struct verbs_api *api = card->api;
	unsigned memory = TRANSPORT_MEMORY_HOST;

	errno = 0;
	if (api->reg_dmabuf_mr && !api->reg_dmabuf_mr(card->pd, 0, PROBE_BYTES, 0, -1, 0) && errno == EBADF)
		memory |= TRANSPORT_MEMORY_DMABUF;
	if (verbs_facts_is_card(root, card->name) && verbs_facts_peermem(root))
		memory |= TRANSPORT_MEMORY_CUDA;
	return memory;
}

static int card_open(const struct verbs_api *api, const char *root, struct ibv_device *device,
		     const struct verbs_fabric *fabric, struct verbs_card **ret)
{
	struct verbs_card *card = sys_zalloc(sizeof(*card));
	int flags, r = -ENOMEM;

	if (!card)
		return r;
	pthread_mutex_init(&card->lock, NULL);
	card->api = api;
	card->root = root;
	card->fabric = fabric;
	snprintf(card->name, sizeof(card->name), "%s", api->get_device_name(device));
	errno = 0;
	card->context = api->open_device(device);
	if (card->context) {
		errno = 0;
		card->pd = api->alloc_pd(card->context);
	}
	if (!card->context || !card->pd) {
		r = errno ? -errno : -ENODEV;
		goto fail;
	}
	r = verbs_error(api->query_device(card->context, &card->attr));
	if (r < 0)
		goto fail;
	flags = fcntl(card->context->async_fd, F_GETFL);
	if (flags < 0 || fcntl(card->context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		r = -errno;
		goto fail;
	}
	card->memory = memory_of(card, root);
	*ret = card;
	return 0;
fail:
	card_close(card);
	return r;
}

static bool card_is_wanted(const struct params *params, const char *name)
{
	for (unsigned number = 1; number <= VERBS_CARD_PORTS_MAX; number++)
		if (parse_list_wants(params->hca, name, number))
			return true;
	return false;
}

/* One device: opened, and kept if it has a port for us. */
static int add_card(const struct verbs_api *api, const char *root, const struct params *params,
		    struct ibv_device *device, struct verbs_devices *devices, struct diag *diag)
{
	unsigned before = devices->port_count;
	struct verbs_card *card = NULL;
	int r;

	if (!card_is_wanted(params, api->get_device_name(device))) {
		diag_set(diag, 0, 0, "%s=%.100s leaves out every RDMA device",
			 params_origin_of(params, "TRIBUTARY_HCA"), params->hca);
		return 0;
	}
	/* InfiniBand and RoCE: others have no such queue pairs (EFA), or neither these addresses nor notices (iWARP). */
	if (device->transport_type != IBV_TRANSPORT_IB) {
		diag_set(diag, 0, 0, "RDMA device %s is neither InfiniBand nor RoCE", api->get_device_name(device));
		return 0;
	}
	r = card_open(api, root, device, &devices->fabric, &card);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || !card) {
		diag_set(diag, 0, 0, "RDMA device %s cannot be opened: %s%s", api->get_device_name(device),
			 strerror(-r),
			 r == -EACCES || r == -EPERM || r == -ENOENT
				 ? " (this user, or this container, needs /dev/infiniband)"
				 : "");
		return 0;
	}
	for (unsigned number = 1; number <= card->attr.phys_port_cnt && number <= VERBS_CARD_PORTS_MAX; number++)
		if (!parse_list_wants(params->hca, card->name, number))
			continue;
		else if (devices->port_count == VERBS_PORTS_MAX)
			devices->left_out++;
		else if (port_fill(api, root, params, card, (uint8_t)number, &devices->ports[devices->port_count],
				   diag))
			devices->port_count++;
	if (devices->port_count == before)
		card_close(card);
	else
		devices->cards[devices->card_count++] = card;
	return 0;
}

int verbs_devices_open(const struct verbs_api *api, const char *root, const struct params *params,
		       struct verbs_devices *ret, struct diag *diag)
{
	struct ibv_device **list;
	int count = 0, r = 0;

	memset(ret, 0, sizeof(*ret));
	verbs_fabric_load(&ret->fabric);
	diag_set(diag, 0, 0, "this host has no RDMA device");
	list = api->get_device_list(&count);
	for (int i = 0; list && i < count && r == 0; i++)
		if (ret->card_count < VERBS_CARDS_MAX && ret->port_count < VERBS_PORTS_MAX)
			r = add_card(api, root, params, list[i], ret, diag);
		else
			ret->left_out += card_is_wanted(params, api->get_device_name(list[i]));
	if (list)
		api->free_device_list(list);
	if (ret->left_out)
		log_info(LOG_INIT,
			 "RDMA: the first %u ports are used, and %u devices or ports left out (TRIBUTARY_HCA)",
			 ret->port_count, ret->left_out);
	if (r < 0)
		verbs_devices_close(ret);
	return r;
}

void verbs_devices_close(struct verbs_devices *devices)
{
	for (unsigned i = 0; i < devices->card_count; i++)
		card_close(devices->cards[i]);
	memset(devices, 0, sizeof(*devices));
}

/* ---- what devices tell ---- */

static bool has_address(const struct verbs_port *port, int row)
{
	const struct verbs_card *card = port->card;
	union ibv_gid gid;

	return card->api->query_gid(card->context, port->number, row, &gid) == 0 &&
	       memcmp(gid.raw, port->gid, sizeof(port->gid)) == 0 &&
	       verbs_facts_gid_type(card->root, card->name, port->number, (unsigned)row) == port->gid_type;
}

/* Peers know the port by its address, so it must be that one; it may be in another row now. -1: it is gone. */
static int find_row(const struct verbs_port *port)
{
	if (has_address(port, port->gid_index))
		return port->gid_index;
	for (int i = 0; i < VERBS_GIDS_LOOKED_AT; i++)
		if (has_address(port, i))
			return i;
	return -1;
}

static void look_for_address(struct verbs_port *port)
{
	struct verbs_card *card = port->card;
	const unsigned bit = 1U << port->number;
	const int row = port->ethernet ? find_row(port) : port->gid_index;

	if (row >= 0)
		port->gid_index = (uint8_t)row;
	if (row < 0 && !(atomic_fetch_or(&card->addressless_ports, bit) & bit))
		log_info(LOG_NET, "RDMA device %s has lost its address: nothing goes over it before it has that again",
			 port->name);
	else if (row >= 0 && atomic_fetch_and(&card->addressless_ports, ~bit) & bit)
		log_info(LOG_NET, "RDMA device %s has its address again", port->name);
}

/* Peers of connections that stand know the old LID. */
static void look_at_lid(struct verbs_port *port)
{
	struct ibv_port_attr attr = { 0 };

	if (port->card->api->query_port(port->card->context, port->number, &attr) != 0 || attr.lid == port->lid)
		return;
	log_info(LOG_NET,
		 "RDMA device %s has LID %u in place of %u: connections that lose a queue there do not get it back",
		 port->name, attr.lid, port->lid);
	port->lid = attr.lid;
}

static void look_at_ports(struct verbs_devices *devices, const struct verbs_card *card,
			  void (*look)(struct verbs_port *))
{
	for (unsigned i = 0; i < devices->port_count; i++)
		if (devices->ports[i].card == card)
			look(&devices->ports[i]);
}

static void take_event(struct verbs_devices *devices, struct verbs_card *card, const struct ibv_async_event *event)
{
	unsigned bit = event->element.port_num > 0 && event->element.port_num <= VERBS_CARD_PORTS_MAX
			       ? 1U << event->element.port_num
			       : 0;

	switch (event->event_type) {
	case IBV_EVENT_GID_CHANGE:
		look_at_ports(devices, card, look_for_address);
		break;
	case IBV_EVENT_LID_CHANGE:
		look_at_ports(devices, card, look_at_lid);
		break;
	case IBV_EVENT_PKEY_CHANGE:
		log_info(LOG_NET, "the partition keys of RDMA device %s have changed", card->name);
		break;
	case IBV_EVENT_PORT_ERR:
		atomic_fetch_or(&card->down_ports, bit);
		log_info(LOG_NET, "port %d of RDMA device %s is down", event->element.port_num, card->name);
		break;
	case IBV_EVENT_PORT_ACTIVE:
		atomic_fetch_and(&card->down_ports, ~bit);
		log_info(LOG_NET, "port %d of RDMA device %s is up", event->element.port_num, card->name);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		if (!atomic_exchange(&card->lost, true))
			log_warn("RDMA device %s has failed: connections go on over other devices, or end", card->name);
		break;
	default: /* of queues: their completions say the same */
		break;
	}
}

void verbs_devices_listen(struct verbs_devices *devices)
{
	if (atomic_flag_test_and_set(&devices->listens)) /* another thread's answer must not arrive after a newer one */
		return;
	for (unsigned i = 0; i < devices->card_count; i++) {
		struct verbs_card *card = devices->cards[i];
		struct ibv_async_event event;

		while (card->api->get_async_event(card->context, &event) == 0) {
			take_event(devices, card, &event);
			card->api->ack_async_event(&event);
		}
	}
	atomic_flag_clear(&devices->listens);
}
