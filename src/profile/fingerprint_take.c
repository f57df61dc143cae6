/* SPDX-License-Identifier: Apache-2.0 */
/* The fingerprint of a machine from its sysfs and /proc. Nothing is kept open; nothing that names a machine is read. */
#include "profile/fingerprint_lines.h"

#include "base/parse.h"
#include "base/sys.h"
#include "base/text_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PCI_DEVICES "sys/bus/pci/devices"

enum {
	BUS_BYTES = 20, /* "00000000:17:00.0"; a domain has four to eight digits */
	PATH_BYTES = 128,
	TARGET_BYTES = 512,
	DEPTH_MAX = 16,
	PORTS_MAX = 1024,
	CPUINFO_BYTES = 4096, /* the first processor of many */
	CLASS_DISPLAY = 0x03,
	CLASS_NETWORK = 0x02,
	CLASS_ACCELERATOR = 0x12,
	CLASS_VGA = 0x0300,
	CLASS_3D = 0x0302,
	CLASS_DISPLAY_OTHER = 0x0380,
	CLASS_BRIDGE_OTHER = 0x0680,
	VENDOR_NVIDIA = 0x10de,
	VENDOR_AMD = 0x1002,
};

struct port {
	char bus[BUS_BYTES];
	bool idles; /* its link lowers its speed when there is nothing to do */
};

struct taker {
	int root_fd;
	char (*lines)[FINGERPRINT_LINE_BYTES];
	size_t line_count;
	struct port *ports;
	size_t port_count;
};

struct card {
	const char *kind;
	char bus[BUS_BYTES];
	char path[DEPTH_MAX][BUS_BYTES]; /* from the root port on, without the card */
	size_t depth;
	bool idles;
	unsigned vendor, device, subsystem_vendor, subsystem_device, class_code;
};

/* -------- reading -------- */

static int device_text(int root_fd, const char *bus, const char *file, char *text, size_t text_bytes)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", bus, file);
	return text_file_value(root_fd, path, text, text_bytes);
}

static unsigned device_hex(int root_fd, const char *bus, const char *file)
{
	char text[32];
	uint64_t value;

	if (device_text(root_fd, bus, file, text, sizeof(text)) < 0 || parse_hex64(text, &value) < 0 ||
	    value > UINT32_MAX)
		return 0;
	return (unsigned)value;
}

/* "16"; what says neither (a card without power reads 63, a virtual one 0) is not known: 0. */
static unsigned device_lanes(int root_fd, const char *bus)
{
	char text[32];
	uint64_t lanes;

	if (device_text(root_fd, bus, "current_link_width", text, sizeof(text)) < 0 ||
	    parse_u64(text, 1, 32, &lanes) < 0)
		return 0;
	return (unsigned)lanes;
}

/* "8 GT/s", "16.0 GT/s PCIe", "Unknown": how kernels write it has changed, what it means has not. 0: not known. */
static unsigned device_generation(int root_fd, const char *bus, const char *file)
{
	static const char *const speeds[] = { "2.5", "5.0", "8.0", "16.0", "32.0", "64.0", "128.0" };
	char text[64];

	if (device_text(root_fd, bus, file, text, sizeof(text)) < 0)
		return 0;
	text[strcspn(text, " ")] = '\0';
	for (unsigned i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		size_t whole = strcspn(speeds[i], ".");

		if (!strcmp(text, speeds[i]) || (strlen(text) == whole && !strncmp(text, speeds[i], whole) && i))
			return i + 1;
	}
	return 0;
}

static bool hex_until(const char **text, char end, size_t least, size_t most)
{
	size_t count = strspn(*text, "0123456789abcdef");

	if (count < least || count > most || (*text)[count] != end)
		return false;
	*text += count + (end ? 1 : 0);
	return true;
}

static bool is_bus_id(const char *name)
{
	return hex_until(&name, ':', 4, 8) && hex_until(&name, ':', 2, 2) && hex_until(&name, '.', 2, 2) &&
	       hex_until(&name, '\0', 1, 1);
}

/* -------- lines -------- */

