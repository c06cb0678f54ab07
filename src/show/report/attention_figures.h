// Pictures of attention records (runs/attention_record.h): all heads small, chosen ones in full, and two
// runs on the same example.
#pragma once

#include <string>
#include <vector>

#include "draw/figure.h"
#include "runs/attention_maps.h"

namespace posenc::report {

struct HeadChoice {
  std::int64_t layer = 0;
  std::int64_t head = 0;
};

// A row of small maps per layer, a map per head, and how far the layer's heads look. Maps are pooled so
// that spikes stay (draw::pooled). `name` is the run's.
draw::Figure attention_overview(const runs::AttentionRecord& record, const std::string& name);

// Per chosen head its map with the tokens on the axes and how far it looks, and CoPE's gates and
// positions below where the layer has them.
draw::Figure attention_heads(const runs::AttentionRecord& record, const std::string& name,
                             const std::vector<HeadChoice>& heads);

// The second run minus the first; throws where they are not of the same example.
draw::Figure difference_overview(const runs::AttentionRecord& first,
                                 const runs::AttentionRecord& second,
                                 const runs::RecordNames& names);
draw::Figure difference_heads(const runs::AttentionRecord& first,
                              const runs::AttentionRecord& second, const runs::RecordNames& names,
                              const std::vector<HeadChoice>& heads);

// Layers and heads in all combinations; an empty list stands for all of them. Throws for one that the
// record has not.
std::vector<HeadChoice> chosen_heads(const runs::AttentionRecord& record,
                                     std::vector<std::int64_t> layers,
                                     std::vector<std::int64_t> heads);

// "selective_counting, axis train, 32 tokens, sample 0; 25 of 26 answers right"
std::string example_text(const runs::AttentionExample& example);

}  // namespace posenc::report
