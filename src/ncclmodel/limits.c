/* SPDX-License-Identifier: Apache-2.0 */
#include "ncclmodel/limits.h"

#include <stddef.h>
#include <string.h>

#include "tributary/topology.h"

#define MBPS 1000000ULL

/* In NCCL's order: the first that the string begins with counts. "16.0 GT/s" without " PCIe" is not among them. */
static const struct {
	const char *text;
	unsigned generation;
} speeds[] = {
	{ "2.5 GT/s", 1 },       { "5 GT/s", 2 },         { "8 GT/s", 3 },        { "16 GT/s", 4 },
	{ "32 GT/s", 5 },        { "5.0 GT/s PCIe", 2 },  { "8.0 GT/s PCIe", 3 }, { "16.0 GT/s PCIe", 4 },
	{ "32.0 GT/s PCIe", 5 }, { "64.0 GT/s PCIe", 6 },
};

uint64_t ncclmodel_lane_Bps(unsigned generation)
{
	if (!generation || generation > NCCLMODEL_GENERATION_MAX)
		return 0;
	return 187500000ULL << (generation - 1);
}

unsigned ncclmodel_generation(const char *link_speed, bool *ret_known)
{
	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		if (strncmp(link_speed, speeds[i].text, strlen(speeds[i].text)))
			continue;
		if (ret_known)
			*ret_known = true;
		return speeds[i].generation;
	}
	if (ret_known)
		*ret_known = false;
	return NCCLMODEL_GENERATION_FALLBACK;
}

const char *ncclmodel_speed_text(unsigned generation)
{
	static const char *const texts[NCCLMODEL_GENERATION_MAX + 1] = {
		"",
		"2.5 GT/s PCIe",
		"5.0 GT/s PCIe",
		"8.0 GT/s PCIe",
		"16.0 GT/s PCIe",
		"32.0 GT/s PCIe",
		"64.0 GT/s PCIe",
	};

	return generation <= NCCLMODEL_GENERATION_MAX ? texts[generation] : "";
}

uint64_t ncclmodel_pci_Bps(const char *link_speed, long link_width)
{
	uint64_t lanes = link_width ? (uint64_t)link_width : NCCLMODEL_LANES_FALLBACK;

	/* A negative capacity, or one that overflowed. */
	if (link_width < 0 || lanes > NCCLMODEL_LANES_MAX)
		return 0;
	return lanes * ncclmodel_lane_Bps(ncclmodel_generation(link_speed, NULL));
}

uint64_t ncclmodel_nvlink_Bps(int sm)
{
	if (sm >= 100)
		return 40100 * MBPS;
	if (sm >= 90)
		return 20600 * MBPS;
	if (sm == 86)
		return 12000 * MBPS;
	return sm >= 60 && sm < 70 ? 18000 * MBPS : 20000 * MBPS;
}

static uint64_t intel_Bps(int family, int model)
{
	if (family != 6 || model < 0x55)
		return 6000 * MBPS;
	if (model < 0x8f)
		return 10000 * MBPS;
	return model < 0xcf ? 22000 * MBPS : 40000 * MBPS;
}

static bool begins(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

uint64_t ncclmodel_socket_Bps(const struct topology_cpu *cpu)
{
	bool model_known = cpu->family >= 0 && cpu->model >= 0;

	if (begins(cpu->architecture, "ppc64"))
		return 32000 * MBPS;
	if (begins(cpu->architecture, "arm64"))
		return 6000 * MBPS;
	if (begins(cpu->vendor, "GenuineIntel"))
		return model_known ? intel_Bps(cpu->family, cpu->model) : 0;
	if (begins(cpu->vendor, "AuthenticAMD"))
		return 16000 * MBPS;
	if (begins(cpu->vendor, "CentaurHauls") || begins(cpu->vendor, "  Shanghai  "))
		return !model_known ? 0 : cpu->family == 7 && cpu->model == 0x5b ? 9000 * MBPS : 6000 * MBPS;
	/* As good as no limit at all: what NCCL takes for any vendor that it does not know. */
	return cpu->architecture[0] && cpu->vendor[0] ? 5000000 * MBPS : 0;
}
