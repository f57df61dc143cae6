/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL's own parser (graph/xml.cc) makes of the bytes of a file, where that differs from XML: it knows no
 * declaration, no tabs, no line breaks inside a tag, no text between elements. Pure; the command alone.
 */
#ifndef TRIBUTARY_NCCLXML_READ_SCAN_H
#define TRIBUTARY_NCCLXML_READ_SCAN_H

#include <stddef.h>

/*
 * The line on which NCCL gives up, and why (static text in *ret_reason); 0: it reads the file to its end. on_escape is
 * called for every value, up to there, with an '&' in it: NCCL takes "&amp;" as it is written.
 */
int ncclxml_scan(const char *text, size_t bytes, void (*on_escape)(void *arg, int line), void *arg,
		 const char **ret_reason);

#endif
