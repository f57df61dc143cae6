/* SPDX-License-Identifier: Apache-2.0 */
/* What an x86 CPU says that it has, and what the system saves of it. Threads: any. */
#ifndef TRIBUTARY_REDUCE_CPU_H
#define TRIBUTARY_REDUCE_CPU_H

#include "reduce/reduce.h"

struct reduce_cpu {
	uint32_t leaf1_ecx; /* CPUID leaf 1 */
	uint32_t leaf7_ebx; /* leaf 7, subleaf 0; 0 on a CPU without it */
	uint64_t saved; /* XCR0, the registers that are saved when threads change; 0 where the system does not say */
};

/* All 0 on other architectures. */
struct reduce_cpu reduce_cpu_ask(void);
/* Pure. False for what is of no x86, but REDUCE_SCALAR. */
bool reduce_cpu_can(const struct reduce_cpu *cpu, enum reduce_level level);

#endif
