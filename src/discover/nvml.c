/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/ask.h"

#include "base/parse.h"
#include "base/sys.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER "nvml 1"

enum { DEVICES_MOST = 256, SLICES_MOST = 64, LINE_BYTES = 512 };

int discover_nvml_ask(void *unused, char **ret, size_t *ret_bytes)
{
	struct gpu_inventory inventory;
	const struct gpu_nvml *nvml;
	struct diag diag;
	int r = gpu_nvml_open(&nvml, &diag);

	(void)unused;
	if (r < 0)
		return r;
	r = gpu_inventory_read(nvml, &inventory, &diag);
	gpu_nvml_close(nvml);
	if (r < 0)
		return r;
	r = discover_nvml_write(&inventory, ret, ret_bytes);
	gpu_inventory_fini(&inventory);
	return r;
}

/* --------------------------------------------------------------------------------------------------------------- write */

/* A name is the rest of its line, so nothing in it needs to be escaped. */
static void put_name(FILE *out, const char *name)
{
	fputs(" name=", out);
	for (; *name; name++)
		fputc(iscntrl((unsigned char)*name) ? ' ' : *name, out);
	fputc('\n', out);
}

static void put_device(FILE *out, const struct gpu_inventory_device *device)
{
	fprintf(out,
		"gpu %u bus=%s device=0x%08x subsystem=0x%08x sm=%d generation=%u lanes=%u most_generation=%u "
		"most_lanes=%u memory=%" PRIu64 " bar1=%" PRIu64 " mig=%d",
		device->index, device->bus_id, device->pci_device_id, device->pci_subsystem_id, device->sm,
		device->generation, device->lanes, device->most_generation, device->most_lanes, device->memory_bytes,
		device->bar1_bytes, device->mig);
	put_name(out, device->name);
	for (size_t i = 0; i < device->slice_count; i++) {
		const struct gpu_inventory_slice *slice = &device->slices[i];

		fprintf(out, "slice %u index=%u gi=%d ci=%d memory=%" PRIu64, device->index, slice->index,
			slice->gpu_instance, slice->compute_instance, slice->memory_bytes);
		put_name(out, slice->name);
	}
	for (size_t i = 0; i < device->nvlink_count; i++) {
		const struct gpu_inventory_nvlink *link = &device->nvlinks[i];

		fprintf(out, "nvlink %u link=%u active=%d version=%u rate=%" PRIu64 " remote=%d bus=%s\n",
			device->index, link->link, link->active, link->version, link->rate_Bps, link->remote,
			link->remote_bus_id);
	}
}

int discover_nvml_write(const struct gpu_inventory *inventory, char **ret, size_t *ret_bytes)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return -ENOMEM;
	fprintf(out, HEADER "\ndriver %s\n", inventory->driver);
	for (size_t i = 0; i < inventory->device_count; i++)
		put_device(out, &inventory->devices[i]);
	for (size_t i = 0; i < inventory->device_count; i++)
		for (size_t j = 0; j < inventory->device_count; j++)
			if (i != j)
				fprintf(out, "p2p %u to=%u status=%s\n", inventory->devices[i].index,
					inventory->devices[j].index,
					gpu_inventory_p2p_word(gpu_inventory_p2p(inventory, i, j)));
	if (fclose(out)) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	*ret_bytes = bytes;
	return 0;
}

/* ---------------------------------------------------------------------------------------------------------------- read */

struct line {
	char text[LINE_BYTES]; /* words, each ended by a NUL */
	size_t bytes;
	int number;
	struct diag *diag;
	bool wrong;
};

static void wrong(struct line *line, const char *key)
{
	if (!line->wrong)
		diag_set(line->diag, line->number, 0, "NVML's answers: %s is missing or impossible", key);
	line->wrong = true;
}

static const char *word_of(const struct line *line, const char *key)
{
	size_t bytes = strlen(key);

	for (const char *at = line->text; at < line->text + line->bytes; at += strlen(at) + 1)
		if (!strncmp(at, key, bytes) && at[bytes] == '=')
			return at + bytes + 1;
	return NULL;
}

static uint64_t number_of(struct line *line, const char *key, uint64_t most)
{
	const char *word = word_of(line, key);
	uint64_t value;

	if (word && !parse_u64(word, 0, most, &value))
		return value;
	wrong(line, key);
	return 0;
}

