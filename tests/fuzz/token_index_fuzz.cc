// Hostile indexes of token files: an Error, or one whose files are next to it and that writes itself back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/round_trip.h"
#include "posenc/core/error.h"
#include "tokens/token_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const auto index = posenc::tokens::parse_token_index(input, "index.json");
    for (const auto& split : index.splits) {
      std::int64_t tokens = 0;
      for (const auto& shard : split.shards) {
        posenc::fuzz::require(shard.file.find('/') == std::string::npos && shard.file[0] != '.');
        tokens += shard.tokens;
      }
      posenc::fuzz::require(tokens == split.tokens);
    }
    const std::string json = token_index_json(index);
    posenc::fuzz::require(token_index_json(posenc::tokens::parse_token_index(json, "again")) ==
                          json);
  } catch (const posenc::Error&) {
  }
  return 0;
}
