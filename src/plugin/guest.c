#include "plugin/guest.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MARK_BYTES = 1 }; /* the kernel rounds it up to a page */

const unsigned char plugin_guest_unarmed_mark = 1;
static const unsigned char by_pid_mark; /* always 0: ask for the process id every time */

static void *wiped_page_new(void)
{
#ifdef MADV_WIPEONFORK
	unsigned char *page = mmap(NULL, MARK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (madvise(page, MARK_BYTES, MADV_WIPEONFORK) < 0) {
		munmap(page, MARK_BYTES);
		return NULL;
	}
	*page = 1;
	return page;
#else
	return NULL;
#endif
}

static bool is_armed(const struct plugin_guest *guest)
{
	return atomic_load_explicit(&guest->mark, memory_order_relaxed) != &plugin_guest_unarmed_mark;
}

void plugin_guest_arm_by_pid(struct plugin_guest *guest)
{
	if (is_armed(guest))
		return;
	guest->owner = getpid();
	atomic_store_explicit(&guest->mark, &by_pid_mark, memory_order_release);
}

void plugin_guest_arm(struct plugin_guest *guest)
{
	int saved_errno = errno;

	if (is_armed(guest))
		return;
	guest->page = wiped_page_new();
	errno = saved_errno;
	if (!guest->page) {
		plugin_guest_arm_by_pid(guest);
		return;
	}
	atomic_store_explicit(&guest->mark, guest->page, memory_order_release);
}

void plugin_guest_disarm(struct plugin_guest *guest)
{
	atomic_store_explicit(&guest->mark, &plugin_guest_unarmed_mark, memory_order_release);
	if (guest->page)
		munmap(guest->page, MARK_BYTES);
	guest->page = NULL;
}

bool plugin_guest_is_copy(const struct plugin_guest *guest)
{
	/* A wiped page is proof by itself; a process id could be the parent's own in another pid namespace. */
	return guest->page || getpid() != guest->owner;
}
