/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the collnet table of any NCCL net plugin as NCCL does, whatever version of the interface it exports (v6 to v12).
 * It belongs to the library of a struct netplugin, whose net table is initialised first, as NCCL does it.
 *
 * Differences between versions end here: counts are size_t (up to v8 the interface has only int: a larger one is
 * NCCL_INVALID_ARGUMENT and the plugin is not called); the context of v11 and later is kept inside, with one for each
 * collnetplugin_open().
 *
 * NCCL's rules that stay with the caller: connect blocks and every member calls it once; come again while iallreduce gives
 * NULL; requests are tested in the order in which they were posted.
 *
 * Threads and errors as in netplugin.h: outputs are written only on success, results are enum nccl_result as an int.
 */
#ifndef TRIBUTARY_PERF_COLLNETPLUGIN_H
#define TRIBUTARY_PERF_COLLNETPLUGIN_H

#include "netplugin.h"

struct collnetplugin;

/*
 * version: 0 for the newest there is, else exactly that one. -ENOENT: the library has no such table, and the reason goes
 * to stderr. The netplugin must outlive it.
 */
int collnetplugin_open(struct netplugin *net, int version, struct collnetplugin **ret_plugin);
void collnetplugin_close(
	struct collnetplugin *plugin); /* finalize, where init was and the version has it; NULL is fine */

int collnetplugin_version(const struct collnetplugin *plugin);
const char *collnetplugin_name(const struct collnetplugin *plugin);

int collnetplugin_init(struct collnetplugin *plugin, uint64_t comm_id, nccl_debug_logger *logger);
int collnetplugin_devices(struct collnetplugin *plugin, int *ret_count);
int collnetplugin_supports(struct collnetplugin *plugin, enum nccl_datatype type, enum nccl_redop op,
			   int *ret_supported);

/* handle: NCCL_HANDLE_BYTES. A success with *ret_comm NULL means that there is no collnet here. */
int collnetplugin_listen(struct collnetplugin *plugin, int device, void *handle, void **ret_listener);
int collnetplugin_connect(struct collnetplugin *plugin, void **handles, int count, int rank, void *listener,
			  void **ret_comm);
int collnetplugin_close_listen(struct collnetplugin *plugin, void *listener);
int collnetplugin_close_comm(struct collnetplugin *plugin, void *comm);

int collnetplugin_reg(struct collnetplugin *plugin, void *comm, void *data, size_t bytes, int type, void **ret_mhandle);
int collnetplugin_dereg(struct collnetplugin *plugin, void *comm, void *mhandle);

/*
 * The chunk of an AllReduce by CollNetChain where NCCL would take chunk_bytes: as NCCL does from 2.30 on (version 12), it
 * asks the tuner in the same library, if there is one that says. At most chunk_bytes.
 */
size_t collnetplugin_chunk_bytes(struct collnetplugin *plugin, size_t bytes, int channels, size_t chunk_bytes);
bool collnetplugin_asks_tuner(const struct collnetplugin *plugin);

struct collnetplugin_reduction {
	void *send, *recv; /* may be the same memory */
	size_t count;
	enum nccl_datatype type;
	enum nccl_redop op;
	void *send_mhandle, *recv_mhandle;
};
int collnetplugin_reduce_all(struct collnetplugin *plugin, void *comm, const struct collnetplugin_reduction *reduction,
			     void **ret_request);
int collnetplugin_test(struct collnetplugin *plugin, void *request, int *ret_done, int *ret_bytes);

#endif
