// Hostile JSON, the form of most files of a run: an Error of one line, or a tree that reads back from both
// written forms and from what a terminal is shown.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/plain_text.h"
#include "core/value.h"
#include "fuzz/round_trip.h"
#include "runs/numbers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  posenc::Value tree;
  try {
    tree = posenc::parse_json(input, "input");
  } catch (const posenc::Error& error) {
    posenc::fuzz::require(posenc::one_line(error.what()) == error.what());
    return 0;
  }
  const std::string json = posenc::to_json(tree);
  // As text: a number such as 8.0 is written as 8, which reads back as a whole number.
  const auto again = [](const std::string& text) {
    return posenc::to_json(posenc::parse_json(text, "again"));
  };
  posenc::fuzz::require(again(json) == json);
  posenc::fuzz::require(again(posenc::printable_json(json)) == json);
  (void)posenc::to_json(posenc::runs::without_non_finite(posenc::runs::with_non_finite(tree)));
  return 0;
}
