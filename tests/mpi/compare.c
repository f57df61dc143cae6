/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's collnet against MPI_Allreduce, on the same data: every type that MPI has, every operation, odd sizes, in
 * place and not, several operations in flight. Whole numbers and extremes must be equal to the bit. A sum or product of
 * floats may differ by the rounding of another order of the same members: each is within (N-1) eps of the exact one.
 * Whatever the type, all ranks must have the same bits.
 *
 *   mpirun -n 5 compare PLUGIN [SEED]      exit 0; 1: something differs; 2: a wrong command line
 */
#include <float.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/collnetplugin.h"

enum { SIZES = 8, TIMEOUT_S = 60 };
static const size_t counts[SIZES] = { 1, 2, 3, 17, 257, 4099, 65536, 300007 };

struct kind {
	enum nccl_datatype type;
	MPI_Datatype mpi;
	size_t bytes;
	double epsilon; /* 0: whole numbers */
	const char *name;
};
struct operation {
	enum nccl_redop op;
	MPI_Op mpi;
	const char *name;
};

struct world {
	int rank, size;
	uint64_t seed;
	struct netplugin *net;
	struct netplugin_context *context;
	struct collnetplugin *plugin;
	void *comm;
};

/* One operation of those in flight. */
struct trial {
	size_t count;
	bool in_place;
	char *input, *ours, *theirs, *magnitude;
	void *ours_mhandle, *input_mhandle, *request;
};

