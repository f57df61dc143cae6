/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of a transport over a network, as its table shows them: the physical ones first, then those that were joined
 * of them. A transport's struct begins with them. An index, once given, is for ever, and what describe() wrote does not
 * change.
 */
#ifndef TRIBUTARY_TRANSPORT_DEVICES_H
#define TRIBUTARY_TRANSPORT_DEVICES_H

#include "transport/transport.h"

#include <pthread.h>

struct pace;

enum { TRANSPORT_PHYSICAL_MAX = 32, TRANSPORT_DEVICES_MAX = 2 * TRANSPORT_PHYSICAL_MAX };

struct transport_device {
	char name[288]; /* of a joined one: its members' with + between */
	unsigned rail_count;
	int members[TRANSPORT_MAX_MEMBERS]; /* physical devices; a physical one's is itself */
	struct pace *pace;                  /* made by the first listen */
	struct transport_properties properties;
	struct transport_totals gone; /* of connections that are */
};

static inline bool transport_device_has(const struct transport_device *device, int member)
{
	for (unsigned i = 0; i < device->rail_count; i++)
		if (device->members[i] == member)
			return true;
	return false;
}

struct transport_devices {
	pthread_mutex_t *lock;     /* the transport's */
	pthread_mutex_t pace_lock; /* of those who make one; taken before the other */
	/* Fills in a device's properties, once its name and members are there. Under the lock. */
	void (*describe)(struct transport *transport, int index);
	struct transport_device list[TRANSPORT_DEVICES_MAX];
	int count, physical_count;
};

/* Of zeroes; transport_devices_fini then accepts it at any time. */
void transport_devices_init(struct transport_devices *devices, pthread_mutex_t *lock,
			    void (*describe)(struct transport *transport, int index));
/* Before anybody else knows of the transport: one more physical device. At most TRANSPORT_PHYSICAL_MAX. */
void transport_devices_add(struct transport_devices *devices, const char *name);

/* For the transport's table. They take the lock. */
int transport_devices_count(struct transport *transport);
int transport_devices_properties(struct transport *transport, int index, struct transport_properties *ret);
int transport_devices_join(struct transport *transport, int count, const int *members, int *ret_index);

/*
 * The device's pace is there when this returns 0. Without the lock: it waits for a file's lock, which other processes of
 * the user may hold. in_flight_is_bounded: the transport keeps to pace_flight; without that the budget alone is the bound.
 */
int transport_devices_pace(struct transport_devices *devices, int index, const struct params *params,
			   bool in_flight_is_bounded);
/* The beat of every pace that there is. Under the lock. */
void transport_devices_tick(struct transport_devices *devices, uint64_t now_ns);
void transport_devices_fini(struct transport_devices *devices);

#endif
