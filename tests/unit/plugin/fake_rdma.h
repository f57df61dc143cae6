/* SPDX-License-Identifier: Apache-2.0 */
/* libibverbs with some devices, of which nothing can be asked but their ports; and a folder of sysfs that lists them. */
#ifndef TESTS_UNIT_PLUGIN_FAKE_RDMA_H
#define TESTS_UNIT_PLUGIN_FAKE_RDMA_H

#include "plugin/choose.h"
#include "transport/verbs/api.h"
#include "unit/transport/tcp/fake_sysfs.h"

enum { FAKE_RDMA_DEVICES_MAX = 20, FAKE_RDMA_PORTS_MAX = 2 };

/* No device, whatever the machine has. */
extern const struct plugin_rdma_source fake_rdma_none;

/* For cmocka: *state is a struct fake_sysfs, and there is no device yet. */
int fake_rdma_new(void **state);
/* In order; a device that is new has the ports before this one, which are down. */
void fake_rdma_port(struct fake_sysfs *sysfs, const char *device, unsigned port, enum ibv_port_state port_state,
		    int layer);
/* "0000:41:00.0" */
void fake_rdma_place(struct fake_sysfs *sysfs, const char *device, const char *bus_id);
/* Nobody may open it. */
void fake_rdma_close(const char *device);
void fake_rdma_lose_library(void);
/* Kept by reference. */
const struct plugin_rdma_source *fake_rdma(void);
/* How often devices were opened. Fails the test where one is open still. */
unsigned fake_rdma_opened(void);

#endif
