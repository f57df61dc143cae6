/* SPDX-License-Identifier: Apache-2.0 */
/* What a test does to the fake, and asks it. */
#include "unit/transport/verbs/fake_verbs_internal.h"

#include <string.h>
#include <unistd.h>

struct ibv_ah_attr fake_verbs_last_path(unsigned device)
{
	struct ibv_ah_attr path;

	pthread_mutex_lock(&fake_lock);
	path = fake.devices[device].last_path;
	pthread_mutex_unlock(&fake_lock);
	return path;
}

void fake_verbs_path(unsigned device, bool works)
{
	pthread_mutex_lock(&fake_lock);
	fake.devices[device].path_works = works;
	pthread_mutex_unlock(&fake_lock);
}

int fake_query_ece(struct ibv_qp *ibv, struct ibv_ece *ret)
{
	const struct fake_qp *qp = (const struct fake_qp *)ibv;
	int r = EOPNOTSUPP;

	pthread_mutex_lock(&fake_lock);
	if (fake.options.ece) {
		*ret = qp->ece.vendor_id ? qp->ece : (struct ibv_ece){ .vendor_id = 0x15b3, .options = FAKE_VERBS_ECE };
		r = 0;
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
}

int fake_set_ece(struct ibv_qp *ibv, struct ibv_ece *ece)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;
	int r = 0;

	pthread_mutex_lock(&fake_lock);
	if (!fake.options.ece || ibv->state != IBV_QPS_INIT || ece->vendor_id != 0x15b3) {
		fake.counts.wrong_calls++;
		r = EINVAL;
	} else {
		fake.counts.ece_sets[ece->options < FAKE_VERBS_ECE]++;
		qp->ece = *ece;
		qp->ece.options = FAKE_VERBS_ECE / 2;
	}
	pthread_mutex_unlock(&fake_lock);
	return r;
}

void fake_verbs_loops(unsigned device, bool work)
{
	pthread_mutex_lock(&fake_lock);
	fake.devices[device].loops_fail = !work;
	pthread_mutex_unlock(&fake_lock);
}

void fake_verbs_unreached(unsigned device, unsigned after, uint64_t each_ns)
{
	pthread_mutex_lock(&fake_lock);
	fake.devices[device].reaches = after;
	fake.devices[device].search_ns = each_ns;
	pthread_mutex_unlock(&fake_lock);
}

void fake_verbs_forget(unsigned device)
{
	pthread_mutex_lock(&fake_lock);
	fake.devices[device].forgets = true;
	pthread_mutex_unlock(&fake_lock);
}

void fake_verbs_lose(unsigned device, enum fake_verbs_loss how)
{
	pthread_mutex_lock(&fake_lock);
	fake.devices[device].loses = true;
	fake.devices[device].how = how;
	pthread_mutex_unlock(&fake_lock);
}

void fake_verbs_lose_always(unsigned device, size_t bytes, enum fake_verbs_loss how)
{
	pthread_mutex_lock(&fake_lock);
	fake.devices[device].lost_bytes = bytes;
	fake.devices[device].always = how;
	pthread_mutex_unlock(&fake_lock);
}

struct ibv_qp_attr fake_verbs_last_ready(unsigned device)
{
	struct ibv_qp_attr attr;

	pthread_mutex_lock(&fake_lock);
	attr = fake.devices[device].last_rts;
	pthread_mutex_unlock(&fake_lock);
	return attr;
}

static void tell(struct fake_device *device, unsigned port, enum ibv_event_type type)
{
	uint64_t one = 1;

	for (struct fake_context *context = device->contexts; context; context = context->next) {
		context->events[context->event_tail++ % FAKE_EVENTS] =
			(struct ibv_async_event){ .element.port_num = (int)port, .event_type = type };
		if (write(context->ibv.async_fd, &one, sizeof(one)) < 0)
			fake.counts.wrong_calls++;
	}
}

