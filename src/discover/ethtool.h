/* What an interface says by calls alone: its fastest mode, pause frames, flow control and marks of priorities. */
#ifndef TRIBUTARY_DISCOVER_ETHTOOL_H
#define TRIBUTARY_DISCOVER_ETHTOOL_H

#include <stddef.h>

/*
 * Of this machine's interface `name`, one line: "most_Mbps=25000 pause_rx=on pause_tx=off pfc=00010000 trust=dscp
 * dscp=26:3,48:6"; what is not known is left out. pfc has one digit for each priority from 0; trust says what decides a
 * packet's priority, dscp which priority the first DSCPs that are listed have. *ret is malloc'ed; the caller frees it.
 */
int discover_ethtool_ask(void *name, char **ret, size_t *ret_bytes);

#endif
