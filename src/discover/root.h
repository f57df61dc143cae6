/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place through which discovery looks at a machine: files, links and folders below a root, and what only calls can
 * tell (NVML's answers, an interface's supported speeds). The root is this machine, a folder (tests), or a capture's
 * entries in memory; the same code reads all three and cannot tell them apart. A root that records keeps what was read,
 * which is what a capture is made of: what is never asked for here is in no capture.
 *
 * What would identify a machine or its owner is changed here, before anybody sees it, so that the machine and its capture
 * give the same graph: names made of an address (enx0011223344ff) become enxmac1, numbers that say "the same card" become
 * 1, 2, ..., and configuration space keeps what config.h lists. One thread.
 */
#ifndef TRIBUTARY_DISCOVER_ROOT_H
#define TRIBUTARY_DISCOVER_ROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DISCOVER_PATH_BYTES = 512,
	DISCOVER_TEXT_BYTES = 4096,       /* the longest file read by discover_root_read, with its NUL */
	DISCOVER_ANSWER_MOST = 8 << 20,   /* of an answer: hwloc's XML is the longest */
	DISCOVER_CAPTURE_MOST = 64 << 20, /* of all entries of a capture, unpacked */
	DISCOVER_ENTRIES_MOST = 20000,
	DISCOVER_CONFIG_BYTES = 4096,
};

enum discover_entry_kind { DISCOVER_FOLDER, DISCOVER_FILE, DISCOVER_LINK };

struct discover_entry {
	char *path; /* "sys/class/net/eth0/mtu" */
	enum discover_entry_kind kind;
	char *data; /* a file's bytes, a link's target; a NUL follows; NULL for a folder */
	size_t bytes;
	uint64_t place; /* in the order of arrival */
};

struct discover_root;

/* This machine, or with a folder not "" what lies below it. -ENOENT and others as the system said. */
int discover_root_open(const char *folder, bool record, struct discover_root **ret);
/* No entry yet. */
int discover_root_empty(struct discover_root **ret);
void discover_root_close(struct discover_root *root);
/* The folder it was opened with; "" for this machine, NULL in memory. */
const char *discover_root_folder(const struct discover_root *root);

/*
 * Adds an entry, copied; a second of that path replaces the first. -EINVAL: a path that is absolute, empty, too long or
 * has a part "." or ".."; -E2BIG: more than a capture may hold.
 */
int discover_root_put(struct discover_root *root, const char *path, enum discover_entry_kind kind, const void *data,
		      size_t bytes);
/* What was recorded or put, in order of path; valid until the next call that reads. */
const struct discover_entry *discover_root_entries(struct discover_root *root, size_t *ret_count);

/*
 * A text file without the space at its end. Any failure means "not known" to the caller, whatever its number: a capture
 * does not keep the reason. -EFBIG: longer than the room. The path is printed like printf.
 */
int discover_root_read(struct discover_root *root, char *text, size_t room, const char *path, ...)
	__attribute__((format(printf, 4, 5)));
/* A text file that is one decimal number, or one hexadecimal number with 0x. */
int discover_root_number(struct discover_root *root, int64_t *ret, const char *path, ...)
	__attribute__((format(printf, 3, 4)));
/* The last part of a link's target. */
int discover_root_link(struct discover_root *root, char *text, size_t room, const char *path, ...)
	__attribute__((format(printf, 4, 5)));
bool discover_root_exists(struct discover_root *root, const char *path, ...) __attribute__((format(printf, 2, 3)));

/* A folder's entries, sorted by name. */
struct discover_names {
	char (*at)[64]; /* malloc'ed */
	size_t count;
};
/* -ENOENT leaves *ret empty as well. */
int discover_root_list(struct discover_root *root, struct discover_names *ret, const char *path, ...)
	__attribute__((format(printf, 3, 4)));
void discover_names_fini(struct discover_names *names);

/* A short text file that must not be kept as it is. */
enum discover_shown {
	DISCOVER_SHOWN_WHOLE, /* as it is */
	DISCOVER_SHOWN_NAME,  /* the name of an interface: as it is shown elsewhere */
	/*
	 * What an RDMA port's address (GID) is made of. "none": the row is empty; "ipv4"; "link-local", of an interface
	 * without an address; "other".
	 */
	DISCOVER_SHOWN_GID,
	DISCOVER_SHOWN_IDENTITY, /* the same number for the same text, "1" for the first; "0": no memory */
};
int discover_root_show(struct discover_root *root, enum discover_shown shown, char *text, size_t room, const char *path,
		       ...) __attribute__((format(printf, 5, 6)));

/* A PCI device's configuration space, as far as this process may read it: bytes of which the rest is zero. */
int discover_root_config(struct discover_root *root, const char *bus_id, uint8_t ret[static DISCOVER_CONFIG_BYTES],
			 size_t *ret_bytes);

/*
 * The answer to a question that is no file: of this machine by `ask` (0: *ret is malloc'ed text), of a folder or a capture
 * the file `name`. *ret is malloc'ed and NUL-terminated; the caller frees it.
 */
int discover_root_answer(struct discover_root *root, const char *name,
			 int (*ask)(void *arg, char **ret, size_t *ret_bytes), void *arg, char **ret,
			 size_t *ret_bytes);

/*
 * Puts it, if the root records: what came another way. What could not be kept is missing in the capture, which says "not
 * known" then.
 */
void discover_root_keep(struct discover_root *root, const char *path, enum discover_entry_kind kind, const void *data,
			size_t bytes);

/* The name under which this one is shown: itself, unless an address is in it. Valid until the next call. */
const char *discover_root_alias(struct discover_root *root, const char *name);

#endif
