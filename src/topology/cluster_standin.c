#include "tributary/cluster.h"

#include <string.h>

const struct cluster_host *cluster_find(const struct cluster *cluster, const char *host)
{
	for (size_t i = 0; i < cluster->host_count; i++)
		if (strcmp(cluster->hosts[i].name, host) == 0)
			return &cluster->hosts[i];
	return NULL;
}
