#include "aggregate/group.h"

#include <errno.h>

int aggregate_gather_all(struct aggregate_group *group, size_t rank, const void *send, size_t part_count,
			 const struct aggregate_part *recv, size_t bytes_per_member, size_t offset, size_t bytes,
			 struct aggregate_request **ret)
{
	(void)group, (void)rank, (void)send, (void)part_count, (void)recv, (void)bytes_per_member, (void)offset,
		(void)bytes, (void)ret;
	return -EOPNOTSUPP;
}

int aggregate_reduce_scatter(struct aggregate_group *group, size_t rank, size_t part_count,
			     const struct aggregate_part *send, void *recv, size_t bytes_per_member, size_t offset,
			     size_t bytes, enum reduce_type type, enum reduce_operation operation,
			     struct aggregate_request **ret)
{
	(void)group, (void)rank, (void)send, (void)part_count, (void)recv, (void)bytes_per_member, (void)offset,
		(void)bytes, (void)type, (void)operation, (void)ret;
	return -EOPNOTSUPP;
}
