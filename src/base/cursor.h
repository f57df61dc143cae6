/*
 * Messages written and read front to back: numbers little-endian (bytes.h), blocks, and text in a field of fixed size that ends
 * with a NUL and is printable ASCII. Pure, any thread.
 */
#ifndef TRIBUTARY_BASE_CURSOR_H
#define TRIBUTARY_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The caller has room for all that is put. */
struct writer {
	uint8_t *at;
};
/* Whatever is missing or not as it must be sets `bad` and reads as zeros. Nothing is read past the end. */
struct reader {
	const uint8_t *at, *end;
	bool bad;
};

/* count: 1 to 8 bytes. */
void writer_put(struct writer *writer, uint64_t value, unsigned count);
void writer_put_block(struct writer *writer, const void *block, size_t bytes);
/* Cut to what fits into `bytes` with its NUL, the rest zeros; what is not printable becomes '?'. */
void writer_put_text(struct writer *writer, const char *text, size_t bytes);

uint64_t reader_get(struct reader *reader, unsigned count);
/* 0 or 1 in so many bytes. */
bool reader_get_bool(struct reader *reader, unsigned count);
void reader_get_block(struct reader *reader, void *ret, size_t bytes);
/* Always ends with a NUL. */
void reader_get_text(struct reader *reader, char *ret, size_t bytes);

#endif
