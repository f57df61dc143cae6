/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct board *board_make(void)
{
	void *memory = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void board_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void board_wait(_Atomic uint32_t *word, uint32_t seen, unsigned milliseconds)
{
	struct timespec time = { .tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000 };

	syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, NULL, 0);
}
