#include "report/page_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/bind.h"
#include "draw/files.h"
#include "draw/pool.h"
#include "posenc/core/error.h"
#include "report/attention_panels.h"
#include "report/charts.h"
#include "report/record_choice.h"

namespace posenc::report {
namespace {

// Halves, so that what was pooled once can be pooled again: cells of the smaller map are whole cells of
// the larger one.
constexpr std::array<std::int64_t, 4> kCaps = {256, 128, 64, 32};

Value text(const std::string& s) { return Value::of_string(s); }
Value map(Value::Map members) { return {Value::Data(std::move(members))}; }
Value list(Value::List items) { return {Value::Data(std::move(items))}; }

struct Kind {
  runs::MapKind kind = runs::MapKind::kWeights;
  std::vector<draw::Heatmap> heads;
};
struct Layer {
  std::vector<Kind> kinds;
};
struct Pooled {
  std::string name;  // what the page calls it
  std::string run;
  runs::AttentionExample example;
  std::int64_t heads = 0;
  std::vector<Layer> layers;
};

Pooled pooled_record(const runs::AttentionRecord& record, std::string name, std::string run) {
  Pooled out{std::move(name), std::move(run), record.example, record.heads, {}};
  for (std::size_t l = 0; l < record.layers.size(); ++l) {
    Layer& layer = out.layers.emplace_back();
    for (const auto kind :
         {runs::MapKind::kWeights, runs::MapKind::kGates, runs::MapKind::kPositions}) {
      if (kind != runs::MapKind::kWeights && !record.layers[l].has_cope()) continue;
      Kind& maps = layer.kinds.emplace_back();
      maps.kind = kind;
      for (std::int64_t h = 0; h < record.heads; ++h) {
        runs::Map whole = head_map(record, static_cast<std::int64_t>(l), h, kind);
        maps.heads.push_back(heatmap(record.example, std::move(whole), kCaps.front()));
      }
    }
  }
  return out;
}

// The heads of a layer below each other in one picture.
Value kind_value(const Kind& kind, std::int64_t most) {
  std::vector<std::uint8_t> pixels;
  Value::List highs;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  for (const draw::Heatmap& head : kind.heads) {
    const draw::Heatmap small = draw::pooled(head, most, most);
    const ByteMap bytes = byte_map(small, kind.kind);
    pixels.insert(pixels.end(), bytes.bytes.begin(), bytes.bytes.end());
    highs.push_back(write_field(bytes.high));
    rows += small.rows;
    columns = small.columns;
  }
  const std::string png = draw::base64(draw::grey_png(pixels, rows, columns));
  return map({{"kind", write_field(kind.kind)},
              {"gamma", write_field(gamma_of(kind.kind))},
              {"highs", list(std::move(highs))},
              {"png", text("data:image/png;base64," + png)}});
}

Value example_value(const runs::AttentionExample& e) {
  Value::List tokens;
  for (const std::string& token : e.tokens) tokens.push_back(text(token));
  Value::List scored;
  for (const runs::ScoredPlace& place : e.scored) {
    scored.push_back(map({{"position", write_field(place.position)},
                          {"expected", text(place.expected)},
                          {"predicted", text(place.predicted)}}));
  }
  return map(
      {{"task", text(e.task)},
       {"axis", text(e.axis)},
       {"length", write_field(e.length)},
       {"sample", write_field(e.sample)},
       {"step", write_field(e.step)},
       {"instruction", list({write_field(e.instruction_begin), write_field(e.instruction_end)})},
       {"tokens", list(std::move(tokens))},
       {"scored", list(std::move(scored))}});
}

Value record_value(const Pooled& record, std::int64_t most) {
  const runs::AttentionExample& e = record.example;
  Value::List layers;
  for (std::size_t l = 0; l < record.layers.size(); ++l) {
    Value::List kinds;
    for (const Kind& kind : record.layers[l].kinds) kinds.push_back(kind_value(kind, most));
    layers.push_back(map({{"encoding", text(e.encodings[l])}, {"maps", list(std::move(kinds))}}));
  }
  return map({{"name", text(record.name)},
              {"run", text(record.run)},
              {"key", text(example_key(e))},
              {"cells", write_field(std::min(most, e.length))},
              {"heads", write_field(record.heads)},
              {"example", example_value(e)},
              {"layers", list(std::move(layers))}});
}

std::int64_t picture_bytes(const Value& value) {
  if (const auto* word = value.get_if<std::string>()) {
    return static_cast<std::int64_t>(word->size());
  }
  std::int64_t sum = 0;
  if (const auto* items = value.get_if<Value::List>()) {
    for (const Value& item : *items) sum += picture_bytes(item);
  }
  if (const auto* members = value.get_if<Value::Map>()) {
    for (const Member& member : *members) sum += picture_bytes(member.value);
  }
  return sum;
}

std::vector<Pooled> read_all(const std::vector<FoundRecord>& chosen,
                             std::vector<std::string>& remarks) {
  std::vector<Pooled> records;
  for (const FoundRecord& found : chosen) {
    try {
      records.push_back(pooled_record(runs::read_attention(found.path),
                                      series_name(*found.table, *found.entry), found.run));
    } catch (const Error& e) {
      remarks.push_back(shown_message(e.what(), found.folder, found.run));
    }
  }
  return records;
}

// Every record at one size; those past the budget are left out where `partly`, else all are.
std::optional<Value::List> written(const std::vector<Pooled>& records, std::int64_t cap,
                                   std::int64_t budget, bool partly,
                                   std::vector<std::string>& remarks) {
  Value::List values;
  std::int64_t used = 0;
  for (const Pooled& record : records) {
    Value value = record_value(record, cap);
    used += picture_bytes(value);
    if (used <= budget) {
      values.push_back(std::move(value));
    } else if (partly) {
      remarks.push_back(
          fmt::format("maps of {} are left out: the page would be too large", record.run));
    } else {
      return std::nullopt;
    }
  }
  return values;
}

// 256 colours of 3 bytes, as base64.
Value table_value(draw::ColorMap map, draw::Theme theme) {
  std::vector<std::uint8_t> bytes;
  for (const draw::Rgb& c : draw::color_table(map, theme)) {
    bytes.insert(bytes.end(), {c.r, c.g, c.b});
  }
  return text(draw::base64(bytes));
}

Value palette_value(draw::Theme theme) {
  Value::List colors;
  for (int i = 0; i < draw::kPaletteSize; ++i) {
    colors.push_back(text(draw::css(draw::palette(i, theme))));
  }
  return list(std::move(colors));
}

}  // namespace

double gamma_of(runs::MapKind kind) {
  // Most weights are small: with the square, steps are finest where they are.
  return kind == runs::MapKind::kWeights ? 2.0 : 1.0;
}

ByteMap byte_map(const draw::Heatmap& map, runs::MapKind kind) {
  ByteMap out;
  float high = 0.0F;
  for (const float v : map.values) high = std::max(high, std::isnan(v) ? 0.0F : v);
  out.high = high > 0.0F ? static_cast<double>(high) : 1.0;
  const double power = 1.0 / gamma_of(kind);
  for (const float v : map.values) {
    const double share = std::clamp(static_cast<double>(v) / out.high, 0.0, 1.0);
    out.bytes.push_back(
        std::isnan(v) ? std::uint8_t{0}
                      : static_cast<std::uint8_t>(1 + std::lround(254.0 * std::pow(share, power))));
  }
  return out;
}

PageMaps page_maps(const Comparison& comparison, std::int64_t budget) {
  PageMaps maps;
  const auto records = read_all(choose_records(comparison, maps.remarks), maps.remarks);
  for (const Pooled& record : records) {
    maps.tokens = std::max(maps.tokens, record.example.length);
  }
  Value::List values;
  try {
    for (const std::int64_t cap : kCaps) {
      auto fitting = written(records, cap, budget, cap == kCaps.back(), maps.remarks);
      if (!fitting) continue;
      values = std::move(*fitting);
      maps.cells = std::min(cap, maps.tokens);
      break;
    }
  } catch (const Error& e) {  // built without libpng
    maps.remarks.push_back(fmt::format("attention maps are left out: {}", e.what()));
  }
  maps.records = values.size();
  maps.data = map({{"records", list(std::move(values))}});
  return maps;
}

Value page_record(const runs::AttentionRecord& record, const std::string& name,
                  std::int64_t budget) {
  const Pooled pooled = pooled_record(record, name, name);
  Value value;
  for (const std::int64_t cap : kCaps) {
    value = record_value(pooled, cap);
    if (picture_bytes(value) <= budget) break;
  }
  return value;
}

Value page_colors() {
  const auto both = [](const auto& of_theme) {
    return map({{"light", of_theme(draw::Theme::kLight)}, {"dark", of_theme(draw::Theme::kDark)}});
  };
  const auto table = [&](draw::ColorMap map) {
    return both([&](draw::Theme theme) { return table_value(map, theme); });
  };
  return map({{"sequential", table(draw::ColorMap::kSequential)},
              {"diverging", table(draw::ColorMap::kDiverging)},
              {"curves", both(palette_value)}});
}

}  // namespace posenc::report
