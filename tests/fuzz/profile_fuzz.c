/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile from anybody. The first byte chooses: 'a', as it is; 'm', the lines of a machine alone; else with a right
 * checksum put behind it, so that the lines are reached. What is read is written, and that is read back as the same;
 * its fingerprint compares with any other, and its beginning read alone says the same.
 */
#include "base/crc.h"
#include "base/sys.h"
#include "profile/profile_text.h"
#include "support/fuzz.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 65536, CHECKSUM_LINE_BYTES = 24 };

static void compare(const struct fingerprint *a, const struct fingerprint *b)
{
	struct diag why = { .text = "" };
	enum fingerprint_change change = fingerprint_compare(a, b, &why);

	fuzz_must(change < FINGERPRINT_CHANGE_COUNT && (change == FINGERPRINT_SAME) == !why.text[0]);
	fuzz_must(memchr(why.text, '\0', sizeof(why.text)) != NULL);
}

static void check_machine(const struct fingerprint *fingerprint)
{
	static const char other[] =
		"card 0000:19:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200 path=0000:16:02.0\n"
		"cpu vendor=GenuineIntel family=6 model=106 domains=2\n"
		"driver nvidia version=550.54.15\n"
		"link 0000:19:00.0 lanes=16 most_generation=4\n"
		"port 0000:16:02.0 id=8086:347a class=060400\n";
	struct fingerprint again, another;

	fuzz_must(!fingerprint_of_text(fingerprint->text, fingerprint->bytes, &again));
	fuzz_must(!strcmp(again.id, fingerprint->id));
	fuzz_must(fingerprint_compare(&again, fingerprint, NULL) == FINGERPRINT_SAME);
	fuzz_must(!fingerprint_of_text(other, strlen(other), &another));
	compare(fingerprint, &another);
	compare(&another, fingerprint);
	fingerprint_fini(&again);
	fingerprint_fini(&another);
}

static void check_profile(const struct profile *profile, const char *text, size_t bytes)
{
	char *first = NULL, *second = NULL;
	size_t first_bytes = 0, second_bytes = 0;
	struct fingerprint head;
	struct profile again;
	int64_t date_s;

	check_machine(&profile->fingerprint);
	fuzz_must(!profile_read_head(text, bytes, &head, &date_s));
	fuzz_must(!strcmp(head.id, profile->fingerprint.id) && date_s == profile->date_s);
	fingerprint_fini(&head);
	fuzz_must(!profile_write(profile, &first, &first_bytes));
	fuzz_must(!profile_read(first, first_bytes, &again, NULL));
	fuzz_must(!profile_write(&again, &second, &second_bytes));
	fuzz_must(first_bytes == second_bytes && !memcmp(first, second, first_bytes));
	profile_fini(&again);
	free(first);
	free(second);
}

static int machine_alone(const uint8_t *data, size_t bytes)
{
	struct fingerprint fingerprint = { 0 };

	if (!fingerprint_of_text((const char *)data, bytes, &fingerprint))
		check_machine(&fingerprint);
	fingerprint_fini(&fingerprint);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct diag diag = { .text = "" };
	struct profile profile;
	size_t text_bytes;
	char *text;
	int r;

	if (!bytes || bytes > MOST_BYTES)
		return 0;
	if (data[0] == 'm')
		return machine_alone(data + 1, bytes - 1);
	text_bytes = bytes - 1;
	text = malloc(text_bytes + CHECKSUM_LINE_BYTES + 1);
	fuzz_must(text);
	memcpy(text, data + 1, text_bytes);
	if (data[0] != 'a')
		text_bytes += (size_t)snprintf(text + text_bytes, CHECKSUM_LINE_BYTES + 1,
					       "checksum crc32 %08" PRIx32 "\n", crc_ieee32(text, text_bytes));
	r = profile_read(text, text_bytes, &profile, &diag);
	fuzz_must(r == 0 || r == -EINVAL || r == -EBADMSG || r == -EPROTONOSUPPORT);
	fuzz_must((r < 0) == (diag.text[0] != '\0'));
	if (!r)
		check_profile(&profile, text, text_bytes);
	profile_fini(&profile);
	free(text);
	return 0;
}
