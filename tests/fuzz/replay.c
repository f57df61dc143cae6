/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzzer's target over stored inputs, without libFuzzer: files, and every file of the folders named. 1 when
 * there was none: an empty corpus proves nothing.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define MOST_BYTES (1 << 20)

static unsigned replay_file(const char *path)
{
	FILE *file = fopen(path, "rbe");
	uint8_t *data = malloc(MOST_BYTES);
	unsigned count = 0;
	size_t bytes;

	if (!file || !data) {
		fprintf(stderr, "cannot read %s\n", path);
		exit(1);
	}
	bytes = fread(data, 1, MOST_BYTES, file);
	fclose(file);
	/* A block of just that size, so that a byte read beyond it is seen. */
	data = realloc(data, bytes ? bytes : 1);
	if (data) {
		(void)LLVMFuzzerTestOneInput(data, bytes);
		count = 1;
	}
	free(data);
	return count;
}

static unsigned replay(const char *path)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;
	unsigned count = 0;
	char name[4096];

	if (!directory)
		return replay_file(path);
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		count += replay_file(name);
	}
	closedir(directory);
	return count;
}

int main(int argc, char **argv)
{
	unsigned count = 0;

	for (int i = 1; i < argc; i++)
		count += replay(argv[i]);
	fprintf(stderr, "%u inputs replayed\n", count);
	return count == 0;
}
