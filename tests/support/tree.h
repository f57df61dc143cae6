/* Files and folders that tests make up and read. All of these assert that it worked. */
#ifndef TRIBUTARY_TESTS_SUPPORT_TREE_H
#define TRIBUTARY_TESTS_SUPPORT_TREE_H

#include <stddef.h>

enum { TREE_ROOT_BYTES = 40 };

/* A new folder below /tmp, of the owner alone. */
void tree_make(char ret_root[static TREE_ROOT_BYTES]);
/* The directories above a path; fd is the directory that the path is relative to. */
void tree_parents(int fd, const char *path);
/* A file and the directories above it. */
void tree_write(int fd, const char *path, const void *data, size_t bytes);
/* A file of this text, in a directory that is there. */
void tree_put(const char *path, const char *text);
/* The same, with these permissions whatever the umask is. */
void tree_put_mode(const char *path, const char *text, unsigned mode);
/* A whole file, NUL-terminated; the caller frees it. NULL: it cannot be opened. ret_bytes: NULL, or its length. */
char *tree_read(const char *path, size_t *ret_bytes);
/* Everything at and below a path, links not followed. */
void tree_remove(const char *path);

#endif
