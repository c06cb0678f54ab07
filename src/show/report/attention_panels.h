// Panels that pictures of attention are made of.
#pragma once

#include <string>
#include <vector>

#include "draw/figure.h"
#include "runs/attention_maps.h"

namespace posenc::report {

// A map of at most `cells` squared, pooled so that spikes stay. What a mask hides is left unpainted.
draw::Heatmap heatmap(const runs::AttentionExample& example, runs::Map whole, std::int64_t cells);
// Weights from 0 on, and differences about 0, each on the head's own scale.
draw::Heatmap weights_map(const runs::AttentionExample& example, runs::Map whole,
                          std::int64_t cells, const char* label);
draw::Heatmap difference_map(const runs::AttentionExample& example, runs::Map whole,
                             std::int64_t cells, const char* label);

// Queries down, keys across, the instruction between lines; `full`: with tokens and labels.
draw::Panel map_panel(const runs::AttentionExample& example, draw::Heatmap map, bool full);

// How far heads look, beside one that looks at all its keys alike.
draw::Panel distance_panel(const runs::AttentionExample& example, std::vector<draw::Curve> heads);
draw::Curve head_distances(const runs::AttentionRecord& record, std::int64_t layer,
                           std::int64_t head, const std::string& name, int color,
                           draw::Stroke stroke);

// How far apart the heads of a layer are in two runs.
draw::Panel divergence_panel(std::int64_t layer, const std::vector<runs::Divergence>& heads);

}  // namespace posenc::report
