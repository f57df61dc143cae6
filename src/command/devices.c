/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary devices`: the interfaces that the TCP transport would use, and why. */
#include "command/command.h"

#include "base/log.h"
#include "base/params.h"
#include "command/answer.h"
#include "command/json.h"
#include "command/print/table.h"
#include "command/print/units.h"
#include "transport/tcp/interface.h"

#include <netdb.h>
#include <string.h>

enum { ADDRESS_BYTES = 64, SPEED_BYTES = 48 };

static void format_address(const struct tcp_interface *interface, char text[static ADDRESS_BYTES])
{
	/* getnameinfo alone writes an IPv6 scope; it looks nothing up with NI_NUMERICHOST. */
	if (getnameinfo((const struct sockaddr *)&interface->address, interface->address_bytes, text, ADDRESS_BYTES,
			NULL, 0, NI_NUMERICHOST))
		snprintf(text, ADDRESS_BYTES, "?");
}

static void format_speed(const struct tcp_interface *interface, char text[static SPEED_BYTES])
{
	char rate[UNITS_BYTES];

	snprintf(text, SPEED_BYTES, "%s%s", units_bits((double)interface->speed_Bps, rate),
		 interface->speed_assumed ? " (assumed)" : "");
}

static void answer(const struct tcp_interface *at, size_t count, struct answer *ret)
{
	double total_Bps = 0;
	bool assumed = false;
	char rate[UNITS_BYTES];

	*ret = (struct answer){ .text = "" };
	answer_add(ret, "TCP would go over ");
	for (size_t i = 0; i < count; i++) {
		answer_add(ret, "%s%s", !i ? "" : i + 1 < count ? ", " : " and ", at[i].name);
		total_Bps += (double)at[i].speed_Bps;
		assumed |= at[i].speed_assumed;
	}
	answer_add(ret, ": %s%s%s; TRIBUTARY_IF chooses others.", units_bits(total_Bps, rate),
		   count > 1 ? " together" : "", assumed ? ", assumed where the system tells no speed" : "");
}

static void print_devices(const struct tcp_interface *at, size_t count, FILE *out)
{
	const char *prefix = "/sys/devices/";
	char address[ADDRESS_BYTES], speed[SPEED_BYTES], rail[12];
	struct answer first;
	struct table table;
	FILE *rows;

	answer(at, count, &first);
	answer_print(&first, out);
	rows = table_begin(&table, out);
	fputs("NAME\tADDRESS\tSPEED\tRAIL\tLINKS\tMTU\tWHY\tPCI\n", rows);
	for (size_t i = 0; i < count; i++) {
		const char *pci = at[i].pci_path;

		format_address(&at[i], address);
		format_speed(&at[i], speed);
		snprintf(rail, sizeof(rail), "%d", at[i].rail);
		if (!strncmp(pci, prefix, strlen(prefix)))
			pci += strlen(prefix);
		fprintf(rows, "%s\t%s\t%s\t%s\t%u\t%u\t%s\t%s\n", at[i].name, address, speed,
			at[i].rail < 0 ? "-" : rail, at[i].path_count, at[i].mtu_bytes, at[i].why, *pci ? pci : "-");
	}
	table_end(&table, rows, "l  l  l  l  l  l  l  l");
}

/* What the choice went by. */
static bool find_list(const struct params *params, struct command_param_source *ret)
{
	return command_param_source(params, command_param_index("TRIBUTARY_IF"), ret);
}

static int print_json(const struct tcp_interface *at, size_t count, const struct params *params, FILE *out)
{
	struct command_param_source list_source;
	json_t *list = json_array(), *document;
	char address[ADDRESS_BYTES];
	struct answer first;

	for (size_t i = 0; i < count; i++) {
		format_address(&at[i], address);
		json_array_append_new(list,
				      json_pack("{so so sI sb si si si so so}", "name", json_text(at[i].name),
						"address", json_text(address), "speed_Bps", (json_int_t)at[i].speed_Bps,
						"speed_assumed", at[i].speed_assumed, "rail", at[i].rail, "links",
						(int)at[i].path_count, "mtu_bytes", (int)at[i].mtu_bytes, "why",
						json_text(at[i].why), "pci_path", json_text(at[i].pci_path)));
	}
	answer(at, count, &first);
	document = json_pack("{so so}", "answer", answer_json(&first), "devices", list);
	if (find_list(params, &list_source))
		json_object_set_new(document, "list",
				    json_pack("{so so so}", "variable", json_text(list_source.variable), "value",
					      json_text(list_source.text), "from", json_text(list_source.from)));
	return json_print("tributary-devices 1", document, out);
}

static int run(const struct command_call *call, FILE *out)
{
	struct tcp_interface at[TCP_INTERFACE_MAX];
	struct command_param_source list;
	struct params params;
	struct diag diag;
	size_t count = 0;
	int r;

	command_load_params(&params);
	r = tcp_interfaces_find(&params, at, TCP_INTERFACE_MAX, &count, &diag);
	if (diag.text[0])
		command_say("%s", diag.text);
	else if (r < 0)
		command_say("the interfaces cannot be listed: %s", strerror(-r));
	if (r < 0 || !count)
		return COMMAND_FAILED;
	if (command_given(call, "json"))
		return print_json(at, count, &params, out);
	print_devices(at, count, out);
	if (find_list(&params, &list))
		fprintf(out, "The list is %s=%s, set in %s.\n", list.variable, list.text, list.from);
	return COMMAND_OK;
}

const struct command command_devices = {
	.name = "devices",
	.group = COMMAND_SEE,
	.operands = "",
	.help = "the interfaces that the TCP transport would use, and why",
	.about = "Best first: name, address, speed in one direction, rail (the position among several), links "
		 "(members of a bond that share the traffic), MTU, why it was chosen, and its place on PCI. A speed "
		 "that the system does not tell is assumed to be 10 Gbit/s.",
	.options = { COMMAND_OPTION_JSON },
	.example = "TRIBUTARY_IF=^docker,eno1 tributary devices",
	.run = run,
};
