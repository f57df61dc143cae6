/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the kernel and of this session, and what stands in the way of plans. */
#include "command/doctor/doctor.h"

#include "base/parse.h"

#include <string.h>

enum { LITTLE_LOCKED_MIB = 64 }; /* systemd's and the kernel's defaults: 8 MiB, 64 KiB */

void doctor_memlock(struct doctor *doctor)
{
	struct doctor_fact fact;
	uint64_t bytes;

	doctor->known = doctor_find_fact(doctor, "memlock", NULL, &fact) && doctor_fact_value(&fact, "soft");
	if (doctor->known && doctor_fact_number(&fact, "soft", &bytes)) /* else "unlimited" */
		doctor_add(doctor, bytes >> 20 <= LITTLE_LOCKED_MIB ? DOCTOR_WARNING : DOCTOR_NOTE, "machine",
			   "at most %llu KiB of locked memory", (unsigned long long)(bytes >> 10));
}

void doctor_numa_balancing(struct doctor *doctor)
{
	struct doctor_fact fact;
	const char *value = doctor_find_fact(doctor, "sysctl", "kernel.numa_balancing", &fact)
				    ? doctor_fact_value(&fact, "value")
				    : NULL;

	doctor->known = value != NULL;
	if (value && strcmp(value, "0") != 0)
		doctor_add(doctor, DOCTOR_WARNING, fact.subject, "is %s", value);
}

void doctor_governor(struct doctor *doctor)
{
	struct doctor_fact fact = { .what = "governor" };
	uint64_t count;

	while (doctor_next_fact(doctor, &fact)) {
		if (!strcmp(fact.subject, "unknown") || !doctor_fact_number(&fact, "policies", &count))
			continue;
		doctor->known++;
		if (strcmp(fact.subject, "performance") != 0)
			doctor_add(doctor, DOCTOR_NOTE, fact.subject, "the governor of %llu groups of cores",
				   (unsigned long long)count);
	}
}

/* obstacles.h, by way of facts: "obstacle NAME SEVERITY text". */
void doctor_plans(struct doctor *doctor)
{
	struct doctor_fact fact = { .what = "obstacle" };

	while (doctor_next_fact(doctor, &fact)) {
		const char *severity = fact.rest + (*fact.rest == ' '), *text = severity + strcspn(severity, " \n");

		doctor->known++; /* also by "obstacle none" */
		if (*text == ' ')
			doctor_add(doctor, !strncmp(severity, "warning", 7) ? DOCTOR_WARNING : DOCTOR_NOTE,
				   fact.subject, "%.*s", (int)strcspn(text + 1, "\n"), text + 1);
	}
}
