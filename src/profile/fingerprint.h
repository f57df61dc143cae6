/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a profile belongs to: the GPUs and NICs of a machine with their places, the links to them, the drivers, the CPUs.
 * Read from sysfs and /proc below a root, so that the plugin and a capture can do it alike; no serial number is in it.
 */
#ifndef TRIBUTARY_PROFILE_FINGERPRINT_H
#define TRIBUTARY_PROFILE_FINGERPRINT_H

#include "base/log.h"

#include <stddef.h>

enum { FINGERPRINT_ID_BYTES = 17 }; /* 16 hexadecimal digits and a NUL */

/* Sorted lines, each "what key=value ..."; the id is a hash of them. */
struct fingerprint {
	char *text; /* malloc'ed */
	size_t bytes;
	char id[FINGERPRINT_ID_BYTES];
};

/*
 * root: "" for this machine, or a folder that has sys/ and proc/. What is not there is not in the text; what is read is
 * listed in docs/format/profile.md. -E2BIG: more cards than any machine has; otherwise as the system said.
 */
int fingerprint_take(const char *root, struct fingerprint *ret);
/* -EINVAL: not such lines, or not in order. */
int fingerprint_of_text(const char *text, size_t bytes, struct fingerprint *ret);
size_t fingerprint_gpu_count(const struct fingerprint *fingerprint);
void fingerprint_fini(struct fingerprint *fingerprint);

enum fingerprint_change {
	FINGERPRINT_SAME,
	FINGERPRINT_CARD_MOVED, /* the same card in another slot */
	FINGERPRINT_CARD_GONE,
	FINGERPRINT_CARD_NEW,
	FINGERPRINT_LINK_RETRAINED, /* another width, or another speed of a link whose speed does not idle */
	FINGERPRINT_DRIVER_CHANGED,
	FINGERPRINT_CPU_CHANGED, /* the processor, or how many NUMA domains it is divided into */
	FINGERPRINT_FOREIGN,     /* another machine: hardly anything in common */
	FINGERPRINT_CHANGE_COUNT
};
/* The gravest difference; the reason, with both values, in *why (untouched for FINGERPRINT_SAME). */
enum fingerprint_change fingerprint_compare(const struct fingerprint *then, const struct fingerprint *now,
					    struct diag *why);

#endif
