/*
 * What a peer on the same host can do: the handle and the hello as bytes from anybody, and a segment into which it writes
 * whatever it likes, at any time, while this end posts and tests. Nothing is read or written outside of its bounds, every
 * call returns, and an end that saw nonsense has failed for good.
 *
 * The input is a script: which end the peer plays, then steps of nine bytes. The sanitizer watches the buffers.
 */
#include "base/log.h"
#include "base/params.h"
#include "transport/shm/shm.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { STEP_BYTES = 9, STEPS_MAX = 200, BUFFERS = 8, BUFFER_BYTES = 20000 };

struct bed {
	struct params params;
	struct transport *transport;
	struct transport_listener *listener;
	struct transport_connection *sender, *receiver;
	struct shm_connection *victim; /* the end that is not the peer's */
	struct shm_segment *segment;   /* as the peer sees it */
	uint8_t *buffers[BUFFERS];     /* of just that size, for the sanitizer */
	struct transport_request *requests[BUFFERS];
	int error;
};

static void quiet(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)fmt;
}

static void must(bool truth)
{
	if (!truth)
		abort();
}

static void words(const uint8_t *data, size_t bytes)
{
	uint8_t whole[SHM_WIRE_HANDLE_BYTES] = { 0 }, again[SHM_WIRE_HANDLE_BYTES];
	struct shm_wire_handle handle, handle_again;
	struct shm_wire_hello hello, hello_again;

	memcpy(whole, data, bytes < sizeof(whole) ? bytes : sizeof(whole));
	transport_shm_reaches(whole);
	if (shm_wire_get_handle(whole, &handle) < 0)
		memcpy(&handle, whole, sizeof(handle)); /* a checksum cannot be guessed */
	shm_wire_put_handle(&handle, again);
	must(shm_wire_get_handle(again, &handle_again) == 0 && handle.pid == handle_again.pid &&
	     handle.host_id == handle_again.host_id);
	if (shm_wire_get_hello(whole, &hello) < 0)
		memcpy(&hello, whole, sizeof(hello));
	shm_wire_put_hello(&hello, again);
	must(shm_wire_get_hello(again, &hello_again) == 0 && hello.nonce_address == hello_again.nonce_address);
}

static void bed_open(struct bed *bed, bool peer_sends, bool pulls)
{
	uint8_t handle[TRANSPORT_HANDLE_BYTES];

	memset(bed, 0, sizeof(*bed));
	params_defaults(&bed->params);
	shm_set_pull(pulls);
	must(transport_shm.open(&bed->params, &bed->transport) == 0);
	must(transport_shm.listen(bed->transport, 0, handle, &bed->listener) == 0);
	must(transport_shm.connect(bed->transport, 0, -1, handle, &bed->sender) == 0 && bed->sender);
	must(transport_shm.accept(bed->listener, &bed->receiver) == 0 && bed->receiver);
	bed->victim = (struct shm_connection *)(peer_sends ? bed->receiver : bed->sender);
	bed->segment = ((struct shm_connection *)(peer_sends ? bed->sender : bed->receiver))->segment;
	for (unsigned i = 0; i < BUFFERS; i++) {
		bed->buffers[i] = calloc(1, BUFFER_BYTES);
		must(bed->buffers[i] != NULL);
	}
}

static void bed_close(struct bed *bed)
{
	transport_shm.close_connection(bed->receiver);
	transport_shm.close_connection(bed->sender);
	transport_shm.close_listener(bed->listener);
	transport_shm.close(bed->transport);
	for (unsigned i = 0; i < BUFFERS; i++)
		free(bed->buffers[i]);
}

static void note(struct bed *bed, int r)
{
	must(r <= 0);
	must(!bed->error || r == 0 || r == bed->error);
	if (r < 0)
		bed->error = r;
}

