/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/machine.h"

#include "base/params.h"
#include "base/hash.h"
#include "base/sys.h"
#include "profile/store.h"
#include "profile/store_places.h"
#include "tributary/predict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------------------------------------------------- loading */

/*
 * NCCL finds a <net> by the name that its plugin gives. Its latency stays out of the file: one that differs between
 * hosts would make their ranks choose differently, and the job hang.
 */
static void nic_adapt(struct topology *topology, struct topology_vertex *vertex, const struct steer_nets *nets)
{
	char name[TOPOLOGY_NAME_BYTES];

	vertex->nic.latency_ns = 0;
	vertex->nic.collnet = false;
	if (!nets->ours && !nets->sockets)
		return;
	if (!nets->reaches_gpu)
		vertex->nic.gdr = false;
	if (!vertex->nic.interface[0])
		return;
	snprintf(name, sizeof(name), "nic:%.59s", vertex->nic.interface);
	if (topology_find(topology, name) == TOPOLOGY_NONE)
		memcpy(vertex->name, name, sizeof(name));
}

static uint64_t hash_string(uint64_t hash, const char *text)
{
	return hash_bytes(hash, text, strlen(text) + 1);
}

/*
 * Processes of one communicator whose values differ get no plan. NCCL takes GPUs whose processes see different /dev/shm
 * for out of each other's reach.
 */
static uint64_t hash_of(const struct steer_machine *machine, const char *text, const struct steer_nets *nets,
			const struct steer_settings *settings, unsigned nccl_version)
{
	const uint64_t numbers[] = {
		sizeof(struct steer_decision), nets->count,    nets->reaches_gpu, nets->sockets,       nets->latency_us,
		settings->other_tuner,         settings->hash, nccl_version,      PREDICT_TUNER_RULES,
	};
	uint64_t hash = hash_string(HASH_START, TRIBUTARY_VERSION);
	struct stat st;

	hash = hash_string(hash, text);
	hash = hash_string(hash, machine->topology_text);
	if (machine->shaped_text)
		hash = hash_string(hash, machine->shaped_text);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		hash = hash_step(hash, numbers[i]);
	for (size_t i = 0; i < nets->count; i++)
		hash = hash_string(hash, nets->at[i].name);
	if (stat("/dev/shm", &st) == 0) {
		uint64_t device = (uint64_t)st.st_dev;

		hash = hash_bytes(hash, &device, sizeof(device));
	}
	return hash;
}

/* The user's own setting of P2P holds: no pair that it excludes may come within it. */
static struct topology_xml_shape shape_of(const struct topology *topology, const struct steer_settings *settings)
{
	struct topology_xml_shape shape = { .bridges = true, .p2p_farthest = TOPOLOGY_CLASS_PXB };

	if (settings->p2p_level == STEER_P2P_DEFAULT)
		shape.p2p_farthest = topology_xml_p2p(topology);
	else if (settings->p2p_level > (int)TOPOLOGY_CLASS_PXB)
		shape = (struct topology_xml_shape){ .sockets = TOPOLOGY_XML_SOCKETS_CPUS,
						     .p2p_farthest = TOPOLOGY_CLASS_PXB };
	return shape;
}

static int write_texts(struct steer_machine *machine, const struct steer_settings *settings, struct diag *diag)
{
	static const struct topology_xml_shape found = { .sockets = TOPOLOGY_XML_SOCKETS_CPUS,
							 .p2p_farthest = TOPOLOGY_CLASS_PXB };
	size_t bytes;
	int r;

	machine->shape = shape_of(&machine->topology, settings);
	r = topology_xml_write(&machine->topology, &found, &machine->topology_text, &bytes, NULL, diag);
	if (r == 0)
		r = topology_xml_write(&machine->topology, &machine->shape, &machine->shaped_text, &bytes, NULL, diag);
	if (r == 0 && !strcmp(machine->shaped_text, machine->topology_text)) {
		free(machine->shaped_text);
		machine->shaped_text = NULL;
	}
	return r;
}

static int adapt(struct steer_machine *machine, const struct steer_nets *nets, const struct steer_settings *settings,
		 unsigned nccl_version, struct diag *diag)
{
	struct topology *topology = &machine->topology;
	size_t bytes;
	char *text;
	int r;

	for (size_t i = 0; i < topology->vertex_count; i++)
		if (topology->vertices[i].kind == TOPOLOGY_NIC)
			nic_adapt(topology, &topology->vertices[i], nets);
	r = write_texts(machine, settings, diag);
	if (r < 0)
		return r;
	r = topology_write(topology, &text, &bytes);
	if (r < 0)
		return r;
	machine->hash = hash_of(machine, text, nets, settings, nccl_version);
	free(text);
	return 0;
}

int steer_machine_load(const struct params *params, const char *root, const struct steer_nets *nets,
		       const struct steer_settings *settings, unsigned nccl_version, struct steer_machine *ret,
		       struct diag *diag)
{
	char path[STORE_PATH_BYTES];
	struct fingerprint now;
	struct profile profile;
	int r;

