// A page's parts, found as a program finds them.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "report/html.h"
#include "report/run_case.h"
#include "runs/attention_record.h"

namespace posenc::testing {

inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// The JSON of a data block.
inline nlohmann::json data_block(const std::string& page, const std::string& id) {
  const std::string open = fmt::format("<script type=\"application/json\" id=\"{}\">", id);
  const std::size_t begin = page.find(open);
  if (begin == std::string::npos) return nullptr;
  const std::size_t from = begin + open.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

inline std::string page_of(const std::string& folder, const std::string& title = "") {
  return report::html_report({.runs = report::find_runs({folder}),
                              .compare = {},
                              .title = title,
                              .command = "posenc report"});
}

// Weights that no compression makes small: every key of a query gets a random share.
inline runs::AttentionRecord random_record(std::int64_t tokens, std::int64_t layers,
                                           std::int64_t heads, const std::string& encoding) {
  runs::AttentionRecord record;
  runs::AttentionExample& e = record.example;
  e.task = "selective_counting";
  e.axis = "train";
  e.length = tokens;
  e.config_hash = "0";
  e.encodings.assign(static_cast<std::size_t>(layers), encoding);
  for (std::int64_t t = 0; t < tokens; ++t) {
    e.token_ids.push_back(t % 7);
    e.tokens.push_back(fmt::format("w{}", t % 7));
  }
  e.instruction_begin = 1;
  e.instruction_end = 3;
  e.scored = {{tokens - 1, "4", "4"}};
  record.heads = heads;
  std::minstd_rand random(7);
  std::vector<double> row(static_cast<std::size_t>(tokens));
  for (std::int64_t l = 0; l < layers; ++l) {
    runs::AttentionLayer& layer = record.layers.emplace_back();
    layer.weights.reserve(static_cast<std::size_t>(heads * tokens * tokens));
    for (std::int64_t i = 0; i < heads * tokens; ++i) {
      const std::int64_t seen = i % tokens + 1;
      double sum = 0.0;
      for (std::int64_t j = 0; j < tokens; ++j) {
        const double raw = j < seen ? static_cast<double>(1 + random() % 1000) : 0.0;
        row[static_cast<std::size_t>(j)] = raw * raw;
        sum += raw * raw;
      }
      for (const double raw : row) layer.weights.push_back(static_cast<float>(raw / sum));
    }
  }
  return record;
}

}  // namespace posenc::testing
