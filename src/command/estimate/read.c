/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a model and a system: those of the published model, and one more form of a model. */
#include "command/estimate/estimation.h"

#include "base/log.h"
#include "base/parse.h"
#include "command/command.h"
#include "command/file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 1 << 20, WHERE_BYTES = 256 };
#define MOST 1e18

/* Numbers of an object. The first that is missing or out of range is said, once. */
struct reader {
	const char *path;
	const json_t *object;
	int status;
};

static double number(struct reader *reader, const char *key, double least, double most)
{
	const json_t *value = json_object_get(reader->object, key);
	double is = json_number_value(value);

	if (reader->status != COMMAND_OK)
		return least;
	if (!json_is_number(value))
		reader->status = command_failed(NULL, 0, "%s: the number \"%s\" %s", reader->path, key,
						value ? "is no number" : "is missing");
	else if (!(is >= least && is <= most))
		reader->status = command_failed(NULL, 0, "%s: \"%s\" is %g, expected %g to %g", reader->path, key, is,
						least, most);
	return reader->status == COMMAND_OK ? is : least;
}

static double whole(struct reader *reader, const char *key, double least, double most)
{
	double is = number(reader, key, least, most);

	if (reader->status == COMMAND_OK && is != floor(is))
		reader->status = command_failed(NULL, 0, "%s: \"%s\" is %g, expected a whole number", reader->path, key,
						is);
	return is;
}

static double number_or(struct reader *reader, const char *key, double otherwise, double most)
{
	return json_object_get(reader->object, key) ? number(reader, key, 0, most) : otherwise;
}

static void take_name(const struct reader *reader, const char *otherwise, char name[static ESTIMATION_NAME_BYTES])
{
	const char *is = json_string_value(json_object_get(reader->object, "name"));

	snprintf(name, ESTIMATION_NAME_BYTES, "%.60s", is ? is : otherwise);
}

static int load(const char *path, json_t **ret)
{
	json_error_t error;
	size_t bytes;
	char *text;
	int status = file_load(path, FILE_BYTES, NULL, &text, &bytes);

	if (status != COMMAND_OK)
		return status;
	*ret = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	free(text);
	if (!*ret)
		return command_failed(NULL, 0, "%s:%d:%d: %s", path, error.line, error.column, error.text);
	if (json_is_object(*ret))
		return COMMAND_OK;
	json_decref(*ret);
	*ret = NULL;
	return command_failed(NULL, 0, "%s: not one JSON object", path);
}

/* -------------------------------------------------------------------------------------------------------------- system */

int estimation_read_system(const char *path, struct estimation_system *ret)
{
	struct reader reader = { .path = path };
	struct step_system *rates = &ret->rates;
	double flops_util, devices;
	json_t *json = NULL;
	int status = load(path, &json);

	if (status != COMMAND_OK)
		return status;
	reader.object = json;
	devices = whole(&reader, "num_devices", 1, 1e6);
	rates->hosts = (size_t)whole(&reader, "num_nodes", 1, devices);
	rates->devices = (size_t)devices;
	flops_util = number(&reader, "flops_util", 1e-6, 1);
	ret->f32_flops = number(&reader, "f32_flops", 1, MOST) * flops_util;
	ret->f16_flops = number(&reader, "f16_flops", 1, MOST) * flops_util;
	ret->memory_Bps = number(&reader, "mem_bw", 1, MOST) * number(&reader, "mem_bw_util", 1e-6, 1);
	rates->link_Bps = number(&reader, "num_nvlinks", 0, 1024) * number(&reader, "bw_per_nvlink", 0, MOST);
	rates->link_utilisation = number(&reader, "nvlink_util", 0, 1);
	rates->ports = number(&reader, "num_ibroce_ports", 0, 1024);
	rates->port_Bps = number(&reader, "ibroce_bw", 0, MOST);
	rates->port_utilisation = number(&reader, "ibroce_util", 0, 1);
	rates->intra_share = number(&reader, "ar_perc_intra", 0, 1);
	if (reader.status == COMMAND_OK && rates->devices % rates->hosts)
		reader.status = command_failed(NULL, 0, "%s: num_devices is no multiple of num_nodes", path);
	if (reader.status == COMMAND_OK && rates->devices > rates->hosts &&
	    rates->link_Bps * rates->link_utilisation <= 0)
		reader.status = command_failed(NULL, 0, "%s: devices of one host have no link", path);
	json_decref(json);
	return reader.status;
}

