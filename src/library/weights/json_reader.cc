#include "weights/json_reader.h"

#include <fmt/format.h>

#include "weights/messages.h"

namespace posenc::weights {

void JsonReader::walk(std::string_view text) {
  // The parser takes a zero byte for the end, so that anything might follow it unseen.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw error(fmt::format("is not JSON (byte {} is zero)", zero + 1));
  }
  nlohmann::json::sax_parse(text, this);
}

bool JsonReader::string(string_t& text) { return refuse(in_quotes(text)); }

bool JsonReader::parse_error(std::size_t position, const std::string& /*token*/,
                             const nlohmann::detail::exception& /*problem*/) {
  throw error(fmt::format("is not JSON (byte {})", position));
}

Error JsonReader::error(const std::string& rule, const std::string& value, ErrorKind kind) const {
  return file_error(kind, path_, subject_, rule, value, kDamaged);
}

}  // namespace posenc::weights
