/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/ask.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MODE_WORDS_MOST = 127, ANSWER_BYTES = 256, DSCP_TEXT_MOST = 48 };

/* Link modes by their numbers (linux/ethtool.h): the kernel may know more than the headers that we were built with. */
static const struct {
	unsigned char first, last;
	unsigned mbps;
} modes[] = {
	{ 0, 1, 10 },       { 2, 3, 100 },      { 4, 5, 1000 },     { 12, 12, 10000 },  { 15, 15, 2500 },
	{ 17, 17, 1000 },   { 18, 19, 10000 },  { 21, 22, 20000 },  { 23, 26, 40000 },  { 27, 30, 56000 },
	{ 31, 33, 25000 },  { 34, 35, 50000 },  { 36, 39, 100000 }, { 40, 40, 50000 },  { 41, 41, 1000 },
	{ 42, 46, 10000 },  { 47, 47, 2500 },   { 48, 48, 5000 },   { 52, 56, 50000 },  { 57, 61, 100000 },
	{ 62, 66, 200000 }, { 67, 67, 100 },    { 68, 68, 1000 },   { 69, 73, 400000 }, { 75, 79, 100000 },
	{ 80, 84, 200000 }, { 85, 89, 400000 }, { 90, 91, 100 },    { 93, 98, 800000 },
};

static unsigned most_mbps(const uint32_t *supported, unsigned words)
{
	unsigned most = 0;

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		for (unsigned bit = modes[i].first; bit <= modes[i].last && bit / 32 < words; bit++)
			if (supported[bit / 32] >> bit % 32 & 1 && modes[i].mbps > most)
				most = modes[i].mbps;
	return most;
}

static int call(int fd, const char *name, void *command)
{
	struct ifreq request = { .ifr_data = command };

	if (strlen(name) >= sizeof(request.ifr_name))
		return -ENAMETOOLONG;
	memcpy(request.ifr_name, name, strlen(name) + 1);
	return ioctl(fd, SIOCETHTOOL, &request) ? -errno : 0;
}

static unsigned ask_modes(int fd, const char *name)
{
	_Alignas(struct ethtool_link_settings) unsigned char
		bytes[sizeof(struct ethtool_link_settings) + 3 * MODE_WORDS_MOST * sizeof(uint32_t)] = { 0 };
	struct ethtool_link_settings *question = (void *)bytes;

	question->cmd = ETHTOOL_GLINKSETTINGS;
	/* The first answer is the number of words, as a negative number. */
	if (call(fd, name, question) < 0 || question->link_mode_masks_nwords >= 0)
		return 0;
	question->link_mode_masks_nwords = (int8_t)-question->link_mode_masks_nwords;
	question->cmd = ETHTOOL_GLINKSETTINGS;
	if (call(fd, name, question) < 0 || question->link_mode_masks_nwords <= 0)
		return 0;
	return most_mbps(question->link_mode_masks, (unsigned)question->link_mode_masks_nwords);
}

/* -------------------------------------------------------------------------------------------------------------- answer */

static void append(char text[static ANSWER_BYTES], const char *key, const char *value)
{
	size_t used = strlen(text);

	snprintf(text + used, ANSWER_BYTES - used, "%s%s=%s", used ? " " : "", key, value);
}

static void append_dcb(char text[static ANSWER_BYTES], const struct discover_dcb *dcb)
{
	char value[ANSWER_BYTES / 2] = "";
	size_t used = 0;

	for (unsigned i = 0; dcb->has_pfc && i < 8; i++)
		value[i] = dcb->pfc >> i & 1 ? '1' : '0';
	if (dcb->has_pfc)
		append(text, "pfc", value);
	append(text, "trust", dcb->trusts_dscp ? "dscp" : "pcp");
	*value = '\0';
	for (unsigned i = 0; i < DISCOVER_DSCPS && used < DSCP_TEXT_MOST; i++)
		if (dcb->priority[i] != DISCOVER_NO_PRIORITY)
			used += (size_t)snprintf(value + used, sizeof(value) - used, "%s%u:%u", used ? "," : "", i,
						 dcb->priority[i]);
	if (used)
		append(text, "dscp", value);
}

int discover_ethtool_ask(void *name, char **ret, size_t *ret_bytes)
{
	struct ethtool_pauseparam pause = { .cmd = ETHTOOL_GPAUSEPARAM };
	char text[ANSWER_BYTES] = "", value[16] = "";
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned mbps;
	struct discover_dcb dcb;

	if (fd < 0)
		return -errno;
	mbps = ask_modes(fd, name);
	snprintf(value, sizeof(value), "%u", mbps);
	if (mbps)
		append(text, "most_Mbps", value);
	if (!call(fd, name, &pause)) {
		append(text, "pause_rx", pause.rx_pause ? "on" : "off");
		append(text, "pause_tx", pause.tx_pause ? "on" : "off");
	}
	close(fd);
	if (!discover_dcb_ask(name, &dcb))
		append_dcb(text, &dcb);
	*ret = strdup(text);
	if (!*ret)
		return -ENOMEM;
	*ret_bytes = strlen(*ret);
	return 0;
}
