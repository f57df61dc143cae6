/* SPDX-License-Identifier: Apache-2.0 */
/* The facts that the proofs need of the machine's GPUs, from sysfs, /proc and NVML. */
#include "plugin/steer/evidence.h"

#include "base/process.h"
#include "base/sys.h"
#include "gpu/nvml.h"
#include "profile/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define CAPABILITIES "/proc/driver/nvidia/capabilities"

/* proc_namespaces(7): the initial process id namespace has this inode on every kernel. */
enum { INITIAL_PID_NAMESPACE = 0xeffffffcU };

static int found(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return 1;
}

/* A GPU in MIG mode with instances has capabilities/gpuN/mig/giM. */
static int look_at_gpu(void *arg, const char *gpu)
{
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "%s" CAPABILITIES "/%.64s/mig", (const char *)arg, gpu);
	r = sys_each_name(AT_FDCWD, path, "gi", found, NULL);
	return r == -ENOENT ? 0 : r;
}

static bool has_mig(const char *root)
{
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "%s" CAPABILITIES, root);
	r = sys_each_name(AT_FDCWD, path, "gpu", look_at_gpu, (void *)(uintptr_t)root);
	return r && r != -ENOENT;
}

void steer_gpus_count(const char *root, const struct fingerprint *now, struct steer_gpus *ret)
{
	*ret = (struct steer_gpus){ .count = fingerprint_gpu_count(now), .mig = has_mig(root) };
}

static int processes_of(const struct gpu_nvml *nvml, unsigned index, struct steer_compute *ret)
{
	struct gpu_nvml_process list[STEER_COMPUTE_PROCESSES_MAX];
	unsigned count = STEER_COMPUTE_PROCESSES_MAX;
	struct gpu_nvml_device *device;
	struct gpu_nvml_pci pci;

	if (nvml->get_handle(index, &device) || nvml->get_pci(device, &pci) ||
	    nvml->get_compute_processes(device, &count, list))
		return -EIO;
	snprintf(ret->gpus[index].bus_id, sizeof(ret->gpus[index].bus_id), "%04x:%02x:%02x.0", pci.domain, pci.bus,
		 pci.device);
	ret->gpus[index].process_count = count;
	for (unsigned i = 0; i < count; i++)
		ret->gpus[index].pids[i] = list[i].pid;
	return 0;
}

static const char *ask(const struct gpu_nvml *nvml, struct steer_compute *ret)
{
	unsigned count = 0;

	if (!nvml->get_compute_processes)
		return "the driver does not list the processes on a GPU";
	if (nvml->get_count(&count) || count > STEER_COMPUTE_GPUS_MAX)
		return "NVML does not list the GPUs";
	for (unsigned i = 0; i < count; i++)
		if (processes_of(nvml, i, ret) < 0)
			return "NVML does not list the processes on a GPU";
	ret->gpu_count = count;
	return NULL;
}

void steer_compute_ask(struct steer_compute *ret)
{
	const struct gpu_nvml *nvml;
	struct process_identity self;
	struct diag diag;
	int saved_errno = errno;

	memset(ret, 0, sizeof(*ret));
	if (process_identity(&self) < 0 || self.pid_namespace != INITIAL_PID_NAMESPACE)
		ret->why = "this process is in a container, where NVML's process ids mean nothing";
	else if (gpu_nvml_open(&nvml, &diag) < 0)
		ret->why = "NVML cannot be opened";
	else {
		ret->pid_namespace = self.pid_namespace;
		ret->why = ask(nvml, ret);
		gpu_nvml_close(nvml);
	}
	ret->known = !ret->why;
	errno = saved_errno;
}
