/* SPDX-License-Identifier: Apache-2.0 */
/* The fabric of `simulate`, `estimate`, `export --graph-json` and `cluster order`, from their options. */
#include "command/simulate/simulation.h"

#include "base/log.h"
#include "base/parse.h"
#include "command/cluster_open.h"
#include "command/cluster_rates.h"
#include "command/command.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <math.h>
#include <string.h>

bool simulation_next_item(const char **rest, char item[static SIMULATION_ITEM_BYTES])
{
	const char *at;
	size_t bytes;

	if (!parse_list_next(rest, ',', &at, &bytes))
		return false;
	if (bytes >= SIMULATION_ITEM_BYTES)
		bytes = SIMULATION_ITEM_BYTES - 1;
	snprintf(item, SIMULATION_ITEM_BYTES, "%.*s", (int)bytes, at);
	return true;
}

static int refused(const struct command_call *call, const char *option, const char *value, const struct diag *diag)
{
	return command_usage_error(call->command->name, "--%s %.100s: %s", option, value, diag->text);
}

static int of_text(const struct command_call *call, const char *text, const char *file_word,
		   struct simulate_fabric *ret)
{
	struct diag diag = { 0 };
	int r;

	if (command_given(call, "exclude"))
		return command_usage_error(call->command->name, "--exclude is for %s", file_word);
	if (command_given(call, "rate"))
		return command_usage_error(call->command->name,
					   "--rate is for cluster files: a made-up cluster has its rate in --fabric");
	r = simulate_fabric_make(text, ret, &diag);
	if (r == -EINVAL)
		return refused(call, "fabric", text, &diag);
	return r < 0 ? command_failed(NULL, r, "the fabric cannot be made") : COMMAND_OK;
}

static int of_file(const struct command_call *call, const char *path, struct simulate_fabric *ret,
		   struct cluster_rates *ret_rates)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };
	int status = command_cluster_open(path, command_value(call, "exclude"), &cluster), r;

	if (status != COMMAND_OK)
		return status;
	status = cluster_rates_fill(call, cluster, ret_rates);
	if (status == COMMAND_OK) {
		r = simulate_fabric_of_cluster(cluster, ret, &diag);
		status = r < 0 ? command_failed(&diag, r, "\"%s\" cannot be used", path) : COMMAND_OK;
	}
	cluster_free(cluster);
	return status;
}

int simulation_base(const struct command_call *call, const char *file, const char *file_word,
		    struct simulate_fabric *ret, struct cluster_rates *ret_rates)
{
	const char *text = command_value(call, "fabric");

	*ret_rates = (struct cluster_rates){ .hosts = 0 };
	if (!file == !text)
		return command_usage_error(call->command->name, "give one cluster: %s or --fabric TEXT", file_word);
	return text ? of_text(call, text, file_word, ret) : of_file(call, file, ret, ret_rates);
}

/* "1,400Gbit/s" */
static int add_aggregators(const struct command_call *call, struct simulate_fabric *fabric)
{
	const char *value = command_value(call, "aggregators"), *rest = value;
	char each[SIMULATION_ITEM_BYTES], rate[SIMULATION_ITEM_BYTES];
	uint64_t count, rate_Bps;
	int r;

	if (!value)
		return COMMAND_OK;
	if (!simulation_next_item(&rest, each) || !simulation_next_item(&rest, rate) || *rest ||
	    parse_u64(each, 1, 64, &count) < 0 || parse_rate(rate, 1, UINT64_C(1000000000000000), &rate_Bps) < 0)
		return command_wrong_value(call, "aggregators",
					   "how many on each leaf and the rate of each with its unit, as 1,400Gbit/s");
	r = simulate_fabric_add_aggregators(fabric, count, (double)rate_Bps);
	return r < 0 ? command_failed(NULL, r, "the aggregators cannot be added") : COMMAND_OK;
}

static int degrade(const struct command_call *call, struct simulate_fabric *fabric)
{
	const char *rest = command_value(call, "degrade");
	char item[SIMULATION_ITEM_BYTES];

	while (rest && simulation_next_item(&rest, item)) {
		struct diag diag = { 0 };

		if (simulate_fabric_degrade(fabric, item, &diag) < 0)
			return refused(call, "degrade", item, &diag);
	}
	return COMMAND_OK;
}

static int scale(const struct command_call *call, struct simulate_fabric *fabric)
{
	uint64_t billionths;

	if (parse_seconds(command_value(call, "payload"), 1000000, 1000000000, &billionths) < 0)
		return command_wrong_value(call, "payload", "a share from 0.001 to 1");
	simulate_fabric_scale(fabric, (double)billionths / 1e9);
	return COMMAND_OK;
}

/*
 * A host that is faster than anything gives times that no network has. An uplink of unknown rate may well be wide enough,
 * so that is only a note.
 */
static int check_rates(const char *path, const struct simulate_fabric *fabric, const struct cluster_rates *rates)
{
	size_t unknown = simulate_fabric_unknown_hosts(fabric);

	if (unknown)
		return command_failed(NULL, 0,
				      "\"%s\" has no rate for %zu of its %zu hosts, so no time can be worked out: give "
				      "--rate RATE, or rate= in the file",
				      path, unknown, fabric->host_count);
	cluster_rates_note(rates, path, "bounds nothing");
	return COMMAND_OK;
}

int simulation_network(const struct command_call *call, struct simulate_fabric *ret)
{
	const char *path = command_value(call, "cluster");
	struct cluster_rates rates;
	int status = simulation_base(call, path, "--cluster FILE", ret, &rates);

	if (status == COMMAND_OK)
		status = add_aggregators(call, ret);
	if (status == COMMAND_OK)
		status = degrade(call, ret);
	if (status == COMMAND_OK)
		status = scale(call, ret);
	return status == COMMAND_OK && path ? check_rates(path, ret, &rates) : status;
}

int simulation_fabric(const struct command_call *call, unsigned gpus, enum simulation_channels whose,
		      struct simulate_fabric *ret)
{
	bool machine = command_given(call, "from") || command_given(call, "profile"),
	     graph = command_given(call, "graph");
	int status = simulation_network(call, ret);

	if (status == COMMAND_OK && graph && !machine)
		return command_usage_error(call->command->name,
					   "--graph has channels of a machine: say which by --from or --profile");
	if (status == COMMAND_OK && machine)
		status = simulation_machine(call, gpus, whose, ret);
	return status;
}