static void post(struct bed *bed, unsigned at, uint64_t number)
{
	size_t size = (size_t)(number % BUFFER_BYTES);
	void *data = bed->buffers[at] + BUFFER_BYTES - size, *registration = NULL;
	int tag = (int)(number >> 32) % 3;

	if (bed->requests[at])
		return;
	if (bed->victim->role == SHM_SENDER)
		note(bed, transport_shm.send(bed->sender, data, size, tag, NULL, &bed->requests[at]));
	else
		note(bed,
		     transport_shm.receive(bed->receiver, 1, &data, &size, &tag, &registration, &bed->requests[at]));
}

static void test(struct bed *bed, unsigned at)
{
	size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
	bool done = false;

	if (!bed->requests[at])
		return;
	note(bed, transport_shm.test(bed->requests[at], &done, sizes));
	must(!done || sizes[0] <= BUFFER_BYTES);
	if (done)
		bed->requests[at] = NULL;
}

/* An entry as the peer would write it: near to a right one, so that it gets further than the first check. */
static void entry_put(struct bed *bed, const uint8_t *step, uint64_t number)
{
	bool forward = bed->victim->role == SHM_RECEIVER;
	struct shm_ring *ring = forward ? &bed->segment->forward : &bed->segment->backward;
	uint64_t tail = atomic_load(&ring->tail);
	struct shm_entry entry = { .type = step[1] % (SHM_ENTRY_TYPE_COUNT + 1),
				   .sequence = forward ? bed->victim->r.next_sequence : step[2],
				   .tag = step[3] % 3,
				   .piece = step[4] % (SHM_PIECES + 1),
				   .size = (number >> 40) % (step[4] % 2 ? BUFFER_BYTES + 10 : 500),
				   .value = number >> 24 };

	if (entry.type == SHM_ENTRY_ANNOUNCE) /* as a rule where there is something to be read */
		entry.value = step[4] % 4 ? (uint64_t)(uintptr_t)bed->buffers[step[2] % BUFFERS] : number;
	if (entry.type == SHM_ENTRY_EAGER)
		entry.value = bed->victim->r.window_free + (uint64_t)(step[5] % 4 ? step[5] * SHM_EAGER_UNIT : number);
	if (step[1] > 250)
		entry.sequence ^= step[2];
	if (forward)
		bed->segment->forward_entries[tail % SHM_FORWARD] = entry;
	else
		bed->segment->backward_entries[tail % SHM_BACKWARD] = entry;
	atomic_store(&ring->tail, tail + 1);
}

static void act(struct bed *bed, const uint8_t *step)
{
	enum transport_next next;
	uint64_t number;

	memcpy(&number, step + 1, sizeof(number));
	switch (step[0] % 10) {
	case 0:
	case 1:
		post(bed, step[8] % BUFFERS, number);
		break;
	case 2:
		test(bed, step[8] % BUFFERS);
		break;
	case 3:
		note(bed, transport_shm.progress((struct transport_connection *)bed->victim, &next));
		break;
	case 4:
	case 5:
	case 6:
		entry_put(bed, step, number);
		break;
	case 7: /* anywhere, anything */
		memcpy((uint8_t *)bed->segment + number % (sizeof(*bed->segment) - 8), step, 8);
		break;
	case 8:
		atomic_store(&bed->segment->eager_free, number % (4ULL * SHM_EAGER_WINDOW));
		break;
	default:
		atomic_fetch_add(&bed->segment->forward.tail, number % 3);
		atomic_fetch_add(&bed->segment->backward.tail, number % 3);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct bed bed;

	log_set_sink(quiet);
	words(data, bytes);
	if (!bytes)
		return 0;
	bed_open(&bed, data[0] & 1, data[0] & 2);
	for (size_t at = 1, steps = 0; at + STEP_BYTES <= bytes && steps < STEPS_MAX; at += STEP_BYTES, steps++)
		act(&bed, data + at);
	for (unsigned i = 0; i < BUFFERS; i++)
		test(&bed, i);
	bed_close(&bed);
	return 0;
}
