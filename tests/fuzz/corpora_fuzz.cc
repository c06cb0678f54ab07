// Hostile packages of verses: an Error, or texts whose names stay in the folder of the corpus.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "datasets/convert.h"
#include "fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const auto texts = posenc::datasets::books_of_verses(input);
    for (const auto& [name, text] : texts) {
      posenc::fuzz::require(name.find('/') == std::string::npos && name.front() != '.' &&
                            name.ends_with(".txt"));
    }
  } catch (const posenc::Error&) {
  }
  return 0;
}
