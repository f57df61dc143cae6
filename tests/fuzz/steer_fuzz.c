/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies in the registry, from anybody. The first byte chooses: 'p' and 'd', a process's file and a
 * decision as they are; 'P' and 'D', with right checksums, so that what is behind them is reached; 's', a list of Slurm's;
 * 'u', the kernel's list of sockets. What is taken can be written again and is the same, and no index in it leads astray.
 */
#include "plugin/steer/settings.h"
#include "plugin/steer/elsewhere.h"
#include "plugin/steer/registry.h"
#include "support/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 4096 };

/* A struct's worth of the input, the rest zero. */
static void *padded(const uint8_t *data, size_t bytes, size_t want)
{
	void *ret = calloc(1, want);

	fuzz_must(ret != NULL);
	memcpy(ret, data, bytes < want ? bytes : want);
	return ret;
}

static void process(const uint8_t *data, size_t bytes, bool seal)
{
	struct steer_process_file *file = padded(data, bytes, sizeof(*file)), *ret = malloc(sizeof(*ret));

	fuzz_must(ret != NULL);
	if (seal) {
		steer_process_seal(file);
		for (size_t i = 0; i < STEER_RECORDS; i++)
			steer_record_seal(&file->records[i]);
	}
	if (steer_process_read(file, sizeof(*file), ret) == 0) {
		for (size_t i = 0; i < STEER_RECORDS; i++) {
			const struct steer_record *record = &ret->records[i];

			fuzz_must(!record->used || memchr(record->bus_id, '\0', sizeof(record->bus_id)));
			fuzz_must(steer_reason_text((enum steer_reason)record->reason) != NULL);
		}
		fuzz_must(steer_process_read(ret, sizeof(*ret), file) == 0);
	} else {
		fuzz_must(!seal);
	}
	free(ret);
	free(file);
}

static void check_plan(const struct steer_decision *decision)
{
	const struct plan_request *request = &decision->request;

	fuzz_must(request->gpu_count >= 1 && request->gpu_count <= PLAN_GPUS_MAX &&
		  request->nic_count <= PLAN_NICS_MAX);
	fuzz_must(decision->set.channel_count >= 1 && decision->set.channel_count <= PLAN_CHANNELS_MAX);
	for (size_t i = 0; i < PLAN_PATTERN_COUNT; i++) {
		const struct plan *plan = &decision->set.plans[i];

		for (size_t k = 0; decision->set.has[i] && k < plan->channel_count; k++) {
			uint32_t seen = 0;

			fuzz_must(i == PLAN_DIRECT ? plan->channel_count <= request->gpu_count
						   : plan->channel_count == decision->set.channel_count);
			for (size_t gpu = 0; gpu < request->gpu_count; gpu++)
				seen |= 1u << plan->channels[k].order[gpu];
			fuzz_must(seen == (1u << request->gpu_count) - 1);
			fuzz_must(!request->nic_count || (plan->channels[k].nic_in < request->nic_count &&
							  plan->channels[k].nic_out < request->nic_count));
		}
	}
}

static void decision(const uint8_t *data, size_t bytes, bool seal)
{
	struct steer_decision *file = padded(data, bytes, sizeof(*file)), *ret = malloc(sizeof(*ret));

	fuzz_must(ret != NULL);
	if (seal)
		steer_decision_seal(file);
	if (steer_decision_read(file, sizeof(*file), ret) == 0) {
		fuzz_must(memchr(ret->reason, '\0', sizeof(ret->reason)) != NULL);
		fuzz_must(ret->result == STEER_NCCL_SEARCHES || ret->result == STEER_PLAN);
		if (ret->result == STEER_PLAN)
			check_plan(ret);
		fuzz_must(steer_decision_read(ret, sizeof(*ret), file) == 0);
	}
	fuzz_must(steer_decision_read(file, sizeof(*file) - 1, ret) < 0);
	free(ret);
	free(file);
}

static void text(const uint8_t *data, size_t bytes, bool sockets)
{
	struct steer_elsewhere elsewhere = { .fd = -1, .own = "@tributary.1.2.3.", .job = "@tributary.1." };
	char line[TEXT_MOST + 1];

	bytes = bytes < TEXT_MOST ? bytes : TEXT_MOST;
	memcpy(line, data, bytes);
	line[bytes] = '\0';
	if (sockets) {
		fuzz_must(steer_elsewhere_in_text(&elsewhere, line) <= (strstr(line, "@tributary.1.") != NULL));
		return;
	}
	for (uint32_t node = 0; node < 4; node++)
		fuzz_must(steer_settings_slurm_tasks(line, node) <= 1u << 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (!bytes)
		return 0;
	switch (data[0]) {
	case 'p':
	case 'P':
		process(data + 1, bytes - 1, data[0] == 'P');
		break;
	case 'd':
	case 'D':
		decision(data + 1, bytes - 1, data[0] == 'D');
		break;
	default:
		text(data + 1, bytes - 1, data[0] == 'u');
	}
	return 0;
}
