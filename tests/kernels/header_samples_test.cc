// What the public headers quote as output is what the functions say.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "posenc/core/error.h"
#include "posenc/encodings/spec.h"
#include "posenc/kernels/attention.h"
#include "support/paths.h"

namespace posenc {
namespace {

// The comments of a public header as running text, without the slashes.
std::string comments_of(const std::string& header) {
  std::ifstream in(std::string(posenc::testing::kTestData) + "/../include/posenc/" + header);
  std::string text;
  for (std::string line; std::getline(in, line);) {
    const auto start = line.find("//");
    if (start == std::string::npos) continue;
    std::istringstream words(line.substr(start + 2));
    for (std::string word; words >> word;) text += word + " ";
  }
  return text;
}

bool has(const std::string& text, const std::string& sample) {
  return text.find(sample) != std::string::npos;
}

std::string error_of(const char* spec) {
  try {
    (void)parse_spec(spec);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(HeaderSamples, ExplainSaysWhatItsHeaderQuotes) {
  const std::string header = comments_of("kernels/attention.h");
  const AttentionShapes prompt{.heads = 2, .kv_heads = 2, .queries = 64, .keys = 64};
  for (const char* spec : {"rope + alibi + cope", "cope + cope"}) {
    const std::string whole = explain(parse_spec(spec), prompt);
    const std::string said = whole.substr(0, whole.find("; memory ")) + "; memory X, backward Y";
    EXPECT_TRUE(has(header, '"' + said + '"')) << spec << " is: " << said;
  }
}

TEST(HeaderSamples, ErrorsReadAsTheirHeaderShows) {
  const std::string header = comments_of("core/error.h");
  // Positions in the text are left out of the header.
  for (const char* spec : {"rope(rotary_dim=7)", "rope(schedule=yarn)"}) {
    const std::string said = error_of(spec);
    const std::string shown = said.substr(0, said.find(" (line"));
    EXPECT_TRUE(has(header, shown)) << spec << " gives: " << said;
  }
}

}  // namespace
}  // namespace posenc
