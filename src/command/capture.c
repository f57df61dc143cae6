/* `tributary capture`: what discovery reads of this machine, in one archive. */
#include "command/command.h"

#include "command/json.h"
#include "discover/discover.h"

#include <sys/stat.h>

static int run(const struct command_call *call, FILE *out)
{
	const char *path = call->operands[0];
	struct diag diag = { 0 };
	struct stat status;
	long long bytes;
	int r = discover_capture(path, &diag);

	if (r < 0)
		return command_failed(&diag, r, "\"%s\" cannot be written", path);
	bytes = stat(path, &status) ? 0 : (long long)status.st_size;
	if (command_given(call, "json"))
		return json_print(json_pack("{so sI}", "file", json_text(path), "bytes", (json_int_t)bytes), out);
	fprintf(out, "%s: %lld bytes. Every command takes it with --from %s\n", path, bytes, path);
	return COMMAND_OK;
}

const struct command command_capture = {
	.name = "capture",
	.operands = "FILE",
	.help = "pack what discovery reads of this machine into one archive",
	.about = "Serial numbers, network addresses, host names and keys stay out. The archive (.tar, or .tar.gz) is a "
		 "folder "
		 "of plain text files: look at it before you send it.",
	.options = { COMMAND_OPTION_JSON },
	.run = run,
};
