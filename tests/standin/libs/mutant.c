/*
 * A plugin that does nothing but hand over graph files, as simply as can be, and wrongly in the way that STANDIN_MUTANT
 * says: by it the stand-in shows that it notices. "good" is right as long as all processes of a communicator's host share
 * /dev/shm and take one communicator at a time.
 */
#include "nccl/tuner_v5.h"
#include "nccl/tuner_v6.h"
#include "nccl/v11.h"
#include "nccl/v12.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT    __attribute__((visibility("default")))
#define DIRECTORY "/dev/shm/mutant"

enum { GPUS_MAX = 16, BUS_ID_BYTES = 24 };

static const char resting[] = "<graphs version=\"1\"></graphs>\n";
static _Thread_local struct {
	uint64_t comm_id;
	unsigned looks; /* getProperties since init */
	bool is_new, is_first;
} now;
static unsigned joined;
static char graph_file[128];

static bool is(const char *mutant)
{
	const char *text = getenv("STANDIN_MUTANT");

	return text && !strcmp(text, mutant);
}

static void replace(const char *text)
{
	char temporary[160];
	FILE *file;

	snprintf(temporary, sizeof(temporary), "%s.new", graph_file);
	file = fopen(temporary, "we");
	if (!file)
		return;
	fputs(text, file);
	fclose(file);
	rename(temporary, graph_file);
}

static int current_gpu(char bus_id[BUS_ID_BYTES])
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*get)(int *), (*name)(char *, int, int), device;
	void *symbol;

	if (!driver)
		return -1;
	symbol = dlsym(driver, "cuCtxGetDevice");
	memcpy(&get, &symbol, sizeof(get));
	symbol = dlsym(driver, "cuDeviceGetPCIBusId");
	memcpy(&name, &symbol, sizeof(name));
	return get(&device) || name(bus_id, BUS_ID_BYTES, device) ? -1 : 0;
}

/* The bus ids of who has registered for the communicator, in order. */
static unsigned members(char ids[GPUS_MAX][BUS_ID_BYTES])
{
	DIR *dir = opendir(DIRECTORY);
	const struct dirent *entry;
	char prefix[32];
	unsigned count = 0;

	snprintf(prefix, sizeof(prefix), "%016llx.", (unsigned long long)now.comm_id);
	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)) && count < GPUS_MAX)
			snprintf(ids[count++], BUS_ID_BYTES, "%.23s", entry->d_name + strlen(prefix));
	if (dir)
		closedir(dir);
	qsort(ids, count, BUS_ID_BYTES, (int (*)(const void *, const void *))strcmp);
	return count;
}

/* MUTANT_GPUS: "BUS=dev BUS=dev". */
static int dev_of(const char *bus_id)
{
	const char *at = strcasestr(getenv("MUTANT_GPUS"), bus_id);

	return at ? atoi(strchr(at, '=') + 1) : -1;
}

