// The base of readers that parse JSON without building a tree, so that a hostile file costs no
// more memory than its contents. Everything that a reader does not accept is an error.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "posenc/core/error.h"

namespace posenc::weights {

class JsonReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Errors are signed with the path; `subject` is what they say is wrong: "header", or nothing for
  // the file itself.
  JsonReader(std::string path, std::string subject)
      : path_(std::move(path)), subject_(std::move(subject)) {}

  // Walks the whole text, or throws an Error.
  void walk(std::string_view text);

  bool null() override { return refuse("null"); }
  bool boolean(bool b) override { return refuse(b ? "true" : "false"); }
  bool number_integer(number_integer_t i) override { return refuse(std::to_string(i)); }
  bool number_unsigned(number_unsigned_t u) override { return refuse(std::to_string(u)); }
  bool number_float(number_float_t /*d*/, const string_t& text) override { return refuse(text); }
  bool string(string_t& text) override;
  bool binary(binary_t& /*bytes*/) override { return refuse("bytes"); }
  bool start_object(std::size_t /*size*/) override { return refuse("an object"); }
  bool start_array(std::size_t /*size*/) override { return refuse("a list"); }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& problem) override;

 protected:
  // Throws: `what` stands where the reader wants something else.
  virtual bool refuse(const std::string& what) = 0;

  [[nodiscard]] Error error(const std::string& rule, const std::string& value = "",
                            ErrorKind kind = ErrorKind::kSyntax) const;

 private:
  std::string path_;
  std::string subject_;
};

}  // namespace posenc::weights
