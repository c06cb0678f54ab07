// Preprocessing of inputs and small parameters before the first tile: angles, factors of queries, tables of
// relative_query, sums over tokens.
#pragma once

#include "kernels/attention_plan.h"

namespace posenc {

// Fills input_angles, own_keys, query_factors, relative_* and token_*. Positions and distances must be there.
void fill_from_inputs(AttentionSetup& setup);
// Norms of the packed keys, where FoX may leave tiles out.
void find_largest_keys(AttentionSetup& setup);

}  // namespace posenc
