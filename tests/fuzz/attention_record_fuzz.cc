// Hostile records of attention: an Error of one line, or maps whose figures are finite.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/plain_text.h"
#include "fuzz/memory_file.h"
#include "runs/attention_maps.h"
#include "runs/attention_record.h"

namespace {

using posenc::fuzz::require;
namespace runs = posenc::runs;

void check(const runs::AttentionRecord& record) {
  require(!record.layers.empty() && record.heads > 0);
  const auto layers = static_cast<std::int64_t>(record.layers.size());
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (std::int64_t head = 0; head < record.heads; ++head) {
      require(std::isfinite(runs::attended_distance(record, layer, head).mean));
      (void)runs::instruction_share(record, layer, head);
      (void)runs::last_gates(record, layer, head);
    }
  }
  for (const auto& d : runs::divergences(record, record)) require(d.total_variation == 0.0);
  (void)runs::uniform_distance(record.example);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const posenc::fuzz::MemoryFile file({reinterpret_cast<const char*>(data), size});
  try {
    check(runs::read_attention(file.path()));
  } catch (const posenc::Error& error) {
    require(posenc::one_line(error.what()) == error.what());
  }
  return 0;
}
