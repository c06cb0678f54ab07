// Hostile tokenizer.json files: an Error, or a tokenizer that encodes any bytes and writes itself back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/round_trip.h"
#include "posenc/core/error.h"
#include "tokens/tokenizer.h"
#include "tokens/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using posenc::tokens::Tokenizer;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = Tokenizer::parse(input, "tokenizer.json");
    const std::string_view text = input.substr(0, 2000);
    const std::string expected =
        tokenizer.parts().nfc ? posenc::tokens::to_nfc(text) : std::string(text);
    const auto plain = tokenizer.encode(text, {.find_added = false});
    posenc::fuzz::require(tokenizer.decode(plain) == expected);
    (void)tokenizer.encode(text, {.add_template = true});
    const Tokenizer again = Tokenizer::parse(tokenizer_json(tokenizer.parts()), "tokenizer.json");
    posenc::fuzz::require(again.encode(text, {.find_added = false}) == plain);
  } catch (const posenc::Error&) {
  }
  return 0;
}
