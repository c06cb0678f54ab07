#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/inspection.h"
#include "cli/table.h"

namespace posenc::cli {
namespace {

using Json = nlohmann::ordered_json;

template <class E>
std::string_view name_of(E value) {
  return enum_name(value);
}

// One set of frequencies prints flat; several groups of heads print as a list of sets.
template <class T>
Json one_or_all(const std::vector<T>& groups) {
  return groups.size() == 1 ? Json(groups.front()) : Json(groups);
}

Json finite_or_null(const std::vector<double>& numbers) {
  Json list = Json::array();
  for (const double x : numbers) list.push_back(std::isfinite(x) ? Json(x) : Json(nullptr));
  return list;
}

// What a rotation by angles from an input does not have.
constexpr std::array<const char*, 7> kOfFrequencies = {
    "inv_freq", "cos", "sin", "wavelengths", "rotations", "regimes", "max_unambiguous_distance"};

Json rotary_json(const RotaryInspection& r, std::int64_t seq_len) {
  Json json;
  json["rotary_dim"] = r.rotary.rotary_dim;
  json["dim_offset"] = r.rotary.dim_offset;
  json["layout"] = name_of(r.rotary.layout);
  json["precision"] = name_of(r.rotary.precision);
  if (r.angles != Rope::Angles::kPosition) json["angles"] = name_of(r.angles);
  json["inv_freq"] = one_or_all(r.rotary.inv_freq);
  json["attention_factor"] = r.rotary.attention_factor;
  json["softmax_factor"] = r.rotary.softmax_factor;
  json["axes"] = r.rotary.axes.axes;
  json["axis_of_pair"] = r.rotary.axes.axis_of_pair;
  json["cos"] = one_or_all(r.cos);
  json["sin"] = one_or_all(r.sin);
  json["wavelengths"] = finite_or_null(wavelengths(r.rotary));
  json["rotations"] = rotations_at(r.rotary, seq_len);
  json["regimes"] = Json::array();
  for (const PairRegime regime : r.regimes) json["regimes"].push_back(name_of(regime));
  const auto distance = max_unambiguous_distance(r.rotary);
  json["max_unambiguous_distance"] = distance ? Json(*distance) : Json(nullptr);
  if (r.angles == Rope::Angles::kInput) {
    for (const char* key : kOfFrequencies) json[key] = nullptr;
  }
  return json;
}

// The keys that a reader may count on are there in any case, null where they do not apply.
Json absent_rotary() {
  Json json;
  for (const char* key : {"rotary_dim", "layout", "inv_freq", "attention_factor", "cos", "sin",
                          "max_unambiguous_distance"}) {
    json[key] = nullptr;
  }
  return json;
}

Json parameters_json(const Inspection& inspection) {
  Json list = Json::array();
  for (const SpecParameter& p : inspection.parameters) {
    list.push_back({{"name", p.info.name},
                    {"shape", p.info.shape},
                    {"count", p.info.count()},
                    {"trainable", p.info.trainable}});
  }
  return list;
}

std::string position_text(const std::vector<std::int64_t>& position) {
  return fmt::format("{}", fmt::join(position, "/"));
}

std::string frequency_table(const RotaryInspection& r, std::int64_t seq_len) {
  constexpr std::size_t kMostRows = 16;
  const std::vector<double> lambda = wavelengths(r.rotary);
  const std::vector<double> rotations = rotations_at(r.rotary, seq_len);
  const bool several_axes = r.rotary.axes.axes > 1;
  std::vector<std::string> header = {"pair", "channels", "inv_freq", "wavelength", "rotations"};
  if (several_axes) header.emplace_back("axis");
  if (!r.regimes.empty()) header.emplace_back("schedule");
  Table table(header);
  const std::size_t step = std::max<std::size_t>(1, (lambda.size() + kMostRows - 1) / kMostRows);
  for (std::size_t p = 0; p < lambda.size(); p += step) {
    const auto channels = r.rotary.channels(static_cast<std::int64_t>(p));
    std::vector<std::string> row = {
        std::to_string(p), fmt::format("{}, {}", channels[0], channels[1]),
        short_number(r.rotary.inv_freq[0][p]), short_number(lambda[p]), short_number(rotations[p])};
    if (several_axes) row.push_back(std::to_string(r.rotary.axes.axis_of_pair[p]));
    if (!r.regimes.empty()) row.emplace_back(name_of(r.regimes[p]));
    table.add(std::move(row));
  }
  const std::string note = step > 1 ? fmt::format("  ({} of {} pairs; --json has all)\n",
                                                  (lambda.size() + step - 1) / step, lambda.size())
                                    : "";
  return table.text() + note;
}

std::string angle_table(const Inspection& inspection, const RotaryInspection& r,
                        std::size_t pairs) {
  constexpr std::size_t kMostPositions = 16;
  std::vector<std::string> header = {"position"};
  for (std::size_t p = 0; p < pairs; ++p) header.push_back(fmt::format("cos {0}, sin {0}", p));
  Table table(header);
  for (std::size_t n = 0; n < std::min(kMostPositions, inspection.positions.size()); ++n) {
    std::vector<std::string> row = {position_text(inspection.positions[n])};
    for (std::size_t p = 0; p < pairs; ++p) {
      row.push_back(fmt::format("{:.7f}, {:.7f}", r.cos[0][n][p], r.sin[0][n][p]));
    }
    table.add(row);
  }
  return table.text();
}

// As many pairs as fit into a terminal.
std::string angle_table(const Inspection& inspection, const RotaryInspection& r,
                        std::size_t most_pairs, std::size_t terminal) {
  const std::size_t pairs = std::min(most_pairs, r.cos[0][0].size());
  std::string text = angle_table(inspection, r, pairs);
  const std::size_t rule = text.find('\n') + 1;
  const bool fits = terminal == 0 || text.find('\n', rule) - rule <= terminal;
  return fits || pairs == 1 ? text : angle_table(inspection, r, pairs - 1, terminal);
}

std::string rotary_text(const Inspection& inspection, const RotaryInspection& r,
                        std::size_t terminal) {
  constexpr std::size_t kMostPairs = 4;
  std::string out = fmt::format(
      "\n{}: rotates channels {} to {} of {}, pairs {}, attention factor {}\n", r.name,
      r.rotary.dim_offset, r.rotary.dim_offset + r.rotary.rotary_dim - 1, r.rotary.head_dim,
      name_of(r.rotary.layout), short_number(r.rotary.attention_factor));
  if (r.rotary.softmax_factor != 1.0) {
    out += fmt::format("the softmax scale is multiplied by {}\n",
                       short_number(r.rotary.softmax_factor));
  }
  if (r.angles == Rope::Angles::kInput) {
    return out + "its angles come from the input rope.angles, so it has no frequencies\n";
  }
  if (r.angles == Rope::Angles::kInputPosition) {
    out += "its positions come from the input rope.position; those below are values of it\n";
  }
  if (const auto distance = max_unambiguous_distance(r.rotary)) {
    out += fmt::format("longest unambiguous distance: {} positions\n", *distance);
  }
  if (r.rotary.groups() > 1) {
    out += fmt::format("{} sets of frequencies for {} heads; the first is shown\n",
                       r.rotary.groups(), inspection.shape.heads);
  }
  return out + "\n" + frequency_table(r, inspection.lengths.sequence) + "\n" +
         angle_table(inspection, r, kMostPairs, terminal);
}

std::string slopes_text(const std::vector<double>& slopes) {
  std::vector<std::string> numbers;
  for (const double slope : slopes) numbers.push_back(short_number(slope));
  return fmt::format("\nalibi: slopes of {} heads\n  {}\n", slopes.size(),
                     fmt::join(numbers, ", "));
}

// Runs of equal buckets on one line each, so that a thousand distances stay readable.
std::string buckets_text(const Inspection& inspection) {
  Table table({"key - query", "bucket"});
  const std::vector<std::int64_t>& buckets = *inspection.buckets;
  for (std::size_t begin = 0; begin < buckets.size();) {
    std::size_t end = begin;
    while (end + 1 < buckets.size() && buckets[end + 1] == buckets[begin]) ++end;
    const std::int64_t first = inspection.relative_first + static_cast<std::int64_t>(begin);
    const std::int64_t last = inspection.relative_first + static_cast<std::int64_t>(end);
    table.add({first == last ? std::to_string(first) : fmt::format("{} to {}", first, last),
               std::to_string(buckets[begin])});
    begin = end + 1;
  }
  return "\nt5: buckets\n" + table.text();
}

std::string parameters_text(const Inspection& inspection) {
  if (inspection.parameters.empty()) return "\nno parameters\n";
  Table table({"parameter", "shape", "entries", "trained"});
  for (const SpecParameter& p : inspection.parameters) {
    table.add({p.info.name, fmt::format("[{}]", fmt::join(p.info.shape, ", ")),
               std::to_string(p.info.count()), p.info.trainable ? "yes" : "no"});
  }
  return "\nparameters\n" + table.text();
}

std::string heads_of(const InputInfo& info) {
  return info.heads == InputInfo::Heads::kQuery ? "H" : "Hkv";
}

std::string made_by(const InputInfo& info) {
  std::string layer =
      info.shift == 0.0 ? info.projection : fmt::format("{} + {:g}", info.projection, info.shift);
  switch (info.activation) {
    case InputInfo::Activation::kNone:
      return layer;
    case InputInfo::Activation::kLogSigmoid:
      return "logsigmoid(" + layer + ")";
    case InputInfo::Activation::kTwiceSigmoid:
      return "2 sigmoid(" + layer + ")";
    case InputInfo::Activation::kUnitNorm:
      return layer + " / its length";
  }
  return layer;
}

// Only where there are any.
std::string inputs_text(const Inspection& inspection) {
  const std::vector<SpecInput> inputs = token_inputs(inspection.spec, inspection.shape);
  if (inputs.empty()) return "";
  Table table({"input", "shape", "type", "made from x by"});
  for (const SpecInput& i : inputs) {
    table.add({i.info.name, fmt::format("[B, {}, Tk, {}]", heads_of(i.info), i.info.channels),
               i.info.float32 ? "float32" : "as q", made_by(i.info)});
  }
  return "\ninputs of attention, in addition to q, k and v\n" + table.text();
}

Json inputs_json(const Inspection& inspection) {
  Json all = Json::array();
  for (const SpecInput& i : token_inputs(inspection.spec, inspection.shape)) {
    all.push_back({{"name", i.info.name},
                   {"heads", heads_of(i.info)},
                   {"channels", i.info.channels},
                   {"float32", i.info.float32},
                   {"projection", i.info.projection}});
  }
  return all;
}

}  // namespace

std::string inspection_json(const Inspection& inspection) {
  Json json;
  json["encoding"] = to_text(inspection.spec);
  json["hash"] = hash(inspection.spec);
  json["head_dim"] = inspection.shape.head_dim;
  json["heads"] = inspection.shape.heads;
  if (inspection.scale) json["scale"] = *inspection.scale;
  json["seq_len"] = inspection.lengths.sequence;
  json["positions"] = Json::array();
  for (const auto& position : inspection.positions) {
    json["positions"].push_back(position.size() == 1 ? Json(position.front()) : Json(position));
  }
  json.update(inspection.rotary.empty()
                  ? absent_rotary()
                  : rotary_json(inspection.rotary.front(), inspection.lengths.sequence));
  for (std::size_t r = 1; r < inspection.rotary.size(); ++r) {
    json["further_rotary"].push_back(
        rotary_json(inspection.rotary[r], inspection.lengths.sequence));
  }
  json["slopes"] = inspection.slopes ? Json(*inspection.slopes) : Json(nullptr);
  json["buckets"] = inspection.buckets ? Json(*inspection.buckets) : Json(nullptr);
  if (inspection.buckets) json["relative_first"] = inspection.relative_first;
  json["parameters"] = parameters_json(inspection);
  json["inputs"] = inputs_json(inspection);
  return json.dump(2);
}

std::string inspection_text(const Inspection& inspection, std::size_t terminal) {
  std::string out =
      fmt::format("encoding  {}\nhash      {}\nshape     {} heads of {}\nlength    {}\n",
                  to_text(inspection.spec), hash(inspection.spec), inspection.shape.heads,
                  inspection.shape.head_dim, inspection.lengths.sequence);
  if (inspection.scale) out += fmt::format("scale     {}\n", *inspection.scale);
  for (const RotaryInspection& r : inspection.rotary) out += rotary_text(inspection, r, terminal);
  if (inspection.slopes) out += slopes_text(*inspection.slopes);
  if (inspection.buckets) out += buckets_text(inspection);
  return out + parameters_text(inspection) + inputs_text(inspection);
}

}  // namespace posenc::cli
