/* SPDX-License-Identifier: Apache-2.0 */
/* `make install`: what any text of the program names is there, and `make uninstall` takes all of it away. */
#include "command/command.h"

#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 20 };

static char text[TEXT_BYTES], build[512];

/* What a shell prints; its exit status. */
static int shell(const char *line)
{
	FILE *pipe = popen(line, "re");
	size_t bytes;

	assert_non_null(pipe);
	bytes = fread(text, 1, sizeof(text) - 1, pipe);
	text[bytes] = '\0';
	return pclose(pipe);
}

static int make_status(const char *goal)
{
	char line[2048];

	/* Everything is built: nothing is made anew, by whatever flags. */
	snprintf(line, sizeof(line),
		 "cd '%s' && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -o all O='%s' DESTDIR='%s/root' "
		 "PREFIX=/usr %s 2>&1",
		 program_source(), build, program_folder(), goal);
	return shell(line);
}

static void make(const char *goal)
{
	if (make_status(goal) != 0)
		fail_msg("make %s: %s", goal, text);
}

static int install(void **state)
{
	char path[1024];

	program_find(state);
	snprintf(build, sizeof(build), "%s", program_path());
	if (!program_path()[0] || !program_source()[0])
		return 0;
	*strrchr(build, '/') = '\0';
	snprintf(path, sizeof(path), "%s/tributaryd", build);
	if (access(path, X_OK) == 0)
		make("install");
	return 0;
}

static void need_installation(void)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/root/usr/bin/tributary", program_folder());
	if (access(path, X_OK) < 0) {
		print_message("skipped: no program in TRIBUTARY_BUILD\n");
		skip();
	}
}

/* Each "docs/NAME" of a text. Returns how many. */
static size_t check_documents(const char *where, const char *from)
{
	char path[1024], name[128];
	size_t count = 0;

	for (const char *at = from; (at = strstr(at, "docs/"));) {
		size_t bytes = 0;

		at += strlen("docs/");
		while (isalnum((unsigned char)at[bytes]) || (at[bytes] && strchr("._-/\\", at[bytes])))
			bytes++;
		while (bytes && strchr(".-/\\", at[bytes - 1]))
			bytes--;
		if (!bytes)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)bytes, at);
		/* A man page has a backslash in front of hyphens. */
		for (char *c; (c = strchr(name, '\\'));)
			memmove(c, c + 1, strlen(c));
		if (!strncmp(name, "completion", 10)) /* where each shell looks for them */
			continue;
		snprintf(path, sizeof(path), "%s/root/usr/share/doc/tributary/docs/%s", program_folder(), name);
		if (access(path, R_OK) < 0)
			fail_msg("%s names docs/%s, which is not installed", where, name);
		count++;
	}
	return count;
}

static void documents_that_help_names_are_installed(void **state)
{
	char call[128];
	size_t count = 0;

	(void)state;
	need_installation();
	for (const struct command *const *at = command_table; *at; at++) {
		snprintf(call, sizeof(call), "%s --help", (*at)->name);
		assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
		count += check_documents(call, text);
	}
	assert_true(count > 20);
}

static void what_installed_documents_link_to_is_installed(void **state)
{
	char line[1024];

	(void)state;
	need_installation();
	snprintf(
		line, sizeof(line),
		"cd '%s/root/usr/share/doc/tributary' && find . -name '*.md' | while read -r page; do grep -o ']([^)# ]*' "
		"\"$page\" | sed 's/^](//; /^$/d; /:\\/\\//d' | while read -r link; do [ -e \"${page%%/*}/$link\" ] || "
		"echo \"$page links to $link\"; done; done",
		program_folder());
	assert_int_equal(shell(line), 0);
	assert_string_equal(text, "");
}

/* All of them, as they are: a kustomization names its neighbours. */
static void examples_for_clusters_are_installed(void **state)
{
	static const char *const folders[] = { "kubernetes", "slurm", "containers" };
	char line[2048];

	(void)state;
	need_installation();
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(line, sizeof(line),
			 "diff -r '%s/packaging/%s' '%s/root/usr/share/doc/tributary/packaging/%s' 2>&1",
			 program_source(), folders[i], program_folder(), folders[i]);
		if (shell(line) != 0)
			fail_msg("%s", text);
	}
}

