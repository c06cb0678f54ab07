// Hostile packages of texts: an Error, or texts whose names stay in the folder of the corpus. The first byte
// says which form the rest has.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "datasets/convert.h"
#include "fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const auto texts = data[0] == 'v' ? posenc::datasets::books_of_verses(input)
                                      : posenc::datasets::texts_of_r_database(input);
    for (const auto& [name, text] : texts) {
      posenc::fuzz::require(name.find('/') == std::string::npos && name.front() != '.' &&
                            name.ends_with(".txt"));
    }
  } catch (const posenc::Error&) {
  }
  return 0;
}
