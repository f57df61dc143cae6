/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file as anybody might hand it to `tributary lint` or `--from`. Whatever is in it, it is refused with a reason, or
 * it becomes a graph that can be written; what was written is a file that NCCL's parser reads, and says the same when
 * it is read and written once more.
 */
#include "ncclmodel/limits.h"
#include "ncclxml/lint.h"
#include "ncclxml/read/scan.h"
#include "ncclxml/topology_xml.h"
#include "support/fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void lint(const char *text, size_t bytes, const struct topology *measured)
{
	struct lint_findings findings;
	struct diag diag = { .text = "" };
	int r;

	r = lint_topology_xml(text, bytes, measured, &findings, &diag);
	if (r < 0) {
		fuzz_must(r == -EINVAL && diag.text[0]);
		return;
	}
	for (size_t i = 0; i < findings.count; i++) {
		const struct lint_finding *finding = &findings.at[i];

		fuzz_must(finding->line >= 1 && finding->severity < LINT_SEVERITY_COUNT && finding->check[0]);
		fuzz_must(memchr(finding->text, '\0', sizeof(finding->text)) && finding->text[0] && finding->remedy[0]);
		fuzz_must(!i || findings.at[i - 1].line <= finding->line);
	}
	lint_findings_fini(&findings);
}

static char *write_one(const struct topology *topology, enum topology_xml_sockets sockets,
		       enum topology_class p2p_farthest, size_t *ret_bytes)
{
	const struct topology_xml_shape shape = { .sockets = sockets, .bridges = true, .p2p_farthest = p2p_farthest };
	struct topology_xml_report report;
	struct diag diag = { .text = "" };
	const char *reason;
	char *text;
	int r;

	r = topology_xml_write(topology, &shape, &text, ret_bytes, &report, &diag);
	if (r < 0) {
		fuzz_must((r == -EINVAL || r == -E2BIG) && diag.text[0]);
		return NULL;
	}
	fuzz_must(strlen(text) == *ret_bytes && report.node_count <= NCCLMODEL_NODE_MAX && report.worst_error_Bps >= 0);
	fuzz_must(ncclxml_scan(text, *ret_bytes, fuzz_no_escape, NULL, &reason) == 0);
	return text;
}

/*
 * Only the GPUs' NVLinks may add up to more than the reader takes for one pair. Of a bus id that is there twice the first
 * has the links, and which is the first depends on the order, which the writer changes.
 */
static void again(const char *text, size_t bytes)
{
	struct diag diag = { .text = "" };
	struct topology topology;
	size_t second_bytes;
	bool twice;
	char *second;

	if (topology_xml_read(text, bytes, &topology, &diag) != 0) {
		fuzz_must(strstr(diag.text, "count \"") != NULL);
		return;
	}
	twice = strstr(diag.text, "is there twice") != NULL;
	second = write_one(&topology, TOPOLOGY_XML_SOCKETS_CPUS, TOPOLOGY_CLASS_PXB, &second_bytes);
	fuzz_must(twice || (second && second_bytes == bytes && !memcmp(second, text, bytes)));
	free(second);
	topology_fini(&topology);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct diag diag = { .text = "" };
	struct topology topology;
	size_t text_bytes;
	char *text;
	int r;

	lint((const char *)data, bytes, NULL);
	r = topology_xml_read((const char *)data, bytes, &topology, &diag);
	if (r < 0) {
		fuzz_must(r == -EINVAL && diag.text[0] && !topology.vertex_count);
		return 0;
	}
	lint((const char *)data, bytes, &topology);
	text = write_one(&topology, TOPOLOGY_XML_SOCKETS_CPUS, TOPOLOGY_CLASS_PXB, &text_bytes);
	if (text)
		again(text, text_bytes);
	free(text);
	free(write_one(&topology, TOPOLOGY_XML_SOCKETS_SWITCHES, TOPOLOGY_CLASS_PXB, &text_bytes));
	free(write_one(&topology, TOPOLOGY_XML_SOCKETS_AUTO, TOPOLOGY_CLASS_PHB, &text_bytes));
	topology_fini(&topology);
	return 0;
}
