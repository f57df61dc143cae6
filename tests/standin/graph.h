/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph file, read strictly: <graphs version="1">, in it <graph …> elements with <channel>s of <net dev="N"/> and
 * <gpu dev="0xN"/>, separated by nothing but blanks and ends of lines. It shares no code with the library. Pure.
 */
#ifndef TESTS_STANDIN_GRAPH_H
#define TESTS_STANDIN_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GRAPH_WHY_BYTES = 120 };

/* gpus: bit N: NVML's index N. Whether every channel of the file has each of these once and no other. */
bool graph_fits(const char *text, size_t bytes, uint32_t gpus, char why[static GRAPH_WHY_BYTES]);
uint64_t graph_hash(const char *text, size_t bytes);

#endif
