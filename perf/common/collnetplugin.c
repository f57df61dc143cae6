/* SPDX-License-Identifier: Apache-2.0 */
#include "collnetplugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "nccl/tuner_v6.h"
#include "nccl/v10.h"
#include "nccl/v11.h"
#include "nccl/v12.h"
#include "nccl/v6.h"
#include "nccl/v7.h"
#include "nccl/v8.h"
#include "nccl/v9.h"
#include "netplugin_table.h"

/* The slots of the chosen table; where one changed its type there is a member for each, named after its first version. */
struct collnetplugin {
	struct netplugin *net;
	int version;
	bool initialised;
	void *context; /* v11 and later */
	const char *name;

	enum nccl_result (*init_v6)(nccl_debug_logger *);
	enum nccl_result (*init_v11)(void **, uint64_t, nccl_debug_logger *);
	enum nccl_result (*devices)(int *);
	enum nccl_result (*listen_v6)(int, void *, void **);
	enum nccl_result (*listen_v11)(void *, int, void *, void **);
	enum nccl_result (*connect)(void **, int, int, void *, void **);
	enum nccl_result (*supports)(enum nccl_datatype, enum nccl_redop, int *);
	enum nccl_result (*reg_v6)(void *, void *, int, int, void **);
	enum nccl_result (*reg_v8)(void *, void *, size_t, int, void **);
	enum nccl_result (*dereg)(void *, void *);
	enum nccl_result (*reduce_v6)(void *, void *, void *, int, enum nccl_datatype, enum nccl_redop, void *, void *,
				      void **);
	enum nccl_result (*reduce_v9)(void *, void *, void *, size_t, enum nccl_datatype, enum nccl_redop, void *,
				      void *, void **);
	enum nccl_result (*test)(void *, int *, int *);
	enum nccl_result (*close_comm)(void *);
	enum nccl_result (*close_listen)(void *);
	enum nccl_result (*finalize)(void *);
};

/* ---- which table ---- */

#define ADOPT_COMMON(p, t)                            \
	do {                                          \
		(p)->name = (t)->name;                \
		(p)->devices = (t)->devices;          \
		(p)->connect = (t)->connect;          \
		(p)->supports = (t)->reduceSupport;   \
		(p)->dereg = (t)->deregMr;            \
		(p)->test = (t)->test;                \
		(p)->close_comm = (t)->closeColl;     \
		(p)->close_listen = (t)->closeListen; \
	} while (0)

#define ADOPT_V6(p, t)                            \
	do {                                      \
		ADOPT_COMMON(p, t);               \
		(p)->init_v6 = (t)->init;         \
		(p)->listen_v6 = (t)->listen;     \
		(p)->reg_v6 = (t)->regMr;         \
		(p)->reduce_v6 = (t)->iallreduce; \
	} while (0)

#define ADOPT_V11(p, t)                           \
	do {                                      \
		ADOPT_COMMON(p, t);               \
		(p)->init_v11 = (t)->init;        \
		(p)->listen_v11 = (t)->listen;    \
		(p)->reg_v8 = (t)->regMr;         \
		(p)->reduce_v9 = (t)->iallreduce; \
		(p)->finalize = (t)->finalize;    \
	} while (0)

static void adopt_v8(struct collnetplugin *p, const struct nccl_collnet_v8 *t)
{
	ADOPT_COMMON(p, t);
	p->init_v6 = t->init;
	p->listen_v6 = t->listen;
	p->reg_v8 = t->regMr;
	p->reduce_v6 = t->iallreduce;
}

static void adopt_v9(struct collnetplugin *p, const struct nccl_collnet_v9 *t)
{
	ADOPT_COMMON(p, t);
	p->init_v6 = t->init;
	p->listen_v6 = t->listen;
	p->reg_v8 = t->regMr;
	p->reduce_v9 = t->iallreduce;
}

static void adopt_v10(struct collnetplugin *p, const struct nccl_collnet_v10 *t)
{
	ADOPT_COMMON(p, t);
	p->init_v6 = t->init;
	p->listen_v6 = t->listen;
	p->reg_v8 = t->regMr;
	p->reduce_v9 = t->iallreduce;
}

static void adopt(struct collnetplugin *p, int version, const void *table)
{
	p->version = version;
	switch (version) {
	case 6:
		ADOPT_V6(p, (const struct nccl_collnet_v6 *)table);
		break;
	case 7:
		ADOPT_V6(p, (const struct nccl_collnet_v7 *)table);
		break;
	case 8:
		adopt_v8(p, table);
		break;
	case 9:
		adopt_v9(p, table);
		break;
	case 10:
		adopt_v10(p, table);
		break;
	case 11:
		ADOPT_V11(p, (const struct nccl_collnet_v11 *)table);
		break;
	default:
		ADOPT_V11(p, (const struct nccl_collnet_v12 *)table);
		break;
	}
}

static int choose(struct collnetplugin *plugin, int version)
{
	int from = version ? version : NETPLUGIN_NEWEST, to = version ? version : NETPLUGIN_OLDEST, v;
	char symbol[32];

	for (v = from; v >= to; v--) {
		const void *table;

		snprintf(symbol, sizeof(symbol), "ncclCollNetPlugin_v%d", v);
		table = dlsym(plugin->net->library, symbol);
		if (table) {
			adopt(plugin, v, table);
			return 0;
		}
	}
	fprintf(stderr, "%s has no ncclCollNetPlugin_v%d%s\n", netplugin_name(plugin->net), from,
		version ? "" : " or older");
	return -ENOENT;
}