static int signed_of(struct line *line, const char *key, int64_t most)
{
	const char *word = word_of(line, key);
	int64_t value;

	if (word && !parse_i64(word, -1, most, &value))
		return (int)value;
	wrong(line, key);
	return -1;
}

static unsigned hex_of(struct line *line, const char *key)
{
	const char *word = word_of(line, key);
	uint64_t value;

	if (word && !parse_hex64(word, &value) && value <= UINT32_MAX)
		return (unsigned)value;
	wrong(line, key);
	return 0;
}

static void text_of(struct line *line, const char *key, char *ret, size_t room)
{
	const char *word = word_of(line, key);

	if (!word || strlen(word) >= room)
		wrong(line, key);
	else
		memcpy(ret, word, strlen(word) + 1);
}

static struct gpu_inventory_device *device_at(struct gpu_inventory *inventory, uint64_t index, size_t *ret)
{
	for (size_t i = 0; i < inventory->device_count; i++) {
		if (inventory->devices[i].index != index)
			continue;
		if (ret)
			*ret = i;
		return &inventory->devices[i];
	}
	return NULL;
}

static void read_gpu(struct line *line, uint64_t index, struct gpu_inventory *inventory)
{
	struct gpu_inventory_device *device;

	if (inventory->device_count == DEVICES_MOST || device_at(inventory, index, NULL)) {
		wrong(line, "gpu");
		return;
	}
	device = &inventory->devices[inventory->device_count++];
	device->index = (unsigned)index;
	text_of(line, "bus", device->bus_id, sizeof(device->bus_id));
	text_of(line, "name", device->name, sizeof(device->name));
	device->pci_device_id = hex_of(line, "device");
	device->pci_subsystem_id = hex_of(line, "subsystem");
	device->sm = (int)number_of(line, "sm", 999);
	device->generation = (unsigned)number_of(line, "generation", 7);
	device->lanes = (unsigned)number_of(line, "lanes", 32);
	device->most_generation = (unsigned)number_of(line, "most_generation", 7);
	device->most_lanes = (unsigned)number_of(line, "most_lanes", 32);
	device->memory_bytes = number_of(line, "memory", INT64_MAX);
	device->bar1_bytes = number_of(line, "bar1", INT64_MAX);
	device->mig = number_of(line, "mig", 1) != 0;
}

static int read_slice(struct line *line, struct gpu_inventory_device *device)
{
	struct gpu_inventory_slice *slice;

	if (device->slice_count == SLICES_MOST) {
		wrong(line, "slice");
		return 0;
	}
	if (!device->slices)
		device->slices = sys_zalloc(SLICES_MOST * sizeof(*device->slices));
	if (!device->slices)
		return -ENOMEM;
	slice = &device->slices[device->slice_count++];
	slice->index = (unsigned)number_of(line, "index", SLICES_MOST - 1);
	slice->gpu_instance = signed_of(line, "gi", 65535);
	slice->compute_instance = signed_of(line, "ci", 65535);
	slice->memory_bytes = number_of(line, "memory", INT64_MAX);
	text_of(line, "name", slice->name, sizeof(slice->name));
	return 0;
}

static void read_nvlink(struct line *line, struct gpu_inventory_device *device)
{
	struct gpu_inventory_nvlink *link;

	if (device->nvlink_count == GPU_INVENTORY_NVLINKS_MAX) {
		wrong(line, "nvlink");
		return;
	}
	link = &device->nvlinks[device->nvlink_count++];
	link->link = (unsigned)number_of(line, "link", GPU_INVENTORY_NVLINKS_MAX - 1);
	link->active = number_of(line, "active", 1) != 0;
	link->version = (unsigned)number_of(line, "version", 99);
	link->rate_Bps = number_of(line, "rate", UINT64_C(1000000000000));
	link->remote = signed_of(line, "remote", 99);
	text_of(line, "bus", link->remote_bus_id, sizeof(link->remote_bus_id));
}

