/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The documents of one file, and whose each is; then the neighbours in them. Both of lldpctl's JSON forms: "json", in which
 * what is there once is an object and several are an array, and "json0", in which all is an array.
 */
#include "cluster/read/wiring.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

struct document {
	json_t *lldp; /* borrowed */
	uint32_t owner;
};

struct reader {
	struct diag *diag;
	struct wiring *wiring;
	json_t *roots;     /* array: all that the file has */
	const char *heard; /* whose the next one is, by the local-chassis before it */
	const char *this_host;
	json_t *documents; /* array of "lldp" values, in the order of owners */
	uint32_t *owners;
	size_t nameless;
	size_t owner_count; /* machines that have a document: the first ones */
};

static int refuse(struct reader *reader, const char *what)
{
	diag_set(reader->diag, 0, 0, "%s", what);
	return -EINVAL;
}

static int too_much(struct reader *reader, int error)
{
	return error == -E2BIG ? refuse(reader, "there are more machines or cables in it than a cluster can have")
			       : error;
}

/* json0 puts everything in an array: its first element. */
static json_t *one(json_t *value)
{
	return json_is_array(value) ? json_array_get(value, 0) : value;
}

/* "x", {"value": "x"} or [{"value": "x"}]; NULL: none. */
static const char *text_of(json_t *value)
{
	value = one(value);
	return json_string_value(json_is_object(value) ? json_object_get(value, "value") : value);
}

/* ------------------------------------------------------------------------------------------------------------ chassis */

struct chassis {
	const char *name; /* or its identifier; NULL: it has neither */
	json_t *says;
	bool nameless; /* the name is an identifier */
};

/* {"leaf1": {…}}, {"id": {…}, …} without a name, or [{"name": [{"value": "leaf1"}], …}]. */
static struct chassis chassis_of(json_t *value)
{
	struct chassis chassis = { NULL, one(value), false };
	const char *key;
	json_t *inner;

	if (!json_is_object(chassis.says))
		return chassis;
	chassis.name = text_of(json_object_get(chassis.says, "name"));
	if (!chassis.name || !*chassis.name) {
		chassis.name = text_of(json_object_get(chassis.says, "id"));
		chassis.nameless = true;
	}
	if (chassis.name)
		return chassis;
	json_object_foreach(chassis.says, key, inner)
	{
		if (!json_is_object(inner))
			continue;
		chassis = (struct chassis){ key, inner, false };
		break;
	}
	return chassis;
}

static bool says_enabled(json_t *capability, const char *type)
{
	const char *is = json_string_value(json_object_get(capability, "type"));

	return is && !strcmp(is, type) && json_is_true(json_object_get(capability, "enabled"));
}

/* Whether it forwards, as far as it says: 1, 0, or -1 where it does not say. */
static int forwards(const struct chassis *chassis)
{
	json_t *list = json_object_get(chassis->says, "capability"), *capability;
	size_t i;

	if (!list)
		return -1;
	if (!json_is_array(list))
		return says_enabled(list, "Bridge") || says_enabled(list, "Router");
	json_array_foreach(list, i, capability)
	{
		if (says_enabled(capability, "Bridge") || says_enabled(capability, "Router"))
			return 1;
	}
	return 0;
}

/* ---------------------------------------------------------------------------------------------------------- documents */

static int add_document(struct reader *reader, json_t *lldp, const char *name, enum wiring_kind kind)
{
	size_t count = json_array_size(reader->documents);
	uint32_t owner;
	int r;

	if (!name && reader->nameless++)
		return refuse(reader,
			      "it does not say whose each part is: give each \"host\": NAME, or print lldpcli's "
			      "`show chassis` before it");
	if (!name)
		name = reader->this_host;
	if (!name)
		return refuse(reader, "it does not say which host it is from: give it \"host\": NAME");
	r = wiring_machine(reader->wiring, name, name, kind, &owner);
	if (r < 0)
		return too_much(reader, r);
	r = sys_grow(&reader->owners, count, 1, sizeof(*reader->owners));
	if (r < 0)
		return r;
	reader->owners[count] = owner;
	return json_array_append(reader->documents, lldp) < 0 ? -ENOMEM : 0;
}

