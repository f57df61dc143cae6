#include "tributary/predict.h"

static const char *const collectives[] = {
	[PREDICT_BROADCAST] = "Broadcast",         [PREDICT_REDUCE] = "Reduce",       [PREDICT_ALLGATHER] = "AllGather",
	[PREDICT_REDUCESCATTER] = "ReduceScatter", [PREDICT_ALLREDUCE] = "AllReduce",
};
static const char *const algorithms[] = {
	[PREDICT_TREE] = "Tree", [PREDICT_RING] = "Ring",          [PREDICT_COLLNET_DIRECT] = "CollNetDirect",
	[PREDICT_PAT] = "PAT",   [PREDICT_NVLS_TREE] = "NVLSTree", [PREDICT_COLLNET_CHAIN] = "CollNetChain",
	[PREDICT_NVLS] = "NVLS",
};
static const char *const protocols[] = {
	[PREDICT_LL] = "LL",
	[PREDICT_LL128] = "LL128",
	[PREDICT_SIMPLE] = "Simple",
};

const char *predict_collective_word(enum predict_collective collective)
{
	return (unsigned)collective < PREDICT_COLLECTIVE_COUNT ? collectives[collective] : "?";
}

const char *predict_algorithm_word(enum predict_algorithm algorithm)
{
	return (unsigned)algorithm < PREDICT_ALGORITHM_COUNT ? algorithms[algorithm] : "?";
}

const char *predict_protocol_word(enum predict_protocol protocol)
{
	return (unsigned)protocol < PREDICT_PROTOCOL_COUNT ? protocols[protocol] : "?";
}
