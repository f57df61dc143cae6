/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces and TCP. */
#include "command/doctor/doctor.h"

#include "base/parse.h"
#include "command/print/units.h"

#include <stdio.h>
#include <string.h>

enum {
	FAST_MBPS = 25000, /* from here on packets of 1500 bytes cost */
	LARGE_MTU = 4000,
	ROUND_TRIP_US = 1000,  /* under load, in a cluster: queues of switches, and a receiver that wakes up */
	USUAL_RTO_US = 200000, /* the kernel's own TCP_RTO_MIN */
	LONG_RTO_US = 20000,
};

/* Interfaces of NICs in the graph: what containers and bridges add is nobody's business here. */
static bool next_interface(const struct doctor *doctor, struct doctor_fact *fact)
{
	fact->what = "interface";
	while (doctor_next_fact(doctor, fact))
		if (doctor_fact_value(fact, "nic") && !doctor_fact_is(fact, "nic", "none"))
			return true;
	return false;
}

void doctor_nic_speed(struct doctor *doctor)
{
	struct doctor_fact fact = { .what = NULL };
	char is[UNITS_BYTES], could[UNITS_BYTES];
	uint64_t speed, most;

	while (next_interface(doctor, &fact)) {
		bool down = doctor_fact_is(&fact, "state", "down");

		if (down)
			doctor_add(doctor, DOCTOR_NOTE, fact.subject, "has no link");
		if (down || !doctor_fact_number(&fact, "speed_Mbps", &speed) ||
		    !doctor_fact_number(&fact, "most_Mbps", &most))
			continue;
		doctor->known++;
		if (speed < most)
			doctor_add(doctor, DOCTOR_WARNING, fact.subject, "%s of %s",
				   units_bits((double)speed * 125000, is), units_bits((double)most * 125000, could));
	}
}

void doctor_mtu(struct doctor *doctor)
{
	uint64_t speed, mtu, other_mtu = 0, other_speed = 0;
	struct doctor_fact fact = { .what = NULL };
	char other[TOPOLOGY_NAME_BYTES] = "", at[UNITS_BYTES];

	while (next_interface(doctor, &fact)) {
		if (!doctor_fact_number(&fact, "mtu", &mtu) || !doctor_fact_number(&fact, "speed_Mbps", &speed))
			continue;
		doctor->known++;
		if (speed >= FAST_MBPS && mtu < LARGE_MTU)
			doctor_add(doctor, DOCTOR_NOTE, fact.subject, "MTU %llu at %s", (unsigned long long)mtu,
				   units_bits((double)speed * 125000, at));
		if (*other && speed == other_speed && mtu != other_mtu)
			doctor_add(doctor, DOCTOR_WARNING, fact.subject, "MTU %llu, %s of the same speed has %llu",
				   (unsigned long long)mtu, other, (unsigned long long)other_mtu);
		snprintf(other, sizeof(other), "%s", fact.subject);
		other_mtu = mtu;
		other_speed = speed;
	}
}

/* The last of "4096,131072,6291456". */
static bool greatest_of(const struct doctor *doctor, const char *name, uint64_t *ret)
{
	struct doctor_fact fact;
	const char *value = doctor_find_fact(doctor, "sysctl", name, &fact) ? doctor_fact_value(&fact, "value") : NULL;
	const char *last = value ? strrchr(value, ',') : NULL;

	return value && !parse_u64(last ? last + 1 : value, 0, UINT64_MAX, ret);
}

void doctor_tcp_buffers(struct doctor *doctor)
{
	static const char *const names[] = { "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem" };
	const struct topology *topology = doctor->topology;
	uint64_t fastest_Bps = 0, needed, bytes;
	char has[UNITS_BYTES], at[UNITS_BYTES], needs[UNITS_BYTES];
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
				   "at most %s for a stream; %s and a round trip of 1 ms need %s",
				   units_size((double)bytes, has), units_bits((double)fastest_Bps, at),
				   units_size((double)needed, needs));
	}
	doctor->known = known == 2 && fastest_Bps;
}

void doctor_rto_min(struct doctor *doctor)
{
	uint64_t rto_us = USUAL_RTO_US;

	doctor->known = doctor_has_facts(doctor);
	if (doctor->known && !greatest_of(doctor, "net.ipv4.tcp_rto_min_us", &rto_us))
		doctor_add(doctor, DOCTOR_NOTE, "net.ipv4.tcp_rto_min_us",
			   "this kernel has no such setting: 200 ms, unless the route says otherwise");
	else if (doctor->known && rto_us > LONG_RTO_US)
		doctor_add(doctor, DOCTOR_NOTE, "net.ipv4.tcp_rto_min_us", "%llu ms",
			   (unsigned long long)(rto_us / 1000));
}
