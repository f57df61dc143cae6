/*
 * `tributary completion bash`: completion of commands, options, files and words. It is a table in shell's clothes, so
 * that nothing of ours runs while someone types. docs/tributary.bash is its output; a test
 * compares them.
 */
#include "command/command.h"

#include <stdbool.h>
#include <string.h>

static void print_words(const char *list, FILE *out)
{
	for (; *list; list++)
		fputc(*list == '|' ? ' ' : *list, out);
}

/* As a pattern of `case`. */
static void print_name(const struct command *command, FILE *out)
{
	for (const char *at = command->name; *at; at++)
		fprintf(out, "%s%c", *at == ' ' ? "\\" : "", *at);
}

/* The second words of those that begin with this one's name. */
static void print_second_words(const struct command *command, FILE *out)
{
	for (const struct command *const *at = NULL; (at = command_next_second(command, at));)
		fprintf(out, " %s", (*at)->name + strlen(command->name) + 1);
}

/* What can be said of a value that is no file and no list of words: words, which end in ':' where more follows. */
static const char *words_of_value(const struct command_option *option)
{
	static const struct {
		const char *name, *argument, *words;
	} known[] = {
		{ "order", NULL, "rank leaf random:" },
		{ "algo", "LIST", "ring tree hierarchical aggregators" },
		{ "fabric", "FABRIC", "leaf-spine: fat-tree: rail-optimised:" },
		{ "parallel", "WORD", "ddp fsdp tp:" },
		{ "hosts", "N", "either" },
		{ "call", "BYTES", "auto" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(option->name, known[i].name) &&
		    (!known[i].argument || !strcmp(option->argument, known[i].argument)))
			return known[i].words;
	return NULL;
}

static void print_value(const struct command_option *option, FILE *out)
{
	const char *words = words_of_value(option);

	if (strchr(option->argument, '|')) {
		fputs("words='", out);
		print_words(option->argument, out);
		fputs("'", out);
	} else if (words) {
		fprintf(out, "words='%s'%s", words, strcmp(option->name, "order") ? "" : " kind=words-or-file");
	} else if (!strcmp(option->argument, "FILE")) {
		fputs("kind=file", out);
	} else if (!strcmp(option->argument, "FOLDER")) {
		fputs("kind=directory", out);
	} else {
		fputs("kind=none", out);
	}
}

/* What may follow an option that takes a value. */
static void print_values(const struct command *command, FILE *out)
{
	size_t count = command_option_count(command);

	for (size_t i = 0; i < count; i++) {
		const struct command_option *option = &command->options[i];

		if (!option->argument)
			continue;
		fputc('\t', out);
		print_name(command, out);
		fprintf(out, "\\ --%s) ", option->name);
		print_value(option, out);
		fputs(" ;;\n", out);
	}
}

static void print_operands(const struct command *command, FILE *out)
{
	const char *operands = command->operands;

	if (!strcmp(operands, "FILE") || !strcmp(operands, "[FILE]")) {
		fputs(" kind=file", out);
	} else if (!strcmp(operands, "COMMAND...")) {
		fputs(" kind=command", out);
	} else if (!strcmp(operands, "[JOB]")) {
		fputs(" words='host: peer:'", out);
	} else if (!strncmp(operands, "[COMMAND]", 9)) {
		/* "help cluster measure" */
		fputs(" words=$commands; [ \"$COMP_CWORD\" -gt 2 ] && words=$(_tributary_second \"${COMP_WORDS[2]}\") "
		      "kind=words",
		      out);
	} else if (strchr(operands, ' ')) { /* "show FILE" */
		fprintf(out, " words='%.*s", (int)strcspn(operands, " "), operands);
		print_second_words(command, out);
		fputs("'; [ \"$COMP_CWORD\" -gt 2 ] && words= kind=file", out);
	} else if (*operands) {
		fprintf(out, " words=%s", operands);
	}
}

static void print_options(const struct command *command, FILE *out)
{
	size_t count = command_option_count(command);

	fputs("\t\t", out);
	print_name(command, out);
	fputs(") options='", out);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "--%s ", command->options[i].name);
	fputs("--help'", out);
	print_operands(command, out);
	fputs(" ;;\n", out);
}

static bool takes_command(const struct command *command)
{
	return !strcmp(command->operands, "COMMAND...");
}

