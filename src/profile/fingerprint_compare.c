/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has become of a machine. Cards and ports are paired first where they are, then by what they are: the same model
 * in another place has moved. What pairs with nothing is gone, or new.
 */
#include "profile/fingerprint_lines.h"

#include "base/log.h"
#include "base/sys.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct part {
	enum fingerprint_what what;
	struct fingerprint_span line, bus, path;
	struct fingerprint_span ident; /* of a card or port: what it is, wherever it is */
	struct part *pair;
};

struct side {
	struct part *parts;
	size_t count;
};

struct finding {
	enum fingerprint_change change;
	size_t differences;
	char text[sizeof(((struct diag *)NULL)->text)];
};

/* -------- reading -------- */

static int parts_of(const struct fingerprint *fingerprint, struct side *ret)
{
	struct fingerprint_span rest = { fingerprint->text, fingerprint->bytes }, line;
	size_t count = 0;

	while (fingerprint_next_line(&rest, &line))
		count++;
	ret->parts = sys_zalloc(count * sizeof(*ret->parts));
	if (!ret->parts)
		return -1;
	rest = (struct fingerprint_span){ fingerprint->text, fingerprint->bytes };
	for (; ret->count < count && fingerprint_next_line(&rest, &line); ret->count++) {
		struct part *part = &ret->parts[ret->count];
		struct fingerprint_span bus = fingerprint_word(line, 1), path = fingerprint_value(line, "path");
		const char *from = bus.at + bus.bytes, *to = path.bytes ? path.at : line.at + line.bytes;

		*part = (struct part){
			fingerprint_what_of(line), line, bus, path, { from, (size_t)(to - from) }, NULL
		};
	}
	return 0;
}

static bool has_place(const struct part *part)
{
	return part->what == FINGERPRINT_CARD || part->what == FINGERPRINT_PORT;
}

static bool pairs_with(const struct part *then, const struct part *now, bool anywhere)
{
	if (then->what != now->what || now->pair)
		return false;
	if (then->what == FINGERPRINT_CPU)
		return true;
	if (!has_place(then))
		return !anywhere && fingerprint_span_is(then->bus, now->bus);
	return fingerprint_span_is(then->ident, now->ident) && (anywhere || fingerprint_span_is(then->bus, now->bus));
}

static void pair_parts(struct side *then, struct side *now, bool anywhere)
{
	for (size_t i = 0; i < then->count; i++) {
		for (size_t j = 0; j < now->count && !then->parts[i].pair; j++) {
			if (!pairs_with(&then->parts[i], &now->parts[j], anywhere))
				continue;
			then->parts[i].pair = &now->parts[j];
			now->parts[j].pair = &then->parts[i];
		}
	}
}

/* -------- words -------- */

#define SPAN(span) (int)(span).bytes, (span).at

static const char *noun(const struct part *part)
{
	static const struct {
		const char *kind, *noun;
	} nouns[] = { { "gpu", "GPU" }, { "nic", "network card" }, { "nvswitch", "NVSwitch" } };
	struct fingerprint_span kind = fingerprint_value(part->line, "kind");

	if (part->what == FINGERPRINT_PORT)
		return "PCIe port";
	for (size_t i = 0; i < sizeof(nouns) / sizeof(nouns[0]); i++)
		if (fingerprint_span_is(kind, (struct fingerprint_span){ nouns[i].kind, strlen(nouns[i].kind) }))
			return nouns[i].noun;
	return "accelerator";
}

static const char *or_unknown(struct fingerprint_span value, char text[static 48])
{
	snprintf(text, 48, "%.*s", SPAN(value));
	return value.bytes ? text : "unknown";
}