static int add_line(struct taker *taker, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int add_line(struct taker *taker, const char *fmt, ...)
{
	va_list args;
	int bytes, r;

	if (taker->line_count == FINGERPRINT_MOST_LINES)
		return -E2BIG;
	r = sys_grow(&taker->lines, taker->line_count, 1, sizeof(*taker->lines));
	if (r < 0)
		return r;
	va_start(args, fmt);
	bytes = vsnprintf(taker->lines[taker->line_count], FINGERPRINT_LINE_BYTES - 1, fmt, args);
	va_end(args);
	if (bytes < 0 || bytes >= FINGERPRINT_LINE_BYTES - 1)
		return -E2BIG;
	taker->line_count++;
	return 0;
}

static int add_link(struct taker *taker, const char *bus, const char *key, unsigned generation)
{
	unsigned lanes = device_lanes(taker->root_fd, bus);
	char of_lanes[24] = "", of_speed[48] = "";

	if (lanes)
		snprintf(of_lanes, sizeof(of_lanes), " lanes=%u", lanes);
	if (lanes && generation) /* without lanes there is no link that could have a speed */
		snprintf(of_speed, sizeof(of_speed), " %s=%u", key, generation);
	return lanes ? add_line(taker, "link %s%s%s", bus, of_lanes, of_speed) : 0;
}

static int add_port(struct taker *taker, const char *bus, bool idles)
{
	int r;

	for (size_t i = 0; i < taker->port_count; i++) {
		if (!strcmp(taker->ports[i].bus, bus)) {
			taker->ports[i].idles |= idles;
			return 0;
		}
	}
	if (taker->port_count == PORTS_MAX)
		return -E2BIG;
	r = sys_grow(&taker->ports, taker->port_count, 1, sizeof(*taker->ports));
	if (r < 0)
		return r;
	snprintf(taker->ports[taker->port_count].bus, BUS_BYTES, "%s", bus);
	taker->ports[taker->port_count++].idles = idles;
	return 0;
}

/* -------- cards -------- */

/*
 * NULL: none that NCCL could use. The VGA controller of a board's management processor is no GPU, and a virtual
 * function comes and goes with what runs on the machine; its card is there.
 */
static const char *kind_of(int root_fd, const char *bus, unsigned class_code)
{
	unsigned class = class_code >> 8, base_class = class_code >> 16, vendor;
	char path[PATH_BYTES];

	if (base_class == CLASS_DISPLAY) {
		vendor = device_hex(root_fd, bus, "vendor");
		if (class == CLASS_3D || ((class == CLASS_VGA || class == CLASS_DISPLAY_OTHER) &&
					  (vendor == VENDOR_NVIDIA || vendor == VENDOR_AMD)))
			return "gpu";
		return NULL;
	}
	if (base_class == CLASS_ACCELERATOR)
		return "accelerator";
	if (class == CLASS_BRIDGE_OTHER && device_hex(root_fd, bus, "vendor") == VENDOR_NVIDIA)
		return "nvswitch";
	if (base_class != CLASS_NETWORK)
		return NULL;
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/physfn", bus);
	return faccessat(root_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) ? "nic" : NULL;
}

/* The devices on the way, from the text of the symbolic link: ../../../devices/pci0000:16/0000:16:02.0/0000:17:00.0 */
static int read_path(int root_fd, struct card *card)
{
	char path[PATH_BYTES], target[TARGET_BYTES], name[BUS_BYTES];
	const char *rest = target, *part;
	size_t part_bytes;
	ssize_t bytes;

	snprintf(path, sizeof(path), PCI_DEVICES "/%s", card->bus);
	bytes = readlinkat(root_fd, path, target, sizeof(target));
	if (bytes < 0)
		return errno == EINVAL ? 0 : -errno; /* a folder: where it is fitted is not known */
	if ((size_t)bytes >= sizeof(target))
		return -ENAMETOOLONG;
	target[bytes] = '\0';
	while (parse_list_next(&rest, '/', &part, &part_bytes)) {
		if (part_bytes >= sizeof(name))
			continue;
		memcpy(name, part, part_bytes);
		name[part_bytes] = '\0';
		if (!is_bus_id(name) || !strcmp(name, card->bus))
			continue;
		if (card->depth == DEPTH_MAX)
			return -E2BIG;
		memcpy(card->path[card->depth++], name, sizeof(name));
	}
	return 0;
}

/*
 * A GPU lowers the speed of its link while it is idle, and so the port above it sees it. AMD and Intel put a switch
 * onto the card, whose ports then have the maker's id and idle with it.
 */
static int add_ports(struct taker *taker, const struct card *card)
{
	bool idles = card->idles;
	int r = 0;

	for (size_t i = card->depth; i && r >= 0; i--) {
		const char *bus = card->path[i - 1];

		r = add_port(taker, bus, idles);
		idles = idles && device_hex(taker->root_fd, bus, "vendor") == card->vendor;
	}
	return r;
}

static int add_card(struct taker *taker, struct card *card)
{
	char path[DEPTH_MAX * BUS_BYTES] = "";
	size_t bytes = 0;
	int r = read_path(taker->root_fd, card);

	card->idles = !strcmp(card->kind, "gpu") || !strcmp(card->kind, "accelerator");

	if (r < 0)
		return r;
	for (size_t i = 0; i < card->depth; i++)
		bytes += (size_t)snprintf(path + bytes, sizeof(path) - bytes, "%s%s",
					  i ? "/" : " path=", card->path[i]);
	card->vendor = device_hex(taker->root_fd, card->bus, "vendor");
	card->device = device_hex(taker->root_fd, card->bus, "device");
	card->subsystem_vendor = device_hex(taker->root_fd, card->bus, "subsystem_vendor");
	card->subsystem_device = device_hex(taker->root_fd, card->bus, "subsystem_device");
	r = add_line(taker, "card %s kind=%s id=%04x:%04x subsystem=%04x:%04x class=%06x%s", card->bus, card->kind,
		     card->vendor, card->device, card->subsystem_vendor, card->subsystem_device, card->class_code,
		     path);
	if (!r)
		r = add_link(taker, card->bus, card->idles ? "most_generation" : "generation",
			     device_generation(taker->root_fd, card->bus,
					       card->idles ? "max_link_speed" : "current_link_speed"));
	return r < 0 ? r : add_ports(taker, card);
}

static int take_cards(struct taker *taker)
{
	int r = 0, fd = openat(taker->root_fd, PCI_DEVICES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *listing = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!listing) {
		r = errno == ENOENT ? 0 : -errno;
		sys_close(&fd);
		return r;
	}
	while (r >= 0 && (entry = readdir(listing))) {
		struct card card = { 0 };

		if (!is_bus_id(entry->d_name))
			continue;
		memcpy(card.bus, entry->d_name, strlen(entry->d_name) + 1);
		card.class_code = device_hex(taker->root_fd, card.bus, "class");
		card.kind = kind_of(taker->root_fd, card.bus, card.class_code);
		if (card.kind)
			r = add_card(taker, &card);
	}
	closedir(listing);
	return r;
}

static int take_ports(struct taker *taker)
{
	int r = 0;

	for (size_t i = 0; i < taker->port_count && r >= 0; i++) {
		const struct port *port = &taker->ports[i];

		r = add_line(taker, "port %s id=%04x:%04x class=%06x", port->bus,
			     device_hex(taker->root_fd, port->bus, "vendor"),
			     device_hex(taker->root_fd, port->bus, "device"),
			     device_hex(taker->root_fd, port->bus, "class"));
		if (!r)
			r = add_link(taker, port->bus, "generation",
				     port->idles ? 0
						 : device_generation(taker->root_fd, port->bus, "current_link_speed"));
	}
	return r;
}

/* -------- drivers and processor -------- */

/* Words of a line have no spaces, and nothing that is not printable. */
static void make_word(char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			*text = '_';
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar ...": the first word that is numbers and dots. */
static bool version_in(char *text, char ret[static 64])
{
	char *save = NULL;

	for (char *word = strtok_r(text, " \t\n", &save); word; word = strtok_r(NULL, " \t\n", &save)) {
		size_t bytes = strspn(word, "0123456789.");

		if (bytes < 3 || word[bytes] || !strchr(word, '.') || bytes >= 64)
			continue;
		memcpy(ret, word, bytes + 1);
		return true;
	}
	return false;
}

static int take_drivers(struct taker *taker)
{
	char text[1024] = "", version[64] = "";
	bool known;
	int r = 0;

	/* A container's /proc may lack what its /sys has, and the other way round. */
	(void)text_file_value(taker->root_fd, "proc/driver/nvidia/version", text,
			      sizeof(text)); /* the beginning will do */
	known = !text_file_value(taker->root_fd, "sys/module/nvidia/version", version, sizeof(version)) ||
		version_in(text, version);
	if (known && *version) {
		make_word(version);
		r = add_line(taker, "driver nvidia version=%s", version);
	}
	if (!r && !text_file_value(taker->root_fd, "sys/module/amdgpu/version", version, sizeof(version)) && *version) {
		make_word(version);
		r = add_line(taker, "driver amdgpu version=%s", version);
	}
	return r;
}

/* The value of the first "key : value" of /proc/cpuinfo as " word=value"; "" when there is none. */
static void cpu_fact(const char *info, const char *key, const char *word, char ret[static 64])
{
	size_t key_bytes = strlen(key);
	char value[40];

	ret[0] = '\0';
	for (const char *line = info; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *at = line + key_bytes;

		if (strncmp(line, key, key_bytes))
			continue;
		at += strspn(at, " \t");
		if (*at++ != ':')
			continue;
		at += strspn(at, " \t");
		snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\n"), at);
		parse_trim(value);
		make_word(value);
		if (*value)
			snprintf(ret, 64, " %s=%s", word, value);
		return;
	}
}

/* How many numbers a list like "0-1,3" holds; 0 when it is none. */
static uint64_t count_of_list(const char *list)
{
	const char *item;
	uint64_t count = 0;
	size_t bytes;

	while (parse_list_next(&list, ',', &item, &bytes)) {
		uint64_t low, high;
		char one[32];

		snprintf(one, sizeof(one), "%.*s", (int)(bytes < sizeof(one) ? bytes : sizeof(one) - 1), item);
		if (!parse_u64(one, 0, UINT16_MAX, &low))
			count++;
		else if (!parse_range(one, 0, UINT16_MAX, &low, &high))
			count += high - low + 1;
		else
			return 0;
	}
	return count;
}

static int take_cpu(struct taker *taker)
{
	static const char *const lists[] = { "sys/devices/system/node/has_cpu", "sys/devices/system/node/online" };
	char info[CPUINFO_BYTES], vendor[64], family[64], model[64], domains[64] = "", list[1024];
	uint64_t count = 0;

	info[0] = '\0';
	(void)text_file_value(taker->root_fd, "proc/cpuinfo", info, sizeof(info)); /* the first processor will do */
	cpu_fact(info, "vendor_id", "vendor", vendor);
	cpu_fact(info, "cpu family", "family", family);
	cpu_fact(info, "model", "model", model);
	if (!vendor[0]) { /* ARM's words for them */
		cpu_fact(info, "CPU implementer", "vendor", vendor);
		cpu_fact(info, "CPU architecture", "family", family);
		cpu_fact(info, "CPU part", "model", model);
	}
	/* Domains without a processor are memory alone, a GPU's too, which comes with the GPU's driver. */
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && !count; i++)
		if (!text_file_value(taker->root_fd, lists[i], list, sizeof(list)))
			count = count_of_list(list);
	if (count)
		snprintf(domains, sizeof(domains), " domains=%u", (unsigned)count);
	if (!vendor[0] && !family[0] && !model[0] && !domains[0])
		return 0;
	return add_line(taker, "cpu%s%s%s%s", vendor, family, model, domains);
}

/* -------- all of it -------- */

static int line_order(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int finish(struct taker *taker, struct fingerprint *ret)
{
	size_t bytes = 0;
	char *text;
	int r;

	if (taker->line_count)
		qsort(taker->lines, taker->line_count, sizeof(*taker->lines), line_order);
	text = sys_zalloc(taker->line_count * FINGERPRINT_LINE_BYTES + 1);
	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < taker->line_count; i++) {
		size_t line_bytes = strlen(taker->lines[i]);

		memcpy(text + bytes, taker->lines[i], line_bytes);
		text[bytes + line_bytes] = '\n';
		bytes += line_bytes + 1;
	}
	r = bytes > FINGERPRINT_MOST_BYTES ? -E2BIG : fingerprint_of_text(text, bytes, ret);
	sys_free(text);
	return r;
}

int fingerprint_take(const char *root, struct fingerprint *ret)
{
	struct taker taker = { .root_fd = -1 };
	int saved_errno = errno, r = 0;

	taker.root_fd = open(*root ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (taker.root_fd < 0)
		r = -errno;
	if (!r)
		r = take_cards(&taker);
	if (!r)
		r = take_ports(&taker);
	if (!r)
		r = take_drivers(&taker);
	if (!r)
		r = take_cpu(&taker);
	if (!r)
		r = finish(&taker, ret);
	sys_close(&taker.root_fd);
	sys_free(taker.lines);
	sys_free(taker.ports);
	errno = saved_errno;
	return r;
}
