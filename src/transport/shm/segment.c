/* The shared memory of a connection, its two rings, and the bells of those who sleep. */
#include "transport/shm/shm.h"

#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Without them a peer could cut the memory short under us, which would end the process. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int shm_segment_create(int *ret_fd)
{
	int fd = sys_memory_file("tributary-shm", sizeof(struct shm_segment), SEALS);

	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

int shm_segment_map(int fd, struct shm_segment **ret)
{
	struct stat st;
	void *memory;
	int r, seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) < 0 ||
	    st.st_size < (off_t)sizeof(struct shm_segment))
		return -EPROTO;
	r = sys_map_shared(fd, sizeof(struct shm_segment), &memory);
	if (r < 0)
		return r;
	/* A forked child has no business in it, and its copy would keep the memory when we are gone. */
	if (madvise(memory, sizeof(struct shm_segment), MADV_DONTFORK) < 0) {
		shm_segment_unmap(memory);
		return -ENOMEM;
	}
	*ret = memory;
	return 0;
}

void shm_segment_unmap(struct shm_segment *segment)
{
	if (segment)
		munmap(segment, sizeof(*segment));
}

void shm_ring_bell(int fd)
{
	uint64_t one = 1;

	/* Never read: every write is a new edge, and the counter does not fill up in a life-time. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

static struct shm_ring *ring_out(const struct shm_connection *connection)
{
	return connection->role == SHM_SENDER ? &connection->segment->forward : &connection->segment->backward;
}

static struct shm_ring *ring_in(const struct shm_connection *connection)
{
	return connection->role == SHM_SENDER ? &connection->segment->backward : &connection->segment->forward;
}

/*
 * Either it sees what we have just stored when it looks a last time before it sleeps, or we see that it sleeps: each side
 * stores and then loads, all four in the one order of sequentially consistent accesses.
 */
void shm_wake(struct shm_connection *connection)
{
	struct shm_ring *ring = ring_out(connection);

	if (atomic_load(&ring->sleeps) && atomic_exchange(&ring->sleeps, 0))
		shm_ring_bell(connection->peer_bell_fd);
}

void shm_put(struct shm_connection *connection, const struct shm_entry *entry)
{
	struct shm_segment *segment = connection->segment;

	if (connection->role == SHM_SENDER)
		segment->forward_entries[connection->put % SHM_FORWARD] = *entry;
	else
		segment->backward_entries[connection->put % SHM_BACKWARD] = *entry;
	connection->put++;
	atomic_store(&ring_out(connection)->tail, connection->put);
	shm_wake(connection);
}

int shm_take(struct shm_connection *connection, struct shm_entry *ret)
{
	const struct shm_segment *segment = connection->segment;
	uint64_t tail = atomic_load_explicit(&ring_in(connection)->tail, memory_order_acquire);
	unsigned capacity = connection->role == SHM_SENDER ? SHM_BACKWARD : SHM_FORWARD;

	if (tail == connection->taken)
		return 0;
	if (tail - connection->taken > capacity)
		return -EPROTO;
	*ret = connection->role == SHM_SENDER ? segment->backward_entries[connection->taken % SHM_BACKWARD]
					      : segment->forward_entries[connection->taken % SHM_FORWARD];
	atomic_signal_fence(memory_order_seq_cst); /* the peer may write there still: nothing is read a second time */
	connection->taken++;
	return 1;
}

bool shm_peer_closed(const struct shm_connection *connection)
{
	const struct shm_segment *segment = connection->segment;

	return atomic_load(connection->role == SHM_SENDER ? &segment->receiver_closed : &segment->sender_closed) != 0;
}

bool shm_may_sleep(struct shm_connection *connection)
{
	struct shm_ring *ring = ring_in(connection);

	atomic_store(&ring->sleeps, 1);
	return atomic_load(&ring->tail) == connection->taken && !shm_peer_closed(connection);
}
