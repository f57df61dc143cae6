/* Settings of the kernel and of this session. */
#include "command/doctor/doctor.h"

#include "base/parse.h"

#include <string.h>

enum { LITTLE_LOCKED_MIB = 64 }; /* systemd's and the kernel's defaults: 8 MiB, 64 KiB */

void doctor_memlock(struct doctor *doctor)
{
	struct doctor_fact fact;
	const char *at = NULL;
	char soft[32];
	uint64_t bytes;

	if (!doctor_next_fact(doctor, "memlock", &at, &fact) || !doctor_fact_value(&fact, "soft", soft, sizeof(soft))) {
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "the limit is not known");
		return;
	}
	if (!strcmp(soft, "unlimited") || parse_u64(soft, 0, UINT64_MAX, &bytes) < 0)
		return;
	doctor_add(doctor, bytes >> 20 <= LITTLE_LOCKED_MIB ? DOCTOR_WARNING : DOCTOR_NOTE, "machine",
		   "at most %llu KiB of locked memory", (unsigned long long)(bytes >> 10));
}

void doctor_numa_balancing(struct doctor *doctor)
{
	char value[32];

	if (!doctor_sysctl(doctor, "kernel.numa_balancing", value, sizeof(value))) {
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "the kernel does not say, or has no such setting");
		return;
	}
	if (strcmp(value, "0") != 0)
		doctor_add(doctor, DOCTOR_WARNING, "kernel.numa_balancing", "is %s", value);
}

void doctor_governor(struct doctor *doctor)
{
	struct doctor_fact fact;
	const char *at = NULL;
	char name[32];
	uint64_t count;
	size_t known = 0;

	while (doctor_next_fact(doctor, "governor", &at, &fact)) {
		doctor_fact_subject(&fact, name, sizeof(name));
		if (!strcmp(name, "unknown") || !doctor_fact_number(&fact, "policies", &count))
			continue;
		known++;
		if (strcmp(name, "performance") != 0)
			doctor_add(doctor, DOCTOR_NOTE, name, "the governor of %llu groups of cores",
				   (unsigned long long)count);
	}
	if (!known)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine",
			   "the kernel does not control the clock, or does not show it");
}
