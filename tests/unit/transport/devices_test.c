/* SPDX-License-Identifier: Apache-2.0 */
/* What the transports over a network offer: physical devices, and those that were joined of them. */
#include "base/params.h"
#include "base/process.h"
#include "transport/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct transport_devices devices;

static void describe(struct transport *transport, int index)
{
	struct transport_device *device = &devices.list[index];

	assert_ptr_equal(transport, &devices);
	device->properties = (struct transport_properties){ .name = device->name,
							    .member_count = (int)device->rail_count };
}

static int setup(void **state)
{
	char name[16];

	(void)state;
	memset(&devices, 0, sizeof(devices));
	transport_devices_init(&devices, &lock, describe);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "rail%d", i);
		transport_devices_add(&devices, name);
	}
	return 0;
}

static atomic_bool paced;

static void *make_pace(void *arg)
{
	int r = transport_devices_pace(&devices, 0, arg, true);

	atomic_store(&paced, true);
	return r == 0 ? arg : NULL;
}

/* Another process of the user holds the lock of the pace's file: the transport's is free all the same. */
static void the_file_of_the_pace_is_waited_for_without_the_lock(void **state)
{
	struct transport_device *device = &devices.list[0];
	static struct params params;
	struct stat st;
	unsigned taken = 0;
	pthread_t thread;
	char path[512];
	void *result;
	int fd;

	(void)state;
	params_defaults(&params);
	snprintf(device->name, sizeof(device->name), "test%d", (int)getpid());
	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	snprintf(path, sizeof(path), "/dev/shm/tributary-pace4-%u-%llu-%s", (unsigned)process_user(),
		 (unsigned long long)st.st_ino, device->name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(pthread_create(&thread, NULL, make_pace, &params), 0);
	while (!atomic_load(&paced)) {
		if (pthread_mutex_trylock(&lock) == 0) {
			taken++;
			pthread_mutex_unlock(&lock);
		}
		sched_yield();
	}
	pthread_join(thread, &result);
	assert_ptr_equal(result, &params);
	assert_non_null(device->pace);
	assert_true(taken > 100); /* it took a second */
	transport_devices_fini(&devices);
	unlink(path);
	close(fd);
}

static int join(int count, const int *members)
{
	int index = -1, r = transport_devices_join((struct transport *)&devices, count, members, &index);

	assert_int_equal(r < 0, index == -1);
	return r < 0 ? r : index;
}

static void a_physical_device_is_its_own_member(void **state)
{
	struct transport_properties p;

	(void)state;
	assert_int_equal(transport_devices_count((struct transport *)&devices), 8);
	assert_int_equal(transport_devices_properties((struct transport *)&devices, 7, &p), 0);
	assert_string_equal(p.name, "rail7");
	assert_int_equal(join(1, (int[]){ 7 }), 7);
	assert_int_equal(transport_devices_count((struct transport *)&devices), 8);
}

static void the_same_members_are_the_same_device(void **state)
{
	struct transport_properties p;

	(void)state;
	assert_int_equal(join(2, (int[]){ 0, 1 }), 8);
	assert_int_equal(join(2, (int[]){ 1, 0 }), 9); /* the first one leads: another device */
	assert_int_equal(join(3, (int[]){ 0, 1, 2 }), 10);
	assert_int_equal(join(2, (int[]){ 0, 1 }), 8);
	assert_int_equal(transport_devices_count((struct transport *)&devices), 11);
	assert_int_equal(transport_devices_properties((struct transport *)&devices, 10, &p), 0);
	assert_string_equal(p.name, "rail0+rail1+rail2");
	assert_int_equal(p.member_count, 3);
}

static void what_is_no_set_of_physical_devices_is_refused(void **state)
{
	struct transport_properties p;
	int nine[] = { 0, 1, 2, 3, 4, 5, 6, 7, 0 };

	(void)state;
	assert_int_equal(join(2, (int[]){ 0, 1 }), 8);
	assert_int_equal(join(0, nine), -EINVAL);
	assert_int_equal(join(9, nine), -EINVAL);
	assert_int_equal(join(2, (int[]){ 3, 3 }), -EINVAL);
	assert_int_equal(join(2, (int[]){ 0, -1 }), -EINVAL);
	assert_int_equal(join(2, (int[]){ 0, 8 }), -EINVAL); /* there is one, but it is joined itself */
	assert_int_equal(transport_devices_count((struct transport *)&devices), 9);
	assert_int_equal(transport_devices_properties((struct transport *)&devices, 9, &p), -EINVAL);
	assert_int_equal(transport_devices_properties((struct transport *)&devices, -1, &p), -EINVAL);
}

static void there_is_room_for_so_many(void **state)
{
	int members[2], made = 8;

	(void)state;
	for (members[0] = 0; members[0] < 8; members[0]++)
		for (members[1] = 0; members[1] < 8; members[1]++) {
			if (members[0] == members[1])
				continue;
			if (made < TRANSPORT_DEVICES_MAX)
				assert_int_equal(join(2, members), made++);
			else
				assert_int_equal(join(2, members), -ENOSPC);
		}
	assert_int_equal(made, TRANSPORT_DEVICES_MAX);
	assert_int_equal(join(2, (int[]){ 0, 1 }), 8);
}

static void names_that_are_too_long_together_are_refused(void **state)
{
	char name[sizeof(devices.list[0].name)];
	int members[] = { 0, 8 };

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	transport_devices_add(&devices, name);
	assert_int_equal(join(2, members), -EINVAL);
	name[sizeof(name) - 1 - strlen("rail0+")] = '\0';
	transport_devices_add(&devices, name);
	members[1] = 9;
	assert_int_equal(join(2, members), 10);
	assert_int_equal(strlen(devices.list[10].name), sizeof(name) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_file_of_the_pace_is_waited_for_without_the_lock, setup),
		cmocka_unit_test_setup(a_physical_device_is_its_own_member, setup),
		cmocka_unit_test_setup(the_same_members_are_the_same_device, setup),
		cmocka_unit_test_setup(what_is_no_set_of_physical_devices_is_refused, setup),
		cmocka_unit_test_setup(there_is_room_for_so_many, setup),
		cmocka_unit_test_setup(names_that_are_too_long_together_are_refused, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
