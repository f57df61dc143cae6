/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reference model of NCCL's net contract, without time, memory or transport: for each tag the nth message meets the nth
 * posted receive, in the order of posting at each end. Nothing else is related, so a message that nobody waits for, and
 * a receive that nobody sends to, delay their own tag alone. Pure; one thread at a time.
 */
#ifndef TESTS_SUPPORT_CONTRACT_MODEL_H
#define TESTS_SUPPORT_CONTRACT_MODEL_H

#include "transport/transport.h"

enum { CONTRACT_TAGS = 8 };

struct contract_model {
	struct {
		uint64_t sent, posted;
	} tags[CONTRACT_TAGS];
};

/* A send has one part; a group of receives has one for each of its tags. `number` counts the messages of the tag. */
struct contract_request {
	bool sends;
	unsigned count;
	struct {
		unsigned tag;
		uint64_t number;
	} parts[TRANSPORT_MAX_RECVS];
};

/* The transport has taken the request, whose end, count and tags are set: numbers its parts. */
void contract_model_start(struct contract_model *model, struct contract_request *request);
/* Both ends have posted this part. */
bool contract_model_has_met(const struct contract_model *model, const struct contract_request *request, unsigned part);
/* All of its parts have met: it completes whatever else is outstanding. */
bool contract_model_is_due(const struct contract_model *model, const struct contract_request *request);
/* It would be due as soon as it is posted, so the transport must take it while fewer than its most are outstanding. */
bool contract_model_would_be_due(const struct contract_model *model, const struct contract_request *request);

#endif
