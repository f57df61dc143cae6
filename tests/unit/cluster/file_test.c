/* SPDX-License-Identifier: Apache-2.0 */
/* Which cluster a process is in: the file that is named, else the profile's, else none. */
#include "cluster/file.h"

#include "base/params.h"
#include "profile/profile.h"
#include "support/tree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct tree tree;

static void path_of(const char *name, char *ret, size_t bytes)
{
	snprintf(ret, bytes, "%s/%s", tree.root, name);
}

static void write_file(const char *name, const char *text, char *ret_path, size_t bytes)
{
	path_of(name, ret_path, bytes);
	tree_put(ret_path, text);
}

static void a_named_file_is_read(void **state)
{
	struct cluster *cluster = NULL;
	struct params params;
	struct diag why = { 0 };

	(void)state;
	params_defaults(&params);
	write_file("good", "SwitchName=a Nodes=n[1-3]\n", params.cluster, sizeof(params.cluster));
	errno = ERANGE;
	assert_int_equal(cluster_file_find(&params, NULL, &cluster, &why), 0);
	assert_int_equal(errno, ERANGE);
	assert_int_equal(cluster->host_count, 3);
	assert_string_equal(why.text, "");
	cluster_free(cluster);
}

static void what_is_wrong_names_the_file_and_the_place(void **state)
{
	struct cluster *cluster = NULL;
	struct diag why = { 0 };
	char path[256], text[400];

	(void)state;
	write_file("bad", "tributary-cluster 1\nswitch a rate=fast\n", path, sizeof(path));
	assert_int_equal(cluster_file_load(path, &cluster, &why), -EINVAL);
	snprintf(text, sizeof(text), "%s:2:15: expected a rate with its unit", path);
	assert_int_equal(strncmp(why.text, text, strlen(text)), 0);
	path_of("none", path, sizeof(path));
	assert_int_equal(cluster_file_load(path, &cluster, &why), -ENOENT);
	assert_non_null(strstr(why.text, "none\" cannot be read: No such file or directory"));
	assert_int_equal(cluster_file_load(tree.root, &cluster, &why), -EINVAL);
	assert_non_null(strstr(why.text, "cannot be read: it is a folder"));
	path_of("pipe", path, sizeof(path));
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(cluster_file_load(path, &cluster, &why), -EINVAL);
	write_file("long", "#", path, sizeof(path));
	assert_int_equal(truncate(path, CLUSTER_TEXT_BYTES_MAX + 1), 0);
	assert_int_equal(cluster_file_load(path, &cluster, &why), -EFBIG);
	assert_non_null(strstr(why.text, "4 MiB, which no cluster file is"));
	assert_null(cluster);
}

static void the_profile_counts_where_no_file_is_named(void **state)
{
	static const char text[] = "tributary-cluster 1\nswitch a\nhost x leaf=a\n";
	struct cluster *cluster = NULL;
	struct profile profile;
	struct params params;
	struct diag why = { 0 };

	(void)state;
	params_defaults(&params);
	profile_init(&profile);
	assert_int_equal(cluster_file_find(&params, NULL, &cluster, &why), 0);
	assert_null(cluster);
	assert_int_equal(cluster_file_find(&params, &profile, &cluster, &why), 0);
	assert_null(cluster);
	assert_int_equal(cluster_read(text, strlen(text), &profile.cluster, NULL), 0);
	assert_int_equal(cluster_file_find(&params, &profile, &cluster, &why), 0);
	assert_non_null(cluster);
	assert_null(profile.cluster);
	cluster_free(cluster);
	assert_int_equal(cluster_read(text, strlen(text), &profile.cluster, NULL), 0);
	write_file("other", "SwitchName=a Nodes=n[1-3]\n", params.cluster, sizeof(params.cluster));
	assert_int_equal(cluster_file_find(&params, &profile, &cluster, &why), 0);
	assert_int_equal(cluster->host_count, 3);
	cluster_free(cluster);
	profile_fini(&profile);
}

static int set_up(void **state)
{
	(void)state;
	tree_open(&tree);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tree_close(&tree);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_named_file_is_read),
		cmocka_unit_test(what_is_wrong_names_the_file_and_the_place),
		cmocka_unit_test(the_profile_counts_where_no_file_is_named),
	};

	return cmocka_run_group_tests_name("cluster_file", tests, set_up, tear_down);
}
