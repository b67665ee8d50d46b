/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints how many devices libibverbs lists. Built plain and with shared sanitizer runtimes. */
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	if (list)
		ibv_free_device_list(list);
	printf("%d devices\n", n);
	return list ? 0 : 1;
}
