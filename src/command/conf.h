/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's configuration files. NCCL puts their lines into the environment before it loads a plugin, so the plugin's
 * variables work from there, too; a command that tells what the plugin would do reads them in the same way.
 */
#ifndef TRIBUTARY_COMMAND_CONF_H
#define TRIBUTARY_COMMAND_CONF_H

/*
 * Sets what $NCCL_CONF_FILE, or else .nccl.conf in the user's home, and then /etc/nccl.conf have and the environment has
 * not. Once a process; says on stderr which lines NCCL makes nothing of.
 */
void conf_load(void);
/* The file that the variable's value came from, and its line (ret_line may be NULL); NULL: not from a file. */
const char *conf_file_of(const char *variable, unsigned *ret_line);
/* Takes back what conf_load set: what runs next reads the files itself. */
void conf_unload(void);

#endif