static void documents_that_man_pages_name_are_installed(void **state)
{
	char line[1024];
	size_t count = 0;

	(void)state;
	need_installation();
	snprintf(line, sizeof(line), "cat '%s/root/usr/share/man/'man?/tributary*.?", program_folder());
	assert_int_equal(shell(line), 0);
	assert_non_null(strstr(text, "\n.TH TRIBUTARY\\-CLUSTER\\-ORDER 1"));
	assert_non_null(strstr(text, "\n.TH TRIBUTARY\\-ENV 7"));
	assert_non_null(strstr(text, "\n.TH TRIBUTARYD 8"));
	count += check_documents("the man pages", text);
	snprintf(line, sizeof(line), "'%s/root/usr/bin/tributaryd' --help", program_folder());
	assert_int_equal(shell(line), 0);
	count += check_documents("tributaryd --help", text);
	assert_true(count > 10);
}

/* Of every string of the source: a message may come up in no test. */
static int check_source(const char *path, const struct stat *status, int kind, struct FTW *ftw)
{
	size_t bytes = strlen(path), used = 0;
	bool inside = false;
	FILE *file;
	int c;

	(void)status;
	(void)ftw;
	if (kind != FTW_F || bytes < 2 || strcmp(path + bytes - 2, ".c") != 0)
		return 0;
	file = fopen(path, "re");
	assert_non_null(file);
	while ((c = fgetc(file)) != EOF && used + 2 < sizeof(text)) {
		if (c == '\\' && inside) {
			(void)fgetc(file);
			continue;
		}
		if (c == '"')
			inside = !inside;
		else if (c == '\n')
			inside = false;
		text[used] = inside && c != '"' ? (char)c : ' ';
		used += inside || (used && text[used - 1] != ' ');
	}
	text[used] = '\0';
	fclose(file);
	(void)check_documents(path, text);
	return 0;
}

static void documents_that_messages_name_are_installed(void **state)
{
	char path[1024];

	(void)state;
	need_installation();
	snprintf(path, sizeof(path), "%s/src", program_source());
	assert_int_equal(nftw(path, check_source, 16, FTW_PHYS), 0);
}

static void what_the_readme_shows_is_installed(void **state)
{
	char line[1024];

	(void)state;
	need_installation();
	snprintf(line, sizeof(line), "%s/root/usr/share/doc/tributary/perf/RESULTS.md", program_folder());
	assert_int_equal(access(line, R_OK), 0);
	snprintf(line, sizeof(line), "cat '%s/root/usr/share/doc/tributary/README.md'", program_folder());
	assert_int_equal(shell(line), 0);
	assert_non_null(strstr(text, "docs/plan.svg"));
	assert_true(check_documents("README.md", text) > 20);
}

/* As somebody who installed it sees it. */
static void help_says_where_documents_are(void **state)
{
	char line[1024], place[PATH_MAX], expected[PATH_MAX + 32];

	(void)state;
	need_installation();
	snprintf(line, sizeof(line), "'%s/root/usr/bin/tributary' help simulate", program_folder());
	assert_int_equal(shell(line), 0);
	snprintf(line, sizeof(line), "%s/root/usr/share/doc/tributary/docs", program_folder());
	assert_non_null(realpath(line, place));
	snprintf(expected, sizeof(expected), "docs/ is %s\n", place);
	assert_non_null(strstr(text, expected));
}

/* Whether the installed name is the plugin itself, so that the loader gives both halves the same data. */
static bool is_the_plugin(const char *name)
{
	char path[1024];
	struct stat plugin, other;

	snprintf(path, sizeof(path), "%s/root/usr/lib/libnccl-net-tributary.so", program_folder());
	assert_int_equal(stat(path, &plugin), 0);
	snprintf(path, sizeof(path), "%s/root/usr/lib/%s", program_folder(), name);
	return stat(path, &other) == 0 && other.st_dev == plugin.st_dev && other.st_ino == plugin.st_ino;
}

/* Elsewhere than in the source, as its help says: hosts are emulated, and there is no NCCL. */
static void bench_runs_on_emulated_hosts(void **state)
{
	char line[2048];
	int status;

	(void)state;
	need_installation();
	snprintf(
		line, sizeof(line),
		"cd '%s' && PATH=$PATH:/usr/sbin && R=$PWD/root/usr && B=$R/share/tributary/testbed/testbed && $B check && "
		"printf 'hosts 2\\nleaf a h0\\nleaf b h1\\nuplink a b delay 1ms\\n' >far.bed && $B run far.bed -- true && "
		"$R/bin/tributary bench --worker plugins --operations all_reduce --sizes 64K-64K --turns 6 "
		"--seconds 10 -- testbed run pair-unshaped.bed -- 2>&1",
		program_folder());
	status = shell(line);
	if (!strncmp(text, "skipped: ", 9)) {
		print_message("%s", text);
		skip();
	}
	/* What is faster on a machine of tests is of no interest. */
	if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3) ||
	    !strstr(text, "# AllReduce, 2 ranks\n"))
		fail_msg("%d: %s", status, text);
}