	*ret = (struct steer_machine){ .loaded = false };
	topology_init(&ret->topology);
	r = fingerprint_take(root, &now);
	if (r < 0) {
		diag_set(diag, 0, 0, "the machine cannot be looked at: %s", strerror(-r));
		return r;
	}
	profile_init(&profile);
	r = store_find(params, &now, &profile, path, sizeof(path), diag);
	steer_gpus_count(root, &now, &ret->gpus);
	fingerprint_fini(&now);
	if (r == 0) {
		ret->topology = profile.topology;
		ret->date_s = profile.date_s;
		topology_init(&profile.topology);
		r = adapt(ret, nets, settings, nccl_version, diag);
	}
	profile_fini(&profile);
	if (r < 0)
		steer_machine_fini(ret);
	ret->loaded = r == 0;
	return r;
}

void steer_machine_fini(struct steer_machine *machine)
{
	topology_fini(&machine->topology);
	free(machine->topology_text);
	free(machine->shaped_text);
	machine->topology_text = machine->shaped_text = NULL;
	machine->loaded = false;
}

/* -------------------------------------------------------------------------------------------------------------- asking */

uint32_t steer_machine_nic(const struct steer_machine *machine, const struct steer_nets *nets, size_t net)
{
	const struct topology *topology = &machine->topology;
	uint32_t by_place = TOPOLOGY_NONE;

	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		const struct topology_vertex *vertex = &topology->vertices[i];

		if (vertex->kind != TOPOLOGY_NIC)
			continue;
		if (!strcmp(vertex->nic.interface, nets->at[net].name) ||
		    (!strncmp(vertex->name, "nic:", 4) && !strcmp(vertex->name + 4, nets->at[net].name)))
			return i;
		if (nets->at[net].bus_id[0] && !strcmp(vertex->bus_id, nets->at[net].bus_id))
			by_place = by_place == TOPOLOGY_NONE ? i : TOPOLOGY_NONE - 1;
	}
	/* Two ports of one card have one place: then only the name tells. */
	return by_place < topology->vertex_count ? by_place : TOPOLOGY_NONE;
}

static int by_index(const void *left, const void *right, void *arg)
{
	const struct topology *topology = arg;
	const uint32_t *a = left, *b = right;
	int first = topology->vertices[*a].gpu.index, second = topology->vertices[*b].gpu.index;

	return first != second ? (first < second ? -1 : 1) : (*a > *b) - (*a < *b);
}

int steer_machine_request(const struct steer_machine *machine, const struct steer_nets *nets,
			  const struct steer_settings *settings, const char (*bus_ids)[STEER_BUS_ID_BYTES],
			  size_t count, struct plan_request *ret)
{
	const struct topology *topology = &machine->topology;
	struct plan_request request;

	if (!count || count > PLAN_GPUS_MAX)
		return -EINVAL;
	/* It is compared and written as bytes. */
	memset(&request, 0, sizeof(request));
	request.gpu_count = count;
	request.hosts = 1;
	request.crossnic = settings->crossnic;
	for (size_t i = 0; i < count; i++) {
		request.gpus[i] = topology_find_bus_id(topology, bus_ids[i]);
		if (request.gpus[i] == TOPOLOGY_NONE || topology->vertices[request.gpus[i]].kind != TOPOLOGY_GPU)
			return -ENOENT;
	}
	qsort_r(request.gpus, count, sizeof(request.gpus[0]), by_index, (void *)(uintptr_t)topology);
	for (size_t i = 0; i < nets->count; i++) {
		uint32_t nic = steer_machine_nic(machine, nets, i);

		if (nic != TOPOLOGY_NONE)
			request.nics[request.nic_count++] = nic;
	}
	if (settings->p2p_level != STEER_P2P_DEFAULT)
		request.p2p_farthest = (enum topology_class)settings->p2p_level;
	else
		request.p2p_farthest = plan_p2p_default(topology, request.gpus, count);
	if (request.p2p_farthest < machine->shape.p2p_farthest && settings->p2p_level == STEER_P2P_DEFAULT)
		request.p2p_farthest = machine->shape.p2p_farthest;
	*ret = request;
	return 0;
}

bool steer_machine_splits(const struct steer_machine *machine, const struct steer_nets *nets,
			  const struct plan_request *request, struct diag *diag)
{
	uint64_t speeds_Bps[PLAN_NICS_MAX] = { 0 };

	for (size_t nic = 0; nic < request->nic_count; nic++)
		for (size_t i = 0; !speeds_Bps[nic] && i < nets->count; i++)
			if (steer_machine_nic(machine, nets, i) == request->nics[nic])
				speeds_Bps[nic] = nets->at[i].speed_Bps;
	return ncclxml_splits(&machine->topology, &machine->shape, request, speeds_Bps, diag);
}
