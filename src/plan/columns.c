/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/search.h"

#include "base/hash.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

enum {
	ROOM = 4096,
	ENUMERATE_MOST = 6000,    /* channels */
	ENUMERATE_COLUMNS = 1500, /* with different loads: more than these cost more than they help */
	REACH_STRIDE = PLAN_GPUS_MAX,
};

int plan_columns_init(struct plan_columns *columns, const struct plan_model *model)
{
	memset(columns, 0, sizeof(*columns));
	columns->model = model;
	columns->room = ROOM;
	columns->slot_mask = 4 * ROOM - 1;
	columns->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(columns->channels, ROOM),
				      SYS_ARRAY(columns->loads, (ROOM + 1) * (model->rows + 1)),
				      SYS_ARRAY(columns->touched, (ROOM + 1) * (model->rows + 1)),
				      SYS_ARRAY(columns->touched_counts, ROOM), SYS_ARRAY(columns->detours, ROOM),
				      SYS_ARRAY(columns->slots, columns->slot_mask + 1),
				      SYS_ARRAY(columns->reach, ((size_t)1 << model->gpus) * REACH_STRIDE) },
		7);
	return columns->arrays ? 0 : -ENOMEM;
}

void plan_columns_fini(struct plan_columns *columns)
{
	sys_free(columns->arrays);
	memset(columns, 0, sizeof(*columns));
}

uint32_t plan_channel_loads(const struct plan_model *model, const struct plan_channel *channel, uint16_t *loads)
{
	uint32_t hops[PLAN_CHANNEL_HOPS_MAX], detour = 0;
	size_t count = plan_channel_hops(model, channel, hops);

	memset(loads, 0, model->rows * sizeof(*loads));
	for (size_t i = 0; i < count; i++) {
		for (uint32_t j = model->first[hops[i]]; j < model->first[hops[i] + 1]; j++) {
			const struct plan_crossing *crossing = &model->crossings[j];

			loads[crossing->row] = (uint16_t)(loads[crossing->row] + crossing->count);
		}
		detour += model->detour[hops[i]];
	}
	return detour;
}

double plan_column_price(const struct plan_columns *columns, uint32_t column, const double *prices)
{
	const uint16_t *loads = plan_column_loads(columns, column);
	double price = 0;

	for (size_t row = 0; row < columns->model->rows; row++)
		price += prices[row] * loads[row];
	return price;
}

static size_t hash_of(const uint16_t *loads, size_t rows)
{
	uint64_t hash = HASH_START;

	for (size_t i = 0; i < rows; i++)
		hash = hash_step(hash, loads[i]);
	return (size_t)(hash ^ (hash >> 29));
}

static uint64_t add_work(const struct plan_model *model)
{
	return 4 * model->rows + 16;
}

int plan_columns_add(struct plan_columns *columns, const struct plan_channel *channel, uint32_t *ret_column)
{
	size_t rows = columns->model->rows, bytes = rows * sizeof(*columns->loads), slot;
	uint16_t *loads = &columns->loads[columns->count * rows]; /* there is always room for one more */
	uint32_t detour = plan_channel_loads(columns->model, channel, loads);

	columns->work += add_work(columns->model);
	for (slot = hash_of(loads, rows) & columns->slot_mask; columns->slots[slot];
	     slot = (slot + 1) & columns->slot_mask) {
		uint32_t column = columns->slots[slot] - 1;

		if (memcmp(plan_column_loads(columns, column), loads, bytes) != 0)
			continue;
		if (detour < columns->detours[column]) {
			columns->detours[column] = detour;
			columns->channels[column] = *channel;
		}
		*ret_column = column;
		return 0;
	}
	if (columns->count == columns->room)
		return -ENOSPC;
	for (size_t row = 0; row < rows; row++)
		if (loads[row])
			columns->touched[columns->count * rows + columns->touched_counts[columns->count]++] =
				(uint16_t)row;
	columns->channels[columns->count] = *channel;
	columns->detours[columns->count] = detour;
	columns->slots[slot] = (uint32_t)columns->count + 1;
	*ret_column = (uint32_t)columns->count++;
	return 0;
}

/* The next permutation in order; false: that was the last one. */
static bool next_order(uint8_t *order, size_t count)
{
	size_t i = count - 1, j = count - 1;
	uint8_t kept;

	if (count < 2)
		return false;
	while (i && order[i - 1] > order[i])
		i--;
	if (!i)
		return false;
	while (order[j] < order[i - 1])
		j--;
	kept = order[i - 1];
	order[i - 1] = order[j];
	order[j] = kept;
	for (j = count - 1; i < j; i++, j--) {
		kept = order[i];
		order[i] = order[j];
		order[j] = kept;
	}
	return true;
}

static size_t count_channels(const struct plan_model *model)
{
	size_t count = model->nics * (model->crossnic ? model->nics : 1);

	for (size_t i = 2; i < model->gpus + !model->closed && count <= ENUMERATE_MOST; i++)
		count *= i;
	return count;
}

static bool add_nics(struct plan_columns *columns, struct plan_channel *channel)
{
	const struct plan_model *model = columns->model;
	uint32_t column;

	if (columns->count >= ENUMERATE_COLUMNS)
		return false;
	for (size_t in = 0; in < model->nics; in++) {
		for (size_t out = model->crossnic ? 0 : in; out < (model->crossnic ? model->nics : in + 1); out++) {
			channel->nic_in = (uint8_t)in;
			channel->nic_out = (uint8_t)out;
			if (plan_columns_add(columns, channel, &column) < 0)
				return false;
		}
	}
	return true;
}

static void forget_from(struct plan_columns *columns, size_t count)
{
	const struct plan_model *model = columns->model;

	memset(columns->slots, 0, (columns->slot_mask + 1) * sizeof(*columns->slots));
	memset(&columns->touched_counts[count], 0, (columns->count - count) * sizeof(*columns->touched_counts));
	columns->count = count;
	for (uint32_t column = 0; column < count; column++) {
		size_t slot = hash_of(plan_column_loads(columns, column), model->rows) & columns->slot_mask;

		while (columns->slots[slot])
			slot = (slot + 1) & columns->slot_mask;
		columns->slots[slot] = column + 1;
	}
}

void plan_columns_enumerate(struct plan_columns *columns, uint64_t work_limit)
{
	const struct plan_model *model = columns->model;
	struct plan_channel channel = { 0 };
	size_t fixed = model->closed ? 1 : 0; /* a ring may as well begin at the first */
	size_t before = columns->count;
	bool reversible = model->mirrored && !model->network;

	if (count_channels(model) > ENUMERATE_MOST || count_channels(model) * add_work(model) > work_limit)
		return;
	for (size_t i = 0; i < model->gpus; i++)
		channel.order[i] = (uint8_t)i;
	do {
		if (reversible && channel.order[0] > channel.order[model->gpus - 1])
			continue;
		if (!add_nics(columns, &channel)) {
			forget_from(columns, before);
			return;
		}
	} while (next_order(channel.order + fixed, model->gpus - fixed));
	columns->complete = true;
}
