/*
 * Machines that others described: topo/ of this repository (TRIBUTARY_SOURCE), and real ones, with the channels that NCCL
 * 2.28.9 chose for them (TRIBUTARY_TEST_TOPOLOGIES names a folder with NCCL topology files and nccl-chose/).
 */
#include "tributary/plan.h"

#include "base/log.h"
#include "ncclxml/topology_xml.h"
#include "unit/transport/pace/random.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PATH_BYTES = 1024, NETS_MAX = 32 };

static char *read_all(const char *path, size_t *ret_bytes)
{
	FILE *file = fopen(path, "re");
	size_t room = 1 << 20, bytes;
	char *text = calloc(1, room);

	assert_non_null(text);
	if (!file) {
		free(text);
		return NULL;
	}
	bytes = fread(text, 1, room - 1, file);
	fclose(file);
	*ret_bytes = bytes;
	return text;
}

/* -------------------------------------------------------------------------------------------------------------- topo */

struct tally {
	unsigned cases, below_98, below_90;
};

static void plan_subset(const char *name, const struct topology *topology, const struct plan_request *request,
			enum plan_pattern pattern, struct tally *tally)
{
	struct plan plan;
	struct diag diag;
	double share;

	assert_int_equal(plan_make(topology, request, pattern, &plan), 0);
	if (plan_verify(topology, request, &plan, &diag) < 0)
		fail_msg("%s: %s", name, diag.text);
	share = (double)plan_total_Bps(&plan) / (double)plan.bound_Bps;
	tally->cases++;
	tally->below_98 += share < 0.98;
	tally->below_90 += share < 0.90;
}

static void plan_subsets(const char *name, const struct topology *topology, struct tally *tally)
{
	struct plan_request all;
	unsigned last, step;

	assert_int_equal(plan_request_all(topology, &all), 0);
	last = (1U << all.gpu_count) - 1;
	step = all.gpu_count > 8 ? 6007 : 1;
	for (unsigned mask = 1; mask <= last; mask = mask < last && mask + step > last ? last : mask + step) {
		struct plan_request request = all;

		request.gpu_count = 0;
		for (size_t i = 0; i < all.gpu_count; i++)
			if (mask & (1U << i))
				request.gpus[request.gpu_count++] = all.gpus[i];
		for (request.hosts = 1; request.hosts <= (all.nic_count ? 2U : 1U); request.hosts++)
			for (int pattern = 0; pattern < PLAN_PATTERN_COUNT; pattern++)
				plan_subset(name, topology, &request, (enum plan_pattern)pattern, tally);
	}
}

static void every_subset_of_the_reference_machines_gets_a_good_plan(void **state)
{
	const char *source = getenv("TRIBUTARY_SOURCE");
	char path[PATH_BYTES];
	struct tally tally = { 0 };
	struct dirent *entry;
	DIR *folder;

	(void)state;
	snprintf(path, sizeof(path), "%s/topo", source ? source : ".");
	folder = opendir(path);
	if (!folder) {
		print_message("skipped: there is no %s\n", path);
		skip();
	}
	while ((entry = readdir(folder))) {
		struct topology topology;
		struct diag diag;
		size_t bytes;
		char *text;

		snprintf(path, sizeof(path), "%s/topo/%s/machine.topology", source ? source : ".", entry->d_name);
		text = entry->d_name[0] != '.' ? read_all(path, &bytes) : NULL;
		if (!text)
			continue;
		if (topology_read(text, bytes, &topology, &diag) < 0)
			fail_msg("%s:%d: %s", path, diag.line, diag.text);
		plan_subsets(entry->d_name, &topology, &tally);
		topology_fini(&topology);
		free(text);
	}
	closedir(folder);
	print_message("%u plans, %u below 98 %% of the bound, %u below 90 %%\n", tally.cases, tally.below_98,
		      tally.below_90);
	assert_true(tally.below_98 * 20 <= tally.cases);
	assert_int_equal(tally.below_90, 0);
}

/* ---------------------------------------------------------------------------------------------------- NCCL's choices */

