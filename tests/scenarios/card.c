/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/scenarios/card.h"
#include "tests/scenarios/pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct card cards[] = {
    {.profile = "generic",
     .post_inline = EINVAL,
     .post_sge = EINVAL,
     .post_full = ENOMEM,
     .post_state = EINVAL,
     .inline_max = 256,
     .atomics = true},
    {.profile = "connectx6dx",
     .post_inline = ENOMEM,
     .post_sge = ENOMEM,
     .post_full = ENOMEM,
     .post_state = ENOMEM,
     .inline_max = 828,
     .vendor_id = 0x02c9,
     .vendor_part_id = 0x101d,
     .mlx5 = true,
     .atomics = true},
    {.profile = "connectx5",
     .post_inline = ENOMEM,
     .post_sge = ENOMEM,
     .post_full = ENOMEM,
     .post_state = ENOMEM,
     .inline_max = 828,
     .vendor_id = 0x02c9,
     .vendor_part_id = 0x1017,
     .mlx5 = true,
     .atomics = true},
    {.profile = "e810",
     .post_inline = EINVAL,
     .post_sge = EINVAL,
     .post_full = ENOMEM,
     .post_state = EINVAL,
     .inline_max = 101,
     .room_in_blocks = true,
     .vendor_id = 0x8086},
    {.profile = "x722",
     .post_inline = EINVAL,
     .post_sge = EINVAL,
     .post_full = ENOMEM,
     .post_state = EINVAL,
     .inline_max = 48,
     .room_in_blocks = true,
     .vendor_id = 0x8086},
    {.profile = "erdma",
     .post_inline = -EINVAL,
     .post_sge = -EINVAL,
     .post_full = -ENOMEM,
     .post_state = -EINVAL,
     .post_inline_constant = 96,
     .inline_max = 96,
     .room_in_blocks = true,
     .vendor_id = 0x1ded,
     .vendor_part_id = 0x107f},
    {.profile = "rxe",
     .post_inline = EINVAL,
     .post_sge = EINVAL,
     .post_full = ENOMEM,
     .post_state = EINVAL,
     .inline_max = 512,
     .atomics = true},
};

const struct card *card(void)
{
	const char *name = getenv("SIMHCA_TEST_PROFILE");

	must(name);
	for (size_t i = 0; i < sizeof(cards) / sizeof(*cards); i++)
		if (!strncmp(cards[i].profile, name, strcspn(name, "-")) && !cards[i].profile[strcspn(name, "-")])
			return &cards[i];
	must(!"SIMHCA_TEST_PROFILE names a known adapter");
	return NULL;
}