static unsigned all_gpus(char ids[GPUS_MAX][BUS_ID_BYTES])
{
	unsigned count = 0;

	for (const char *at = getenv("MUTANT_GPUS"); at && *at && count < GPUS_MAX;) {
		snprintf(ids[count++], BUS_ID_BYTES, "%.*s", (int)strcspn(at, "="), at);
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return count;
}

static size_t put_graph(char *text, size_t room, int id, char ids[GPUS_MAX][BUS_ID_BYTES], unsigned count)
{
	size_t at = 0;
	const char *rank = getenv("RANK");
	unsigned turn = is("ranks differ") && rank ? (unsigned)atoi(rank) : 0;

	if (is("heads") && id == 4)
		turn++;

	at += (size_t)snprintf(text + at, room - at,
			       "<graph id=\"%d\" pattern=\"%d\" crossnic=\"0\" nchannels=\"%d\" speedintra=\"20\" "
			       "speedinter=\"10\" latencyinter=\"%d\" typeintra=\"PHB\" typeinter=\"PHB\"%s>",
			       id, id ? 1 : 4, is("channels") ? 3 : 2, is("latency") && rank ? atoi(rank) / 4 : 0,
			       is("attribute") ? "" : " samechannels=\"1\"");
	for (unsigned c = 0; c < 2; c++) {
		at += (size_t)snprintf(text + at, room - at, "<channel><net dev=\"%d\"/>", is("net") ? 7 : 0);
		for (unsigned i = 0; i < count; i++)
			at += (size_t)snprintf(text + at, room - at,
					       is("rank")      ? "<gpu dev=\"0x%x\" rank=\"0\"/>"
					       : is("decimal") ? "<gpu dev=\"%d\"/>"
							       : "<gpu dev=\"0x%x\"/>",
					       dev_of(ids[(i + turn) % count]));
		at += (size_t)snprintf(text + at, room - at, "<net dev=\"%d\"/></channel>", is("net") ? 7 : 0);
	}
	at += (size_t)snprintf(text + at, room - at, "</graph>");
	return at;
}

static void publish(void)
{
	char ids[GPUS_MAX][BUS_ID_BYTES], text[16384];
	unsigned count = members(ids);
	size_t at = 0;

	if (is("others"))
		count = all_gpus(ids);
	if (is("one missing"))
		count--;
	at += (size_t)snprintf(text + at, sizeof(text) - at, "%s<graphs version=\"%d\">\n%s",
			       is("declaration") ? "<?xml version=\"1.0\"?>\n" : "", is("version") ? 2 : 1,
			       is("tab") ? "\t" : "");
	at += put_graph(text + at, sizeof(text) - at, 0, ids, count);
	if (!is("no trees"))
		at += put_graph(text + at, sizeof(text) - at, 1, ids, count);
	if (getenv("NCCL_COLLNET_ENABLE")) {
		at += put_graph(text + at, sizeof(text) - at, 2, ids, count);
		if (!is("no heads"))
			at += put_graph(text + at, sizeof(text) - at, 4, ids, count);
	}
	snprintf(text + at, sizeof(text) - at, "\n</graphs>\n");
	replace(text);
}

static enum nccl_result init(void **ret_context, uint64_t comm_id, struct nccl_net_comm_config *config,
			     nccl_debug_logger *logger, nccl_profiler_callback *profiler)
{
	static int context;
	char bus_id[BUS_ID_BYTES], path[200];
	FILE *file;

	(void)config;
	(void)logger;
	(void)profiler;
	mkdir(DIRECTORY, 0777);
	now.is_first = !graph_file[0];
	if (now.is_first) {
		snprintf(graph_file, sizeof(graph_file), DIRECTORY "/graph.%d", (int)getpid());
		setenv("NCCL_GRAPH_FILE", graph_file, 1);
	}
	replace(resting);
	now.comm_id = comm_id;
	now.is_new = true;
	now.looks = 0;
	if (!is("forgets itself") && current_gpu(bus_id) == 0) {
		snprintf(path, sizeof(path), DIRECTORY "/%016llx.%s", (unsigned long long)comm_id, bus_id);
		file = fopen(path, "we");
		if (file)
			fclose(file);
	}
	*ret_context = &context;
	errno = 4242;
	return NCCL_SUCCESS;
}

static int device_count(void);

/* NCCL asks once, then for each device, and in the first communicator of a process once more for each. */
static unsigned looks_of_one(void)
{
	unsigned physical = (unsigned)device_count() - joined;

	return 1 + physical * (now.is_first ? 2 : 1) + 6 * joined;
}

static void look(void)
{
	const char *rank = getenv("RANK");

	now.looks++;
	if (now.looks > looks_of_one() && !is("stays"))
		now.is_new = false;
	if (is("crashes") && now.looks == 2)
		abort();
	if (is("hangs") && now.looks == 2)
		for (;;)
			pause();
	if (is("early") ? now.looks > 1 : !is("late") && now.looks == 1)
		return; /* NCCL asks once before everybody is there */
	if (!now.is_new) {
		if (!is("stays"))
			replace(resting);
		return;
	}
	if (is("one rests") && rank && !atoi(rank))
		return;
	publish();
	if (is("no file"))
		unlink(graph_file);
}

static enum nccl_result properties_fill(int device)
{
	look();
	errno = is("errno") ? EAGAIN : 4242;
	return device > 2 || (is("fails") && now.looks == 2) ? NCCL_SYSTEM_ERROR : NCCL_SUCCESS;
}

#define PROPERTIES(version)                                                                                 \
	static enum nccl_result properties_##version(int device, struct nccl_net_properties_##version *ret) \
	{                                                                                                   \
		*ret = (struct nccl_net_properties_##version){                                              \
			.name = "lo",                                                                       \
			.guid = 1,                                                                          \
			.ptrSupport = 1,                                                                    \
			.speed = 10000,                                                                     \
			.port = 1,                                                                          \
			.maxComms = 65536,                                                                  \
			.maxRecvs = 1,                                                                      \
			.vProps = { .ndevs = 1 },                                                           \
			.maxP2pBytes = 1 << 30,                                                             \
			.maxCollBytes = 1 << 30,                                                            \
		};                                                                                          \
		return properties_fill(device);                                                             \
	}
PROPERTIES(v11)
PROPERTIES(v12)

/* MUTANT_DEVICES: so many, 1 if it is not set. */
static int device_count(void)
{
	const char *text = getenv("MUTANT_DEVICES");

	return (text ? atoi(text) : 1) + (int)joined;
}

static enum nccl_result devices(int *ret)
{
	*ret = device_count();
	return NCCL_SUCCESS;
}

static enum nccl_result join_v11(int *ret, struct nccl_net_vdevice_v9 *members)
{
	(void)members;
	*ret = device_count();
	joined++;
	return NCCL_SUCCESS;
}

static enum nccl_result join_v12(int *ret, struct nccl_net_vdevice_v12 *members)
{
	(void)members;
	return join_v11(ret, NULL);
}

static enum nccl_result finalize(void *context)
{
	(void)context;
	return NCCL_SUCCESS;
}

static enum nccl_result listen(void *context, int device, void *handle, void **ret)
{
	(void)context;
	(void)device;
	memset(handle, 0, NCCL_HANDLE_BYTES);
	*ret = &now;
	return NCCL_SUCCESS;
}

static enum nccl_result close_listen(void *listener)
{
	(void)listener;
	return NCCL_SUCCESS;
}

#define NET(number)                                                            \
	extern EXPORT const struct nccl_net_v##number ncclNetPlugin_v##number; \
	const struct nccl_net_v##number ncclNetPlugin_v##number = {            \
		.name = "mutant",                                              \
		.init = init,                                                  \
		.devices = devices,                                            \
		.getProperties = properties_v##number,                         \
		.listen = listen,                                              \
		.closeListen = close_listen,                                   \
		.finalize = finalize,                                          \
		.makeVDevice = join_v##number,                                 \
	};