/* The first and gravest difference gives the change and the sentence; the others are counted. */
static void found(struct finding *finding, enum fingerprint_change change, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void found(struct finding *finding, enum fingerprint_change change, const char *fmt, ...)
{
	va_list args;

	if (finding->differences++)
		return;
	finding->change = change;
	va_start(args, fmt);
	log_sentence_v(finding->text, sizeof(finding->text), fmt, args);
	va_end(args);
}

/* -------- differences, one kind each -------- */

static const struct part *in_its_place(const struct part *gone, const struct side *now)
{
	for (size_t i = 0; i < now->count; i++)
		if (now->parts[i].what == gone->what && fingerprint_span_is(now->parts[i].bus, gone->bus))
			return &now->parts[i];
	return NULL;
}

static void find_gone(struct finding *finding, const struct side *then, const struct side *now,
		      enum fingerprint_what what)
{
	for (size_t i = 0; i < then->count; i++) {
		const struct part *part = &then->parts[i], *other = in_its_place(part, now);
		struct fingerprint_span id = fingerprint_value(part->line, "id");

		if (part->what != what || part->pair)
			continue;
		if (other)
			found(finding, FINGERPRINT_CARD_GONE, "the %s %.*s at %.*s is gone; a %s %.*s is in its place",
			      noun(part), SPAN(id), SPAN(part->bus), noun(other),
			      SPAN(fingerprint_value(other->line, "id")));
		else
			found(finding, FINGERPRINT_CARD_GONE, "the %s %.*s at %.*s is gone", noun(part), SPAN(id),
			      SPAN(part->bus));
	}
}

static void find_new(struct finding *finding, const struct side *now, enum fingerprint_what what)
{
	for (size_t i = 0; i < now->count; i++) {
		const struct part *part = &now->parts[i];

		if (part->what == what && !part->pair)
			found(finding, FINGERPRINT_CARD_NEW, "there is a new %s, %.*s, at %.*s", noun(part),
			      SPAN(fingerprint_value(part->line, "id")), SPAN(part->bus));
	}
}

/* The first port of two paths in which they differ; empty when one is at its end. */
static void first_other_port(struct fingerprint_span *a, struct fingerprint_span *b)
{
	struct fingerprint_span *of[2] = { a, b };
	size_t same = 0;

	for (size_t i = 0; i < a->bytes && i < b->bytes && a->at[i] == b->at[i]; i++)
		if (a->at[i] == '/')
			same = i + 1;
	for (size_t i = 0; i < 2; i++) {
		const char *end;

		of[i]->at += same;
		of[i]->bytes -= same;
		end = memchr(of[i]->at, '/', of[i]->bytes);
		if (end)
			of[i]->bytes = (size_t)(end - of[i]->at);
	}
}

static void find_moved(struct finding *finding, const struct side *then, enum fingerprint_what what)
{
	char was[48], is[48];

	for (size_t i = 0; i < then->count; i++) {
		const struct part *part = &then->parts[i];
		struct fingerprint_span id = fingerprint_value(part->line, "id"), from = part->path, to;

		if (part->what != what || !part->pair)
			continue;
		to = part->pair->path; /* empty: not known, or directly at the root, and then the bus says enough */
		if (!fingerprint_span_is(part->bus, part->pair->bus)) {
			found(finding, FINGERPRINT_CARD_MOVED, "the %s %.*s was at %.*s and is at %.*s now", noun(part),
			      SPAN(id), SPAN(part->bus), SPAN(part->pair->bus));
		} else if (from.bytes && to.bytes && !fingerprint_span_is(from, to)) {
			first_other_port(&from, &to);
			found(finding, FINGERPRINT_CARD_MOVED,
			      "the %s %.*s at %.*s was behind port %s and is behind port %s now", noun(part), SPAN(id),
			      SPAN(part->bus), or_unknown(from, was), or_unknown(to, is));
		}
	}
}

/* Of a value that one of the two does not know, nothing can be said. */
static bool differs(const struct part *then, const char *key, struct fingerprint_span *ret_was,
		    struct fingerprint_span *ret_is)
{
	*ret_was = fingerprint_value(then->line, key);
	*ret_is = fingerprint_value(then->pair->line, key);
	return ret_was->bytes && ret_is->bytes && !fingerprint_span_is(*ret_was, *ret_is);
}

static void find_retrained(struct finding *finding, const struct side *then)
{
	static const char *const speeds[] = { "generation", "most_generation" };
	struct fingerprint_span was, is;

	for (size_t i = 0; i < then->count; i++) {
		const struct part *part = &then->parts[i];

		if (part->what != FINGERPRINT_LINK || !part->pair)
			continue;
		if (differs(part, "lanes", &was, &is))
			found(finding, FINGERPRINT_LINK_RETRAINED,
			      "the PCIe link of %.*s had %.*s lanes and has %.*s now", SPAN(part->bus), SPAN(was),
			      SPAN(is));
		for (size_t j = 0; j < sizeof(speeds) / sizeof(speeds[0]); j++)
			if (differs(part, speeds[j], &was, &is))
				found(finding, FINGERPRINT_LINK_RETRAINED,
				      "the PCIe link of %.*s %s of generation %.*s and %s of %.*s now", SPAN(part->bus),
				      j ? "could be" : "was", SPAN(was), j ? "can be" : "is", SPAN(is));
	}
}

static void find_drivers(struct finding *finding, const struct side *then, const struct side *now)
{
	struct fingerprint_span was, is;

	for (size_t i = 0; i < then->count; i++) {
		const struct part *part = &then->parts[i];

		if (part->what != FINGERPRINT_DRIVER)
			continue;
		if (!part->pair)
			found(finding, FINGERPRINT_DRIVER_CHANGED, "the driver %.*s %.*s is not loaded now",
			      SPAN(part->bus), SPAN(fingerprint_value(part->line, "version")));
		else if (differs(part, "version", &was, &is))
			found(finding, FINGERPRINT_DRIVER_CHANGED, "the driver %.*s was %.*s and is %.*s now",
			      SPAN(part->bus), SPAN(was), SPAN(is));
	}
	for (size_t i = 0; i < now->count; i++)
		if (now->parts[i].what == FINGERPRINT_DRIVER && !now->parts[i].pair)
			found(finding, FINGERPRINT_DRIVER_CHANGED, "the driver %.*s %.*s is loaded now and was not",
			      SPAN(now->parts[i].bus), SPAN(fingerprint_value(now->parts[i].line, "version")));
}

static const struct part *cpu_of(const struct side *side)
{
	for (size_t i = 0; i < side->count; i++)
		if (side->parts[i].what == FINGERPRINT_CPU && side->parts[i].pair)
			return &side->parts[i];
	return NULL;
}

static bool other_processor(const struct side *then, struct fingerprint_span *ret_was, struct fingerprint_span *ret_is)
{
	const struct part *part = cpu_of(then);

	return part && (differs(part, "vendor", ret_was, ret_is) || differs(part, "family", ret_was, ret_is) ||
			differs(part, "model", ret_was, ret_is));
}

static void find_cpu(struct finding *finding, const struct side *then)
{
	const struct part *part = cpu_of(then);
	struct fingerprint_span was, is;

	if (other_processor(then, &was, &is))
		found(finding, FINGERPRINT_CPU_CHANGED, "the processor was \"%.*s\" and is \"%.*s\" now",
		      SPAN(part->line), SPAN(part->pair->line));
	else if (part && differs(part, "domains", &was, &is))
		found(finding, FINGERPRINT_CPU_CHANGED,
		      "the processors were divided into %.*s NUMA domains and are into %.*s now", SPAN(was), SPAN(is));
}

/* -------- the change -------- */

static size_t paired(const struct side *side, size_t *ret_of)
{
	size_t count = 0;

	*ret_of = 0;
	for (size_t i = 0; i < side->count; i++) {
		*ret_of += side->parts[i].what != FINGERPRINT_LINK;
		count += side->parts[i].what != FINGERPRINT_LINK && side->parts[i].pair;
	}
	return count;
}

/*
 * Another machine has other things in it. Where they are is not asked: a card more can shift every bus number behind
 * it. But the same cards in other places under another processor are another machine.
 */
static bool foreign(const struct fingerprint *a, const struct fingerprint *b, const struct side *then,
		    const struct side *now)
{
	struct fingerprint_span was, is;
	size_t of_then, of_now, common = paired(then, &of_then);
	bool other = other_processor(then, &was, &is);

	paired(now, &of_now);
	if (2 * (common - other) <= (of_then > of_now ? of_then : of_now))
		return of_then || of_now;
	return other && 2 * fingerprint_common(a, b) <= (then->count > now->count ? then->count : now->count);
}

static void find_foreign(struct finding *finding, const struct side *then, const struct side *now)
{
	const struct part *cpu = cpu_of(then);
	struct fingerprint_span was, is;
	size_t of_then, of_now, common = paired(then, &of_then);

	paired(now, &of_now);
	if (other_processor(then, &was, &is))
		found(finding, FINGERPRINT_FOREIGN,
		      "it is of another machine: the processor there is \"%.*s\", here it is \"%.*s\"", SPAN(cpu->line),
		      SPAN(cpu->pair->line));
	else
		found(finding, FINGERPRINT_FOREIGN,
		      "it is of another machine: of %zu parts (processor, cards, ports, drivers) %zu are in both",
		      of_then > of_now ? of_then : of_now, common);
}

static void find_differences(struct finding *finding, const struct side *then, const struct side *now)
{
	static const enum fingerprint_what placed[] = { FINGERPRINT_CARD, FINGERPRINT_PORT };

	for (size_t i = 0; i < sizeof(placed) / sizeof(placed[0]); i++) {
		find_gone(finding, then, now, placed[i]);
		find_new(finding, now, placed[i]);
		find_moved(finding, then, placed[i]);
	}
	find_cpu(finding, then);
	find_retrained(finding, then);
	find_drivers(finding, then, now);
}

enum fingerprint_change fingerprint_compare(const struct fingerprint *then, const struct fingerprint *now,
					    struct diag *why)
{
	struct finding finding = { FINGERPRINT_SAME, 0, "" };
	struct side was = { 0 }, is = { 0 };

	if (then->bytes == now->bytes && (!now->bytes || !memcmp(then->text, now->text, now->bytes)))
		return FINGERPRINT_SAME;
	if (parts_of(then, &was) < 0 || parts_of(now, &is) < 0) {
		found(&finding, FINGERPRINT_FOREIGN, "there is no memory to compare it with this machine");
	} else {
		pair_parts(&was, &is, false);
		pair_parts(&was, &is, true);
		if (foreign(then, now, &was, &is))
			find_foreign(&finding, &was, &is);
		else
			find_differences(&finding, &was, &is);
	}
	sys_free(was.parts);
	sys_free(is.parts);
	if (finding.differences > 1)
		diag_set(why, 0, 0, "%s (and %zu more)", finding.text, finding.differences - 1);
	else if (finding.differences)
		diag_set(why, 0, 0, "%s", finding.text);
	return finding.change;
}
