/*
 * The order of NCCL's calls, as data: steps-VERSION.txt says what a rank does while it initialises a communicator. The
 * stand-in follows it; what is not in the file it does not do. order-VERSION.txt is what was seen of NCCL itself.
 */
#ifndef TESTS_STANDIN_ORDER_H
#define TESTS_STANDIN_ORDER_H

#include <stddef.h>

enum order_step {
	ORDER_LOCK_PLUGIN, /* NCCL holds a lock of the process over its calls */
	ORDER_UNLOCK_PLUGIN,
	ORDER_LOCK_NET,
	ORDER_UNLOCK_NET,
	ORDER_INIT,
	ORDER_DEVICES,          /* once in a process */
	ORDER_PROPERTIES_0,     /* of device 0 */
	ORDER_PROPERTIES_EACH,  /* of each physical device */
	ORDER_FUSE,             /* once: properties of each again, makeVDevice where some are to be fused, devices */
	ORDER_PROPERTIES_FUSED, /* of each fused device, and of its members after it */
	ORDER_DEVICES_AGAIN,
	ORDER_TOPOLOGY_FILE,
	ORDER_GATHER_ALL, /* waits for all ranks */
	ORDER_GATHER_HOST,
	ORDER_GRAPH_RING, /* opens the graph file */
	ORDER_GRAPH_TREE,
	ORDER_GRAPH_CHAIN, /* the same, where NCCL_COLLNET_ENABLE makes it look for collnet's channels */
	ORDER_GRAPH_DIRECT,
	ORDER_AGREE,   /* waits for all ranks; they compare what they read */
	ORDER_OOB,     /* listens for the bootstrap, where NCCL_OOB_NET_ENABLE makes it use the plugin */
	ORDER_CONNECT, /* listens and connects, where NCCL does it in init */
	ORDER_TUNER_INIT,
	ORDER_TUNER_ASK,
	ORDER_TUNER_END,
	ORDER_FINALIZE,
	ORDER_STEP_COUNT
};

enum order_case {
	ORDER_NEW,    /* also a split without shared resources */
	ORDER_SHARED, /* a split with shared resources */
	ORDER_DUMP,   /* with NCCL_TOPO_DUMP_FILE */
	ORDER_END,
	ORDER_ABORT,
	ORDER_CASE_COUNT
};

enum { ORDER_STEPS_MAX = 48 };

struct order {
	enum order_step steps[ORDER_CASE_COUNT][ORDER_STEPS_MAX];
	size_t counts[ORDER_CASE_COUNT];
};

/* Asserts that the file is one. */
void order_read(const char *path, struct order *ret);
const char *order_step_word(enum order_step step);

#endif
