/* SPDX-License-Identifier: Apache-2.0 */
#include "command/plan/channels.h"

#include "base/parse.h"
#include "command/command.h"
#include "ncclxml/topology_xml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ITEM_BYTES = TOPOLOGY_NAME_BYTES + 8, HOSTS_MAX = 4096, INDEX_MAX = 4095 };

/* Vertices of one kind in the order in which NCCL numbers them. */
struct devices {
	const struct topology *topology;
	const char *name; /* of the subcommand */
	enum topology_kind kind;
	uint32_t *list;
	size_t count;
};

static int complain(const struct devices *devices, const char *what)
{
	const struct topology_vertex *vertices = devices->topology->vertices;
	const char *plural = devices->kind == TOPOLOGY_GPU ? "GPUs" : "NICs";

	fprintf(stderr, "tributary: %s; the machine has the %s", what, plural);
	for (size_t i = 0; i < devices->count; i++)
		fprintf(stderr, "%s%s", i ? ", " : " ", vertices[devices->list[i]].name);
	fputc('\n', stderr);
	return COMMAND_FAILED;
}

static uint32_t find_device(const struct devices *devices, const char *item)
{
	const struct topology_vertex *vertices = devices->topology->vertices;
	uint64_t index;

	for (size_t i = 0; i < devices->count; i++) {
		const struct topology_vertex *at = &vertices[devices->list[i]];
		const char *name = at->name;

		if (!strcmp(name, item) || (at->bus_id[0] && !strcmp(at->bus_id, item)) ||
		    (devices->kind == TOPOLOGY_NIC && at->nic.interface[0] && !strcmp(at->nic.interface, item)) ||
		    (!strncmp(name, "nic:", 4) && !strcmp(name + 4, item)))
			return devices->list[i];
		if (devices->kind == TOPOLOGY_GPU && !parse_u64(item, 0, INDEX_MAX, &index) &&
		    at->gpu.index == (int)index)
			return devices->list[i];
	}
	return TOPOLOGY_NONE;
}

/* Takes one device into the list, once. */
static int take(const struct devices *devices, const char *item, size_t most, uint32_t *ret, size_t *ret_count)
{
	const char *kind = devices->kind == TOPOLOGY_GPU ? "GPU" : "NIC";
	uint32_t found = find_device(devices, item);
	char text[2 * ITEM_BYTES], clean[ITEM_BYTES];

	term_clean(item, clean, sizeof(clean));
	if (found == TOPOLOGY_NONE) {
		snprintf(text, sizeof(text), "there is no %s \"%s\"", kind, clean);
		return complain(devices, text);
	}
	for (size_t i = 0; i < *ret_count; i++) {
		if (ret[i] == found)
			return command_usage_error(devices->name, "%s \"%s\" is named twice", kind, clean);
	}
	if (*ret_count == most)
		return command_usage_error(devices->name, "more than %zu %ss are named", most, kind);
	ret[(*ret_count)++] = found;
	return COMMAND_OK;
}

/* "0-3,6,gpu7,0000:17:00.0" */
static int take_list(const struct devices *devices, const char *list, size_t most, uint32_t *ret, size_t *ret_count)
{
	const char *item;
	size_t bytes;

	while (parse_list_next(&list, ',', &item, &bytes)) {
		char text[ITEM_BYTES];
		uint64_t low, high;
		int status = COMMAND_OK;

		if (bytes >= sizeof(text))
			return command_usage_error(devices->name, "\"%.*s...\" names nothing", 16, item);
		memcpy(text, item, bytes);
		text[bytes] = '\0';
		if (devices->kind == TOPOLOGY_GPU && !parse_range(text, 0, INDEX_MAX, &low, &high)) {
			for (; low <= high && status == COMMAND_OK; low++) {
				snprintf(text, sizeof(text), "%u", (unsigned)low);
				status = take(devices, text, most, ret, ret_count);
			}
		} else {
			status = take(devices, text, most, ret, ret_count);
		}
		if (status != COMMAND_OK)
			return status;
	}
	return *ret_count ? COMMAND_OK : command_usage_error(devices->name, "the list of devices is empty");
}

static int by_index(const void *left, const void *right, void *arg)
{
	const struct devices *devices = arg;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	int first = devices->topology->vertices[a].gpu.index, second = devices->topology->vertices[b].gpu.index;

	if (first != second)
		return first < second ? -1 : 1;
	return (a > b) - (a < b); /* slices of one GPU */
}

static int list_devices(const struct topology *topology, const char *name, enum topology_kind kind, struct devices *ret)
{
	*ret = (struct devices){ .topology = topology, .name = name, .kind = kind };
	return topology_list(topology, kind, &ret->list, &ret->count);
}

/* NVML's numbers, where the graph's source had none: in order of their places on the bus. Returns how many. */
static size_t number_gpus(struct topology *topology, const uint32_t *gpus, size_t count)
{
	size_t given = 0;

	for (size_t i = 0; i < count; i++)
		if (topology->vertices[gpus[i]].gpu.index >= 0)
			return 0;
	for (size_t i = 0; i < count; i++) {
		const char *place = topology->vertices[gpus[i]].bus_id;
		int before = 0;

		for (size_t j = 0; j < count; j++) {
			int order = strcmp(topology->vertices[gpus[j]].bus_id, place);

			before += order < 0 || (order == 0 && j < i);
		}
		topology->vertices[gpus[i]].gpu.index = before;
		given++;
	}
	return given;
}

