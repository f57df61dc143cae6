/* A machine's graph and facts from whatever root it is looked at through. Inner header of src/discover. */
#ifndef TRIBUTARY_DISCOVER_MACHINE_H
#define TRIBUTARY_DISCOVER_MACHINE_H

#include "discover/discover.h"
#include "discover/root.h"

/* ret_facts may be NULL. The errors are those of discover(). */
int discover_machine(struct discover_root *root, struct topology *ret, struct discover_facts *ret_facts,
		     struct diag *diag);
/* What is not a file on this machine: told apart by what is in it. `data` need not end with a NUL. */
int discover_bytes(const char *data, size_t bytes, struct topology *ret, struct discover_facts *ret_facts,
		   enum discover_source *ret_source, struct diag *diag);

#endif