static void stop(const char *what, int result)
{
	fprintf(stderr, "compare: %s: result %d\n", what, result);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static uint64_t next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ULL;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* ---- set-up ---- */

static void join(struct world *w)
{
	uint8_t mine[NCCL_HANDLE_BYTES] = { 0 }, *all = calloc((size_t)w->size, sizeof(mine));
	void **handles = calloc((size_t)w->size, sizeof(*handles)), *listener = NULL;
	int i, r;

	if (!all || !handles)
		stop("memory", 0);
	r = collnetplugin_listen(w->plugin, 0, mine, &listener);
	if (r != NCCL_SUCCESS)
		stop("listen", r);
	MPI_Allgather(mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);
	for (i = 0; i < w->size; i++) /* rotated: the order of the handles must not matter */
		handles[i] = all + (size_t)((i + 1) % w->size) * sizeof(mine);
	r = collnetplugin_connect(w->plugin, handles, w->size, w->rank, listener, &w->comm);
	if (r != NCCL_SUCCESS || !w->comm)
		stop("connect", r);
	r = collnetplugin_close_listen(w->plugin, listener);
	if (r != NCCL_SUCCESS)
		stop("closeListen", r);
	free(all);
	free(handles);
}

static void open_plugin(struct world *w, const char *path)
{
	int r = netplugin_open(path, 0, &w->net);

	if (r == 0)
		r = netplugin_init(w->net, 1, NCCL_TRAFFIC_CLASS_NONE, NULL, &w->context);
	if (r == 0)
		r = collnetplugin_open(w->net, 0, &w->plugin);
	if (r == 0)
		r = collnetplugin_init(w->plugin, 1, NULL);
	if (r != 0)
		stop("the plugin does not open", r);
	join(w);
}

static void close_plugin(struct world *w)
{
	int r = collnetplugin_close_comm(w->plugin, w->comm);

	if (r != NCCL_SUCCESS)
		stop("closeColl", r);
	collnetplugin_close(w->plugin);
	netplugin_finalize(w->context);
	netplugin_close(w->net);
}

/* ---- data ---- */

/* Between 0.5 and 2 for products, so that they stay in range; between -1 and 1 else; every bit pattern of whole numbers. */
static void fill(const struct kind *kind, const struct operation *op, char *to, size_t count, uint64_t *state)
{
	size_t i;

	for (i = 0; i < count; i++) {
		uint64_t bits = next(state);
		double unit = (double)(bits >> 11) * 0x1p-53;
		double value = op->op == NCCL_PROD ? 0.5 + 1.5 * unit : 2 * unit - 1;
		float narrow = (float)value;

		if (kind->epsilon == 0)
			memcpy(to + i * kind->bytes, &bits, kind->bytes);
		else if (kind->type == NCCL_FLOAT32)
			memcpy(to + i * kind->bytes, &narrow, sizeof(narrow));
		else
			memcpy(to + i * kind->bytes, &value, sizeof(value));
	}
}

static double value_at(const struct kind *kind, const char *data, size_t i)
{
	float narrow;
	double value;

	if (kind->type == NCCL_FLOAT32) {
		memcpy(&narrow, data + i * sizeof(narrow), sizeof(narrow));
		return (double)narrow;
	}
	memcpy(&value, data + i * sizeof(value), sizeof(value));
	return value;
}

static void trial_open(struct world *w, struct trial *t, const struct kind *kind, const struct operation *op,
		       size_t count, bool in_place, uint64_t *state)
{
	size_t bytes = count * kind->bytes, i;
	int r;

	*t = (struct trial){ .count = count, .in_place = in_place };
	t->input = malloc(bytes);
	t->ours = malloc(bytes);
	t->theirs = malloc(bytes);
	t->magnitude = malloc(bytes);
	if (!t->input || !t->ours || !t->theirs || !t->magnitude)
		stop("memory", 0);
	fill(kind, op, t->input, count, state);
	memcpy(t->ours, t->input, bytes);
	if (!in_place)
		memset(t->ours, 0xa5, bytes);
	memcpy(t->magnitude, t->input, bytes);
	for (i = 0; i < count && kind->epsilon > 0; i++) /* |x|: the sign is the top bit of the last byte */
		t->magnitude[(i + 1) * kind->bytes - 1] &= 0x7f;
	r = collnetplugin_reg(w->plugin, w->comm, t->input, bytes, NCCL_POINTER_HOST, &t->input_mhandle);
	if (r == NCCL_SUCCESS)
		r = collnetplugin_reg(w->plugin, w->comm, t->ours, bytes, NCCL_POINTER_HOST, &t->ours_mhandle);
	if (r != NCCL_SUCCESS)
		stop("regMr", r);
}

static void trial_close(struct world *w, struct trial *t)
{
	collnetplugin_dereg(w->plugin, w->comm, t->input_mhandle);
	collnetplugin_dereg(w->plugin, w->comm, t->ours_mhandle);
	free(t->input);
	free(t->ours);
	free(t->theirs);
	free(t->magnitude);
}

/* ---- running ---- */

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void nap(void)
{
	struct timespec t = { .tv_nsec = 50000 };

	nanosleep(&t, NULL);
}

static void post(struct world *w, struct trial *t, const struct kind *kind, const struct operation *op)
{
	struct collnetplugin_reduction reduction = { .send = t->in_place ? t->ours : t->input,
						     .recv = t->ours,
						     .count = t->count,
						     .type = kind->type,
						     .op = op->op,
						     .send_mhandle = t->in_place ? t->ours_mhandle : t->input_mhandle,
						     .recv_mhandle = t->ours_mhandle };
	double end_s = now_s() + TIMEOUT_S;
	int r;

	while (!t->request) {
		r = collnetplugin_reduce_all(w->plugin, w->comm, &reduction, &t->request);
		if (r != NCCL_SUCCESS)
			stop("iallreduce", r);
		if (!t->request && now_s() > end_s)
			stop("iallreduce takes nothing", r);
		if (!t->request)
			nap();
	}
}

static void wait_for(struct world *w, struct trial *t)
{
	double end_s = now_s() + TIMEOUT_S;
	int done = 0, bytes = 0, r;

	for (;;) {
		r = collnetplugin_test(w->plugin, t->request, &done, &bytes);
		if (r != NCCL_SUCCESS)
			stop("test", r);
		if (done)
			return;
		if (now_s() > end_s)
			stop("test: the operation does not end", r);
		nap();
	}
}

/* ---- judging ---- */

static size_t wrong_floats(const struct world *w, const struct trial *t, const struct kind *kind,
			   const struct operation *op)
{
	size_t i, wrong = 0;

	for (i = 0; i < t->count; i++) {
		double ours = value_at(kind, t->ours, i), theirs = value_at(kind, t->theirs, i);
		double scale = op->op == NCCL_SUM ? value_at(kind, t->magnitude, i) : fabs(theirs);
		double most = op->op == NCCL_MIN || op->op == NCCL_MAX ? 0
								       : 2.0 * (w->size - 1) * kind->epsilon * scale;

		wrong += !(fabs(ours - theirs) <= most);
	}
	return wrong;
}

static bool same_everywhere(const struct trial *t, size_t bytes)
{
	unsigned long long hash = 1469598103934665603ULL, low, high;
	size_t i;

	for (i = 0; i < bytes; i++)
		hash = (hash ^ (unsigned char)t->ours[i]) * 1099511628211ULL;
	MPI_Allreduce(&hash, &low, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(&hash, &high, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
	return low == high;
}

/* How many of the ranks' elements differ, in all. */
static unsigned long long judge(const struct world *w, struct trial *t, const struct kind *kind,
				const struct operation *op)
{
	size_t bytes = t->count * kind->bytes;
	unsigned long long mine = 0, all = 0;
	bool same;

	MPI_Allreduce(t->input, t->theirs, (int)t->count, kind->mpi, op->mpi, MPI_COMM_WORLD);
	if (kind->epsilon > 0) {
		MPI_Allreduce(MPI_IN_PLACE, t->magnitude, (int)t->count, kind->mpi, MPI_SUM, MPI_COMM_WORLD);
		mine = wrong_floats(w, t, kind, op);
	} else {
		size_t i;

		for (i = 0; i < t->count; i++)
			mine += memcmp(t->ours + i * kind->bytes, t->theirs + i * kind->bytes, kind->bytes) != 0;
	}
	same = same_everywhere(t, bytes);
	MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	if ((all || !same) && w->rank == 0)
		printf("%s of %s, %zu elements%s: %llu differ from MPI's%s\n", op->name, kind->name, t->count,
		       t->in_place ? " in place" : "", all, same ? "" : ", and the ranks have different bits");
	return all + !same;
}

static unsigned long long compare(struct world *w, const struct kind *kind, const struct operation *op)
{
	uint64_t state = w->seed + 1000003 * (uint64_t)w->rank + 31 * (uint64_t)kind->type + 7 * (uint64_t)op->op;
	struct trial trials[SIZES];
	unsigned long long wrong = 0;
	int i;

	for (i = 0; i < SIZES; i++)
		trial_open(w, &trials[i], kind, op, counts[i], (i + (int)op->op) % 2, &state);
	for (i = 0; i < SIZES; i++)
		post(w, &trials[i], kind, op);
	for (i = 0; i < SIZES; i++)
		wait_for(w, &trials[i]);
	for (i = 0; i < SIZES; i++) {
		wrong += judge(w, &trials[i], kind, op);
		trial_close(w, &trials[i]);
	}
	return wrong;
}

int main(int argc, char **argv)
{
	const struct kind kinds[] = {
		{ NCCL_INT8, MPI_INT8_T, 1, 0, "int8" },
		{ NCCL_UINT8, MPI_UINT8_T, 1, 0, "uint8" },
		{ NCCL_INT32, MPI_INT32_T, 4, 0, "int32" },
		{ NCCL_UINT32, MPI_UINT32_T, 4, 0, "uint32" },
		{ NCCL_INT64, MPI_INT64_T, 8, 0, "int64" },
		{ NCCL_UINT64, MPI_UINT64_T, 8, 0, "uint64" },
		{ NCCL_FLOAT32, MPI_FLOAT, 4, (double)FLT_EPSILON, "fp32" },
		{ NCCL_FLOAT64, MPI_DOUBLE, 8, DBL_EPSILON, "fp64" },
	};
	const struct operation operations[] = { { NCCL_SUM, MPI_SUM, "sum" },
						{ NCCL_PROD, MPI_PROD, "product" },
						{ NCCL_MIN, MPI_MIN, "minimum" },
						{ NCCL_MAX, MPI_MAX, "maximum" } };
	struct world w = { 0 };
	unsigned long long wrong = 0;
	size_t k, o;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &w.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &w.size);
	if (argc < 2 || argc > 3) {
		MPI_Finalize();
		return 2;
	}
	w.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
	MPI_Bcast(&w.seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	open_plugin(&w, argv[1]);
	for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (o = 0; o < sizeof(operations) / sizeof(operations[0]); o++)
			wrong += compare(&w, &kinds[k], &operations[o]);
	close_plugin(&w);
	if (w.rank == 0)
		printf("%zu types, %zu operations, %d sizes, %d ranks, seed %llu: %s\n",
		       sizeof(kinds) / sizeof(kinds[0]), sizeof(operations) / sizeof(operations[0]), SIZES, w.size,
		       (unsigned long long)w.seed, wrong ? "DIFFERENT" : "as MPI_Allreduce has it");
	MPI_Finalize();
	return wrong ? 1 : 0;
}
