/* SPDX-License-Identifier: Apache-2.0 */
#include "support/contract_model.h"

void contract_model_start(struct contract_model *model, struct contract_request *request)
{
	for (unsigned i = 0; i < request->count; i++) {
		const unsigned tag = request->parts[i].tag;

		request->parts[i].number = request->sends ? model->tags[tag].sent++ : model->tags[tag].posted++;
	}
}

bool contract_model_has_met(const struct contract_model *model, const struct contract_request *request, unsigned part)
{
	const unsigned tag = request->parts[part].tag;

	return request->parts[part].number < (request->sends ? model->tags[tag].posted : model->tags[tag].sent);
}

bool contract_model_is_due(const struct contract_model *model, const struct contract_request *request)
{
	for (unsigned i = 0; i < request->count; i++)
		if (!contract_model_has_met(model, request, i))
			return false;
	return true;
}

bool contract_model_would_be_due(const struct contract_model *model, const struct contract_request *request)
{
	struct contract_model after = *model;
	struct contract_request posted = *request;

	contract_model_start(&after, &posted);
	return contract_model_is_due(&after, &posted);
}
