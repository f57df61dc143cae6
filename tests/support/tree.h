/* Trees of files that tests make up, below a directory of their own. All of them assert that it worked. */
#ifndef TRIBUTARY_TESTS_SUPPORT_TREE_H
#define TRIBUTARY_TESTS_SUPPORT_TREE_H

#include <stddef.h>

/* The directories above a path; fd is the directory that the path is relative to. */
void tree_parents(int fd, const char *path);
/* A file and the directories above it. */
void tree_write(int fd, const char *path, const void *data, size_t bytes);
/* Everything at and below a path, links not followed. */
void tree_remove(const char *path);

#endif
