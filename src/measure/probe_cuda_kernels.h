/*
 * Our kernels, as PTX text that the driver compiles for the GPU it finds. Inner header of probe_cuda.
 *
 *     tributary_copy(to, from, count)   count pieces of 16 bytes, by all threads of the grid in turn
 *     tributary_chase(at, links)        one thread follows a chain of pointers
 *
 * Loads and stores are volatile: no cache of the GPU answers for memory that is not its own.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_CUDA_KERNELS_H
#define TRIBUTARY_MEASURE_PROBE_CUDA_KERNELS_H

#define PROBE_CUDA_COPY_KERNEL  "tributary_copy"
#define PROBE_CUDA_CHASE_KERNEL "tributary_chase"

enum { PROBE_CUDA_COPY_UNIT_BYTES = 16, PROBE_CUDA_COPY_THREADS = 512 };

/* PTX 6.0 for compute capability 5.0: every driver since CUDA 9 takes it, for every GPU since then. */
extern const char probe_cuda_kernels[];

#endif
