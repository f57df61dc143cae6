/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/interface_wish.h"

#include "base/parse.h"

#include <string.h>

void tcp_interface_wish_parse(const char *text, struct tcp_interface_wish *ret)
{
	const char *rest = text, *item, *colon;
	size_t bytes;

	memset(ret, 0, sizeof(*ret));
	ret->text = text;
	if (*rest == '^') {
		ret->exclude = true;
		rest++;
	}
	if (*rest == '=') {
		ret->exact = true;
		rest++;
	}
	while (ret->item_count < TCP_INTERFACE_ITEMS_MAX && parse_list_next(&rest, ',', &item, &bytes)) {
		bool exact = ret->exact;

		if (*item == '=') { /* NCCL knows it at the list's beginning only; here it is no name either way */
			exact = true;
			item++;
			bytes--;
		}
		colon = memchr(item, ':', bytes); /* NCCL allows a port after the name, and does not use it here */
		if (colon)
			bytes = (size_t)(colon - item);
		if (!bytes)
			continue;
		ret->items[ret->item_count].text = item;
		ret->items[ret->item_count].bytes = bytes;
		ret->items[ret->item_count++].exact = exact;
	}
	if (!ret->item_count)
		ret->exclude = false;
}

size_t tcp_interface_wish_match(const struct tcp_interface_wish *wish, const char *name)
{
	size_t i;

	for (i = 0; i < wish->item_count; i++) {
		size_t bytes = wish->items[i].bytes;

		if (!strncmp(name, wish->items[i].text, bytes) && (!wish->items[i].exact || !name[bytes]))
			break;
	}
	return i;
}
