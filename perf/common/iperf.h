/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of iperf3 between rank 0 (client, sends) and rank 1 (server), to show what the floor is worth. Both call it.
 * On rank 0 *ret_bps is what was received; 0 where iperf3 is not installed or did not run.
 */
#ifndef TRIBUTARY_PERF_IPERF_H
#define TRIBUTARY_PERF_IPERF_H

#include <stdbool.h>

struct oob;

bool iperf_installed(void);
int iperf_run(struct oob *oob, int seconds, double *ret_bps);

#endif
