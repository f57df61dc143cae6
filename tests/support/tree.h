/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders that tests make up and read. All of these assert that it worked. */
#ifndef TRIBUTARY_TESTS_SUPPORT_TREE_H
#define TRIBUTARY_TESTS_SUPPORT_TREE_H

#include <stddef.h>

/* A new folder below /tmp, of the owner alone; what is in it goes with it. */
struct tree {
	char root[40];
	int fd;
};
void tree_open(struct tree *tree);
void tree_close(struct tree *tree);
/* The same as cmocka's setup and teardown: *state is a struct tree. */
int tree_new(void **state);
int tree_free(void **state);

/* In a tree, with the directories above it. A link may be there already. */
void tree_text(const struct tree *tree, const char *path, const char *text);
void tree_link(const struct tree *tree, const char *path, const char *target);

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
/* How many names in a folder begin so, hidden ones too; 0 without the folder. */
unsigned tree_count(const char *folder, const char *prefix);
/* Everything at and below a path, links not followed. */
void tree_remove(const char *path);

#endif
