/* SPDX-License-Identifier: Apache-2.0 */
#include "command/print/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* As many decimals as it takes, up to four. */
static void three_digits(double value, char text[static UNITS_BYTES])
{
	int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;

	for (double at = value; at > 0 && at < 0.9995 && decimals < 4; at *= 10)
		decimals++;
	snprintf(text, UNITS_BYTES, "%.*f", decimals, value);
}

const char *units_GBps(uint64_t rate_Bps, char text[static UNITS_BYTES])
{
	if (!rate_Bps)
		snprintf(text, UNITS_BYTES, "?");
	else
		three_digits((double)rate_Bps / 1e9, text);
	return text;
}

/* At least four digits, never an exponent. */
static const char *in_unit(double value, const char *unit, char text[static UNITS_BYTES])
{
	snprintf(text, UNITS_BYTES, value >= 9999.5 ? "%.0f %s" : "%.4g %s", value, unit);
	return text;
}

const char *units_rate(double rate_Bps, char text[static UNITS_BYTES])
{
	if (!isfinite(rate_Bps)) {
		snprintf(text, UNITS_BYTES, "-");
	} else if (rate_Bps <= 0) {
		snprintf(text, UNITS_BYTES, "0 GB/s");
	} else {
		three_digits(rate_Bps / 1e9, text);
		snprintf(text + strlen(text), UNITS_BYTES - strlen(text), " GB/s");
	}
	return text;
}

const char *units_bits(double rate_Bps, char text[static UNITS_BYTES])
{
	double bits = rate_Bps * 8;

	return in_unit(bits >= 1e9 ? bits / 1e9 : bits / 1e6, bits >= 1e9 ? "Gbit/s" : "Mbit/s", text);
}

const char *units_size(double bytes, char text[static UNITS_BYTES])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	size_t unit = 0;

	for (; bytes >= 1024 && unit < 3; unit++)
		bytes /= 1024;
	return in_unit(bytes, units[unit], text);
}

const char *units_time(double time_s, char text[static UNITS_BYTES])
{
	if (time_s >= 1)
		return in_unit(time_s, "s", text);
	return time_s >= 1e-3 ? in_unit(time_s * 1e3, "ms", text) : in_unit(time_s * 1e6, "us", text);
}
