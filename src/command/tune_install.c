/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary tune --install`: keeps a tuning table on this host. */
#include "command/tune_install.h"

#include "base/params.h"
#include "base/sys.h"
#include "command/command.h"
#include "command/file.h"
#include "command/json.h"
#include "profile/store_tuning.h"

#include <inttypes.h>
#include <stdlib.h>

/* The hash of its text, as it would be written. */
static int hash_of(const struct tuning_table *table, uint64_t *ret)
{
	char *text;
	size_t bytes;
	int r = tuning_print(table, &text, &bytes);

	if (r < 0)
		return command_failed(NULL, -r, "the tuning table has no text");
	*ret = tuning_hash(text, bytes);
	sys_free(text);
	return COMMAND_OK;
}

static int read_table(const char *path, struct tuning_table *ret)
{
	struct diag diag = { 0 };
	size_t bytes;
	char *text;
	int r, status = file_load(path, TUNING_MOST_BYTES, "`tributary tune --measure` makes tuning tables", &text,
				  &bytes);

	if (status != COMMAND_OK)
		return status;
	r = tuning_parse(text, bytes, ret, &diag);
	free(text);
	return r < 0 ? command_failed(&diag, 0, "%s cannot be kept", path) : COMMAND_OK;
}

int tune_install(const struct command_call *call, FILE *out)
{
	struct tuning_table table, known;
	char path[STORE_PATH_BYTES], name[TUNING_HASH_BYTES];
	struct diag diag = { 0 };
	struct params params;
	bool is_new;
	uint64_t hash = 0;
	int status = read_table(command_value(call, "install"), &table);

	if (status == COMMAND_OK)
		status = hash_of(&table, &hash);
	if (status != COMMAND_OK)
		return status;
	command_load_params(&params);
	is_new = store_tuning_load(&params, hash, &known, &diag) < 0;
	diag = (struct diag){ 0 };
	if (store_tuning_save(&params, &table, &hash, path, &diag) < 0)
		return command_failed(&diag, 0, "the tuning table cannot be kept");
	tuning_hash_format(hash, name);
	if (command_given(call, "json"))
		return json_print("tributary-tuning 1",
				  json_pack("{ss ss sb}", "table", name, "file", path, "is_new", is_new), out);
	fprintf(out, "%s: `tributary run --tuning %s` uses it\n", path, name);
	return COMMAND_OK;
}