int collnetplugin_open(struct netplugin *net, int version, struct collnetplugin **ret_plugin)
{
	struct collnetplugin *plugin = calloc(1, sizeof(*plugin));
	int r;

	if (!plugin)
		return -ENOMEM;
	plugin->net = net;
	/* There are no devices without it. */
	setenv("NCCL_COLLNET_ENABLE", "1", 0);
	r = choose(plugin, version);
	if (r < 0) {
		free(plugin);
		return r;
	}
	*ret_plugin = plugin;
	return 0;
}

void collnetplugin_close(struct collnetplugin *plugin)
{
	if (!plugin)
		return;
	if (plugin->initialised && plugin->finalize)
		plugin->finalize(plugin->context);
	free(plugin);
}

int collnetplugin_version(const struct collnetplugin *plugin)
{
	return plugin->version;
}

const char *collnetplugin_name(const struct collnetplugin *plugin)
{
	return plugin->name;
}

/* ---- calls ---- */

int collnetplugin_init(struct collnetplugin *plugin, uint64_t comm_id, nccl_debug_logger *logger)
{
	int r;

	logger = logger ? logger : netplugin_log;
	if (plugin->init_v11)
		r = (int)plugin->init_v11(&plugin->context, comm_id, logger);
	else
		r = (int)plugin->init_v6(logger);
	plugin->initialised = r == NCCL_SUCCESS;
	return r;
}

int collnetplugin_devices(struct collnetplugin *plugin, int *ret_count)
{
	return (int)plugin->devices(ret_count);
}

int collnetplugin_supports(struct collnetplugin *plugin, enum nccl_datatype type, enum nccl_redop op,
			   int *ret_supported)
{
	return (int)plugin->supports(type, op, ret_supported);
}

int collnetplugin_listen(struct collnetplugin *plugin, int device, void *handle, void **ret_listener)
{
	if (plugin->listen_v11)
		return (int)plugin->listen_v11(plugin->context, device, handle, ret_listener);
	return (int)plugin->listen_v6(device, handle, ret_listener);
}

int collnetplugin_connect(struct collnetplugin *plugin, void **handles, int count, int rank, void *listener,
			  void **ret_comm)
{
	void *comm = NULL;
	int r = (int)plugin->connect(handles, count, rank, listener, &comm);

	if (r == NCCL_SUCCESS)
		*ret_comm = comm;
	return r;
}

int collnetplugin_close_listen(struct collnetplugin *plugin, void *listener)
{
	return (int)plugin->close_listen(listener);
}

int collnetplugin_close_comm(struct collnetplugin *plugin, void *comm)
{
	return (int)plugin->close_comm(comm);
}

int collnetplugin_reg(struct collnetplugin *plugin, void *comm, void *data, size_t bytes, int type, void **ret_mhandle)
{
	if (plugin->reg_v8)
		return (int)plugin->reg_v8(comm, data, bytes, type, ret_mhandle);
	if (bytes > INT_MAX)
		return NCCL_INVALID_ARGUMENT;
	return (int)plugin->reg_v6(comm, data, (int)bytes, type, ret_mhandle);
}

int collnetplugin_dereg(struct collnetplugin *plugin, void *comm, void *mhandle)
{
	return (int)plugin->dereg(comm, mhandle);
}

static const struct nccl_tuner_v6 *tuner_of(const struct collnetplugin *plugin)
{
	enum { SINCE_VERSION = 12 };

	return plugin->version >= SINCE_VERSION ? dlsym(plugin->net->library, "ncclTunerPlugin_v6") : NULL;
}

bool collnetplugin_asks_tuner(const struct collnetplugin *plugin)
{
	return tuner_of(plugin) != NULL;
}

size_t collnetplugin_chunk_bytes(struct collnetplugin *plugin, size_t bytes, int channels, size_t chunk_bytes)
{
	const struct nccl_tuner_v6 *tuner = tuner_of(plugin);
	size_t wanted_bytes = chunk_bytes;

	if (!tuner || tuner->getChunkSize(NULL, NCCL_FUNC_ALLREDUCE, bytes, NCCL_ALGO_COLLNET_CHAIN_ID,
					  NCCL_PROTO_SIMPLE_ID, channels, &wanted_bytes) != NCCL_SUCCESS)
		return chunk_bytes;
	return wanted_bytes && wanted_bytes < chunk_bytes ? wanted_bytes : chunk_bytes;
}

int collnetplugin_reduce_all(struct collnetplugin *plugin, void *comm, const struct collnetplugin_reduction *reduction,
			     void **ret_request)
{
	const struct collnetplugin_reduction *x = reduction;
	void *request = NULL;
	int r;

	if (plugin->reduce_v9) {
		r = (int)plugin->reduce_v9(comm, x->send, x->recv, x->count, x->type, x->op, x->send_mhandle,
					   x->recv_mhandle, &request);
	} else {
		if (x->count > INT_MAX)
			return NCCL_INVALID_ARGUMENT;
		r = (int)plugin->reduce_v6(comm, x->send, x->recv, (int)x->count, x->type, x->op, x->send_mhandle,
					   x->recv_mhandle, &request);
	}
	if (r == NCCL_SUCCESS)
		*ret_request = request;
	return r;
}

int collnetplugin_test(struct collnetplugin *plugin, void *request, int *ret_done, int *ret_bytes)
{
	return (int)plugin->test(request, ret_done, ret_bytes);
}
