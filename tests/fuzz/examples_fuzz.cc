// Hostile JSONL files: an Error, or examples with answers and tokens in range.
#include <cstddef>
#include <cstdint>
#include <string>

#include "fuzz/round_trip.h"
#include "posenc/core/error.h"
#include "tasks/examples.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const posenc::tasks::ExampleFile file = posenc::tasks::parse_examples(text, "x.jsonl");
    const std::int64_t tokens = file.text ? 256 : posenc::tasks::kMostTokens;
    for (const posenc::tasks::Example& example : file.examples) {
      posenc::fuzz::require(!example.answer.empty() && example.line > 0);
      for (const std::int32_t token : example.input) {
        posenc::fuzz::require(token >= 0 && token < tokens);
      }
    }
  } catch (const posenc::Error&) {
  }
  return 0;
}
