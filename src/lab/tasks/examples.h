// Examples from a JSONL file: one {"input": ..., "answer": ...} a line, both text or both lists of
// integers. Other keys and empty lines are skipped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace posenc::tasks {

struct Example {
  std::vector<std::int32_t> input;
  std::vector<std::int32_t> answer;
  std::uint64_t input_hash = 0;
  std::int64_t line = 0;  // of its file, from 1

  // Positions of a row: the input, and an answer from the separator on.
  [[nodiscard]] std::int64_t positions() const {
    return static_cast<std::int64_t>(input.size() + answer.size());
  }
};

struct ExampleFile {
  bool text = true;  // bytes, or else integers
  std::vector<Example> examples;
};

inline constexpr std::int64_t kMostTokens = 1000000;  // different integers of a file

// An Error names the file and the line: "[data.jsonl:3] answer is required; ...".
ExampleFile read_examples(const std::string& path);
ExampleFile parse_examples(const std::string& text, const std::string& path);

}  // namespace posenc::tasks
