/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small futex mutex with a try operation. Taking pairs with dropping (acquire/release); dropping is one
 * sequentially consistent exchange, so that a load after it is ordered behind the release (see engine_leave).
 */
#pragma once

#include "sim/base.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

struct lock {
	_Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody sleeps */
};

static inline long futex_call(_Atomic uint32_t *word, int op, uint32_t val, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, val, timeout, NULL, 0);
}

static inline bool lock_try(struct lock *l)
{
	uint32_t free = 0;
	return atomic_compare_exchange_strong_explicit(&l->word, &free, 1, memory_order_acquire, memory_order_relaxed);
}

void lock_wait(struct lock *l);

static inline void lock_take(struct lock *l)
{
	if (unlikely(!lock_try(l)))
		lock_wait(l);
}

static inline void lock_drop(struct lock *l)
{
	if (unlikely(atomic_exchange(&l->word, 0) == 2))
		futex_call(&l->word, FUTEX_WAKE_PRIVATE, 1, NULL);
}
