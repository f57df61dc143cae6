/* SPDX-License-Identifier: Apache-2.0 */
/* What tells the other processes the version of the library, with another version. */
#undef TRIBUTARY_VERSION
#define TRIBUTARY_VERSION "another"
#include "plugin/steer/machine.c"