static const struct {
	const char *graph, *machine;
	bool nvswitch; /* the file has none, and NCCL was told of it: A100, 12 × 20 GB/s */
} chosen[] = {
	{ "azure-ncv4-1n", "ncv4-topo", false },
	{ "azure-ncv4-2n", "ncv4-topo", false },
	{ "azure-ncv4-graph-1n", "ncv4-topo", false },
	{ "azure-ndv4-1n", "ndv4-topo", true },
	{ "azure-ndv4-2n", "ndv4-topo", true },
	{ "oci-h100-2n", "oci-h100-topo", false },
	{ "rccl-3p_pcie-1n", "rccl-3p_pcie", false },
	{ "rccl-3p_pcie-2n", "rccl-3p_pcie", false },
	{ "rccl-4p2h_2nic-1n", "rccl-4p2h_2nic", false },
	{ "rccl-4p2h_2nic-2n", "rccl-4p2h_2nic", false },
	{ "rccl-8p_pcie-1n", "rccl-8p_pcie", false },
	{ "rccl-8p_pcie-2n", "rccl-8p_pcie", false },
	{ "rccl-8p_pcie_2nic-1n", "rccl-8p_pcie_2nic", false },
	{ "rccl-8p_pcie_2nic-2n", "rccl-8p_pcie_2nic", false },
	{ "rccl-8p_rome-1n", "rccl-8p_rome", false },
	{ "rccl-8p_rome-2n", "rccl-8p_rome", false },
	{ "rccl-8p_rome_pcie-1n", "rccl-8p_rome_pcie", false },
	{ "rccl-8p_rome_pcie-2n", "rccl-8p_rome_pcie", false },
};

struct comparison {
	struct topology topology; /* capacities known */
	struct plan_request request;
	uint32_t nets[NETS_MAX]; /* NIC of each of NCCL's devices */
};

/* The value of an attribute in [at, end), or NULL. */
static const char *attribute(const char *at, const char *end, const char *name)
{
	size_t bytes = strlen(name);

	for (; at + bytes + 2 < end; at++)
		if (at[0] == ' ' && !strncmp(at + 1, name, bytes) && at[1 + bytes] == '=' && at[2 + bytes] == '"')
			return at + bytes + 3;
	return NULL;
}

static void find_nets(struct comparison *comparison, const char *text)
{
	unsigned long next = 0;

	memset(comparison->nets, 0xff, sizeof(comparison->nets));
	for (const char *at = strstr(text, "<net "); at; at = strstr(at + 1, "<net ")) {
		const char *end = strchr(at, '>'), *name = attribute(at, end, "name"), *dev = attribute(at, end, "dev");
		unsigned long device = dev ? strtoul(dev, NULL, 10) : next;
		char copy[TOPOLOGY_NAME_BYTES];

		next = device + 1;
		if (!name || device >= NETS_MAX)
			continue;
		snprintf(copy, sizeof(copy), "nic:%.*s", (int)strcspn(name, "\""), name);
		comparison->nets[device] = topology_find(&comparison->topology, copy);
	}
}

static void add_nvswitch(struct topology *topology)
{
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_NVSWITCH, "nvswitch0");
	size_t count = topology->vertex_count;
	uint32_t nvswitch;

	assert_int_equal(topology_add_vertex(topology, &vertex, &nvswitch), 0);
	for (uint32_t i = 0; i < count; i++) {
		struct topology_link link = topology_link_of(TOPOLOGY_LINK_NVLINK, i, nvswitch);

		if (topology->vertices[i].kind != TOPOLOGY_GPU)
			continue;
		link.count = 12;
		link.capacity[0] = link.capacity[1] = (struct topology_capacity){ .rate_Bps = 240000000000,
										  .provenance = TOPOLOGY_NOMINAL };
		assert_int_equal(topology_add_link(topology, &link, NULL), 0);
	}
}

static bool load_machine(const char *folder, size_t which, struct comparison *ret)
{
	char path[PATH_BYTES];
	struct diag diag;
	size_t bytes;
	char *text;

	snprintf(path, sizeof(path), "%s/%s.xml", folder, chosen[which].machine);
	text = read_all(path, &bytes);
	if (!text)
		return false;
	if (topology_xml_read(text, bytes, &ret->topology, &diag) < 0)
		fail_msg("%s:%d: %s", path, diag.line, diag.text);
	if (chosen[which].nvswitch)
		add_nvswitch(&ret->topology);
	find_nets(ret, text);
	free(text);
	assert_int_equal(plan_request_all(&ret->topology, &ret->request), 0);
	/* A file that leaves the numbers to NCCL: they are in order of bus ids, as the names are. */
	for (size_t i = 0; i < ret->request.gpu_count; i++)
		if (ret->topology.vertices[ret->request.gpus[i]].gpu.index < 0)
			ret->topology.vertices[ret->request.gpus[i]].gpu.index = (int)i;
	return true;
}

