#ifndef TRIBUTARY_TESTS_SUPPORT_SANITIZED_H
#define TRIBUTARY_TESTS_SUPPORT_SANITIZED_H

#include <stdbool.h>

/* Built with AddressSanitizer or ThreadSanitizer: memory counts mean nothing and everything is slower. */
bool runtime_sanitized(void);

#endif
