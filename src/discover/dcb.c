/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/ask.h"

#include <errno.h>
#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { REPLY_BYTES = 8192 };
/* Of the kernel's enum ieee_attrs (linux/dcbnl.h) since 6.2: which of a packet's marks decide its priority. */
enum { TRUST_TABLE = 11 };

/* The next attribute from *at on, of *bytes that are left; NULL at the end, and where something does not fit. */
static const struct rtattr *next_attribute(const char **at, size_t *bytes)
{
	const struct rtattr *attribute = (const struct rtattr *)(const void *)*at;
	size_t step;

	if (*bytes < sizeof(*attribute) || attribute->rta_len < sizeof(*attribute) || attribute->rta_len > *bytes)
		return NULL;
	step = RTA_ALIGN(attribute->rta_len);
	*at += step < *bytes ? step : *bytes;
	*bytes -= step < *bytes ? step : *bytes;
	return attribute;
}

static unsigned type_of(const struct rtattr *attribute)
{
	return attribute->rta_type & (unsigned)NLA_TYPE_MASK;
}

/* What has an entry for a DSCP trusts it: some drivers say so in no other way. */
static void read_app_table(const struct rtattr *table, struct discover_dcb *ret)
{
	size_t bytes = RTA_PAYLOAD(table);
	const char *at = RTA_DATA(table);
	const struct rtattr *attribute;
	struct dcb_app app;

	while ((attribute = next_attribute(&at, &bytes))) {
		if (type_of(attribute) != DCB_ATTR_IEEE_APP || RTA_PAYLOAD(attribute) < sizeof(app))
			continue;
		memcpy(&app, RTA_DATA(attribute), sizeof(app));
		if (app.selector != IEEE_8021QAZ_APP_SEL_DSCP || app.protocol >= DISCOVER_DSCPS || app.priority > 7)
			continue;
		ret->priority[app.protocol] = app.priority;
		ret->trusts_dscp = true;
	}
}

static void read_trust_table(const struct rtattr *table, struct discover_dcb *ret)
{
	size_t bytes = RTA_PAYLOAD(table);
	const char *at = RTA_DATA(table);
	const struct rtattr *attribute;

	while ((attribute = next_attribute(&at, &bytes)))
		if (RTA_PAYLOAD(attribute) >= 1 && *(const uint8_t *)RTA_DATA(attribute) == IEEE_8021QAZ_APP_SEL_DSCP)
			ret->trusts_dscp = true;
}

static void read_ieee(const struct rtattr *ieee, struct discover_dcb *ret)
{
	size_t bytes = RTA_PAYLOAD(ieee);
	const char *at = RTA_DATA(ieee);
	const struct rtattr *attribute;
	struct ieee_pfc pfc;

	while ((attribute = next_attribute(&at, &bytes))) {
		if (type_of(attribute) == DCB_ATTR_IEEE_PFC && RTA_PAYLOAD(attribute) >= sizeof(pfc)) {
			memcpy(&pfc, RTA_DATA(attribute), sizeof(pfc));
			ret->pfc = pfc.pfc_en;
			ret->has_pfc = true;
		} else if (type_of(attribute) == DCB_ATTR_IEEE_APP_TABLE) {
			read_app_table(attribute, ret);
		} else if (type_of(attribute) == TRUST_TABLE) {
			read_trust_table(attribute, ret);
		}
	}
}

int discover_dcb_read(const void *reply, size_t bytes, struct discover_dcb *ret)
{
	const struct nlmsghdr *header = reply;
	const char *at = (const char *)header + NLMSG_SPACE(sizeof(struct dcbmsg));
	const struct rtattr *attribute;

	if (bytes < sizeof(*header) || header->nlmsg_len > bytes || header->nlmsg_type != RTM_GETDCB ||
	    header->nlmsg_len < NLMSG_SPACE(sizeof(struct dcbmsg)))
		return -EOPNOTSUPP;
	bytes = header->nlmsg_len - NLMSG_SPACE(sizeof(struct dcbmsg));
	memset(ret, 0, sizeof(*ret));
	memset(ret->priority, DISCOVER_NO_PRIORITY, sizeof(ret->priority));
	while ((attribute = next_attribute(&at, &bytes))) {
		if (type_of(attribute) != DCB_ATTR_IEEE)
			continue;
		read_ieee(attribute, ret);
		return 0;
	}
	return -ENODATA;
}

int discover_dcb_ask(const char *name, struct discover_dcb *ret)
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
		r = bytes < 0 ? -errno : discover_dcb_read(reply, (size_t)bytes, ret);
	close(fd);
	return r;
}
