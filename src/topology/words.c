/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/internal.h"

#include <string.h>

static const char *const kind_words[TOPOLOGY_KIND_COUNT] = {
	[TOPOLOGY_GPU] = "gpu",           [TOPOLOGY_NIC] = "nic",         [TOPOLOGY_SWITCH] = "switch",
	[TOPOLOGY_BRIDGE] = "bridge",     [TOPOLOGY_CPU] = "cpu",         [TOPOLOGY_MEMORY] = "memory",
	[TOPOLOGY_NVSWITCH] = "nvswitch", [TOPOLOGY_NETWORK] = "network", [TOPOLOGY_HOST] = "host",
};

static const char *const link_kind_words[TOPOLOGY_LINK_KIND_COUNT] = {
	[TOPOLOGY_LINK_PCI] = "pci",         [TOPOLOGY_LINK_NVLINK] = "nvlink", [TOPOLOGY_LINK_C2C] = "c2c",
	[TOPOLOGY_LINK_SOCKET] = "socket",   [TOPOLOGY_LINK_MEMORY] = "memory", [TOPOLOGY_LINK_INTERNAL] = "internal",
	[TOPOLOGY_LINK_NETWORK] = "network",
};

static const char *const provenance_words[TOPOLOGY_PROVENANCE_COUNT] = {
	[TOPOLOGY_UNKNOWN] = "unknown",   [TOPOLOGY_ASSUMED] = "assumed",   [TOPOLOGY_NOMINAL] = "nominal",
	[TOPOLOGY_AT_LEAST] = "at_least", [TOPOLOGY_MEASURED] = "measured",
};

static const char *const class_words[TOPOLOGY_CLASS_COUNT] = {
	[TOPOLOGY_CLASS_LOC] = "LOC", [TOPOLOGY_CLASS_NVL] = "NVL", [TOPOLOGY_CLASS_NVB] = "NVB",
	[TOPOLOGY_CLASS_C2C] = "C2C", [TOPOLOGY_CLASS_PIX] = "PIX", [TOPOLOGY_CLASS_PXB] = "PXB",
	[TOPOLOGY_CLASS_P2C] = "P2C", [TOPOLOGY_CLASS_PXN] = "PXN", [TOPOLOGY_CLASS_PHB] = "PHB",
	[TOPOLOGY_CLASS_SYS] = "SYS", [TOPOLOGY_CLASS_NET] = "NET", [TOPOLOGY_CLASS_DIS] = "DIS",
};

static const char *word_of(const char *const *words, size_t count, size_t index)
{
	return index < count ? words[index] : "?";
}

const char *topology_kind_word(enum topology_kind kind)
{
	return word_of(kind_words, TOPOLOGY_KIND_COUNT, (size_t)kind);
}

const char *topology_link_kind_word(enum topology_link_kind kind)
{
	return word_of(link_kind_words, TOPOLOGY_LINK_KIND_COUNT, (size_t)kind);
}

const char *topology_provenance_word(enum topology_provenance provenance)
{
	return word_of(provenance_words, TOPOLOGY_PROVENANCE_COUNT, (size_t)provenance);
}

const char *topology_class_word(enum topology_class path_class)
{
	return word_of(class_words, TOPOLOGY_CLASS_COUNT, (size_t)path_class);
}

static bool index_of(const char *const *words, size_t count, const char *word, size_t *ret)
{
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(words[i], word)) {
			*ret = i;
			return true;
		}
	}
	return false;
}

bool topology_kind_of_word(const char *word, enum topology_kind *ret)
{
	size_t index;

	if (!index_of(kind_words, TOPOLOGY_KIND_COUNT, word, &index))
		return false;
	*ret = (enum topology_kind)index;
	return true;
}

bool topology_link_kind_of_word(const char *word, enum topology_link_kind *ret)
{
	size_t index;

	if (!index_of(link_kind_words, TOPOLOGY_LINK_KIND_COUNT, word, &index))
		return false;
	*ret = (enum topology_link_kind)index;
	return true;
}

bool topology_provenance_of_word(const char *word, enum topology_provenance *ret)
{
	size_t index;

	if (!index_of(provenance_words, TOPOLOGY_PROVENANCE_COUNT, word, &index))
		return false;
	*ret = (enum topology_provenance)index;
	return true;
}
