/* What an interface does with the priorities of packets, as the kernel's data centre bridging (dcbnl) tells it. */
#ifndef TRIBUTARY_DISCOVER_DCB_H
#define TRIBUTARY_DISCOVER_DCB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DISCOVER_DSCPS = 64, DISCOVER_NO_PRIORITY = 0xff };

struct discover_dcb {
	bool has_pfc;     /* pfc is known */
	uint8_t pfc;      /* a bit for each priority whose senders can be stopped */
	bool trusts_dscp; /* a packet's DSCP decides its priority; else its VLAN tag, without which it is 0 */
	uint8_t priority[DISCOVER_DSCPS]; /* of each DSCP that has an entry; DISCOVER_NO_PRIORITY */
};

/* Of this machine's interface. -EOPNOTSUPP, -ENODATA: its driver does not tell; others as the system said. */
int discover_dcb_ask(const char *name, struct discover_dcb *ret);
/* The kernel's reply, aligned as a struct nlmsghdr. -EOPNOTSUPP: an error or no such reply; -ENODATA: without an answer. */
int discover_dcb_read(const void *reply, size_t bytes, struct discover_dcb *ret);

#endif
