/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/library.h"

#include "base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* dlerror has no codes, and its texts are not translated unless the program asked for a locale. */
static bool is_not_there(const char *reason, const char *file)
{
	return !strncmp(reason, file, strlen(file)) && strstr(reason, "No such file or directory");
}

static int symbols_take(void *handle, const char *file, const struct gpu_library_symbol *symbols, size_t symbol_count,
			void *table, struct diag *diag)
{
	for (size_t i = 0; i < symbol_count; i++) {
		void *address = dlsym(handle, symbols[i].name);

		if (!address && symbols[i].must_have) {
			diag_set(diag, 0, 0, "%s has no %s: the driver is too old", file, symbols[i].name);
			return -ENOSYS;
		}
		/* C has no conversion between pointers to objects and to functions; POSIX gives both one form. */
		memcpy((char *)table + symbols[i].offset, &address, sizeof(address));
	}
	return 0;
}

int gpu_library_open(const char *file, const char *what_it_means, const struct gpu_library_symbol *symbols,
		     size_t symbol_count, void *table, struct diag *diag)
{
	int saved_errno = errno, r = -ENODEV;
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (handle) {
		r = symbols_take(handle, file, symbols, symbol_count, table, diag);
		if (r < 0)
			dlclose(handle);
	} else {
		const char *reason = dlerror();

		if (!reason || is_not_there(reason, file))
			diag_set(diag, 0, 0, "%s is not there: %s", file, what_it_means);
		else
			diag_set(diag, 0, 0, "%s cannot be loaded: %s", file, reason);
	}
	errno = saved_errno;
	return r;
}
