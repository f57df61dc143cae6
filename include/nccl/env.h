/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's environment interface, versions 1 (from NCCL 2.28.7) and 2 (from 2.30.7, which looks for version 1, too). NCCL
 * asks getEnv in place of the C library's function, at the moment of use, on the thread that uses the value. A text must
 * stay valid until the same name is asked for again, or until finalize. An init that fails fails every communicator.
 */
#ifndef TRIBUTARY_NCCL_ENV_H
#define TRIBUTARY_NCCL_ENV_H

#include "nccl/types.h"

struct nccl_env_v1 {
	const char *name;
	enum nccl_result (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix);
	enum nccl_result (*finalize)(void);
	const char *(*getEnv)(const char *name);
};
NCCL_ABI_SIZE(struct nccl_env_v1, 32);
NCCL_ABI_AT(struct nccl_env_v1, name, 0);
NCCL_ABI_AT(struct nccl_env_v1, init, 8);
NCCL_ABI_AT(struct nccl_env_v1, finalize, 16);
NCCL_ABI_AT(struct nccl_env_v1, getEnv, 24);

struct nccl_env_v2 {
	const char *name;
	enum nccl_result (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix,
				 nccl_debug_logger *logger);
	enum nccl_result (*finalize)(void);
	const char *(*getEnv)(const char *name);
};
NCCL_ABI_SIZE(struct nccl_env_v2, 32);
NCCL_ABI_AT(struct nccl_env_v2, name, 0);
NCCL_ABI_AT(struct nccl_env_v2, init, 8);
NCCL_ABI_AT(struct nccl_env_v2, finalize, 16);
NCCL_ABI_AT(struct nccl_env_v2, getEnv, 24);

#endif