/* What each device is given: the options. */
struct task {
	enum step_parallel parallel;
	size_t tensor;
	double batch; /* samples */
};

static int read_task(const struct command_call *call, struct task *ret)
{
	const char *word = command_value(call, "parallel");
	uint64_t samples = 0, tensor = 1;

	if (!strcmp(word, "ddp"))
		ret->parallel = STEP_DDP;
	else if (!strcmp(word, "fsdp"))
		ret->parallel = STEP_FSDP;
	else if (!strncmp(word, "tp:", 3) && parse_u64(word + 3, 2, 64, &tensor) == 0)
		ret->parallel = STEP_TENSOR;
	else
		return command_wrong_value(call, "parallel", "ddp, fsdp or tp:N");
	if (command_number(call, "batch", 1, 1000000000, &samples) != COMMAND_OK)
		return COMMAND_USAGE;
	ret->batch = (double)samples;
	ret->tensor = tensor;
	return COMMAND_OK;
}

/* -------------------------------------------------------------------------------------------------------------- models */

static struct estimation_layers layers_of(const char *name, double count, const struct task *task)
{
	struct estimation_layers layers = { .count = (size_t)count, .parallel = task->parallel };

	snprintf(layers.name, sizeof(layers.name), "%.60s", name);
	return layers;
}

static double flops_for(const struct estimation_system *system, double bytes_each)
{
	return bytes_each > 2 ? system->f32_flops : system->f16_flops;
}

/* Tables spread over all devices; layers below them, beside their exchange, and above. */
static void read_recommendation(struct reader *reader, const struct estimation_system *system, const struct task *task,
				struct estimation_model *model)
{
	double each = number(reader, "bytes_per_nonemb_param", 1, 8), row = number(reader, "bytes_per_emb_param", 1, 8);
	double width = number(reader, "mlp_dim", 1, 1e6), tables = number(reader, "num_tables", 1, 1e6);
	double row_bytes = number(reader, "emb_dim", 1, 1e6) * row;
	double pooled = number(reader, "pooling_size", 1, 1e6);
	double counts[2] = { whole(reader, "num_bot_mlp_layers", 1, 1e6), whole(reader, "num_top_mlp_layers", 1, 1e6) };

	for (int top = 0; top < 2; top++) {
		struct estimation_layers layers = layers_of(top ? "top" : "bottom", counts[top], task);

		layers.beside = !top;
		layers.parameter_bytes = width * width * each;
		layers.forward_flop = 2 * width * width * task->batch;
		layers.flop_s = flops_for(system, each);
		layers.activation_bytes = width * each * task->batch;
		model->layers[model->layer_count++] = layers;
	}
	model->lookup_bytes = tables * row_bytes * pooled * task->batch;
	model->exchange_bytes = tables * row_bytes * task->batch;
	model->published_exchange_bytes = 2 * model->lookup_bytes / (double)system->rates.devices;
}

/* Attention of 4 d² parameters, a feed-forward part of so many matrices (2 if it is not said) of d × its width. */
static void read_transformer(struct reader *reader, const struct estimation_system *system, const struct task *task,
			     struct estimation_model *model)
{
	double each = number(reader, "bytes_per_nonemb_param", 1, 8), width = number(reader, "attention_dim", 1, 1e6);
	double inner = number(reader, "transformer_fc_dim", 1, 1e7),
	       length = number(reader, "transformer_seq_len", 1, 1e9);
	double matrices = number_or(reader, "transformer_fc_matrices", 2, 8), tokens = length * task->batch;
	double parameters = 4 * width * width + matrices * width * inner;
	struct estimation_layers layers = layers_of("transformer", whole(reader, "num_transformer_layers", 1, 1e6),
						    task);

	layers.parameter_bytes = parameters * each;
	layers.forward_flop = (2 * parameters + 4 * length * width) * tokens;
	layers.flop_s = flops_for(system, each);
	layers.activation_bytes = 2 * tokens * width * each;
	layers.output_bytes = tokens * width * each;
	model->layers[model->layer_count++] = layers;
}

/* Our own form: any layers after each other. */
static void read_layers(struct reader *reader, const struct estimation_system *system, const struct task *task,
			struct estimation_model *model)
{
	const json_t *list = json_object_get(reader->object, "layers"), *one;
	size_t i;

