#include "base/copy.h"

struct copy_counts copy_counts;