void fake_verbs_port_of(unsigned index, unsigned port, bool up)
{
	pthread_mutex_lock(&fake_lock);
	fake.devices[index].path_works = up;
	tell(&fake.devices[index], port, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	pthread_mutex_unlock(&fake_lock);
}

void fake_verbs_port(unsigned index, bool up)
{
	fake_verbs_port_of(index, 1, up);
}

void fake_verbs_die(unsigned index)
{
	pthread_mutex_lock(&fake_lock);
	fake.devices[index].dead = true;
	tell(&fake.devices[index], 0, IBV_EVENT_DEVICE_FATAL);
	pthread_mutex_unlock(&fake_lock);
}

void fake_verbs_slow(unsigned device, uint64_t each_ns)
{
	pthread_mutex_lock(&fake_lock);
	fake.devices[device].each_ns = each_ns;
	pthread_mutex_unlock(&fake_lock);
}

void fake_verbs_set_lid(unsigned index, uint16_t lid)
{
	pthread_mutex_lock(&fake_lock);
	fake.devices[index].lid = lid;
	tell(&fake.devices[index], 1, IBV_EVENT_LID_CHANGE);
	pthread_mutex_unlock(&fake_lock);
}

void fake_verbs_move_gid(unsigned index, unsigned from, unsigned to)
{
	struct fake_device *device = &fake.devices[index];

	pthread_mutex_lock(&fake_lock);
	if (to < FAKE_VERBS_GIDS)
		memcpy(device->gids[to], device->gids[from], 16);
	memset(device->gids[from], 0, 16);
	tell(device, 1, IBV_EVENT_GID_CHANGE);
	pthread_mutex_unlock(&fake_lock);
}

void fake_verbs_set_gid(unsigned device, unsigned row, const uint8_t gid[static 16])
{
	memcpy(fake.devices[device].gids[row], gid, 16);
}

void fake_verbs_set_port(unsigned device, bool active, bool ethernet)
{
	fake.devices[device].active = active;
	fake.devices[device].ethernet = ethernet;
}

void fake_verbs_needs_grh(unsigned device)
{
	fake.devices[device].needs_grh = true;
}

uint16_t fake_verbs_last_pkey(unsigned device)
{
	uint16_t row;

	pthread_mutex_lock(&fake_lock);
	row = fake.devices[device].last_pkey;
	pthread_mutex_unlock(&fake_lock);
	return row;
}

void fake_verbs_set_transport(unsigned device, enum ibv_transport_type type)
{
	fake.devices[device].ibv.transport_type = type;
}

void fake_verbs_limit_queues(unsigned most)
{
	pthread_mutex_lock(&fake_lock);
	fake.options.most_queues = most;
	pthread_mutex_unlock(&fake_lock);
}

void fake_verbs_fail(enum fake_verbs_kind kind, uint64_t nth)
{
	pthread_mutex_lock(&fake_lock);
	memset(fake.fail_in, 0, sizeof(fake.fail_in));
	fake.fail_in[kind] = nth;
	fake.failed = false;
	pthread_mutex_unlock(&fake_lock);
}

bool fake_verbs_failed(void)
{
	bool failed;

	pthread_mutex_lock(&fake_lock);
	failed = fake.failed;
	pthread_mutex_unlock(&fake_lock);
	return failed;
}

void fake_verbs_counts(struct fake_verbs_counts *ret)
{
	pthread_mutex_lock(&fake_lock);
	*ret = fake.counts;
	pthread_mutex_unlock(&fake_lock);
}

unsigned fake_verbs_regions(void)
{
	unsigned count;

	pthread_mutex_lock(&fake_lock);
	count = fake.region_count;
	pthread_mutex_unlock(&fake_lock);
	return count;
}

unsigned fake_verbs_access(const void *data)
{
	unsigned access = 0;

	pthread_mutex_lock(&fake_lock);
	for (const struct fake_mr *mr = fake.mrs; mr; mr = mr->next)
		if ((uintptr_t)data - (uintptr_t)mr->ibv.addr < mr->ibv.length)
			access = mr->access;
	pthread_mutex_unlock(&fake_lock);
	return access;
}
