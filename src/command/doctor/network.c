/* Interfaces and TCP. */
#include "command/doctor/doctor.h"

#include "base/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	FAST_MBPS = 25000, /* from here on packets of 1500 bytes cost */
	LARGE_MTU = 4000,
	ROUND_TRIP_US = 1000,  /* under load, in a cluster: queues of switches, and a receiver that wakes up */
	USUAL_RTO_US = 200000, /* the kernel's own TCP_RTO_MIN */
	LONG_RTO_US = 20000,
};

/* Interfaces of NICs in the graph: what containers and bridges add is nobody's business here. */
static bool next_interface(const struct doctor *doctor, const char **at, struct doctor_fact *fact, char *name,
			   size_t name_bytes)
{
	char nic[TOPOLOGY_NAME_BYTES];

	while (doctor_next_fact(doctor, "interface", at, fact)) {
		if (!doctor_fact_value(fact, "nic", nic, sizeof(nic)) || !strcmp(nic, "none"))
			continue;
		doctor_fact_subject(fact, name, name_bytes);
		return true;
	}
	return false;
}

void doctor_nic_speed(struct doctor *doctor)
{
	char name[TOPOLOGY_NAME_BYTES], state[32];
	uint64_t speed, most;
	struct doctor_fact fact;
	const char *at = NULL;
	size_t known = 0;

	while (next_interface(doctor, &at, &fact, name, sizeof(name))) {
		bool down = doctor_fact_value(&fact, "state", state, sizeof(state)) && !strcmp(state, "down");

		if (down)
			doctor_add(doctor, DOCTOR_NOTE, name, "has no link");
		if (down || !doctor_fact_number(&fact, "speed_Mbps", &speed) ||
		    !doctor_fact_number(&fact, "most_Mbps", &most))
			continue;
		known++;
		if (speed < most)
			doctor_add(doctor, DOCTOR_WARNING, name, "%g of %g Gbit/s", (double)speed / 1000,
				   (double)most / 1000);
	}
	if (!known)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "no driver says how fast its NIC could be");
}

void doctor_mtu(struct doctor *doctor)
{
	char name[TOPOLOGY_NAME_BYTES], other[TOPOLOGY_NAME_BYTES] = "";
	uint64_t speed, mtu, other_mtu = 0, other_speed = 0;
	struct doctor_fact fact;
	const char *at = NULL;
	size_t known = 0;

	while (next_interface(doctor, &at, &fact, name, sizeof(name))) {
		if (!doctor_fact_number(&fact, "mtu", &mtu) || !doctor_fact_number(&fact, "speed_Mbps", &speed))
			continue;
		known++;
		if (speed >= FAST_MBPS && mtu < LARGE_MTU)
			doctor_add(doctor, DOCTOR_NOTE, name, "MTU %llu at %g Gbit/s", (unsigned long long)mtu,
				   (double)speed / 1000);
		if (*other && speed == other_speed && mtu != other_mtu)
			doctor_add(doctor, DOCTOR_WARNING, name, "MTU %llu, %s of the same speed has %llu",
				   (unsigned long long)mtu, other, (unsigned long long)other_mtu);
		snprintf(other, sizeof(other), "%s", name);
		other_mtu = mtu;
		other_speed = speed;
	}
	if (!known)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "no interface's MTU and speed are known");
}

/* The last of "4096,131072,6291456". */
static bool greatest_of(struct doctor *doctor, const char *name, uint64_t *ret)
{
	char value[128], *last;

	if (!doctor_sysctl(doctor, name, value, sizeof(value)))
		return false;
	last = strrchr(value, ',');
	return !parse_u64(last ? last + 1 : value, 0, UINT64_MAX, ret);
}

void doctor_tcp_buffers(struct doctor *doctor)
{
	static const char *const names[] = { "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem" };
	const struct topology *topology = doctor->topology;
	uint64_t fastest_Bps = 0, needed, bytes;
	size_t known = 0;

	for (size_t i = 0; i < topology->vertex_count; i++) {
		if (topology->vertices[i].kind == TOPOLOGY_NIC && topology->vertices[i].nic.speed_Bps > fastest_Bps)
			fastest_Bps = topology->vertices[i].nic.speed_Bps;
	}
	needed = fastest_Bps / 1000000 * ROUND_TRIP_US;
	for (size_t i = 0; i < 2; i++) {
		if (!greatest_of(doctor, names[i], &bytes))
			continue;
		known++;
		if (bytes < needed)
			doctor_add(doctor, 4 * bytes < needed ? DOCTOR_WARNING : DOCTOR_NOTE, names[i],
				   "at most %llu KiB for a stream; %g Gbit/s and a round trip of 1 ms need %llu KiB",
				   (unsigned long long)(bytes >> 10), (double)fastest_Bps * 8 / 1e9,
				   (unsigned long long)(needed >> 10));
	}
	if (known < 2 || !fastest_Bps)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine",
			   "the limits of TCP's buffers or the NICs' speeds are not known");
}

void doctor_rto_min(struct doctor *doctor)
{
	uint64_t rto_us = USUAL_RTO_US;

	if (!doctor_has_facts(doctor)) {
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "nothing is known of the kernel's settings");
		return;
	}
	if (!greatest_of(doctor, "net.ipv4.tcp_rto_min_us", &rto_us))
		doctor_add(doctor, DOCTOR_NOTE, "net.ipv4.tcp_rto_min_us",
			   "this kernel has no such setting: 200 ms, unless the route says otherwise");
	else if (rto_us > LONG_RTO_US)
		doctor_add(doctor, DOCTOR_NOTE, "net.ipv4.tcp_rto_min_us", "%llu ms",
			   (unsigned long long)(rto_us / 1000));
}
