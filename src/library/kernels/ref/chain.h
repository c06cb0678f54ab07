// PaTH and Wall (path.h, wall.h), which replace the product of query and key. The query is transformed token by token from
// its own token to its first key; key j is multiplied with y_j, the query after the matrices of all tokens above j.
#pragma once

#include "kernels/ref/attention_row.h"

namespace posenc::ref {

// Throws where the attention of a chain is not causal.
void check_chain(const AttentionCall& call);
// Throws where a gate of any input is above 1.
void check_gates(const AttentionCall& call);

// y_j of every key from the query's own to the lowest visible one, [D] each; empty for hidden and other keys.
std::vector<std::vector<double>> chained_queries(const AttentionCall& call, const Head& head,
                                                 const Row& row);

// `gradients` are those of row.chained, which become those before each step. Returns the gradient of the query, and adds
// those of the chain's inputs to `inputs`, [Tk, channels] each.
std::vector<double> chain_backward(const AttentionCall& call, const Head& head, const Row& row,
                                   const std::vector<std::vector<double>>& gradients,
                                   const std::vector<std::span<double>>& inputs);

}  // namespace posenc::ref