static void scale(struct topology_link *link, double factor)
{
	for (int i = 0; i < 2; i++) {
		link->capacity[i].rate_Bps = (uint64_t)((double)link->capacity[i].rate_Bps * factor);
		link->capacity[i].provenance = TOPOLOGY_MEASURED;
	}
}

/* One link of those that a test accepts, if there is any. */
static void scale_one(struct topology *topology, uint64_t *seed, double factor,
		      bool (*accepts)(const struct topology *, const struct topology_link *))
{
	size_t count = 0, wanted;

	for (size_t i = 0; i < topology->link_count; i++)
		count += accepts(topology, &topology->links[i]);
	wanted = count ? random_below(seed, count) : 0;
	for (size_t i = 0; i < topology->link_count; i++)
		if (accepts(topology, &topology->links[i]) && !wanted--)
			scale(&topology->links[i], factor);
}

static bool is_uplink(const struct topology *topology, const struct topology_link *link)
{
	return link->kind == TOPOLOGY_LINK_PCI && topology->vertices[link->lower].kind == TOPOLOGY_SWITCH;
}

static bool is_socket_link(const struct topology *topology, const struct topology_link *link)
{
	(void)topology;
	return link->kind == TOPOLOGY_LINK_SOCKET;
}

static bool is_slot(const struct topology *topology, const struct topology_link *link)
{
	return link->kind == TOPOLOGY_LINK_PCI && topology->vertices[link->lower].kind == TOPOLOGY_GPU;
}

/* 0: nominal; 1: an uplink at half; 2: the socket link at 1.5 times NCCL's constant; 3: a slot at half; 4: all three. */
static void deviate(struct topology *topology, unsigned deviation, uint64_t seed)
{
	if (deviation == 1 || deviation == 4)
		scale_one(topology, &seed, 0.5, is_uplink);
	if (deviation == 2 || deviation == 4)
		scale_one(topology, &seed, 1.5, is_socket_link);
	if (deviation == 3 || deviation == 4)
		scale_one(topology, &seed, 0.5, is_slot);
}

/* NCCL's devices to places in the request; false: it used a device that the file has not (fused NICs). */
static bool place_of_net(const struct comparison *comparison, unsigned long device, uint8_t *ret)
{
	for (size_t i = 0; device < NETS_MAX && i < comparison->request.nic_count; i++) {
		if (comparison->request.nics[i] != comparison->nets[device])
			continue;
		*ret = (uint8_t)i;
		return true;
	}
	return false;
}

static bool read_channel(const struct comparison *comparison, const char *at, const char *end, struct plan_channel *ret,
			 size_t *ret_gpus)
{
	size_t nets = 0;

	*ret_gpus = 0;
	memset(ret, 0, sizeof(*ret));
	for (at = strchr(at + 1, '<'); at && at < end; at = strchr(at + 1, '<')) {
		const char *dev = attribute(at, strchr(at, '>') + 1, "dev");
		unsigned long number = dev ? strtoul(dev, NULL, 16) : 0;

		if (!strncmp(at, "<net ", 5)) {
			if (!place_of_net(comparison, number, nets++ ? &ret->nic_out : &ret->nic_in))
				return false;
			continue;
		}
		for (size_t i = 0; i < comparison->request.gpu_count; i++)
			if (comparison->topology.vertices[comparison->request.gpus[i]].gpu.index == (int)number)
				ret->order[(*ret_gpus)++] = (uint8_t)i;
	}
	return true;
}

/* False: NCCL has no channels of this pattern, or not of these NICs. */
static bool read_chosen(const struct comparison *comparison, const char *text, enum plan_pattern pattern,
			struct plan *ret)
{
	const char *at = strstr(text, pattern == PLAN_RING ? "<graph id=\"0\"" : "<graph id=\"1\""), *end;

	memset(ret, 0, sizeof(*ret));
	ret->pattern = pattern;
	end = at ? strstr(at + 1, "<graph ") : NULL;
	if (!at)
		return false;
	end = end ? end : at + strlen(at);
	for (at = strstr(at, "<channel>"); at && at < end; at = strstr(at + 1, "<channel>")) {
		size_t gpus;

		if (ret->channel_count == PLAN_CHANNELS_MAX ||
		    !read_channel(comparison, at, strstr(at, "</channel>"), &ret->channels[ret->channel_count++],
				  &gpus) ||
		    gpus != comparison->request.gpu_count)
			return false;
		ret->gpu_count = gpus;
	}
	return ret->channel_count > 0;
}

