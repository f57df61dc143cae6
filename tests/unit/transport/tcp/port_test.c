/* SPDX-License-Identifier: Apache-2.0 */
/* Whose port a connection's messages pass, and what the own one carries: what the transport tells the pace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "base/hash.h"
#include "base/params.h"
#include "support/link.h"
#include "support/port.h"
#include "support/runtime.h"
#include "transport/tcp/tcp.h"

#include <arpa/inet.h>

static struct params params;

/* The hosts' ports are told apart by their addresses where a connection uses one at a time. */
static void a_source_is_a_port_or_a_host(void **state)
{
	struct in_addr loopback = { .s_addr = htonl(INADDR_LOOPBACK) };

	(void)state;
	for (unsigned streams = 1; streams <= 2; streams++) {
		struct transport *transport;
		struct tcp_transport *tcp;
		struct link link;

		params_defaults(&params);
		snprintf(params.interfaces, sizeof(params.interfaces), "lo");
		params.streams = streams;
		assert_int_equal(transport_tcp.open(&params, &transport), 0);
		tcp = (struct tcp_transport *)transport;
		assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
		assert_true(((struct tcp_connection *)link.receiver)->r.sender.host ==
			    (streams > 1 ? tcp->host_id : hash_bytes(tcp->host_id, &loopback, sizeof(loopback))));
		link_close(&link);
		transport_tcp.close(transport);
	}
}

static void the_word_of_a_card_that_is_one_interface_counts(void **state)
{
	struct transport *transport;
	struct tcp_transport *tcp;
	struct tcp_interface *interface;
	const uint64_t *port_Bps;

	(void)state;
	params_defaults(&params);
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	assert_int_equal(transport_tcp.open(&params, &transport), 0);
	tcp = (struct tcp_transport *)transport;
	interface = &tcp->interfaces[0];
	port_Bps = &tcp->devices.list[0].properties.port_Bps;
	assert_int_equal(*port_Bps, 0);
	snprintf(interface->pci_path, sizeof(interface->pci_path), "/sys/devices/pci0000:00/0000:00:01.0");
	interface->speed_Bps = 1250000000;
	interface->speed_assumed = false;
	interface->path_count = 1;
	tcp->devices.describe(transport, 0);
	assert_int_equal(*port_Bps, 1250000000);
	interface->path_count = 2; /* a bond */
	tcp->devices.describe(transport, 0);
	assert_int_equal(*port_Bps, 0);
	interface->path_count = 1;
	interface->speed_assumed = true;
	tcp->devices.describe(transport, 0);
	assert_int_equal(*port_Bps, 0);
	interface->speed_assumed = false;
	interface->pci_path[0] = '\0'; /* a virtual interface */
	tcp->devices.describe(transport, 0);
	assert_int_equal(*port_Bps, 0);
	transport_tcp.close(transport);
}

/* What a job has left in TIME_WAIT, as its receivers ended first, keeps the next one from no port. */
static void a_range_is_free_again_when_its_job_has_ended(void **state)
{
	struct transport *transport, *other;
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct transport_listener *listener;
	struct link link;

	(void)state;
	params_defaults(&params);
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	params.port_low = params.port_high = port_free();
	for (int job = 0; job < 2; job++) {
		assert_int_equal(transport_tcp.open(&params, &transport), 0);
		assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
		/* One that is in use is not free. */
		assert_int_equal(transport_tcp.open(&params, &other), 0);
		assert_int_equal(transport_tcp.listen(other, 0, handle, &listener), -EADDRINUSE);
		transport_tcp.close(other);
		transport_tcp.close_connection(link.receiver);
		link.receiver = NULL;
		link_close(&link);
		transport_tcp.close(transport);
	}
}

static void two_jobs_share_a_range(void **state)
{
	struct transport_listener *listeners[2];
	struct transport *transports[2];
	uint8_t handle[TRANSPORT_HANDLE_BYTES];

	(void)state;
	params_defaults(&params);
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	params.port_low = port_free();
	params.port_high = params.port_low < 65000 ? (uint16_t)(params.port_low + 99) : 65535;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(transport_tcp.open(&params, &transports[i]), 0);
		assert_int_equal(transport_tcp.listen(transports[i], 0, handle, &listeners[i]), 0);
	}
	for (size_t i = 0; i < 2; i++) {
		transport_tcp.close_listener(listeners[i]);
		transport_tcp.close(transports[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_range_is_free_again_when_its_job_has_ended),
		cmocka_unit_test(two_jobs_share_a_range),
		cmocka_unit_test(a_source_is_a_port_or_a_host),
		cmocka_unit_test(the_word_of_a_card_that_is_one_interface_counts),
	};

	runtime_start("port_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
