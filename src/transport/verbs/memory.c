/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory, one registration for the same pages however many connections use them. */
#include "base/log.h"
#include "base/sys.h"
#include "transport/verbs/device.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

enum { PAGE_BYTES = 4096 };

static void say_failed(struct verbs_card *card, const struct verbs_range *range, int error)
{
	struct rlimit limit;

	if (range->optional || (range->memory == TRANSPORT_MEMORY_HOST && card->refused))
		return; /* every message would say it again */
	card->refused |= range->memory == TRANSPORT_MEMORY_HOST;
	if (range->memory != TRANSPORT_MEMORY_HOST)
		log_warn("RDMA device %s cannot register %zu bytes of a GPU (%s): %s. NCCL_NET_GDR_LEVEL=LOC keeps "
			 "it to host memory",
			 card->name, range->bytes,
			 range->memory == TRANSPORT_MEMORY_DMABUF ? "DMA-BUF" : "nvidia-peermem", strerror(-error));
	else if ((error == -ENOMEM || error == -EPERM) && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
		 limit.rlim_cur != RLIM_INFINITY)
		log_warn(
			"RDMA device %s cannot register %zu bytes: %s. This process may lock %llu KiB of memory: raise "
			"that (ulimit -l unlimited)",
			card->name, range->bytes, strerror(-error), (unsigned long long)limit.rlim_cur / 1024);
	else
		log_warn("RDMA device %s cannot register %zu bytes of memory: %s", card->name, range->bytes,
			 strerror(-error));
}

/* Relaxed ordering lets a PCIe root write the payload in any order; a device that has it not ignores the flag. */
static struct ibv_mr *make(const struct verbs_card *card, const struct verbs_range *range, uint64_t begin, size_t bytes)
{
	const unsigned relaxed = card->fabric->relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	void *data = (void *)(uintptr_t)begin;

	errno = 0;
	if (range->memory != TRANSPORT_MEMORY_HOST)
		access |= IBV_ACCESS_REMOTE_READ; /* by ourselves (loopback.c) */
	if (range->memory == TRANSPORT_MEMORY_DMABUF)
		return card->api->reg_dmabuf_mr(card->pd, range->offset, bytes, begin, range->fd,
						access | (int)relaxed);
	if (card->api->reg_mr_iova2)
		return card->api->reg_mr_iova2(card->pd, data, bytes, begin, (unsigned)access | relaxed);
	return card->api->reg_mr(card->pd, data, bytes, access);
}

/*
 * The same pages. A part of more only while a holder has promised that all of them stay, and for a request alone: of what was
 * registered for requests the rest may be unmapped, and be other memory the next time.
 */
static bool serves(const struct verbs_memory *memory, const struct verbs_range *range, uint64_t begin, uint64_t end)
{
	if (memory->stale || memory->gpu != (range->memory != TRANSPORT_MEMORY_HOST))
		return false;
	return (memory->begin == begin && memory->end == end) ||
	       (!range->stays && memory->stays && memory->begin <= begin && memory->end >= end);
}

static int get_locked(struct verbs_card *card, const struct verbs_range *range, uint64_t begin, uint64_t end,
		      struct verbs_memory **ret)
{
	struct verbs_memory *memory;
	int r;

	for (memory = LIST_FIRST(&card->memories); memory; memory = LIST_NEXT(memory, link))
		if (serves(memory, range, begin, end)) {
			memory->holders++;
			memory->stays += range->stays;
			*ret = memory;
			return 0;
		}
	memory = sys_zalloc(sizeof(*memory));
	if (!memory)
		return -ENOMEM;
	memory->mr = make(card, range, begin, (size_t)(end - begin));
	if (!memory->mr) {
		r = errno ? -errno : -ENOMEM;
		sys_free(memory);
		say_failed(card, range, r);
		return r;
	}
	memory->begin = begin;
	memory->end = end;
	memory->holders = 1;
	memory->stays = range->stays;
	memory->gpu = range->memory != TRANSPORT_MEMORY_HOST;
	LIST_INSERT_HEAD(&card->memories, memory, link);
	*ret = memory;
	return 0;
}

int verbs_memory_get(struct verbs_card *card, const struct verbs_range *range, struct verbs_memory **ret)
{
	uint64_t begin = (uintptr_t)range->data, end = begin + range->bytes;
	int saved_errno = errno, r;

	if (!(card->memory & range->memory))
		return -EOPNOTSUPP;
	if (range->memory != TRANSPORT_MEMORY_DMABUF) { /* that one begins where its descriptor says */
		begin &= ~(uint64_t)(PAGE_BYTES - 1);
		end = (end + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
	}
	if (!range->bytes)
		end = begin + PAGE_BYTES;
	pthread_mutex_lock(&card->lock);
	r = get_locked(card, range, begin, end, ret);
	pthread_mutex_unlock(&card->lock);
	errno = saved_errno;
	return r;
}

void verbs_memory_say_copied(struct verbs_card *card)
{
	bool said;

	pthread_mutex_lock(&card->lock);
	said = card->said_copied;
	card->said_copied = true;
	pthread_mutex_unlock(&card->lock);
	if (!said)
		log_warn("messages in memory that RDMA device %s does not register are copied, which is slower",
			 card->name);
}

void verbs_memory_put(struct verbs_card *card, struct verbs_memory *memory, bool stays)
{
	if (!memory)
		return;
	pthread_mutex_lock(&card->lock);
	memory->stays -= stays;
	memory->stale |= stays && !memory->stays;
	if (--memory->holders == 0) {
		LIST_REMOVE(memory, link);
		card->api->dereg_mr(memory->mr);
		sys_free(memory);
	}
	pthread_mutex_unlock(&card->lock);
}
