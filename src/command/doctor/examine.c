/* All checks, one after the other. */
#include "command/doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

static size_t count_rdma(const struct topology *topology)
{
	size_t count = 0;

	for (size_t i = 0; i < topology->vertex_count; i++)
		count += topology->vertices[i].kind == TOPOLOGY_NIC && topology->vertices[i].nic.rdma;
	return count;
}

/* Says so where the machine lacks what the check is about. */
static bool applies(struct doctor *doctor)
{
	const struct doctor_check *check = doctor->check;
	const struct topology *topology = doctor->topology;
	const struct {
		unsigned needed;
		size_t count;
		const char *word;
	} needs[] = {
		{ check->needs.nodes, doctor_count(topology, TOPOLOGY_CPU), "NUMA node" },
		{ check->needs.gpus, doctor_count(topology, TOPOLOGY_GPU), "GPU" },
		{ check->needs.nics, doctor_count(topology, TOPOLOGY_NIC), "NIC" },
		{ check->needs.rdma, count_rdma(topology), "RDMA device" },
		{ check->needs.switches, doctor_count(topology, TOPOLOGY_SWITCH), "PCIe switch" },
	};

	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		if (needs[i].count >= needs[i].needed)
			continue;
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "there is %s %s", needs[i].count ? "only one" : "no",
			   needs[i].word);
		return false;
	}
	return true;
}

int doctor_examine(const struct topology *topology, const struct discover_facts *facts, bool from_file,
		   struct doctor_report *ret)
{
	struct doctor doctor = { .topology = topology, .facts = facts, .from_file = from_file };

	for (doctor.check = doctor_checks; doctor.check->word && doctor.result >= 0; doctor.check++) {
		size_t before = doctor.report.count;

		if (applies(&doctor))
			doctor.check->run(&doctor);
		if (doctor.report.count == before)
			doctor_add(&doctor, DOCTOR_GOOD, "machine", "%s", doctor.check->title);
	}
	if (doctor.result < 0) {
		doctor_report_fini(&doctor.report);
		return doctor.result;
	}
	*ret = doctor.report;
	return 0;
}

void doctor_report_fini(struct doctor_report *report)
{
	free(report->at);
	memset(report, 0, sizeof(*report));
}

enum doctor_severity doctor_worst(const struct doctor_report *report)
{
	enum doctor_severity worst = DOCTOR_SKIPPED;

	for (size_t i = 0; i < report->count; i++) {
		if (report->at[i].severity > worst)
			worst = report->at[i].severity;
	}
	return worst;
}
