/* What the tests of declared clusters share: a text is read, and what is understood is compared in our own form. */
#ifndef TESTS_UNIT_DISCOVER_DECLARED_H
#define TESTS_UNIT_DISCOVER_DECLARED_H

/* this_host as in lldp_read. */
void declared_means(const char *text, const char *this_host, const char *expected);
/* Refused, at that line (0: no place), for a reason that has this part. */
void declared_is_refused(const char *text, const char *this_host, int line, const char *part);

#endif
