/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* isdigit() and strcasecmp() ask the locale, which belongs to the application. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_word(const char *a, const char *b)
{
	while (*a && lower(*a) == lower(*b)) {
		a++;
		b++;
	}
	return lower(*a) == lower(*b);
}

static int digits(const char **text, uint64_t *ret)
{
	const char *at = *text;
	uint64_t value = 0;

	if (!is_digit(*at))
		return -EINVAL;
	for (; is_digit(*at); at++) {
		if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
			return -ERANGE;
	}
	*text = at;
	*ret = value;
	return 0;
}

static int bounded(uint64_t value, uint64_t min, uint64_t max, uint64_t *ret)
{
	if (value < min || value > max)
		return -ERANGE;
	*ret = value;
	return 0;
}

int parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t value;
	int r = digits(&text, &value);

	if (r < 0)
		return r;
	return *text ? -EINVAL : bounded(value, min, max, ret);
}

int parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret)
{
	bool negative = *text == '-';
	uint64_t magnitude;
	int64_t value;
	int r = parse_u64(text + negative, 0, (uint64_t)INT64_MAX + negative, &magnitude);

	if (r < 0)
		return r;
	value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	if (value < min || value > max)
		return -ERANGE;
	*ret = value;
	return 0;
}

int parse_hex64(const char *text, uint64_t *ret)
{
	static const char hex[] = "0123456789abcdef";
	uint64_t value = 0;
	size_t count;

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		text += 2;
	for (count = 0; text[count]; count++) {
		const char *at = strchr(hex, lower(text[count]));

		if (!at)
			return -EINVAL;
		if (count == 16)
			return -ERANGE;
		value = value << 4 | (uint64_t)(at - hex);
	}
	if (!count)
		return -EINVAL;
	*ret = value;
	return 0;
}

int parse_digest(const char *text, uint64_t *ret)
{
	enum { DIGITS = 16 };
	uint64_t value;

	if (strlen(text) != DIGITS || strspn(text, "0123456789abcdef") != DIGITS || parse_hex64(text, &value) < 0 ||
	    value <= 1)
		return -EINVAL;
	*ret = value;
	return 0;
}

/* "12.25" as 12 and 250000000. */
static int decimal(const char **text, uint64_t *ret, uint64_t *ret_billionths)
{
	uint64_t value, fraction = 0, unit = 1000000000;
	const char *at = *text;
	int r = digits(&at, &value);

	if (r < 0)
		return r;
	if (*at == '.') {
		if (!is_digit(*++at))
			return -EINVAL;
		for (; is_digit(*at); at++) {
			if (unit == 1)
				return -EINVAL; /* a tenth decimal */
			unit /= 10;
			fraction += (uint64_t)(*at - '0') * unit;
		}
	}
	*text = at;
	*ret = value;
	*ret_billionths = fraction;
	return 0;
}

int parse_seconds(const char *text, uint64_t min_ns, uint64_t max_ns, uint64_t *ret_ns)
{
	uint64_t value, fraction_ns;
	int r = decimal(&text, &value, &fraction_ns);

	if (r < 0)
		return r;
	if (*text)
		return -EINVAL;
	if (__builtin_mul_overflow(value, (uint64_t)1000000000, &value) ||
	    __builtin_add_overflow(value, fraction_ns, &value))
		return -ERANGE;
	return bounded(value, min_ns, max_ns, ret_ns);
}

/* What a number with a unit is made of: times factor, then `unit`, the rest of the text. */
struct amount {
	uint64_t value, billionths;
	char prefix; /* k, m, g, t; '\0': none */
	const char *unit;
};

static int amount(const char *text, struct amount *ret)
{
	int r = decimal(&text, &ret->value, &ret->billionths);

	if (r < 0)
		return r;
	text += text[0] == ' ' && text[1]; /* as all results have it: "100 Gbit/s" */
	ret->prefix = *text && strchr("kmgt", lower(*text)) ? lower(*text) : '\0';
	ret->unit = text + (ret->prefix != '\0');
	return 0;
}