static void nccl_finds_both_halves(void **state)
{
	struct stat net, env;
	char path[1024];

	(void)state;
	need_installation();
	assert_true(is_the_plugin("libnccl-env-tributary.so"));
	snprintf(path, sizeof(path), "%s/lib/libnccl-net-tributary.so", build);
	assert_int_equal(stat(path, &net), 0);
	snprintf(path, sizeof(path), "%s/lib/libnccl-env-tributary.so", build);
	assert_int_equal(stat(path, &env), 0);
	assert_true(env.st_dev == net.st_dev && env.st_ino == net.st_ino);
	/* As make install leaves it, NCCL must be told. */
	assert_false(is_the_plugin("libnccl-env.so"));
	assert_false(is_the_plugin("libnccl-net.so"));
}

/* A folder that only ldconfig's list names, as /usr/local/lib on Debian: each name has to be in it. */
static void ldconfig_lists_both_names(void **state)
{
	char line[2048];

	(void)state;
	need_installation();
	snprintf(line, sizeof(line),
		 "PATH=$PATH:/usr/sbin:/sbin; command -v ldconfig >/dev/null || exit 0; echo '%s/root/usr/lib' > "
		 "'%s/conf'; ldconfig -X -C '%s/cache' -f '%s/conf' 2>/dev/null; ldconfig -C '%s/cache' -p",
		 program_folder(), program_folder(), program_folder(), program_folder(), program_folder());
	assert_int_equal(shell(line), 0);
	if (!text[0]) {
		print_message("skipped: no ldconfig\n");
		skip();
	}
	assert_non_null(strstr(text, "libnccl-net-tributary.so ("));
	assert_non_null(strstr(text, "libnccl-env-tributary.so ("));
}

static void a_default_is_for_nobody_elses_plugin(void **state)
{
	char path[1024], line[2048];

	(void)state;
	need_installation();
	snprintf(path, sizeof(path), "%s/root/usr/lib/libnccl-net.so", program_folder());
	snprintf(line, sizeof(line), "echo theirs > '%s'", path);
	assert_int_equal(shell(line), 0);
	assert_int_not_equal(make_status("install-default"), 0);
	assert_non_null(strstr(text, "libnccl-net.so belongs to something else"));
	assert_false(is_the_plugin("libnccl-env.so"));
	make("uninstall");
	snprintf(line, sizeof(line), "cat '%s'", path);
	assert_int_equal(shell(line), 0);
	assert_string_equal(text, "theirs\n");
	assert_int_equal(unlink(path), 0);
	make("install-default");
	assert_true(is_the_plugin("libnccl-env.so"));
	assert_true(is_the_plugin("libnccl-net.so"));
	make("install-default"); /* once more, over itself */
}

/* The names that make install-default adds are there when it begins. */
static void uninstall_takes_all_away(void **state)
{
	char line[1024];

	(void)state;
	need_installation();
	make("uninstall");
	snprintf(line, sizeof(line), "find '%s/root' ! -type d; find '%s/root' -name tributary", program_folder(),
		 program_folder());
	assert_int_equal(shell(line), 0);
	assert_string_equal(text, "");
	snprintf(line, sizeof(line), "rm -r '%s/root'", program_folder());
	assert_int_equal(shell(line), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(documents_that_help_names_are_installed),
		cmocka_unit_test(what_installed_documents_link_to_is_installed),
		cmocka_unit_test(examples_for_clusters_are_installed),
		cmocka_unit_test(documents_that_man_pages_name_are_installed),
		cmocka_unit_test(documents_that_messages_name_are_installed),
		cmocka_unit_test(what_the_readme_shows_is_installed),
		cmocka_unit_test(help_says_where_documents_are),
		cmocka_unit_test(bench_runs_on_emulated_hosts),
		cmocka_unit_test(nccl_finds_both_halves),
		cmocka_unit_test(ldconfig_lists_both_names),
		cmocka_unit_test(a_default_is_for_nobody_elses_plugin),
		cmocka_unit_test(uninstall_takes_all_away),
	};

	return cmocka_run_group_tests_name("install", tests, install, NULL);
}
