/* SPDX-License-Identifier: Apache-2.0 */
#include "support/machines.h"

#include "base/log.h"
#include "support/runtime.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *source_folder(void)
{
	const char *source = runtime_setting("SOURCE");

	return source ? source : ".";
}

void machines_of_text(const char *text, struct topology *ret)
{
	struct diag diag = { .text = "" };

	if (topology_read(text, strlen(text), ret, &diag) < 0)
		fail_msg("line %d: %s", diag.line, diag.text);
}

bool machines_load(const char *name, struct topology *ret)
{
	struct diag diag = { .text = "" };
	char path[1024], *text;

	snprintf(path, sizeof(path), "%s/topo/%s/machine.topology", source_folder(), name);
	text = tree_read(path, NULL);
	if (!text)
		return false;
	if (topology_read(text, strlen(text), ret, &diag) < 0)
		fail_msg("%s: line %d: %s", path, diag.line, diag.text);
	free(text);
	return true;
}

unsigned machines_each(void (*visit)(void *arg, const char *name, const struct topology *topology), void *arg)
{
	struct topology topology;
	struct dirent *entry;
	unsigned count = 0;
	char path[1024];
	DIR *folder;

	snprintf(path, sizeof(path), "%s/topo", source_folder());
	folder = opendir(path);
	if (!folder) {
		print_message("skipped: there is no %s\n", path);
		skip();
	}
	while ((entry = readdir(folder))) {
		if (entry->d_name[0] == '.' || !machines_load(entry->d_name, &topology))
			continue;
		visit(arg, entry->d_name, &topology);
		topology_fini(&topology);
		count++;
	}
	closedir(folder);
	return count;
}
