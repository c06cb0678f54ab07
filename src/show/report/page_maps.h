// Attention maps as a page carries them: 8-bit grey pictures, pooled until all of them fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "draw/figure.h"
#include "report/compare.h"
#include "runs/attention_maps.h"

namespace posenc::report {

// Bytes of all pictures of a page together, as base64.
inline constexpr std::int64_t kMapBudget = 8'000'000;

struct PageMaps {
  Value data;  // {"records": [...]}: what the page's script reads
  std::size_t records = 0;
  std::int64_t tokens = 0;  // of the longest example
  std::int64_t cells = 0;   // most rows and columns that a map kept
  std::vector<std::string> remarks;
};

// Of each entry the first seed that has a record of the example that most entries have.
PageMaps page_maps(const Comparison& comparison, std::int64_t budget = kMapBudget);

// One record the same way, alone: an element of "records", with `name` as what the page calls it.
Value page_record(const runs::AttentionRecord& record, const std::string& name,
                  std::int64_t budget = kMapBudget);

// The colours of maps and curves, light and dark: {"sequential": {"light": base64, "dark": base64}, "diverging": ...,
// "curves": {"light": ["#rrggbb", ...], "dark": ...}}. A map has 256 of 3 bytes.
Value page_colors();

// One head's map in bytes: 0 is masked, b from 1 to 255 is low + (high - low) ((b - 1) / 254)^gamma.
struct ByteMap {
  std::vector<std::uint8_t> bytes;
  double high = 1.0;  // low is 0
};
double gamma_of(runs::MapKind kind);
ByteMap byte_map(const draw::Heatmap& map, runs::MapKind kind);

}  // namespace posenc::report
