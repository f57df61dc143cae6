/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables for a terminal. Rows are written as text: a tab ends each cell but the last, a newline the row. A line without a tab is
 * printed as it is. Columns are as wide as their widest cell, in characters: colours and UTF-8 may stand in cells.
 *
 * Why not libsmartcols: it writes what is not ASCII as \x.. unless the program takes the user's locale, and has no place for a
 * line between two rows.
 */
#ifndef TRIBUTARY_COMMAND_PRINT_TABLE_H
#define TRIBUTARY_COMMAND_PRINT_TABLE_H

#include <stddef.h>
#include <stdio.h>

struct table {
	FILE *out;
	char *text;
	size_t bytes;
};

/* Where the rows go. */
FILE *table_begin(struct table *table, FILE *out);
/*
 * Prints the rows. layout: a letter for each column, l (its cells begin together) or r (they end together), and before it the
 * spaces that set it apart, as "l  r  r  l". Further columns are like the last. On a terminal, a last column that begins
 * together is broken between words to fit; else nothing is ever broken or cut.
 */
void table_end(struct table *table, FILE *rows, const char *layout);

#endif