/* From the first word on that is no option of ours, the line is the other command's. */
static void print_other_command(const struct command *command, FILE *out)
{
	size_t count = command_option_count(command);

	fprintf(out,
		"\tif [ \"$command\" = %s ]; then\n"
		"\t\tat=2\n"
		"\t\twhile [ \"$at\" -lt \"$COMP_CWORD\" ]; do\n"
		"\t\t\tcase ${COMP_WORDS[at]} in\n",
		command->name);
	for (size_t i = 0; i < count; i++)
		if (command->options[i].argument)
			fprintf(out,
				"\t\t\t--%s) at=$((at + 2)); [ \"${COMP_WORDS[at-1]}\" = = ] && at=$((at + 1)) ;;\n",
				command->options[i].name);
	fputs("\t\t\t-*) at=$((at + 1)) ;;\n"
	      "\t\t\t*) break ;;\n"
	      "\t\t\tesac\n"
	      "\t\tdone\n"
	      "\t\tif [ \"$at\" -lt \"$COMP_CWORD\" ] && declare -F _command_offset >/dev/null; then\n"
	      "\t\t\t_command_offset \"$at\"\n"
	      "\t\t\treturn\n"
	      "\t\telif [ \"$at\" -lt \"$COMP_CWORD\" ]; then\n"
	      "\t\t\tcompopt -o default\n"
	      "\t\t\treturn\n"
	      "\t\tfi\n"
	      "\tfi\n",
	      out);
}

static void print_begin(FILE *out)
{
	fputs("# Completion of `tributary` for bash. Generated by `tributary completion bash`.\n"
	      "_tributary_second()\n{\n"
	      "\tcase $1 in\n",
	      out);
	for (const struct command *const *at = command_table; *at; at++) {
		if (!strchr((*at)->operands, ' ') || *(*at)->operands == '[')
			continue;
		fprintf(out, "\t%s) echo '%.*s", (*at)->name, (int)strcspn((*at)->operands, " "), (*at)->operands);
		print_second_words(*at, out);
		fputs("' ;;\n", out);
	}
	fputs("\tesac\n}\n"
	      "_tributary()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tlocal commands='",
	      out);
	for (const struct command *const *at = command_table; *at; at++)
		if (!strchr((*at)->name, ' '))
			fprintf(out, "%s%s", at == command_table ? "" : " ", (*at)->name);
	fputs("'\n\tlocal pairs='", out);
	for (const struct command *const *at = command_table; *at; at++)
		if (strchr((*at)->name, ' '))
			fprintf(out, "%.*s+%s ", (int)strcspn((*at)->name, " "), (*at)->name,
				strchr((*at)->name, ' ') + 1);
	fputs("'\n", out);
}

void command_print_completion(FILE *out)
{
	print_begin(out);
	/* bash makes words of their own of the equals sign in --option=value, and of colons. */
	fputs("\tlocal command=${COMP_WORDS[1]} options= words= kind= at\n"
	      "\tCOMPREPLY=()\n"
	      "\tif [ \"$COMP_CWORD\" = 1 ]; then\n"
	      "\t\tCOMPREPLY=($(compgen -W \"$commands --help --version\" -- \"$cur\"))\n"
	      "\t\treturn\n"
	      "\tfi\n",
	      out);
	for (const struct command *const *at = command_table; *at; at++)
		if (takes_command(*at))
			print_other_command(*at, out);
	fputs("\tif [ \"$cur\" = : ] || [ \"$prev\" = : ]; then\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\tcase \" $pairs \" in\n"
	      "\t*\" $command+${COMP_WORDS[2]:--} \"*) [ \"$COMP_CWORD\" -gt 2 ] && command=\"$command "
	      "${COMP_WORDS[2]}\" ;;\n"
	      "\tesac\n"
	      "\tif [ \"$cur\" = = ]; then\n"
	      "\t\tcur=\n"
	      "\telif [ \"$prev\" = = ] && [ \"$COMP_CWORD\" -gt 2 ]; then\n"
	      "\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
	      "\tfi\n"
	      "\tcase $command\\ $prev in\n",
	      out);
	for (const struct command *const *at = command_table; *at; at++)
		print_values(*at, out);
	fputs("\t*)\n\t\tcase $command in\n", out);
	for (const struct command *const *at = command_table; *at; at++)
		print_options(*at, out);
	fputs("\t\tesac\n"
	      "\t\tcase $cur in\n"
	      "\t\t-*) words=$options kind=words ;;\n"
	      "\t\tesac ;;\n"
	      "\tesac\n"
	      "\tcase $kind in\n"
	      "\tfile) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
	      "\tdirectory) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
	      "\tcommand) mapfile -t COMPREPLY < <(compgen -c -- \"$cur\") ;;\n"
	      "\twords-or-file) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\"; compgen -f -- \"$cur\") "
	      ";;\n"
	      "\tnone) ;;\n"
	      "\twords) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
	      "\t*) COMPREPLY=($(compgen -W \"${words:-$options}\" -- \"$cur\")) ;;\n"
	      "\tesac\n"
	      "\tcase ${COMPREPLY[0]} in\n"
	      "\t*:) [ \"${#COMPREPLY[@]}\" = 1 ] && compopt -o nospace ;;\n"
	      "\tesac\n"
	      "}\n"
	      "complete -F _tributary tributary\n",
	      out);
}

static int run(const struct command_call *call, FILE *out)
{
	(void)call;
	command_print_completion(out);
	return COMMAND_OK;
}

const struct command command_completion = {
	.name = "completion",
	.operands = "bash",
	.help = "print the completion for a shell",
	.about = "`make install` puts it where bash looks for it. Without that: source <(tributary completion bash).",
	.run = run,
};
