/* SPDX-License-Identifier: Apache-2.0 */
#include "reduce/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Bits of the Intel 64 manual, volume 2, CPUID; volume 1, chapter 13 for XCR0. */
enum {
	LEAF1_ECX_OSXSAVE = 1 << 27,
	LEAF1_ECX_AVX = 1 << 28,
	LEAF1_ECX_F16C = 1 << 29,
	LEAF7_EBX_AVX2 = 1 << 5,
	LEAF7_EBX_AVX512F = 1 << 16,
	LEAF7_EBX_AVX512DQ = 1 << 17,
	LEAF7_EBX_AVX512BW = 1 << 30,
};
#define LEAF7_EBX_AVX512VL (1U << 31)

enum {
	SAVED_XMM = 1 << 1,
	SAVED_YMM = 1 << 2,
	SAVED_MASKS = 1 << 5,
	SAVED_ZMM_UPPER = 1 << 6,
	SAVED_ZMM_16_TO_31 = 1 << 7,
};

#define AVX_LEAF1 ((uint32_t)(LEAF1_ECX_OSXSAVE | LEAF1_ECX_AVX | LEAF1_ECX_F16C))
#define AVX512_LEAF7 \
	((uint32_t)(LEAF7_EBX_AVX2 | LEAF7_EBX_AVX512F | LEAF7_EBX_AVX512DQ | LEAF7_EBX_AVX512BW) | LEAF7_EBX_AVX512VL)
#define AVX_SAVED    ((uint64_t)(SAVED_XMM | SAVED_YMM))
#define AVX512_SAVED (AVX_SAVED | (uint64_t)(SAVED_MASKS | SAVED_ZMM_UPPER | SAVED_ZMM_16_TO_31))

static bool has(const struct reduce_cpu *cpu, uint32_t leaf7, uint64_t saved)
{
	return (cpu->leaf1_ecx & AVX_LEAF1) == AVX_LEAF1 && (cpu->leaf7_ebx & leaf7) == leaf7 &&
	       (cpu->saved & saved) == saved;
}

bool reduce_cpu_can(const struct reduce_cpu *cpu, enum reduce_level level)
{
	switch (level) {
	case REDUCE_SCALAR:
		return true;
	case REDUCE_AVX2:
		return has(cpu, LEAF7_EBX_AVX2, AVX_SAVED);
	case REDUCE_AVX512:
		return has(cpu, AVX512_LEAF7, AVX512_SAVED);
	default:
		return false;
	}
}

struct reduce_cpu reduce_cpu_ask(void)
{
	struct reduce_cpu cpu = { 0, 0, 0 };
#if defined(__x86_64__)
	uint32_t eax, ebx, ecx, edx, low, high;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx))
		return cpu;
	cpu.leaf1_ecx = ecx;
	if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
		cpu.leaf7_ebx = ebx;
	if (cpu.leaf1_ecx & LEAF1_ECX_OSXSAVE) {
		/* xgetbv without an intrinsic: that would need the whole object to be compiled for XSAVE. */
		__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
		cpu.saved = (uint64_t)high << 32 | low;
	}
#endif
	return cpu;
}
