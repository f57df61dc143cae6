/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that NCCL finds without being told, by names of its own. Any thread. */
#ifndef TRIBUTARY_PLUGIN_INSTALLED_H
#define TRIBUTARY_PLUGIN_INSTALLED_H

#include <stdbool.h>

/* Whether the loader finds such a library, and it is not this one; symbol: that this one has. */
bool plugin_another_is_installed(const char *library, const char *symbol);

#endif