NET(11)
NET(12)

static enum nccl_result tuner_init(void **ret_context, uint64_t comm_id, size_t ranks, size_t nodes,
				   nccl_debug_logger *logger, struct nccl_tuner_nvl_domain_v5 *domain,
				   struct nccl_tuner_constants_v5 *constants)
{
	(void)comm_id;
	(void)ranks;
	(void)nodes;
	(void)logger;
	(void)domain;
	(void)constants;
	*ret_context = NULL;
	now.is_new = is("stays") && now.is_new;
	if (!is("stays") && !is("not taken back"))
		replace(resting);
	errno = 4242;
	return NCCL_SUCCESS;
}

static enum nccl_result tuner_ask(void *context, enum nccl_func func, size_t bytes, int ops, float **costs,
				  int algorithms, int protocols, int registered, int *ret_channels)
{
	float(*table)[NCCL_PROTO_COUNT] = (float(*)[NCCL_PROTO_COUNT])(void *)costs;
	const char *rank = getenv("RANK");

	(void)context;
	(void)func;
	(void)bytes;
	(void)ops;
	(void)algorithms;
	(void)protocols;
	(void)registered;
	(void)ret_channels;
	if (is("tuner differs") && rank && atoi(rank) == 1)
		for (int p = 0; p < NCCL_PROTO_COUNT; p++)
			if (table[1][p] >= 0)
				table[1][p] = 1000 - table[1][p];
	if (is("tuner allows"))
		table[6][0] = 1;
	return NCCL_SUCCESS;
}

extern EXPORT const struct nccl_tuner_v6 ncclTunerPlugin_v6;
const struct nccl_tuner_v6 ncclTunerPlugin_v6 = {
	.name = "mutant",
	.init = tuner_init,
	.getCollInfo = tuner_ask,
	.finalize = finalize,
};

extern EXPORT const struct nccl_tuner_v5 ncclTunerPlugin_v5;
const struct nccl_tuner_v5 ncclTunerPlugin_v5 = {
	.name = "mutant",
	.init = tuner_init,
	.getCollInfo = tuner_ask,
	.finalize = finalize,
};