	if (reader->status == COMMAND_OK && (!json_array_size(list) || json_array_size(list) > ESTIMATION_LAYERS_MAX))
		reader->status = command_failed(NULL, 0, "%s: \"layers\" is not a list of 1 to %d", reader->path,
						ESTIMATION_LAYERS_MAX);
	if (reader->status != COMMAND_OK)
		return;
	json_array_foreach(list, i, one)
	{
		char where[WHERE_BYTES];
		struct reader inner = { .path = where, .object = one };
		struct estimation_layers layers;
		double each;

		snprintf(where, sizeof(where), "%.200s: layers[%zu]", reader->path, i);
		each = number_or(&inner, "bytes_per_parameter", 2, 8);
		layers = layers_of("", json_object_get(one, "count") ? whole(&inner, "count", 1, 1e6) : 1, task);

		take_name(&inner, "layers", layers.name);
		layers.parameter_bytes = number(&inner, "parameters", 0, MOST) * each;
		layers.forward_flop = number(&inner, "flops_per_sample", 0, MOST) * task->batch;
		layers.flop_s = flops_for(system, each);
		layers.activation_bytes = number_or(&inner, "activation_bytes_per_sample", 0, MOST) * task->batch;
		layers.output_bytes = json_object_get(one, "output_bytes_per_sample")
					      ? number(&inner, "output_bytes_per_sample", 0, MOST) * task->batch
					      : layers.activation_bytes;
		if (layers.parameter_bytes <= 0)
			layers.parallel = STEP_NONE;
		model->layers[model->layer_count++] = layers;
		if (inner.status != COMMAND_OK)
			reader->status = inner.status;
		if (reader->status != COMMAND_OK)
			return;
	}
}

/* What a pipeline cannot be made of is refused: nothing here says what it would take. */
static int read_pipeline(const struct command_call *call, const struct task *task, struct estimation_model *ret)
{
	uint64_t count = 1, batches = 1;

	if (command_number(call, "pipeline", 1, STEP_STAGES_MAX, &count) != COMMAND_OK ||
	    command_number(call, "micro-batches", 1, STEP_MICRO_BATCHES_MAX, &batches) != COMMAND_OK)
		return COMMAND_USAGE;
	if (count == 1 && batches > 1)
		return command_usage_error("estimate", "--micro-batches is for --pipeline");
	if (count > 1 && task->parallel == STEP_FSDP)
		return command_usage_error("estimate", "--pipeline goes with ddp or tp:N, not with fsdp");
	if (fmod(task->batch, (double)batches) > 0)
		return command_usage_error("estimate", "a batch of %g cannot be cut in %u micro-batches", task->batch,
					   (unsigned)batches);
	ret->stages = (size_t)count;
	ret->micro_batches = (size_t)batches;
	return COMMAND_OK;
}

int estimation_read_model(const struct command_call *call, const char *path, const struct estimation_system *system,
			  struct estimation_model *ret)
{
	const char *type;
	struct reader reader = { .path = path };
	struct task task = { .tensor = 1 };
	json_t *json = NULL;
	int status = load(path, &json);

	if (status != COMMAND_OK)
		return status;
	reader.object = json;
	type = json_string_value(json_object_get(json, "type"));
	type = type ? type : "";
	take_name(&reader, "model", ret->name);
	status = read_task(call, &task);
	ret->tensor = task.tensor;
	if (status == COMMAND_OK)
		status = read_pipeline(call, &task, ret);
	if (status == COMMAND_OK && ret->stages > 1 && !strcmp(type, "DLRM"))
		status = command_failed(NULL, 0, "%s: tables and their exchange cannot be cut in stages", path);
	if (status != COMMAND_OK)
		reader.status = status;
	else if (!strcmp(type, "DLRM"))
		read_recommendation(&reader, system, &task, ret);
	else if (!strcmp(type, "LLM"))
		read_transformer(&reader, system, &task, ret);
	else if (!strcmp(type, "layers"))
		read_layers(&reader, system, &task, ret);
	else
		reader.status = command_failed(NULL, 0, "%s: \"type\" is \"%.40s\", expected DLRM, LLM or layers", path,
					       type);
	json_decref(json);
	return reader.status;
}
