/* Orders of hosts. */
#include "base/sys.h"
#include "simulate/job_internal.h"

#include <errno.h>

uint64_t simulate_draw(uint64_t *state, uint64_t below)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * UINT64_C(0x2545f4914f6cdd1d) >> 11) % below;
}

void simulate_order_rank(const struct simulate_fabric *fabric, uint32_t *ret)
{
	for (uint32_t i = 0; i < fabric->host_count; i++)
		ret[i] = i;
}

void simulate_order_random(const struct simulate_fabric *fabric, uint64_t seed, uint32_t *ret)
{
	uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x632be59bd9b4e019);

	state = state ? state : 1;
	simulate_order_rank(fabric, ret);
	for (size_t i = fabric->host_count; i > 1; i--) {
		size_t other = simulate_draw(&state, i);
		uint32_t last = ret[i - 1];

		ret[i - 1] = ret[other];
		ret[other] = last;
	}
}

/* The hosts below each switch, children after their parents' own hosts, so that pods stay together too. */
struct walk {
	const struct simulate_fabric *fabric;
	uint32_t *first_child, *next_child; /* of switches */
	uint32_t *first_host, *next_host;
	uint32_t *ret;
	size_t count;
};

static void walk_switch(struct walk *walk, uint32_t at)
{
	for (uint32_t host = walk->first_host[at]; host != SIMULATE_NONE; host = walk->next_host[host])
		walk->ret[walk->count++] = host;
	for (uint32_t child = walk->first_child[at]; child != SIMULATE_NONE; child = walk->next_child[child])
		walk_switch(walk, child); /* at most SIMULATE_DEPTH_MAX deep */
}

static void walk_all(struct walk *walk)
{
	const struct simulate_fabric *fabric = walk->fabric;

	for (size_t i = 0; i < fabric->switch_count; i++)
		walk->first_child[i] = walk->first_host[i] = SIMULATE_NONE;
	for (uint32_t i = (uint32_t)fabric->host_count; i-- > 0;) {
		uint32_t leaf = fabric->nics[i * fabric->rail_count].leaf;

		walk->next_host[i] = walk->first_host[leaf];
		walk->first_host[leaf] = i;
	}
	for (uint32_t i = (uint32_t)fabric->switch_count; i-- > 0;) {
		uint32_t parent = fabric->switches[i].parent;

		if (parent == SIMULATE_NONE)
			continue;
		walk->next_child[i] = walk->first_child[parent];
		walk->first_child[parent] = i;
	}
	for (uint32_t i = 0; i < fabric->switch_count; i++)
		if (fabric->switches[i].parent == SIMULATE_NONE)
			walk_switch(walk, i);
}

int simulate_order_leaf(const struct simulate_fabric *fabric, uint32_t *ret)
{
	size_t switches = fabric->switch_count;
	uint32_t *room = sys_zalloc((3 * switches + fabric->host_count + 1) * sizeof(*room));
	struct walk walk = { .fabric = fabric, .ret = ret };

	if (!room)
		return -ENOMEM;
	walk.first_child = room;
	walk.next_child = room + switches;
	walk.first_host = room + 2 * switches;
	walk.next_host = room + 3 * switches;
	walk_all(&walk);
	sys_free(room);
	return 0;
}
