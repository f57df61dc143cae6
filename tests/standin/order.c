#include "order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const step_words[ORDER_STEP_COUNT] = {
	[ORDER_LOCK_PLUGIN] = "lock-plugin",
	[ORDER_UNLOCK_PLUGIN] = "unlock-plugin",
	[ORDER_LOCK_NET] = "lock-net",
	[ORDER_UNLOCK_NET] = "unlock-net",
	[ORDER_INIT] = "init",
	[ORDER_DEVICES] = "devices",
	[ORDER_PROPERTIES_0] = "properties-0",
	[ORDER_PROPERTIES_EACH] = "properties-each",
	[ORDER_FUSE] = "fuse",
	[ORDER_PROPERTIES_FUSED] = "properties-fused",
	[ORDER_DEVICES_AGAIN] = "devices-again",
	[ORDER_TOPOLOGY_FILE] = "topology-file",
	[ORDER_GATHER_ALL] = "gather-all",
	[ORDER_GATHER_HOST] = "gather-host",
	[ORDER_GRAPH_RING] = "graph-ring",
	[ORDER_GRAPH_TREE] = "graph-tree",
	[ORDER_GRAPH_CHAIN] = "graph-chain",
	[ORDER_GRAPH_DIRECT] = "graph-direct",
	[ORDER_AGREE] = "agree",
	[ORDER_OOB] = "bootstrap-over-net",
	[ORDER_CONNECT] = "connect",
	[ORDER_TUNER_INIT] = "tuner-init",
	[ORDER_TUNER_ASK] = "tuner-ask",
	[ORDER_TUNER_END] = "tuner-end",
	[ORDER_FINALIZE] = "finalize",
};
static const char *const case_words[ORDER_CASE_COUNT] = { "init", "shared", "dump", "end", "abort" };

const char *order_step_word(enum order_step step)
{
	return step < ORDER_STEP_COUNT ? step_words[step] : "?";
}

static int find(const char *const *words, int count, const char *word)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(words[i], word))
			return i;
	return -1;
}

void order_read(const char *path, struct order *ret)
{
	FILE *file = fopen(path, "re");
	char line[1024];

	if (!file)
		fail_msg("%s cannot be read", path);
	memset(ret, 0, sizeof(*ret));
	while (fgets(line, sizeof(line), file)) {
		char *rest, *word = strtok_r(line, " \n", &rest);
		int which, step;

		if (!word || *word == '#')
			continue;
		which = find(case_words, ORDER_CASE_COUNT, word);
		if (which < 0)
			fail_msg("%s: there is no case \"%s\"", path, word);
		while ((word = strtok_r(NULL, " \n", &rest))) {
			step = find(step_words, ORDER_STEP_COUNT, word);
			if (step < 0 || ret->counts[which] == ORDER_STEPS_MAX)
				fail_msg("%s: %s: there is no step \"%s\"", path, case_words[which], word);
			ret->steps[which][ret->counts[which]++] = (enum order_step)step;
		}
	}
	fclose(file);
	for (int i = 0; i < ORDER_CASE_COUNT; i++)
		if (!ret->counts[i])
			fail_msg("%s: nothing about \"%s\"", path, case_words[i]);
}