/* An object with what lldpctl prints; `name`: what stands around it says. */
static int take_object(struct reader *reader, json_t *object, const char *name)
{
	json_t *local = one(json_object_get(object, "local-chassis")), *lldp = json_object_get(object, "lldp");
	const char *host = json_string_value(json_object_get(object, "host")),
		   *at = json_string_value(json_object_get(object, "switch"));
	int r = 0;

	if (local)
		reader->heard = chassis_of(json_object_get(local, "chassis")).name;
	if (lldp) {
		name = host ? host : (name ? name : reader->heard);
		r = add_document(reader, lldp, at ? at : name, at ? WIRING_SWITCH : WIRING_HOST);
		reader->heard = NULL;
	}
	return r;
}

static bool is_lldpctl(json_t *object)
{
	return json_object_get(object, "lldp") || json_object_get(object, "local-chassis");
}

/* What lldpctl prints, {"NAME": that, …}, or an array of these. */
static int take_root(struct reader *reader, json_t *root)
{
	const char *key;
	json_t *value;
	size_t i;
	int r = 0;

	if (json_is_array(root)) {
		json_array_foreach(root, i, value)
		{
			if (!json_is_object(value))
				return refuse(reader, "expected an array of what `lldpctl -f json` prints");
			r = take_root(reader, value);
			if (r < 0)
				return r;
		}
		return 0;
	}
	if (!json_is_object(root))
		return refuse(reader, "expected what `lldpctl -f json` prints");
	if (is_lldpctl(root))
		return take_object(reader, root, NULL);
	json_object_foreach(root, key, value)
	{
		if (!is_lldpctl(value))
			return refuse(reader,
				      "expected what `lldpctl -f json` prints: an object with \"lldp\", or one for "
				      "each host by its name");
		r = take_object(reader, value, key);
		if (r < 0)
			return r;
	}
	return 0;
}

static void count_lines(const char *text, size_t bytes, int *line, int *column)
{
	for (size_t i = 0; i < bytes; i++) {
		*column = text[i] == '\n' ? 1 : *column + 1;
		*line += text[i] == '\n';
	}
}

/* One JSON text after the other. */
static int take_text(struct reader *reader, const char *text, size_t bytes)
{
	int line = 1, column = 1, r = 0;

	while (r == 0) {
		size_t blank = 0;
		json_error_t error;
		json_t *root;

		while (blank < bytes && strchr(" \t\r\n", text[blank]) && text[blank])
			blank++;
		count_lines(text, blank, &line, &column);
		text += blank;
		bytes -= blank;
		if (!bytes)
			break;
		root = json_loadb(text, bytes, JSON_DISABLE_EOF_CHECK, &error);
		if (!root) {
			diag_set(reader->diag, line + error.line - 1, error.column > 0 ? error.column : 1,
				 "no JSON: %.150s", error.text);
			return -EINVAL;
		}
		r = json_array_append_new(reader->roots, root) < 0 ? -ENOMEM : take_root(reader, root);
		count_lines(text, (size_t)error.position, &line, &column);
		text += error.position;
		bytes -= (size_t)error.position;
	}
	return r;
}

/* --------------------------------------------------------------------------------------------------------- neighbours */

/* "100GbaseSR4 - …", "10GigBaseX", "1000BaseTFD": the rate in front of "base"; 0: it does not say. */
static uint64_t rate_of(const char *words)
{
	uint64_t number = 0;
	bool giga = false;

	if (!words)
		return 0;
	for (; *words >= '0' && *words <= '9' && number < 100000; words++)
		number = 10 * number + (uint64_t)(*words - '0');
	giga = *words == 'G' || *words == 'g';
	words += giga;
	if (giga && !strncasecmp(words, "ig", 2))
		words += 2;
	if (strncasecmp(words, "base", 4) != 0)
		return 0;
	return number * (giga ? 125000000 : 125000);
}

