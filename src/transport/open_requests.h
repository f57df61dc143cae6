/*
 * The requests of a connection that are not done yet, in the order in which they were posted. A transport's request begins
 * with a struct transport_open, so the transport's own pointer comes back by a cast.
 */
#ifndef TRIBUTARY_TRANSPORT_OPEN_REQUESTS_H
#define TRIBUTARY_TRANSPORT_OPEN_REQUESTS_H

#include <stddef.h>

struct transport_open {
	struct transport_open *next;
};

struct transport_open_list {
	struct transport_open *first, *last;
};

static inline void transport_open_append(struct transport_open_list *list, struct transport_open *request)
{
	request->next = NULL;
	if (list->last)
		list->last->next = request;
	else
		list->first = request;
	list->last = request;
}

/* One that is not in it changes nothing. */
static inline void transport_open_remove(struct transport_open_list *list, struct transport_open *request)
{
	struct transport_open **link = &list->first, *before = NULL;

	while (*link && *link != request) {
		before = *link;
		link = &(*link)->next;
	}
	if (!*link)
		return;
	*link = request->next;
	if (list->last == request)
		list->last = before;
}

#endif
