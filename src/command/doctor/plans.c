/* What stands in the way of plans (obstacles.h), which comes as facts: "obstacle NAME SEVERITY text". */
#include "command/doctor/doctor.h"

#include <stdio.h>
#include <string.h>

void doctor_plans(struct doctor *doctor)
{
	struct doctor_fact fact;
	const char *at = NULL;
	bool is_known = false;

	while (doctor_next_fact(doctor, "obstacle", &at, &fact)) {
		char name[64], severity[16];
		int from = 0;

		is_known = true; /* also by "obstacle none" */
		if (sscanf(fact.line, "obstacle %63s %15s %n", name, severity, &from) == 2 && from)
			doctor_add(doctor, !strcmp(severity, "warning") ? DOCTOR_WARNING : DOCTOR_NOTE, name, "%s",
				   fact.line + from);
	}
	if (!is_known)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "the environment of its jobs is not known");
}