static void read_p2p(struct line *line, size_t from, struct gpu_inventory *inventory)
{
	const char *status = word_of(line, "status");
	size_t to;

	if (!device_at(inventory, number_of(line, "to", UINT32_MAX), &to)) {
		wrong(line, "to");
		return;
	}
	for (int i = 0; status && i < GPU_NVML_P2P_COUNT; i++) {
		if (!strcmp(status, gpu_inventory_p2p_word((enum gpu_nvml_p2p)i))) {
			inventory->p2p[from * DEVICES_MOST + to] = (uint8_t)i;
			return;
		}
	}
	wrong(line, "status");
}

static int read_line(struct line *line, struct gpu_inventory *inventory)
{
	struct gpu_inventory_device *device;
	const char *index = line->text + strlen(line->text) + 1;
	uint64_t number;
	size_t place;

	if (!strcmp(line->text, "driver")) {
		if (index < line->text + line->bytes)
			snprintf(inventory->driver, sizeof(inventory->driver), "%.*s",
				 (int)sizeof(inventory->driver) - 1, index);
		return 0;
	}
	if (index >= line->text + line->bytes || parse_u64(index, 0, 65535, &number) < 0) {
		wrong(line, "a number");
		return 0;
	}
	if (!strcmp(line->text, "gpu")) {
		read_gpu(line, number, inventory);
		return 0;
	}
	device = device_at(inventory, number, &place);
	if (!device) {
		wrong(line, "its gpu");
		return 0;
	}
	if (!strcmp(line->text, "slice"))
		return read_slice(line, device);
	if (!strcmp(line->text, "nvlink"))
		read_nvlink(line, device);
	else if (!strcmp(line->text, "p2p"))
		read_p2p(line, place, inventory);
	/* Another word is of a later version, and says nothing that this one needs. */
	return 0;
}

/* Words end at spaces, until name=, which is the rest of the line. */
static void split(struct line *line)
{
	for (char *at = line->text; (at = strchr(at, ' ')); at++) {
		*at = '\0';
		if (!strncmp(at + 1, "name=", 5))
			return;
	}
}

/* A square of the devices that are there, from one of those that could be. */
static int shrink_p2p(struct gpu_inventory *inventory)
{
	size_t count = inventory->device_count;
	uint8_t *p2p = sys_zalloc(count * count + 1);

	if (!p2p)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		memcpy(p2p + i * count, inventory->p2p + i * DEVICES_MOST, count);
	sys_free(inventory->p2p);
	inventory->p2p = p2p;
	return 0;
}

static int read_lines(const char *text, size_t bytes, struct gpu_inventory *inventory, struct diag *diag)
{
	struct line line = { .diag = diag };
	int r = 0;

	for (size_t at = 0; at < bytes && !r && !line.wrong;) {
		const char *end = memchr(text + at, '\n', bytes - at);

		line.bytes = end ? (size_t)(end - text) - at : bytes - at;
		line.number++;
		if (line.bytes >= sizeof(line.text) || memchr(text + at, '\0', line.bytes)) {
			diag_set(diag, line.number, 0, "NVML's answers: the line is too long, or is no text");
			return -EINVAL;
		}
		memcpy(line.text, text + at, line.bytes);
		line.text[line.bytes] = '\0';
		at += line.bytes + 1;
		if (line.number == 1 && strcmp(line.text, HEADER)) {
			diag_set(diag, 1, 0, "NVML's answers: they do not begin with \"" HEADER "\"");
			return -EINVAL;
		}
		split(&line);
		if (line.number > 1 && line.bytes)
			r = read_line(&line, inventory);
	}
	return r ? r : line.wrong ? -EINVAL : 0;
}

int discover_nvml_read(const char *text, size_t bytes, struct gpu_inventory *ret, struct diag *diag)
{
	struct gpu_inventory inventory = { .driver = "" };
	int r = -ENOMEM;

	inventory.devices = sys_zalloc(DEVICES_MOST * sizeof(*inventory.devices));
	inventory.p2p = sys_zalloc(DEVICES_MOST * DEVICES_MOST);
	if (inventory.devices && inventory.p2p) {
		memset(inventory.p2p, GPU_NVML_P2P_UNKNOWN, DEVICES_MOST * DEVICES_MOST);
		r = read_lines(text, bytes, &inventory, diag);
	}
	if (!r)
		r = shrink_p2p(&inventory);
	if (r < 0) {
		gpu_inventory_fini(&inventory);
		return r;
	}
	*ret = inventory;
	return 0;
}