/* step to the power of the prefix, times the number; rounded down. -ERANGE: past 64 bits. */
static int scale(const struct amount *amount, uint64_t step, uint64_t *ret)
{
	static const char prefixes[] = "kmgt";
	uint64_t factor = 1, value;
	__uint128_t fraction;

	for (const char *at = prefixes; amount->prefix; at++) {
		factor *= step;
		if (*at == amount->prefix)
			break;
	}
	fraction = (__uint128_t)amount->billionths * factor / 1000000000;
	if (__builtin_mul_overflow(amount->value, factor, &value) ||
	    __builtin_add_overflow(value, (uint64_t)fraction, &value))
		return -ERANGE;
	*ret = value;
	return 0;
}

static bool is_one_of(const char *text, const char *const *words)
{
	while (*words && strcmp(text, *words) != 0)
		words++;
	return *words != NULL;
}

int parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	static const char *const binary[] = { "", "i", "iB", NULL };
	struct amount found;
	uint64_t value;
	int r = amount(text, &found);
	bool is_decimal;

	if (r < 0)
		return r;
	is_decimal = !strcmp(found.unit, "B");
	if (!is_decimal && (!is_one_of(found.unit, binary) || (*found.unit && !found.prefix)))
		return -EINVAL;
	r = scale(&found, is_decimal ? 1000 : 1024, &value);
	return r < 0 ? r : bounded(value, min, max, ret);
}

int parse_rate(const char *text, uint64_t min_Bps, uint64_t max_Bps, uint64_t *ret_Bps)
{
	static const char *const bits[] = { "bit/s", "bps", "b/s", NULL }, *const bytes[] = { "B/s", "Bps", NULL };
	struct amount found;
	uint64_t value;
	int r = amount(text, &found);
	bool is_bits;

	if (r < 0)
		return r;
	is_bits = is_one_of(found.unit, bits);
	if (!is_bits && !is_one_of(found.unit, bytes) && (*found.unit || found.prefix))
		return -EINVAL;
	r = scale(&found, 1000, &value);
	if (r < 0)
		return r;
	if (!*found.unit && value < PARSE_BARE_RATE_LEAST_BPS)
		return -EINVAL;
	return bounded(is_bits ? value / 8 : value, min_Bps, max_Bps, ret_Bps);
}

int parse_range(const char *text, uint64_t min, uint64_t max, uint64_t *ret_low, uint64_t *ret_high)
{
	uint64_t low, high;
	int r = digits(&text, &low);

	if (r < 0)
		return r;
	if (*text++ != '-')
		return -EINVAL;
	r = parse_u64(text, min, max, &high);
	if (r < 0)
		return r;
	if (low > high)
		return -EINVAL;
	if (low < min)
		return -ERANGE;
	*ret_low = low;
	*ret_high = high;
	return 0;
}

int parse_choice(const char *text, const char *const *names, size_t *ret_index)
{
	for (size_t i = 0; names[i]; i++) {
		if (same_word(text, names[i])) {
			*ret_index = i;
			return 0;
		}
	}
	return -EINVAL;
}

void parse_collective(char *text)
{
	/* nccl-tests' programs; PyTorch's functions on tensors. */
	static const char *const ends[] = { "perf", "intotensor", "tensor", "single", "base", NULL };
	size_t bytes = 0;

	for (const char *from = text; *from; from++)
		if (*from != '_' && *from != '-')
			text[bytes++] = lower(*from);
	text[bytes] = '\0';
	for (const char *const *end = ends; *end; end++) {
		size_t end_bytes = strlen(*end);

		if (bytes > end_bytes && !strcmp(text + bytes - end_bytes, *end)) {
			text[bytes - end_bytes] = '\0';
			break;
		}
	}
}

int parse_bool(const char *text, bool *ret)
{
	static const char *const words[] = { "0", "1", "no", "yes", "false", "true", "off", "on", NULL };
	size_t index;
	int r = parse_choice(text, words, &index);

	if (r < 0)
		return r;
	*ret = index & 1;
	return 0;
}