static uint64_t port_rate(json_t *port)
{
	json_t *negotiated = one(json_object_get(one(port), "auto-negotiation"));

	return rate_of(text_of(json_object_get(negotiated, "current")));
}

/* What a machine gives to each of its ports; NULL: none. */
static const char *port_id(json_t *port, const char *kind)
{
	json_t *id = one(json_object_get(one(port), "id"));
	const char *type = json_string_value(json_object_get(id, "type"));

	return type && !strcmp(type, kind) ? text_of(id) : NULL;
}

/* The name of the port at the other end, where it says one. */
static const char *far_port(json_t *port)
{
	const char *name = port_id(port, "ifname");

	if (!name)
		name = port_id(port, "local");
	if (!name)
		name = text_of(json_object_get(one(port), "descr"));
	return name ? name : "";
}

/* What a host hears is a switch: but for another host, and for what says that it does not forward. False: it is none. */
static bool heard_by_host(const struct reader *reader, uint32_t other, int forwarding)
{
	if (wiring_is(reader->wiring, other, WIRING_HOST) || forwarding == 0)
		return false;
	reader->wiring->machines[other].kind = WIRING_SWITCH;
	return true;
}

/* "enp1s0f0", "eno1", "ens2": what Linux calls an adapter in a host, and no switch its data ports. */
static bool is_host_port(const char *name)
{
	return name[0] == 'e' && name[1] == 'n' && name[2] && strchr("opsx", name[2]) &&
	       strchr("0123456789abcdef", name[3]) && name[3];
}

/*
 * A host that routes for its containers says that it forwards. Adapters whose firmware speaks LLDP, and much else that is no
 * host, have no name.
 */
static void heard_by_switch(const struct reader *reader, uint32_t other, bool forwarding, bool nameless)
{
	enum wiring_kind *kind = &reader->wiring->machines[other].kind;

	if (*kind == WIRING_UNKNOWN)
		*kind = forwarding ? WIRING_SWITCH : (nameless ? WIRING_NAMELESS : WIRING_HOST);
}

