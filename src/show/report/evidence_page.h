// The generated blocks of a page that is written by hand otherwise.
//
//   <!-- generated: results main -->
//   ...
//   <!-- end generated -->
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace posenc::report {

struct PageBlock {
  std::string kind;  // "results" or "picture"
  std::string part;
  int line = 0;           // of its first marker
  std::size_t begin = 0;  // of what is between the markers, in the page
  std::size_t end = 0;
};

// Errors are signed `scope` and name the line: a marker without its end, a block that is there twice.
std::vector<PageBlock> find_blocks(std::string_view page, const std::string& scope);

// What a block should hold; it ends with a line break, or is empty.
using BlockText = std::function<std::string(const PageBlock&)>;

std::string with_blocks(std::string_view page, const std::string& scope, const BlockText& text_of);

// One line for each block that differs: the block and its first line that is another one.
std::vector<std::string> block_differences(std::string_view page, const std::string& scope,
                                           const BlockText& text_of);

// "line 3 has 'a' but should have 'b'": the first line in which two texts differ; empty where none does.
// Lines are counted from `first`.
std::string first_difference(std::string_view has, std::string_view should, int first);

}  // namespace posenc::report