#define NCCL_REFUSES                                                                                                 \
	"NCCL refuses two ranks on one GPU by default (\"Duplicate GPU detected\"), and slices (MIG) of a GPU have " \
	"its bus id"

static bool same_gpu(const struct topology *topology, uint32_t a, uint32_t b)
{
	const struct topology_vertex *first = &topology->vertices[a], *second = &topology->vertices[b];

	return first->gpu.mig >= 0 && second->gpu.mig >= 0 && !strcmp(first->bus_id, second->bus_id);
}

/* One slice of each GPU: the first, unless the user names another. */
static int keep_one_slice(const struct topology *topology, bool named, uint32_t *gpus, size_t *count)
{
	size_t kept = 0, all = *count;

	for (size_t i = 0; i < all; i++) {
		size_t same = 0;

		while (same < kept && !same_gpu(topology, gpus[same], gpus[i]))
			same++;
		if (same == kept) {
			gpus[kept++] = gpus[i];
			continue;
		}
		if (!named)
			continue;
		command_say(NCCL_REFUSES ": name one of %s and %s", topology->vertices[gpus[same]].name,
			    topology->vertices[gpus[i]].name);
		return COMMAND_FAILED;
	}
	if (kept < all)
		command_say(NCCL_REFUSES ": planned for one slice of each GPU; --gpus "
					 "chooses others");
	*count = kept;
	return COMMAND_OK;
}

static int take_gpus(const struct command_call *call, struct topology *topology, struct plan_request *request)
{
	const char *list = command_value(call, "gpus");
	struct devices devices;
	int status = COMMAND_OK;

	if (list_devices(topology, call->command->name, TOPOLOGY_GPU, &devices) < 0)
		return command_failed(NULL, ENOMEM, "the GPUs cannot be listed");
	if (!devices.count) {
		command_say("the machine has no GPU: there is nothing to plan (--from FILE plans for another)");
		status = COMMAND_FAILED;
	} else {
		if (!list)
			(void)keep_one_slice(topology, false, devices.list, &devices.count);
		if (number_gpus(topology, devices.list, devices.count))
			command_say("the GPUs have no numbers here: they are counted in order of their PCI "
				    "places, as NVML does");
		qsort_r(devices.list, devices.count, sizeof(devices.list[0]), by_index, &devices);
	}
	if (status == COMMAND_OK && list)
		status = take_list(&devices, list, PLAN_GPUS_MAX, request->gpus, &request->gpu_count);
	else if (status == COMMAND_OK && devices.count > PLAN_GPUS_MAX)
		status = complain(&devices, "a plan has at most 16 GPUs: choose with --gpus");
	else if (status == COMMAND_OK)
		memcpy(request->gpus, devices.list, devices.count * sizeof(devices.list[0]));
	if (status == COMMAND_OK && !list)
		request->gpu_count = devices.count;
	if (status == COMMAND_OK && list)
		status = keep_one_slice(topology, true, request->gpus, &request->gpu_count);
	qsort_r(request->gpus, request->gpu_count, sizeof(request->gpus[0]), by_index, &devices);
	free(devices.list);
	return status;
}

static int take_nics(const struct command_call *call, const struct topology *topology, bool needed,
		     struct plan_request *request)
{
	const char *list = command_value(call, "nets");
	struct devices devices;
	int status = COMMAND_OK;

	if (list_devices(topology, call->command->name, TOPOLOGY_NIC, &devices) < 0)
		return command_failed(NULL, ENOMEM, "the NICs cannot be listed");
	if (list) {
		status = take_list(&devices, list, PLAN_NICS_MAX, request->nics, &request->nic_count);
	} else if (devices.count <= PLAN_NICS_MAX) {
		memcpy(request->nics, devices.list, devices.count * sizeof(devices.list[0]));
		request->nic_count = devices.count;
	} else if (needed) {
		status = complain(&devices, "a plan has at most 16 NICs: choose with --nets");
	}
	if (status == COMMAND_OK && needed && !request->nic_count) {
		command_say("the machine has no NIC: its channels cannot leave it");
		status = COMMAND_FAILED;
	}
	free(devices.list);
	return status;
}

enum topology_class channels_p2p(const struct topology *topology, const uint32_t *gpus, size_t count)
{
	enum topology_class default_class = plan_p2p_default(topology, gpus, count);
	enum topology_class measured = topology_xml_p2p(topology);

	return measured > default_class ? measured : default_class;
}

int channels_request(const struct command_call *call, struct topology *topology, struct plan_request *ret,
		     enum plan_where *ret_where)
{
	const char *hosts = command_value(call, "hosts");
	struct plan_request request = { .hosts = 1 };
	enum plan_where where = PLAN_ONE_HOST;
	uint64_t count = 1;
	int status;

	if (!strcmp(hosts, "either"))
		where = PLAN_EITHER;
	else if (parse_u64(hosts, 1, HOSTS_MAX, &count))
		return command_wrong_value(call, "hosts", "1 to %d, or either", HOSTS_MAX);
	else if (count > 1)
		where = PLAN_SEVERAL_HOSTS;
	request.hosts = (unsigned)count;
	status = take_gpus(call, topology, &request);
	if (status == COMMAND_OK) {
		request.p2p_farthest = channels_p2p(topology, request.gpus, request.gpu_count);
		status = take_nics(call, topology, where != PLAN_ONE_HOST, &request);
	}
	if (status != COMMAND_OK)
		return status;
	*ret = request;
	*ret_where = where;
	return COMMAND_OK;
}
