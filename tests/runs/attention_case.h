// A small record of attention with weights that sum to one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runs/attention_record.h"

namespace posenc::testing {

// Query i gives key j <= i a weight proportional to 1 + ((seed + i + 3 j + 5 h + 7 l) mod 11).
inline runs::AttentionRecord attention_record(std::int64_t tokens, std::int64_t heads,
                                              std::vector<std::string> encodings, int seed = 0) {
  runs::AttentionRecord record;
  runs::AttentionExample& e = record.example;
  e.task = "selective_counting";
  e.axis = "train";
  e.length = tokens;
  e.sample = 3;
  e.seed = 1000003;
  e.step = 700;
  e.config_hash = "0123456789abcdef";
  e.encodings = std::move(encodings);
  for (std::int64_t t = 0; t < tokens; ++t) {
    e.token_ids.push_back(t % 7);
    e.tokens.push_back(std::string(1, static_cast<char>('A' + t % 7)));
  }
  e.instruction_begin = tokens > 2 ? 1 : 0;
  e.instruction_end = tokens > 2 ? 2 : 0;
  e.scored = {{tokens - 1, "4", "5"}};
  record.heads = heads;
  for (std::size_t l = 0; l < e.encodings.size(); ++l) {
    runs::AttentionLayer& layer = record.layers.emplace_back();
    const bool cope = e.encodings[l].find("cope") != std::string::npos;
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < tokens; ++i) {
        const auto raw = [&](std::int64_t j) {
          const auto mixed = seed + i + 3 * j + 5 * h + 7 * static_cast<std::int64_t>(l);
          return j > i ? 0.0 : 1.0 + static_cast<double>(mixed % 11);
        };
        double sum = 0.0;
        for (std::int64_t j = 0; j < tokens; ++j) sum += raw(j);
        for (std::int64_t j = 0; j < tokens; ++j) {
          layer.weights.push_back(static_cast<float>(raw(j) / sum));
          if (!cope) continue;
          layer.gates.push_back(j > i ? 0.0f : 0.25f);
          layer.positions.push_back(j > i ? 0.0f : 0.25f * static_cast<float>(i - j + 1));
        }
      }
    }
  }
  return record;
}

}  // namespace posenc::testing
