/* What wiring.c (what is told) and wiring_tree.c (what it means) share. */
#ifndef TRIBUTARY_DISCOVER_WIRING_INTERNAL_H
#define TRIBUTARY_DISCOVER_WIRING_INTERNAL_H

#include "discover/wiring.h"

enum { WIRING_BUCKETS = 4096, WIRING_NAME_MAX = 200 };
#define WIRING_NONE UINT32_MAX

struct wiring_machine {
	char *key, *name;
	enum wiring_kind kind;
	uint32_t next; /* in its bucket */
};

struct wiring_link {
	uint32_t from, to;
	uint64_t rate_Bps;
	char label[WIRING_LABEL_BYTES];
};

struct wiring {
	struct wiring_machine *machines;
	size_t machine_count, machine_room;
	struct wiring_link *links;
	size_t link_count, link_room;
	uint32_t bucket[WIRING_BUCKETS];
};

/* Of the letters that a cluster's names have; freed by free. NULL: no memory. */
char *wiring_clean_name(const char *name);

#endif
