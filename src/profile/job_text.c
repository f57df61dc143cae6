/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/job_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool job_comm_is_same(const struct job_comm *a, const struct job_comm *b)
{
	return a->channels == b->channels && !strcmp(a->gpus, b->gpus) && !strcmp(a->why, b->why);
}

/* Names come from outside. */
static void word_of(const char *text, char ret[static JOB_WORD_BYTES])
{
	size_t bytes = 0;

	for (; bytes < JOB_WORD_BYTES - 1 && text[bytes]; bytes++)
		ret[bytes] = text[bytes] > ' ' && text[bytes] < 0x7f ? text[bytes] : '_';
	if (!bytes)
		ret[bytes++] = '-';
	ret[bytes] = '\0';
}

static const char *or_dash(const char *text)
{
	return text[0] ? text : "-";
}

size_t job_text_process(const struct job_process *process, char text[static JOB_LINE_BYTES])
{
	char host[JOB_WORD_BYTES], command[JOB_WORD_BYTES];

	word_of(process->host, host);
	word_of(process->command, command);
	return (size_t)snprintf(text, JOB_LINE_BYTES,
				"process %s job %s start %" PRId64
				" rank %d size %u network %s host %s command %s why %s\n",
				or_dash(process->process), process->job, process->start_s, process->rank, process->size,
				process->ours ? "ours" : "nccl", host, command, or_dash(process->why));
}

size_t job_text_comm(const struct job_comm *comm, char text[static JOB_LINE_BYTES])
{
	return (size_t)snprintf(text, JOB_LINE_BYTES,
				"comm %s count %" PRIu64 " gpus %s channels %u alone %.2f several %.2f why %s\n",
				comm->last_id, comm->count, comm->gpus, comm->channels, comm->alone_GBps,
				comm->several_GBps, or_dash(comm->why));
}

static void take_why(char why[static JOB_WHY_BYTES])
{
	if (!strcmp(why, "-"))
		why[0] = '\0';
}

bool job_text_read_process(const char *line, struct job_process *ret)
{
	struct job_process process = { .start_s = 0 };
	char network[JOB_WORD_BYTES];

	if (sscanf(line,
		   "process %79s job %16s start %" SCNd64 " rank %d size %u network %64s host %64s command %64s why "
		   "%191[^\n]",
		   process.process, process.job, &process.start_s, &process.rank, &process.size, network, process.host,
		   process.command, process.why) != 9)
		return false;
	process.ours = !strcmp(network, "ours");
	take_why(process.why);
	*ret = process;
	return true;
}

bool job_text_read_comm(const char *line, struct job_comm *ret)
{
	struct job_comm comm;

	if (sscanf(line, "comm %16s count %" SCNu64 " gpus %95s channels %u alone %lf several %lf why %191[^\n]",
		   comm.last_id, &comm.count, comm.gpus, &comm.channels, &comm.alone_GBps, &comm.several_GBps,
		   comm.why) != 7)
		return false;
	take_why(comm.why);
	*ret = comm;
	return true;
}
