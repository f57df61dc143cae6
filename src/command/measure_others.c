/* SPDX-License-Identifier: Apache-2.0 */
#include "command/measure_others.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/sys.h"
#include "base/text_file.h"
#include "command/json.h"
#include "command/print/units.h"
#include "command/term.h"
#include "plugin/steer/evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INTERFACES_MAX = 64, NAMED_MOST = 3, STAT_BYTES = 1024 };
enum { FIELD_USER_TICKS = 14, FIELD_SYSTEM_TICKS = 15, FIELD_START_TICKS = 22 };

/* Less than that disturbs no rate by what would be seen. */
#define LINK_SHARE_LEAST 0.01
#define LINK_LEAST_BPS   10e6 /* of an interface that does not know its rate */
#define CPU_SHARE_LEAST  0.1

struct process {
	uint32_t pid;
	uint64_t start_ticks, ticks;
	char name[32];
};

struct interface {
	char name[IF_NAMESIZE];
	uint64_t received_bytes, sent_bytes, rate_Bps; /* rate_Bps: 0 not known */
};

struct sample {
	int root; /* a descriptor, of struct measure_others */
	uint64_t time_ns;
	uint64_t busy_ticks, all_ticks; /* of all CPUs together */
	struct process *processes;
	size_t process_count;
	struct interface interfaces[INTERFACES_MAX];
	size_t interface_count;
	struct steer_compute compute;
};

struct measure_others {
	int root;
	struct sample before;
};

/* ------------------------------------------------------------------------------------------------------------ look */

static uint64_t number_in(int root, const char *folder, const char *name, const char *file)
{
	char path[128], text[32];
	uint64_t number;

	snprintf(path, sizeof(path), "%s/%s/%s", folder, name, file);
	if (text_file_value(root, path, text, sizeof(text)) < 0 || parse_u64(text, 0, UINT64_MAX, &number) < 0)
		return 0;
	return number;
}

static int look_at_process(void *arg, const char *name)
{
	struct sample *sample = arg;
	struct process *process;
	char path[64], text[STAT_BYTES], *begin, *end;
	uint64_t pid, user, system, start;

	if (parse_u64(name, 1, UINT32_MAX, &pid) < 0)
		return 0;
	snprintf(path, sizeof(path), "proc/%s/stat", name);
	if (text_file_value(sample->root, path, text, sizeof(text)) < 0 ||
	    process_stat_number(text, FIELD_USER_TICKS, &user) < 0 ||
	    process_stat_number(text, FIELD_SYSTEM_TICKS, &system) < 0 ||
	    process_stat_number(text, FIELD_START_TICKS, &start) < 0)
		return 0; /* it has ended */
	if (sys_grow(&sample->processes, sample->process_count, 1, sizeof(*process)) < 0)
		return -ENOMEM;
	process = &sample->processes[sample->process_count++];
	*process = (struct process){ .pid = (uint32_t)pid, .start_ticks = start, .ticks = user + system };
	begin = strchr(text, '(');
	end = strrchr(text, ')');
	if (begin && end) {
		*end = '\0';
		term_clean(begin + 1, process->name, sizeof(process->name));
	}
	return 0;
}

static int look_at_interface(void *arg, const char *name)
{
	static const char folder[] = "sys/class/net";
	struct sample *sample = arg;
	struct interface *interface = &sample->interfaces[sample->interface_count];

	if (!strcmp(name, "lo") || strlen(name) >= sizeof(interface->name) || sample->interface_count == INTERFACES_MAX)
		return 0;
	*interface = (struct interface){
		.received_bytes = number_in(sample->root, folder, name, "statistics/rx_bytes"),
		.sent_bytes = number_in(sample->root, folder, name, "statistics/tx_bytes"),
		.rate_Bps = number_in(sample->root, folder, name, "speed") * 125000,
	};
	term_clean(name, interface->name, sizeof(interface->name));
	sample->interface_count++;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct interface *)a)->name, ((const struct interface *)b)->name);
}

