// Hostile evidence files: an Error of one line, or parts whose names are safe as folders.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/plain_text.h"
#include "fuzz/round_trip.h"
#include "sweep/evidence_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using posenc::fuzz::require;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const auto file = posenc::sweep::parse_evidence(input, "dir/e.yaml");
    require(!file.parts.empty() && !file.question.empty());
    for (const auto& part : file.parts) {
      require(part.name.find_first_of("/.") == std::string::npos && !part.name.empty());
      require(!part.sweep.points.empty());
    }
    for (const auto& table : file.published) {
      (void)file.part(table.part);
      require(!table.rows.empty());
    }
  } catch (const posenc::Error& error) {
    require(posenc::one_line(error.what()) == error.what());
  }
  return 0;
}
