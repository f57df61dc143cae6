/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tributary check`: every host says what it has (facts.c) and which addresses of others it reaches (reach.c); from what all
 * say follows what is wrong (conclude.c). Questions and answers are JSON in messages of clusterprobe.
 */
#ifndef TRIBUTARY_COMMAND_CHECK_CHECK_H
#define TRIBUTARY_COMMAND_CHECK_CHECK_H

#include "base/params.h"
#include "clusterprobe/clusterprobe.h"
#include "command/doctor/doctor.h"
#include "command/json.h"
#include "transport/tcp/interface.h"

enum {
	CHECK_HOSTS_MAX = 256,
	CHECK_PEERS_MAX = 16,     /* whom a host tries to reach */
	CHECK_INTERFACES_MAX = 8, /* of a host, the first */
	CHECK_HEX_BYTES = 2 * SHA256_BYTES + 1,
};
/* In an entry of "reach": the socket is tied to no interface. */
#define CHECK_AS_ROUTED (-1)

/* In shells.c. */
void check_hex(const uint8_t *bytes, size_t count, char *ret);
/* Digits. -EIO. */
int check_random_key(char ret[static CHECK_HEX_BYTES]);
/* Of the environment: of Tributary or NCCL. */
bool check_is_setting(const char *entry);

/* ---------------------------------------------------------------------------------------- facts.c, reach.c: on each host */

struct check_worker {
	const _Atomic bool *stop;
	struct params params;
	size_t interface_count;
	struct tcp_interface interfaces[TCP_INTERFACE_MAX];
	struct clusterprobe_receiver *receivers[CHECK_INTERFACES_MAX];
};
/* As clusterprobe_setup.answer: {"ask":"facts"|"clock"|"reach", ...}. */
int check_worker_answer(void *arg, const char *question, char ret[static CLUSTERPROBE_TEXT_BYTES]);
void check_worker_fini(struct check_worker *worker);
/* What a connection shows to be taken by that host in this run. */
void check_token(const char *nonce, json_int_t host, uint8_t ret[static CLUSTERPROBE_TOKEN_BYTES]);
/* [[host, from, to, errno, packet], ...]; packet: 0, or, of packets of which long ones vanish, those that pass; 1: none. */
json_t *check_reach(const struct check_worker *worker, const char *nonce, const json_t *peers);

/* ---------------------------------------------------------------------------------------------------- conclude.c, pure */

struct check_finding {
	const char *check; /* stable: "mtu" */
	enum doctor_severity severity;
	char subject[128]; /* host, host:interface, several hosts; no spaces */
	char evidence[400], remedy[320];
};
struct check_report {
	struct check_finding *at; /* sys_grow'n; the worst first */
	size_t count;
	int result;
};
/*
 * hosts: [{"name", "why", "remedy", "facts", "offset_ns", "round_trip_ns", "reach"}, ...], of which all but the name may be
 * missing, and anything may be wrong. -ENOMEM.
 */
int check_conclude(const json_t *hosts, struct check_report *ret);
void check_report_fini(struct check_report *report);
struct check_attempt {
	int host, from, to, error, packet; /* as in check_reach's answer */
};
/* Number k of a host's; false: it makes no sense. */
bool check_attempt(const json_t *hosts, const json_t *host, size_t k, struct check_attempt *ret);

/* -------------------------------------------------------------------------------------------------------------- text.c */

struct command_call;
/* An exit status. */
int check_print(const struct command_call *call, const json_t *hosts, const struct check_report *report, FILE *out);

/* ------------------------------------------------------------------------------------------------------------ shells.c */

struct check_shell {
	int process, messages;       /* what it writes to standard error is a file in memory */
	size_t matched, noise_bytes; /* of the greeting; of what came so far */
};
/*
 * Starts `tributary check --worker` on each host by `rsh`, words between spaces, {} for the host; NULL: ssh. Each gets the
 * secret and the settings of this process over its standard input. members[i].fd is the connection, or why says what went
 * wrong.
 */
void check_shells_start(const char *rsh, const char *program, const struct clusterprobe_setup *setup,
			struct clusterprobe_member *members, struct check_shell *shells, size_t count);
/* Ends those that have not ended, and adds what they said last to the `why` of their hosts. */
void check_shells_end(struct clusterprobe_member *members, struct check_shell *shells, size_t count);
/* The worker's side: the secret and settings from standard input, which with standard output is the connection then. */
int check_shell_answer(struct control_secret *ret_secret, uint32_t *ret_rank, struct clusterprobe_pipe *ret_pipe,
		       struct diag *diag);

#endif
