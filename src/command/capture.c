/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary capture`: what discovery reads of this machine, in one archive. */
#include "command/command.h"

#include "command/file.h"
#include "command/json.h"
#include "discover/discover.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of what is written: a name without a dot says nothing else, either. */
static bool has_right_suffix(const char *path)
{
	static const char *const suffixes[] = { ".tar.gz", ".tgz", ".tar" };
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct stat status;

	if (!strchr(name, '.') || (stat(path, &status) == 0 && !S_ISREG(status.st_mode)))
		return true;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (strlen(name) > strlen(suffixes[i]) &&
		    !strcmp(name + strlen(name) - strlen(suffixes[i]), suffixes[i]))
			return true;
	return false;
}

static bool is_plain_tar(const char *path)
{
	size_t bytes = strlen(path);

	return bytes >= 4 && !strcmp(path + bytes - 4, ".tar");
}

static int run(const struct command_call *call, FILE *out)
{
	const char *path = call->operands[0];
	bool standard = !strcmp(path, "-");
	struct diag diag = { 0 };
	char *archive = NULL;
	size_t bytes = 0;
	FILE *memory;
	int r, status;

	if (standard && command_given(call, "json"))
		return command_usage_error("capture", "only one of JSON and archive can go to standard output");
	if (standard && isatty(STDOUT_FILENO))
		return command_usage_error("capture", "an archive is not for a terminal: give a FILE, or a pipe");
	if (!standard && !has_right_suffix(path))
		return command_usage_error(
			"capture", "\"%s\" would not be what its name says: give FILE.tar.gz, FILE.tgz or FILE.tar",
			path);
	if (file_check_put(path) != COMMAND_OK)
		return COMMAND_FAILED;
	memory = open_memstream(&archive, &bytes);
	r = memory ? discover_capture(!is_plain_tar(path), memory, &diag) : -ENOMEM;
	if (memory && fclose(memory) && r >= 0)
		r = -ENOMEM;
	if (r < 0)
		status = command_failed(&diag, r, "this machine cannot be captured");
	else
		status = file_put(path, archive, bytes, out);
	free(archive);
	if (standard || status != COMMAND_OK)
		return status;
	if (command_given(call, "json"))
		return json_print("tributary-capture 1",
				  json_pack("{so sI}", "file", json_text(path), "bytes", (json_int_t)bytes), out);
	fprintf(out, "%s: %zu bytes. Every command takes it with --from %s\n", path, bytes, path);
	return COMMAND_OK;
}

const struct command command_capture = {
	.name = "capture",
	.group = COMMAND_FILES,
	.operands = "FILE",
	.help = "pack what discovery reads of this machine into one archive",
	.about =
		"Serial numbers, network addresses, host names and keys stay out. The archive is a folder "
		"of plain text files: look at it before you send it. FILE ends in .tar.gz, .tgz or .tar, and is packed "
		"accordingly; - is standard output.",
	.options = { COMMAND_OPTION_JSON },
	.example = "tributary capture machine.tar.gz",
	.run = run,
};