struct gains {
	unsigned cases, possible;
	double least_share;
};

static void compare(struct comparison *comparison, const char *name, unsigned deviation, struct plan *nccls,
		    struct gains *gains)
{
	struct plan_request *request = &comparison->request;
	struct plan ours;
	struct diag diag;
	double share;
	uint64_t total_Bps;

	for (size_t i = 0; i < nccls->channel_count; i++) {
		if (nccls->pattern != PLAN_RING)
			nccls->channels[i].nic_out = nccls->channels[i].nic_in; /* its first GPU's is the one used */
		request->crossnic = request->crossnic || nccls->channels[i].nic_in != nccls->channels[i].nic_out;
	}
	if (plan_judge_rate(&comparison->topology, request, nccls, &nccls->rate_Bps, &diag) < 0)
		fail_msg("%s: %s", name, diag.text);
	assert_int_equal(plan_make(&comparison->topology, request, nccls->pattern, &ours), 0);
	if (plan_verify(&comparison->topology, request, &ours, &diag) < 0)
		fail_msg("%s: %s", name, diag.text);
	total_Bps = plan_total_Bps(nccls);
	print_message("%-22s %s, deviation %u: NCCL %2zu × %7.3f = %8.3f GB/s; ours %2zu × %7.3f = %8.3f; "
		      "bound %8.3f\n",
		      name, nccls->pattern == PLAN_RING ? "ring" : "tree", deviation, nccls->channel_count,
		      (double)nccls->rate_Bps / 1e9, (double)total_Bps / 1e9, ours.channel_count,
		      (double)ours.rate_Bps / 1e9, (double)plan_total_Bps(&ours) / 1e9, (double)ours.bound_Bps / 1e9);
	assert_true(plan_total_Bps(&ours) + PLAN_CHANNELS_MAX >= total_Bps);
	gains->cases++;
	if ((double)ours.bound_Bps < 1.1 * (double)total_Bps)
		return;
	share = (double)(plan_total_Bps(&ours) - total_Bps) / (double)(ours.bound_Bps - total_Bps);
	gains->possible++;
	gains->least_share = share < gains->least_share ? share : gains->least_share;
}

static void compare_machine(const char *folder, size_t which, const char *text, struct gains *gains)
{
	for (unsigned deviation = 0; deviation < 5; deviation++) {
		for (int pattern = 0; pattern < 2; pattern++) {
			struct comparison comparison;
			struct plan nccls;

			if (!load_machine(folder, which, &comparison))
				return;
			deviate(&comparison.topology, deviation, 101 + which);
			comparison.request.hosts = strstr(chosen[which].graph, "-2n") ? 2 : 1;
			if (read_chosen(&comparison, text, (enum plan_pattern)pattern, &nccls))
				compare(&comparison, chosen[which].graph, deviation, &nccls, gains);
			else if (!deviation)
				print_message("%-22s: not compared, its NICs or GPUs are not those of the file\n",
					      chosen[which].graph);
			topology_fini(&comparison.topology);
		}
	}
}

static void never_worse_than_what_nccl_chose(void **state)
{
	const char *folder = getenv("TRIBUTARY_TEST_TOPOLOGIES");
	struct gains gains = { .least_share = 1 };

	(void)state;
	if (!folder) {
		print_message("skipped: TRIBUTARY_TEST_TOPOLOGIES names no folder\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(chosen) / sizeof(chosen[0]); i++) {
		char path[PATH_BYTES];
		size_t bytes;
		char *text;

		snprintf(path, sizeof(path), "%s/nccl-chose/%s.graph.xml", folder, chosen[i].graph);
		text = read_all(path, &bytes);
		if (text)
			compare_machine(folder, i, text, &gains);
		free(text);
	}
	print_message("%u cases; in %u more than 10 %% could be gained, of which at least %.0f %% were\n", gains.cases,
		      gains.possible, 100 * gains.least_share);
	assert_true(gains.cases > 0);
	assert_true(gains.least_share >= 0.9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_subset_of_the_reference_machines_gets_a_good_plan),
		cmocka_unit_test(never_worse_than_what_nccl_chose),
	};

	return cmocka_run_group_tests_name("plan/machines", tests, NULL, NULL);
}
