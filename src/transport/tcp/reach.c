/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/reach.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum tcp_reach tcp_reach_of(int error, bool connected)
{
	switch (-error) {
	case ENETUNREACH:
	case ENETDOWN:
	case EADDRNOTAVAIL:
		return TCP_REACH_NO_ROUTE;
	case EHOSTUNREACH:
	case EHOSTDOWN:
		return TCP_REACH_NO_HOST;
	case ECONNREFUSED:
		return TCP_REACH_REFUSED;
	case ETIMEDOUT:
		return connected ? TCP_REACH_STOPPED : TCP_REACH_SILENT;
	case ECONNRESET:
	case EPIPE:
		return TCP_REACH_CLOSED;
	default:
		return TCP_REACH_OTHER;
	}
}

static void mtu_reason(const struct tcp_reach_facts *facts, char reason[static TCP_REACH_REASON_BYTES])
{
	char passes[32] = "short ones";

	if (facts->passes_bytes)
		snprintf(passes, sizeof(passes), "those of %u", facts->passes_bytes);
	snprintf(reason, TCP_REACH_REASON_BYTES, "packets of %u bytes vanish on the way, %s pass", facts->packet_bytes,
		 passes);
}

void tcp_reach_reason(enum tcp_reach reach, const struct tcp_reach_facts *facts,
		      char reason[static TCP_REACH_REASON_BYTES])
{
	const size_t bytes = TCP_REACH_REASON_BYTES;
	const char *system = strerror(-facts->error);

	switch (reach) {
	case TCP_REACH_NO_ROUTE:
		snprintf(reason, bytes, "no route leads there (%s)", system);
		break;
	case TCP_REACH_NO_HOST:
		snprintf(reason, bytes, "nobody has that address there, or a router rejects it (%s)", system);
		break;
	case TCP_REACH_SILENT:
		snprintf(reason, bytes, "nothing answers, as a firewall drops packets or the host is down");
		break;
	case TCP_REACH_REFUSED:
		snprintf(reason, bytes, "it is refused, as the process there has ended or a firewall rejects the port");
		break;
	case TCP_REACH_CLOSED:
		snprintf(reason, bytes, "it is closed without an answer, as a proxy does or a process that ends");
		break;
	case TCP_REACH_STOPPED:
		snprintf(reason, bytes, "the connection stands, but its process does not answer");
		break;
	case TCP_REACH_FOREIGN:
		snprintf(reason, bytes, "what answers there does not speak Tributary's protocol");
		break;
	case TCP_REACH_SECRET:
		snprintf(
			reason, bytes,
			"what answers there does not know the secret: another process, or another host with that address");
		break;
	case TCP_REACH_MTU:
		mtu_reason(facts, reason);
		break;
	case TCP_REACH_VERSION:
		snprintf(reason, bytes, "it speaks version %u of Tributary's protocol, this host %u",
			 facts->peers_version, facts->own_version);
		break;
	default:
		snprintf(reason, bytes, "%s", system);
		break;
	}
}

static void ports_remedy(const char *first, const struct tcp_reach_facts *facts,
			 char remedy[static TCP_REACH_REMEDY_BYTES])
{
	if (facts->ports)
		snprintf(remedy, TCP_REACH_REMEDY_BYTES, "%sOpen TCP ports %.20s between the hosts in both directions",
			 first, facts->ports);
	else
		snprintf(
			remedy, TCP_REACH_REMEDY_BYTES,
			"%sOpen TCP ports 1024-65535 between the hosts in both directions, or set TRIBUTARY_PORTS=LOW-HIGH and "
			"open those",
			first);
}

static void mtu_remedy(const struct tcp_reach_facts *facts, char remedy[static TCP_REACH_REMEDY_BYTES])
{
	char most[32] = "what passes";

	if (facts->passes_bytes)
		snprintf(most, sizeof(most), "%u", facts->passes_bytes);
	snprintf(remedy, TCP_REACH_REMEDY_BYTES,
		 "Set the MTU of the switches on the way to %u or more, or that of all hosts' interfaces to %s",
		 facts->packet_bytes, most);
}

void tcp_reach_remedy(enum tcp_reach reach, const struct tcp_reach_facts *facts,
		      char remedy[static TCP_REACH_REMEDY_BYTES])
{
	static const char *const fixed[TCP_REACH_COUNT] = {
		[TCP_REACH_OTHER] = "`tributary check` looks for the cause",
		[TCP_REACH_NO_ROUTE] = "Give the hosts addresses in one network, or add a route",
		[TCP_REACH_NO_HOST] = "Look at cable, VLAN and switch port, and at the peer's address and firewall",
		[TCP_REACH_CLOSED] = "See the log of the process there",
		[TCP_REACH_STOPPED] = "See whether the process there is stopped, and its log",
		[TCP_REACH_FOREIGN] = "Remove the proxy, or let TRIBUTARY_PORTS name free ports",
		[TCP_REACH_SECRET] = "Let TRIBUTARY_IF leave out an address that two hosts have, or see the log of the listening process",
		[TCP_REACH_VERSION] = "Install the same release on both",
	};

	if (reach == TCP_REACH_SILENT)
		ports_remedy("", facts, remedy);
	else if (reach == TCP_REACH_REFUSED)
		ports_remedy("See the log of the process there. ", facts, remedy);
	else if (reach == TCP_REACH_MTU)
		mtu_remedy(facts, remedy);
	else
		snprintf(remedy, TCP_REACH_REMEDY_BYTES, "%s", fixed[reach]);
}

void tcp_reach_line(enum tcp_reach reach, const struct tcp_reach_facts *facts, char line[static TCP_REACH_LINE_BYTES])
{
	char reason[TCP_REACH_REASON_BYTES], remedy[TCP_REACH_REMEDY_BYTES];

	tcp_reach_reason(reach, facts, reason);
	tcp_reach_remedy(reach, facts, remedy);
	snprintf(line, TCP_REACH_LINE_BYTES, "cannot connect from host %.64s to host %.64s at %.80s%s%.16s: %s. %s",
		 facts->own_host, facts->host, facts->at, facts->interface ? " through " : "",
		 facts->interface ? facts->interface : "", reason, remedy);
}
