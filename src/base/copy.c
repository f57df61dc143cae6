/* SPDX-License-Identifier: Apache-2.0 */
#include "base/copy.h"

struct copy_counts copy_counts;
