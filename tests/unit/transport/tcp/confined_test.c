/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/confined.h"

#include "support/log_lines.h"
#include "support/private_net.h"
#include "transport/tcp/interface.h"
#include "transport/transport.h"
#include "unit/transport/tcp/fake_sysfs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void a_faster_port_that_is_left_out_is_found(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice all, at;

	fake_loopback(fake);
	fake_nic(fake, "eno1", NULL, 2, "1000", "10.0.0.7");
	fake_nic(fake, "ens1", NULL, 3, "100000", "10.0.1.7");
	fake_nic(fake, "ens2", NULL, 4, "-1", "10.0.2.7");
	all = fake_choose(fake, "");
	at = fake_choose(fake, "eno1");
	assert_string_equal(tcp_confined_faster(at.at, at.count, all.at, all.count)->name, "ens1");
	at = fake_choose(fake, "eno1,ens1");
	assert_null(tcp_confined_faster(at.at, at.count, all.at, all.count));
	/* Of unknown speed: nothing is known to be faster. */
	at = fake_choose(fake, "lo");
	assert_null(tcp_confined_faster(at.at, at.count, all.at, all.count));
	at = fake_choose(fake, "eno1,ens2");
	assert_null(tcp_confined_faster(at.at, at.count, all.at, all.count));
}

/* An interface of 1 Gbit/s, as long as it is open. */
static int tap_open(const char *name)
{
	struct ethtool_cmd speed = { .cmd = ETHTOOL_SSET, .speed = 1000, .duplex = DUPLEX_FULL };
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC), of = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	strncpy(request.ifr_name, name, sizeof(request.ifr_name) - 1);
	r = fd < 0 || of < 0 || ioctl(fd, TUNSETIFF, &request);
	request.ifr_data = (void *)&speed;
	r = r || ioctl(of, SIOCETHTOOL, &request);
	close(of);
	if (r && fd >= 0)
		close(fd);
	return r ? -1 : fd;
}

static void expect_line(const struct params *params, bool is_there)
{
	struct transport *transport;

	log_lines_start(TCP_CONFINED_REMEDY);
	assert_int_equal(transport_tcp.open(params, &transport), 0);
	transport_tcp.close(transport);
	assert_int_equal(log_lines()->infos, is_there);
	assert_int_equal(log_lines()->found, is_there);
	log_set_sink(NULL);
}

/* In a network namespace of its own: tap0 has 1 Gbit/s, eth0 10. */
static void nccls_variable_alone_confines(void **state)
{
	const struct params_source source = params_from_environment();
	static const struct {
		const char *ours, *nccls;
		bool confines;
	} cases[] = { { NULL, "tap0", true }, { NULL, "^eth", true },   { NULL, "eth0", false }, { NULL, NULL, false },
		      { "", "tap0", true },   { "^lo", "tap0", false }, { "tap0", NULL, false } };
	struct tcp_interface at[TCP_INTERFACE_MAX];
	char text[TCP_CONFINED_BYTES];
	struct params params;
	struct diag diag;
	size_t count;
	int tap = -1;

	(void)state;
	if (private_net_enter())
		tap = tap_open("tap0");
	if (tap < 0 ||
	    private_net_command(
		    "{ ip link add eth0 type veth peer name far && ip link set far up && "
		    "ip addr add 10.9.0.1/24 dev eth0 && ip addr add 10.9.1.1/24 dev tap0; } 2>/dev/null") ||
	    !private_net_up("eth0") || !private_net_up("tap0")) {
		print_message("skipped: no network namespace, or no veth and tap in it\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsetenv("TRIBUTARY_IF");
		unsetenv("NCCL_SOCKET_IFNAME");
		if (cases[i].ours)
			setenv("TRIBUTARY_IF", cases[i].ours, 1);
		if (cases[i].nccls)
			setenv("NCCL_SOCKET_IFNAME", cases[i].nccls, 1);
		params_load(&source, NULL, NULL, &params);
		assert_int_equal(tcp_interfaces_find(&params, at, TCP_INTERFACE_MAX, &count, &diag), 0);
		if (tcp_confined(&params, at, count, text) != cases[i].confines)
			fail_msg("TRIBUTARY_IF=%s NCCL_SOCKET_IFNAME=%s", cases[i].ours, cases[i].nccls);
		expect_line(&params, cases[i].confines && i == 0); /* once */
		if (i == 0)
			assert_string_equal(text, "NCCL_SOCKET_IFNAME=tap0 keeps Tributary from eth0 of 10 Gbit/s, "
						  "which is up and faster than tap0");
	}
	close(tap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_faster_port_that_is_left_out_is_found, fake_sysfs_new,
						fake_sysfs_free),
		cmocka_unit_test(nccls_variable_alone_confines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
