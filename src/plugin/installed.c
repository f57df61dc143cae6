/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/installed.h"

#include <dlfcn.h>

/* Left open if it is another one: NCCL opens it next, and few libraries are tested for being closed and opened again. */
bool plugin_another_is_installed(const char *library, const char *symbol)
{
	static const char here;
	void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL), *found;
	Dl_info own, other;

	if (!handle)
		return false;
	found = dlsym(handle, symbol);
	return !found || !dladdr(found, &other) || !dladdr(&here, &own) || own.dli_fbase != other.dli_fbase;
}
