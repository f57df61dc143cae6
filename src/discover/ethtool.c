#include "discover/ethtool.h"

#include <errno.h>
#include <linux/dcbnl.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { MODE_WORDS_MOST = 127, ANSWER_BYTES = 128, REPLY_BYTES = 8192 };

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

/* ------------------------------------------------------------------------------------- priority flow control (dcbnl) */

static const struct rtattr *find_attribute(const struct rtattr *at, size_t bytes, unsigned short type)
{
	while (bytes >= sizeof(*at) && at->rta_len >= sizeof(*at) && at->rta_len <= bytes) {
		size_t step = RTA_ALIGN(at->rta_len);

		if ((at->rta_type & NLA_TYPE_MASK) == type)
			return at;
		if (step >= bytes)
			return NULL;
		bytes -= step;
		at = (const struct rtattr *)(const void *)((const char *)at + step);
	}
	return NULL;
}

static int read_pfc(const struct nlmsghdr *header, size_t bytes, uint8_t *ret)
{
	const struct rtattr *all, *pfc;
	struct ieee_pfc value;

	if (bytes < sizeof(*header) || header->nlmsg_len > bytes || header->nlmsg_type != RTM_GETDCB ||
	    header->nlmsg_len < NLMSG_SPACE(sizeof(struct dcbmsg)))
		return -EOPNOTSUPP;
	all = (const void *)((const char *)header + NLMSG_SPACE(sizeof(struct dcbmsg)));
	all = find_attribute(all, header->nlmsg_len - NLMSG_SPACE(sizeof(struct dcbmsg)), DCB_ATTR_IEEE);
	pfc = all ? find_attribute(RTA_DATA(all), RTA_PAYLOAD(all), DCB_ATTR_IEEE_PFC) : NULL;
	if (!pfc || RTA_PAYLOAD(pfc) < sizeof(value))
		return -ENODATA;
	memcpy(&value, RTA_DATA(pfc), sizeof(value));
	*ret = value.pfc_en;
	return 0;
}

static int ask_pfc(const char *name, uint8_t *ret)
{
	struct {
		struct nlmsghdr header;
		struct dcbmsg message;
		struct rtattr attribute;
		char name[IFNAMSIZ];
	} question = { .header = { .nlmsg_type = RTM_GETDCB, .nlmsg_flags = NLM_F_REQUEST },
		       .message = { .dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET },
		       .attribute = { .rta_type = DCB_ATTR_IFNAME } };
	_Alignas(struct nlmsghdr) char reply[REPLY_BYTES];
	struct timeval limit = { .tv_sec = 1 };
	ssize_t bytes;
	int fd, r;

	if (strlen(name) >= sizeof(question.name))
		return -ENAMETOOLONG;
	memcpy(question.name, name, strlen(name) + 1);
	question.attribute.rta_len = (unsigned short)RTA_LENGTH(strlen(name) + 1);
	question.header.nlmsg_len = (uint32_t)sizeof(question);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	r = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ? -errno : 0;
	if (!r && send(fd, &question, sizeof(question), 0) < 0)
		r = -errno;
	bytes = r ? 0 : recv(fd, reply, sizeof(reply), 0);
	if (!r)
		r = bytes < 0 ? -errno : read_pfc((const struct nlmsghdr *)(const void *)reply, (size_t)bytes, ret);
	close(fd);
	return r;
}

/* -------------------------------------------------------------------------------------------------------------- answer */

static void append(char text[static ANSWER_BYTES], const char *key, const char *value)
{
	size_t used = strlen(text);

	snprintf(text + used, ANSWER_BYTES - used, "%s%s=%s", used ? " " : "", key, value);
}

int discover_ethtool_ask(void *name, char **ret, size_t *ret_bytes)
{
	struct ethtool_pauseparam pause = { .cmd = ETHTOOL_GPAUSEPARAM };
	char text[ANSWER_BYTES] = "", value[16] = "";
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned mbps;
	uint8_t pfc = 0;

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
	if (!ask_pfc(name, &pfc)) {
		for (unsigned i = 0; i < 8; i++)
			value[i] = pfc >> i & 1 ? '1' : '0';
		value[8] = '\0';
		append(text, "pfc", value);
	}
	*ret = strdup(text);
	if (!*ret)
		return -ENOMEM;
	*ret_bytes = strlen(*ret);
	return 0;
}