/* "cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ...", the first line of /proc/stat. */
static void look_at_cpus(struct sample *sample)
{
	enum { IDLE = 4, IOWAIT = 5, STEAL = 8 };
	char text[256];
	const char *rest = text, *item;
	size_t bytes, number = 0;
	int r = text_file_value(sample->root, "proc/stat", text, sizeof(text));

	if ((r < 0 && r != -EOVERFLOW) || strncmp(text, "cpu ", 4) != 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	while (number <= STEAL && parse_list_next(&rest, ' ', &item, &bytes)) {
		char word[24];
		uint64_t ticks;

		snprintf(word, sizeof(word), "%.*s", (int)bytes, item);
		if (!bytes || parse_u64(word, 0, UINT64_MAX, &ticks) < 0) {
			number += number == 0 && bytes; /* "cpu", and there are two spaces */
			continue;
		}
		sample->all_ticks += ticks;
		if (number != IDLE && number != IOWAIT)
			sample->busy_ticks += ticks;
		number++;
	}
}

static int look(int root, struct sample *ret)
{
	int r;

	*ret = (struct sample){ .root = root, .time_ns = clock_now_ns() };
	steer_compute_ask(&ret->compute);
	look_at_cpus(ret);
	r = sys_each_name(root, "sys/class/net", "", look_at_interface, ret);
	qsort(ret->interfaces, ret->interface_count, sizeof(*ret->interfaces), by_name);
	if (r != -ENOMEM)
		r = sys_each_name(root, "proc", "", look_at_process, ret);
	return r == -ENOMEM ? r : 0;
}

int measure_others_begin(const char *root, struct measure_others **ret)
{
	struct measure_others *others = sys_zalloc(sizeof(*others));
	int r = -ENOMEM;

	if (!others)
		return r;
	others->root = sys_openat(AT_FDCWD, *root ? root : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	r = others->root < 0 ? others->root : look(others->root, &others->before);
	if (r < 0)
		measure_others_free(others);
	else
		*ret = others;
	return r;
}

void measure_others_free(struct measure_others *others)
{
	if (!others)
		return;
	sys_close(&others->root);
	sys_free(others->before.processes);
	sys_free(others);
}

/* --------------------------------------------------------------------------------------------------------- compare */

static const struct process *process_of(const struct sample *sample, uint32_t pid)
{
	for (size_t i = 0; i < sample->process_count; i++)
		if (sample->processes[i].pid == pid)
			return &sample->processes[i];
	return NULL;
}

static struct measure_others_use *add_use(struct measure_others_uses *uses, const char *subject)
{
	struct measure_others_use *use = &uses->items[uses->count];

	if (uses->count == MEASURE_OTHERS_USES_MAX)
		return NULL;
	uses->count++;
	*use = (struct measure_others_use){ .text = "" };
	snprintf(use->subject, sizeof(use->subject), "%s", subject);
	return use;
}

__attribute__((format(printf, 2, 3))) static void add_text(struct measure_others_use *use, const char *format, ...)
{
	size_t used = strlen(use->text);
	va_list args;

	va_start(args, format);
	vsnprintf(use->text + used, sizeof(use->text) - used, format, args);
	va_end(args);
}

static const char *gpu_name(const struct topology *topology, const char *bus_id)
{
	uint32_t vertex = topology_find_bus_id(topology, bus_id);

	return vertex == TOPOLOGY_NONE ? bus_id : topology->vertices[vertex].name;
}

static bool had_gpu(const struct steer_compute *compute, size_t gpu, uint32_t pid)
{
	for (size_t i = 0; gpu < compute->gpu_count && i < compute->gpus[gpu].process_count; i++)
		if (compute->gpus[gpu].pids[i] == pid)
			return true;
	return false;
}

/* Those that were there before, and those that came: a process that computes on a GPU. */
static void compare_gpu(const struct sample *before, const struct sample *now, size_t gpu,
			const struct topology *topology, struct measure_others_uses *uses)
{
	struct measure_others_use *use = NULL;
	const struct sample *samples[] = { before, now };
	size_t count = 0;

	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0;
		     gpu < samples[k]->compute.gpu_count && i < samples[k]->compute.gpus[gpu].process_count; i++) {
			uint32_t pid = samples[k]->compute.gpus[gpu].pids[i];
			const struct process *process = process_of(samples[k], pid);

			if (pid == (uint32_t)getpid() || (k && had_gpu(&before->compute, gpu, pid)))
				continue;
			use = use ? use : add_use(uses, gpu_name(topology, samples[k]->compute.gpus[gpu].bus_id));
			if (use && ++count <= NAMED_MOST)
				add_text(use, "%s%s (process %u)", count > 1 ? ", " : "has a context of ",
					 process ? process->name : "?", pid);
		}
	if (count > NAMED_MOST)
		add_text(use, " and %zu more", count - NAMED_MOST);
}

static void compare_interface(const struct sample *before, const struct sample *now, const struct interface *after,
			      struct measure_others_uses *uses)
{
	double time_s = (double)clock_elapsed_ns(before->time_ns, now->time_ns) / 1e9, received, sent, least;
	char in[UNITS_BYTES], out[UNITS_BYTES], in_rate[UNITS_BYTES], out_rate[UNITS_BYTES];
	struct measure_others_use *use;
	size_t i = 0;

	while (i < before->interface_count && strcmp(before->interfaces[i].name, after->name) != 0)
		i++;
	if (i == before->interface_count || time_s <= 0 ||
	    after->received_bytes < before->interfaces[i].received_bytes ||
	    after->sent_bytes < before->interfaces[i].sent_bytes)
		return; /* it came meanwhile, or its counters began anew */
	received = (double)(after->received_bytes - before->interfaces[i].received_bytes);
	sent = (double)(after->sent_bytes - before->interfaces[i].sent_bytes);
	least = after->rate_Bps ? LINK_SHARE_LEAST * (double)after->rate_Bps : LINK_LEAST_BPS;
	if (received / time_s < least && sent / time_s < least)
		return;
	use = add_use(uses, after->name);
	if (use)
		add_text(use, "received %s and sent %s that are not of this measurement, %s and %s",
			 units_size(received, in), units_size(sent, out), units_bits(received / time_s, in_rate),
			 units_bits(sent / time_s, out_rate));
}

/* What it took since, with the time of a process that began meanwhile. */
static uint64_t ticks_since(const struct sample *before, const struct process *process)
{
	const struct process *was = process_of(before, process->pid);
	bool same = was && was->start_ticks == process->start_ticks && was->ticks <= process->ticks;

	return process->ticks - (same ? was->ticks : 0);
}

static int by_ticks(const void *a, const void *b)
{
	uint64_t left = ((const struct process *)a)->ticks, right = ((const struct process *)b)->ticks;

	return (left < right) - (left > right);
}

/* Orders the processes of `now` by what they took since. */
static void compare_cpus(const struct sample *before, struct sample *now, struct measure_others_uses *uses)
{
	double all = (double)now->all_ticks - (double)before->all_ticks;
	double busy = (double)now->busy_ticks - (double)before->busy_ticks;
	struct measure_others_use *use;
	size_t named = 0;

	for (size_t i = 0; i < now->process_count; i++) {
		struct process *process = &now->processes[i];

		process->ticks = ticks_since(before, process);
		if (process->pid == (uint32_t)getpid()) {
			busy -= (double)process->ticks;
			process->ticks = 0;
		}
	}
	if (all <= 0 || busy / all < CPU_SHARE_LEAST)
		return;
	use = add_use(uses, "the CPUs");
	if (!use)
		return;
	add_text(use, "%.0f %% of their time went to other processes", 100 * busy / all);
	qsort(now->processes, now->process_count, sizeof(*now->processes), by_ticks);
	for (size_t i = 0; i < now->process_count && named < NAMED_MOST; i++) {
		const struct process *process = &now->processes[i];
		double share = (double)process->ticks / all;

		if (share < CPU_SHARE_LEAST / NAMED_MOST)
			break;
		add_text(use, "%s%s (process %u) %.0f %%", named++ ? ", " : ": ", process->name, process->pid,
			 100 * share);
	}
}

void measure_others_end(const struct measure_others *others, const struct topology *topology,
			struct measure_others_uses *ret)
{
	struct sample *now = sys_zalloc(sizeof(*now));

	*ret = (struct measure_others_uses){ 0 };
	if (now && !look(others->root, now)) {
		for (size_t i = 0; i < STEER_COMPUTE_GPUS_MAX; i++)
			compare_gpu(&others->before, now, i, topology, ret);
		for (size_t i = 0; i < now->interface_count; i++)
			compare_interface(&others->before, now, &now->interfaces[i], ret);
		compare_cpus(&others->before, now, ret);
	}
	if (now)
		sys_free(now->processes);
	sys_free(now);
}

/* ----------------------------------------------------------------------------------------------------------- print */

void measure_others_subjects(const struct measure_others_uses *uses, char *ret, size_t ret_bytes)
{
	size_t used = 0;

	*ret = '\0';
	for (size_t i = 0; i < uses->count && used < ret_bytes; i++)
		used += (size_t)snprintf(ret + used, ret_bytes - used, "%s%s",
					 !i                    ? ""
					 : i + 1 < uses->count ? ", "
							       : " and ",
					 uses->items[i].subject);
}

void measure_others_print(const struct measure_others_uses *uses, FILE *out)
{
	for (size_t i = 0; i < uses->count; i++)
		fprintf(out, "%sused by others: %s: %s\n", i ? "" : "\n", uses->items[i].subject, uses->items[i].text);
}

json_t *measure_others_json(const struct measure_others_uses *uses)
{
	json_t *array = json_array();

	for (size_t i = 0; i < uses->count; i++)
		json_array_append_new(array, json_pack("{so so}", "subject", json_text(uses->items[i].subject), "text",
						       json_text(uses->items[i].text)));
	return array;
}
