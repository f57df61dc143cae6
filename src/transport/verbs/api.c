/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/api.h"

#include "base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

/* ibv_post_send() and the like are inline in the header: calls through the driver's table in the context. */
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **ret_bad)
{
	return qp->context->ops.post_send(qp, list, ret_bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *list, struct ibv_recv_wr **ret_bad)
{
	return qp->context->ops.post_recv(qp, list, ret_bad);
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *ret)
{
	return cq->context->ops.poll_cq(cq, most, ret);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return cq->context->ops.req_notify_cq(cq, solicited_only);
}

/*
 * Symbols of the library, with the version of their types that our header has: some exist a second time, with the types
 * of version 1.0.
 */
#define SYMBOL(name, version, need)                                                      \
	{                                                                                \
		"ibv_" #name, "IBVERBS_" version, offsetof(struct verbs_api, name), need \
	}
static const struct {
	const char *name, *version;
	size_t offset;
	bool must_have;
} symbols[] = {
	SYMBOL(get_device_list, "1.1", true),
	SYMBOL(free_device_list, "1.1", true),
	SYMBOL(get_device_name, "1.1", true),
	SYMBOL(open_device, "1.1", true),
	SYMBOL(close_device, "1.1", true),
	SYMBOL(query_device, "1.1", true),
	SYMBOL(query_port, "1.1", true),
	SYMBOL(query_gid, "1.1", true),
	SYMBOL(query_pkey, "1.1", true),
	SYMBOL(alloc_pd, "1.1", true),
	SYMBOL(dealloc_pd, "1.1", true),
	SYMBOL(reg_mr, "1.1", true),
	SYMBOL(reg_mr_iova2, "1.8", false),
	SYMBOL(reg_dmabuf_mr, "1.12", false),
	SYMBOL(dereg_mr, "1.1", true),
	SYMBOL(create_comp_channel, "1.0", true),
	SYMBOL(destroy_comp_channel, "1.0", true),
	SYMBOL(create_cq, "1.1", true),
	SYMBOL(destroy_cq, "1.1", true),
	SYMBOL(get_cq_event, "1.1", true),
	SYMBOL(ack_cq_events, "1.1", true),
	SYMBOL(create_qp, "1.1", true),
	SYMBOL(modify_qp, "1.1", true),
	SYMBOL(destroy_qp, "1.1", true),
	SYMBOL(query_ece, "1.10", false),
	SYMBOL(set_ece, "1.10", false),
	SYMBOL(get_async_event, "1.1", true),
	SYMBOL(ack_async_event, "1.1", true),
	SYMBOL(fork_init, "1.1", true),
	SYMBOL(wc_status_str, "1.1", true),
};

static int take_symbols(void *handle, const char *file, struct verbs_api *api, struct diag *diag)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *address = dlvsym(handle, symbols[i].name, symbols[i].version);

		if (!address && symbols[i].must_have) {
			diag_set(diag, 0, 0, "%s has no %s of version %s: it is too old", file, symbols[i].name,
				 symbols[i].version);
			return -ENOSYS;
		}
		/* C has no conversion between pointers to objects and to functions; POSIX gives both one form. */
		memcpy((char *)api + symbols[i].offset, &address, sizeof(address));
	}
	api->post_send = post_send;
	api->post_recv = post_recv;
	api->poll_cq = poll_cq;
	api->req_notify_cq = req_notify_cq;
	return 0;
}

int verbs_api_load(const char *file, struct verbs_api *ret, struct diag *diag)
{
	struct verbs_api api = { 0 };
	int saved_errno = errno, r = -ENODEV;
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (handle) {
		r = take_symbols(handle, file, &api, diag);
		if (r < 0)
			dlclose(handle);
	} else {
		const char *reason = dlerror();

		diag_set(diag, 0, 0, "%s cannot be loaded (%s)", file, reason ? reason : "no reason given");
	}
	if (r == 0)
		*ret = api;
	errno = saved_errno;
	return r;
}

const struct verbs_api *verbs_api_open(struct diag *diag)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct verbs_api api;
	static bool loaded;
	bool ready;

	pthread_mutex_lock(&lock);
	if (!loaded)
		loaded = verbs_api_load(VERBS_LIBRARY, &api, diag) == 0;
	ready = loaded;
	pthread_mutex_unlock(&lock);
	return ready ? &api : NULL;
}
