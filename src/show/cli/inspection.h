// What `posenc inspect` finds out about a spec; printing it is another matter
// (inspection_print.cc).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "posenc/encodings/analysis.h"
#include "posenc/encodings/spec.h"

namespace posenc::cli {

struct InspectRequest {
  ModelShape shape;
  std::optional<double> scale;                       // of scores; none: 1 / sqrt(head_dim)
  std::int64_t seq_len = 0;                          // 0: one more than the largest position
  std::vector<std::vector<std::int64_t>> positions;  // coordinates of each, one or one per axis
  std::int64_t relative_first = -8;                  // T5: key minus query, both ends included
  std::int64_t relative_last = 8;
};

struct RotaryInspection {
  std::string name;
  Rotary rotary;
  Rope::Angles angles = Rope::Angles::kPosition;
  std::vector<PairRegime> regimes;  // of RoPE's schedule; empty for xPos
  // [group][position][pair]; the query's rows where xPos tells roles apart.
  std::vector<std::vector<std::vector<double>>> cos;
  std::vector<std::vector<std::vector<double>>> sin;
};

struct Inspection {
  Spec spec;
  ModelShape shape;
  std::optional<double> scale;  // of scores, where it is not 1 / sqrt(head_dim)
  Lengths lengths;
  std::vector<std::vector<std::int64_t>> positions;
  std::vector<SpecParameter> parameters;
  std::vector<RotaryInspection> rotary;  // one per site-2 encoding, in order
  std::optional<std::vector<double>> slopes;
  std::optional<std::vector<std::int64_t>> buckets;
  std::int64_t relative_first = 0;
};

Inspection inspect(const Spec& spec, const InspectRequest& request);

// "0,1,7", "0:15" (both ends included), "3/4/5" (one coordinate per axis), or any mix with commas.
std::vector<std::vector<std::int64_t>> parse_positions(const std::string& text);
// "-600:600"
std::pair<std::int64_t, std::int64_t> parse_range(const std::string& option,
                                                  const std::string& text);

// `terminal`: its width, or 0 where nothing is left out for it.
std::string inspection_text(const Inspection& inspection, std::size_t terminal = 0);
std::string inspection_json(const Inspection& inspection);

}  // namespace posenc::cli
