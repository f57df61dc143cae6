/* The facts that the proofs of evidence.h need of the machine's GPUs, from sysfs, /proc and NVML. Any thread. */
#ifndef TRIBUTARY_PLUGIN_STEER_GPUS_H
#define TRIBUTARY_PLUGIN_STEER_GPUS_H

#include "plugin/steer/evidence.h"
#include "profile/fingerprint.h"

/* root: "" for this machine. now: taken below it. */
void steer_gpus_count(const char *root, const struct fingerprint *now, struct steer_gpus *ret);

/* Asks NVML, which is loaded if NCCL has not done so. */
void steer_compute_ask(struct steer_compute *ret);

#endif
