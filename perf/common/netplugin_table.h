/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of netplugin: the slots of whichever table was chosen, in one struct. Where a slot changed its type between
 * versions there is one member for each type, named after the first version that has it; the others are NULL.
 */
#ifndef TRIBUTARY_PERF_NETPLUGIN_TABLE_H
#define TRIBUTARY_PERF_NETPLUGIN_TABLE_H

#include "netplugin.h"

struct netplugin {
	void *library;
	int version;
	bool initialised; /* up to v10 */
	const void *table;
	const char *name;

	enum nccl_result (*init_v6)(nccl_debug_logger *);
	enum nccl_result (*init_v10)(nccl_debug_logger *, nccl_profiler_callback *);
	enum nccl_result (*init_v11)(void **, uint64_t, struct nccl_net_comm_config *, nccl_debug_logger *,
				     nccl_profiler_callback *);
	enum nccl_result (*devices)(int *);
	enum nccl_result (*listen_v6)(int, void *, void **);
	enum nccl_result (*listen_v11)(void *, int, void *, void **);
	enum nccl_result (*connect_v6)(int, void *, void **);
	enum nccl_result (*connect_v7)(int, void *, void **, struct nccl_net_device_handle **);
	enum nccl_result (*connect_v10)(int, struct nccl_net_comm_config *, void *, void **,
					struct nccl_net_device_handle **);
	enum nccl_result (*connect_v11)(void *, int, void *, void **, struct nccl_net_device_handle **);
	enum nccl_result (*accept_v6)(void *, void **);
	enum nccl_result (*accept_v7)(void *, void **, struct nccl_net_device_handle **);
	enum nccl_result (*reg_v6)(void *, void *, int, int, void **);
	enum nccl_result (*reg_v8)(void *, void *, size_t, int, void **);
	enum nccl_result (*reg_dmabuf)(void *, void *, size_t, int, uint64_t, int, void **);
	enum nccl_result (*dereg)(void *, void *);
	enum nccl_result (*send_v6)(void *, void *, int, int, void *, void **);
	enum nccl_result (*send_v9)(void *, void *, size_t, int, void *, void **);
	enum nccl_result (*send_v10)(void *, void *, size_t, int, void *, void *, void **);
	enum nccl_result (*receive_v6)(void *, int, void **, int *, int *, void **, void **);
	enum nccl_result (*receive_v9)(void *, int, void **, size_t *, int *, void **, void **);
	enum nccl_result (*receive_v10)(void *, int, void **, size_t *, int *, void **, void **, void **);
	enum nccl_result (*flush)(void *, int, void **, int *, void **, void **);
	enum nccl_result (*test)(void *, int *, int *);
	enum nccl_result (*close_send)(void *);
	enum nccl_result (*close_recv)(void *);
	enum nccl_result (*close_listen)(void *);
	enum nccl_result (*make_vdevice_v9)(int *, struct nccl_net_vdevice_v9 *);
	enum nccl_result (*make_vdevice_v12)(int *, struct nccl_net_vdevice_v12 *);
	enum nccl_result (*finalize)(void *);
};

struct netplugin_context {
	struct netplugin *plugin;
	void *inner; /* v11 and later */
	struct nccl_net_comm_config config;
};

/* version: one of NETPLUGIN_OLDEST to NETPLUGIN_NEWEST; table: the library's struct of that version. */
void netplugin_table_adopt(struct netplugin *plugin, int version, const void *table);
int netplugin_table_properties(struct netplugin *plugin, int device, struct netplugin_properties *ret_properties);

#endif