bool parse_list_next(const char **rest, char separator, const char **ret_item, size_t *ret_bytes)
{
	const char *start = *rest, *end;

	while (*start && *start == separator)
		start++;
	if (!*start) {
		*rest = start;
		return false;
	}
	end = strchr(start, separator);
	if (!end)
		end = start + strlen(start);
	*ret_item = start;
	*ret_bytes = (size_t)(end - start);
	*rest = end;
	return true;
}

enum { LIST_ITEMS_MAX = 32, LIST_NAME_BYTES = 63, LIST_NUMBERS = 3 };

/* ":PORT:RAIL:PLANE", each as atoi() reads it, or -1 where it is not given. text begins with a colon. */
static void list_numbers(const char *text, size_t bytes, int ret[static LIST_NUMBERS])
{
	for (unsigned i = 0; i < LIST_NUMBERS; i++)
		ret[i] = -1;
	for (unsigned i = 0; i < LIST_NUMBERS && bytes; i++) {
		const char *colon = memchr(text + 1, ':', bytes - 1);
		size_t item_bytes = colon ? (size_t)(colon - text) : bytes;

		if (item_bytes > 1)
			ret[i] = (int)strtol(text + 1, NULL, 10); /* ends at the colon, comma or NUL */
		text += item_bytes;
		bytes -= item_bytes;
	}
}

bool parse_list_finds(const char *list, const char *device, unsigned port, int *ret_rail, int *ret_plane)
{
	const bool but = list[0] == '^', whole = list[but] == '=';
	const char *rest = list + but + whole, *item;
	size_t bytes, device_bytes = strlen(device);
	unsigned items = 0;

	*ret_rail = *ret_plane = -1;
	while (items < LIST_ITEMS_MAX && parse_list_next(&rest, ',', &item, &bytes)) {
		const char *colon = memchr(item, ':', bytes);
		size_t name_bytes = colon ? (size_t)(colon - item) : bytes;
		int numbers[LIST_NUMBERS];

		if (!name_bytes)
			continue;
		items++;
		list_numbers(item + name_bytes, bytes - name_bytes, numbers);
		if (name_bytes > LIST_NAME_BYTES)
			name_bytes = LIST_NAME_BYTES;
		if (name_bytes > device_bytes || memcmp(item, device, name_bytes) != 0 ||
		    (whole && name_bytes != device_bytes) || (port && numbers[0] != -1 && numbers[0] != (int)port))
			continue;
		*ret_rail = numbers[1];
		*ret_plane = numbers[2];
		return !but;
	}
	return items ? but : !but;
}

bool parse_list_wants(const char *list, const char *device, unsigned port)
{
	int rail, plane;

	return parse_list_finds(list, device, port, &rail, &plane);
}

void parse_trim(char *text)
{
	size_t bytes = strlen(text);

	while (bytes && strchr(" \t\r\n", text[bytes - 1]))
		text[--bytes] = '\0';
}

enum { DISTANCE_NAME_BYTES = 64 };

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned parse_distance(const char *a, const char *b, unsigned limit)
{
	/* rows[i % 3][j]: distance of the first i characters of a and the first j of b */
	unsigned rows[3][DISTANCE_NAME_BYTES + 1];
	size_t a_bytes = strlen(a), b_bytes = strlen(b);
	size_t difference = a_bytes > b_bytes ? a_bytes - b_bytes : b_bytes - a_bytes;

	if (difference > limit || b_bytes > DISTANCE_NAME_BYTES)
		return limit + 1;
	for (size_t j = 0; j <= b_bytes; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= a_bytes; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i - 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]), least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
		}
	}
	return least(rows[a_bytes % 3][b_bytes], limit + 1);
}

unsigned parse_slip(const char *typed, const char *name)
{
	size_t bytes = strlen(typed);
	unsigned limit = (unsigned)(bytes + 1) / 3, distance;

	if (bytes > DISTANCE_NAME_BYTES)
		return PARSE_NO_SLIP;
	if (bytes > 1 && !strncmp(typed, name, bytes))
		return 1;
	distance = parse_distance(typed, name, limit);
	return distance <= limit ? distance : PARSE_NO_SLIP;
}
