/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of machines and cables; wiring_tree.c makes a cluster of it. */
#include "cluster/read/wiring.h"

#include "base/hash.h"
#include "base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int wiring_new(struct wiring **ret)
{
	struct wiring *wiring = sys_zalloc(sizeof(*wiring));

	if (!wiring)
		return -ENOMEM;
	wiring->notes = open_memstream(&wiring->notes_text, &wiring->notes_bytes);
	if (!wiring->notes) {
		sys_free(wiring);
		return -ENOMEM;
	}
	for (size_t i = 0; i < WIRING_BUCKETS; i++)
		wiring->bucket[i] = WIRING_NONE;
	*ret = wiring;
	return 0;
}

void wiring_free(struct wiring *wiring)
{
	if (!wiring)
		return;
	for (size_t i = 0; i < wiring->machine_count; i++) {
		free(wiring->machines[i].key);
		free(wiring->machines[i].name);
	}
	free(wiring_take_notes(wiring));
	sys_free(wiring->nameless);
	free(wiring->machines);
	free(wiring->links);
	sys_free(wiring);
}

char *wiring_take_notes(struct wiring *wiring)
{
	char *text;

	if (!wiring->notes || fclose(wiring->notes) != 0) {
		free(wiring->notes_text);
		wiring->notes_text = NULL;
	}
	text = wiring->notes_text;
	wiring->notes = NULL;
	wiring->notes_text = NULL;
	return text;
}

/* Of the part before a dot, so that names with and without a domain have the same. */
static uint32_t bucket_of(const char *key)
{
	return (uint32_t)(hash_bytes(HASH_START, key, strcspn(key, ".")) % WIRING_BUCKETS);
}

/* Of the letters that a cluster's names have; freed by free. NULL: no memory. */
static char *wiring_clean_name(const char *name)
{
	size_t bytes = strnlen(name, WIRING_NAME_MAX);
	char *clean = strndup(bytes ? name : "_", bytes ? bytes : 1);

	for (char *at = clean; at && *at; at++) {
		bool good = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
			    *at == '.' || *at == '-' || *at == '_';

		if (!good)
			*at = '_';
	}
	return clean;
}

static int add_machine(struct wiring *wiring, const char *key, const char *name, uint32_t bucket)
{
	struct wiring_machine *at;

	if (sys_grow(&wiring->machines, wiring->machine_count, 1, sizeof(*wiring->machines)) < 0)
		return -ENOMEM;
	at = &wiring->machines[wiring->machine_count];
	*at = (struct wiring_machine){ .key = strdup(key),
				       .name = wiring_clean_name(name),
				       .next = wiring->bucket[bucket] };
	if (!at->key || !at->name) {
		free(at->key);
		free(at->name);
		return -ENOMEM;
	}
	wiring->bucket[bucket] = (uint32_t)wiring->machine_count++;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	const struct wiring_machine *first = *(struct wiring_machine *const *)a,
				    *second = *(struct wiring_machine *const *)b;

	return strcmp(first->name, second->name);
}

int wiring_name_apart(struct wiring *wiring)
{
	struct wiring_machine **sorted = calloc(wiring->machine_count + 1, sizeof(struct wiring_machine *));
	size_t count = 0;
	int r = sorted ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < wiring->machine_count; i++)
		if (wiring->machines[i].kind == WIRING_SWITCH)
			sorted[count++] = &wiring->machines[i];
	if (count)
		qsort(sorted, count, sizeof(struct wiring_machine *), compare_names);
	for (size_t i = 0, next; r == 0 && i < count; i = next) {
		for (next = i + 1; next < count && !strcmp(sorted[i]->name, sorted[next]->name);)
			next++;
		for (size_t j = i; r == 0 && next > i + 1 && j < next; j++) {
			char *name = wiring_clean_name(sorted[j]->key);

			if (!name) {
				r = -ENOMEM;
				break;
			}
			free(sorted[j]->name);
			sorted[j]->name = name;
		}
	}
	free(sorted);
	return r;
}

int wiring_machine(struct wiring *wiring, const char *key, const char *name, enum wiring_kind kind, uint32_t *ret)
{
	uint32_t bucket = bucket_of(key), at = wiring->bucket[bucket];
	int r;

	while (at != WIRING_NONE && strcmp(wiring->machines[at].key, key) != 0)
		at = wiring->machines[at].next;
	if (at == WIRING_NONE) {
		if (wiring->machine_count == WIRING_MACHINES_MAX)
			return -E2BIG;
		r = add_machine(wiring, key, name, bucket);
		if (r < 0)
			return r;
		at = (uint32_t)wiring->machine_count - 1;
	}
	if (kind != WIRING_UNKNOWN)
		wiring->machines[at].kind = kind;
	*ret = at;
	return 0;
}

bool wiring_find(const struct wiring *wiring, const char *key, size_t among, uint32_t *ret)
{
	size_t first = strcspn(key, "."), fits = 0;

	for (uint32_t at = wiring->bucket[bucket_of(key)]; at != WIRING_NONE; at = wiring->machines[at].next) {
		const char *has = wiring->machines[at].key;

		if (!strcmp(has, key)) {
			*ret = at;
			return true;
		}
		if (at >= among || strcspn(has, ".") != first || strncmp(has, key, first) != 0 ||
		    (has[first] && key[first]))
			continue;
		*ret = at;
		fits++;
	}
	return fits == 1;
}

int wiring_link(struct wiring *wiring, uint32_t from, uint32_t to, uint64_t rate_Bps, const char *label,
		const char *far_label)
{
	struct wiring_link *at;

	if (wiring->link_count == WIRING_LINKS_MAX)
		return -E2BIG;
	if (sys_grow(&wiring->links, wiring->link_count, 1, sizeof(*wiring->links)) < 0)
		return -ENOMEM;
	at = &wiring->links[wiring->link_count++];
	*at = (struct wiring_link){ .from = from, .to = to, .rate_Bps = rate_Bps };
	snprintf(at->label, sizeof(at->label), "%s", label);
	snprintf(at->far_label, sizeof(at->far_label), "%s", far_label);
	return 0;
}

void wiring_note(struct wiring *wiring, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vfprintf(wiring->notes, fmt, args);
	va_end(args);
	fputc('\n', wiring->notes);
}

void wiring_list(const struct wiring *wiring, const uint32_t *machines, size_t count,
		 char ret[static WIRING_LIST_BYTES])
{
	size_t shown = count > WIRING_SHOWN + 1 ? WIRING_SHOWN : count, used = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < shown; i++)
		used += (size_t)snprintf(ret + used, WIRING_LIST_BYTES - used, "%s%.60s", i ? ", " : "",
					 wiring->machines[machines[i]].name);
	if (shown < count)
		snprintf(ret + used, WIRING_LIST_BYTES - used, " and %zu more", count - shown);
}