/* Of the port at the other end. Some switches have one address for all ports, that of the chassis. */
static uint64_t far_port_hash(json_t *says)
{
	static const char *const kinds[] = { "ifname", "local", "mac" };
	json_t *chassis = one(json_object_get(says, "chassis")), *port = json_object_get(says, "port");
	const char *id = NULL, *own;

	for (size_t i = 0; !id && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		id = port_id(port, kinds[i]);
	if (!id || !port_id(port, "mac"))
		return id && *id ? hash_text(HASH_START, id) : 0;
	if (json_object_size(chassis) == 1) /* {"leaf1": {…}} */
		chassis = json_object_iter_value(json_object_iter(chassis));
	own = port_id(chassis, "mac");
	return own && strcmp(own, id) != 0 ? hash_text(HASH_START, id) : 0;
}

/* A cable is there twice where its switch speaks CDP, too, and where a bond or a bridge hears what its port hears. */
static struct wiring_link *heard_before(const struct reader *reader, uint32_t owner, uint32_t other, const char *port,
					uint64_t far_port)
{
	struct wiring_link *links = reader->wiring->links;
	char label[WIRING_LABEL_BYTES];

	snprintf(label, sizeof(label), "%s", port);
	for (size_t i = reader->wiring->link_count; i-- > 0 && links[i].from == owner;)
		if (links[i].to == other &&
		    (!strcmp(links[i].label, label) || (far_port && links[i].far_port == far_port)))
			return &links[i];
	return NULL;
}

/* One neighbour of `owner`. */
static int take_neighbour(struct reader *reader, uint32_t owner, const char *port, json_t *says)
{
	struct chassis chassis = chassis_of(json_object_get(says, "chassis"));
	json_t *far = json_object_get(says, "port");
	int forwarding = forwards(&chassis), r;
	struct wiring_link *again;
	uint64_t far_port_is;
	uint32_t other;

	if (!chassis.name || !*chassis.name)
		return 0;
	/* Who gathered the documents may call a machine otherwise than it does itself: with its domain, or without. */
	r = wiring_find(reader->wiring, chassis.name, reader->owner_count, &other)
		    ? 0
		    : wiring_machine(reader->wiring, chassis.name, chassis.name, WIRING_UNKNOWN, &other);
	if (r < 0)
		return r;
	if (wiring_is(reader->wiring, owner, WIRING_HOST)) {
		if (!heard_by_host(reader, other, forwarding))
			return 0;
	} else {
		heard_by_switch(reader, other, forwarding == 1 && !is_host_port(far_port(far)), chassis.nameless);
	}
	far_port_is = far_port_hash(says);
	again = heard_before(reader, owner, other, port, far_port_is);
	if (again) {
		again->rate_Bps = again->rate_Bps ? again->rate_Bps : port_rate(far);
		return 0;
	}
	r = wiring_link(reader->wiring, owner, other, port_rate(far), port, far_port(far));
	if (r == 0)
		reader->wiring->links[reader->wiring->link_count - 1].far_port = far_port_is;
	return r;
}

/* {"eth0": {…}, …}; or json0's {"name": "eth0", "chassis": […], …}. */
static int take_interfaces(struct reader *reader, uint32_t owner, json_t *object)
{
	const char *name = json_string_value(json_object_get(object, "name")), *key;
	json_t *value;
	int r = 0;

	if (name)
		return take_neighbour(reader, owner, name, object);
	json_object_foreach(object, key, value)
	{
		r = take_neighbour(reader, owner, key, value);
		if (r < 0)
			return r;
	}
	return r;
}

static int take_document(struct reader *reader, uint32_t owner, json_t *lldp)
{
	json_t *interfaces = json_object_get(one(lldp), "interface"), *value;
	size_t i;
	int r = 0;

	if (!json_is_array(interfaces))
		return take_interfaces(reader, owner, interfaces);
	json_array_foreach(interfaces, i, value)
	{
		r = take_interfaces(reader, owner, value);
		if (r < 0)
			return r;
	}
	return r;
}

/* Hosts first: what they are cabled to is a switch, whatever another switch would take it for. */
static int take_documents(struct reader *reader)
{
	reader->owner_count = reader->wiring->machine_count;
	for (int switches = 0; switches < 2; switches++)
		for (size_t i = 0; i < json_array_size(reader->documents); i++) {
			bool of_switch = wiring_is(reader->wiring, reader->owners[i], WIRING_SWITCH);
			int r;

			if (of_switch != (switches == 1))
				continue;
			r = take_document(reader, reader->owners[i], json_array_get(reader->documents, i));
			if (r < 0)
				return too_much(reader, r);
		}
	return 0;
}

int lldp_read(const char *text, size_t bytes, const struct wiring_options *options, struct cluster **ret,
	      char **ret_notes, struct diag *diag)
{
	struct reader reader = {
		.diag = diag, .this_host = options->this_host, .roots = json_array(), .documents = json_array()
	};
	int r = reader.roots && reader.documents ? wiring_new(&reader.wiring) : -ENOMEM;

	*ret_notes = NULL;
	if (r == 0)
		r = take_text(&reader, text, bytes);
	if (r == 0)
		r = take_documents(&reader);
	if (r == 0) {
		reader.wiring->nameless_what = "neighbour";
		reader.wiring->nameless_remedy = "Where that is a host, run lldpd on it";
		r = wiring_cluster(reader.wiring, options, ret, diag);
		*ret_notes = wiring_take_notes(reader.wiring);
	}
	wiring_free(reader.wiring);
	json_decref(reader.documents);
	json_decref(reader.roots);
	free(reader.owners);
	return r;
}
