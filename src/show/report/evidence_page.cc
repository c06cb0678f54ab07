#include "report/evidence_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/plain_text.h"
#include "posenc/core/error.h"

namespace posenc::report {
namespace {

constexpr std::string_view kBegin = "<!-- generated: ";
constexpr std::string_view kMarkEnd = " -->";
constexpr std::string_view kEnd = "<!-- end generated -->";
constexpr std::size_t kLongestShown = 160;

Error page_error(const std::string& scope, int line, const std::string& rule,
                 const std::string& value, const std::string& hint) {
  return {ErrorKind::kSyntax,
          {.scope = scope,
           .key = fmt::format("line {}", line),
           .rule = rule,
           .value = value,
           .hint = hint}};
}

struct Line {
  std::string_view text;
  std::size_t begin = 0;
  std::size_t next = 0;  // where the line after it begins
  int number = 0;
};

std::vector<Line> lines_of(std::string_view page) {
  std::vector<Line> lines;
  for (std::size_t begin = 0; begin < page.size();) {
    const std::size_t end = std::min(page.find('\n', begin), page.size());
    const std::size_t next = std::min(end + 1, page.size());
    lines.push_back(
        {page.substr(begin, end - begin), begin, next, static_cast<int>(lines.size()) + 1});
    begin = next;
  }
  return lines;
}

PageBlock opened(const Line& line, const std::string& scope) {
  const bool closed = line.text.ends_with(kMarkEnd);
  const std::size_t length = line.text.size() - kBegin.size() - (closed ? kMarkEnd.size() : 0);
  const std::string_view words = line.text.substr(kBegin.size(), length);
  const std::size_t blank = std::min(words.find(' '), words.size());
  PageBlock block{.kind = std::string(words.substr(0, blank)),
                  .part = std::string(words.substr(std::min(blank + 1, words.size()))),
                  .line = line.number,
                  .begin = line.next};
  const bool known = block.kind == "results" || block.kind == "picture";
  if (!closed || !known || block.part.empty()) {
    throw page_error(scope, line.number, "is not a marker of a block",
                     "'" + std::string(line.text) + "'",
                     "write <!-- generated: results PART --> or picture PART");
  }
  return block;
}

void add_block(PageBlock block, const std::string& scope, std::vector<PageBlock>& blocks) {
  const bool twice = std::any_of(blocks.begin(), blocks.end(), [&](const PageBlock& other) {
    return other.kind == block.kind && other.part == block.part;
  });
  if (twice) {
    throw page_error(scope, block.line, "has a block that is there twice",
                     block.kind + " " + block.part, "remove one of them");
  }
  blocks.push_back(std::move(block));
}

}  // namespace

std::vector<PageBlock> find_blocks(std::string_view page, const std::string& scope) {
  std::vector<PageBlock> blocks;
  bool open = false;
  for (const Line& line : lines_of(page)) {
    const bool begins = line.text.starts_with(kBegin);
    if (begins && open) {
      throw page_error(scope, line.number, "starts a block within another", "",
                       "end the one before it: <!-- end generated -->");
    }
    if (begins) add_block(opened(line, scope), scope, blocks);
    if (begins) open = true;
    if (line.text != kEnd) continue;
    if (!open) throw page_error(scope, line.number, "ends a block that has no start", "", "");
    blocks.back().end = line.begin;
    open = false;
  }
  if (open) {
    throw page_error(scope, blocks.back().line, "starts a block that has no end", "",
                     "add <!-- end generated --> below it");
  }
  return blocks;
}

std::string with_blocks(std::string_view page, const std::string& scope, const BlockText& text_of) {
  std::string result;
  std::size_t from = 0;
  for (const PageBlock& block : find_blocks(page, scope)) {
    result.append(page.substr(from, block.begin - from)).append(text_of(block));
    from = block.end;
  }
  return result.append(page.substr(from));
}

std::vector<std::string> block_differences(std::string_view page, const std::string& scope,
                                           const BlockText& text_of) {
  std::vector<std::string> differences;
  for (const PageBlock& block : find_blocks(page, scope)) {
    const std::string difference = first_difference(
        page.substr(block.begin, block.end - block.begin), text_of(block), block.line + 1);
    if (difference.empty()) continue;
    differences.push_back(
        fmt::format("{}: block {} {}: {}", scope, block.kind, block.part, difference));
  }
  return differences;
}

std::string first_difference(std::string_view has, std::string_view should, int first) {
  if (has == should) return "";
  const std::vector<Line> old_lines = lines_of(has);
  const std::vector<Line> new_lines = lines_of(should);
  const auto shown = [](const std::vector<Line>& lines, std::size_t i) {
    return i < lines.size() ? "'" + shortened(one_line(lines[i].text), kLongestShown) + "'"
                            : std::string("nothing");
  };
  std::size_t i = 0;
  while (i < old_lines.size() && i < new_lines.size() && old_lines[i].text == new_lines[i].text)
    ++i;
  return fmt::format("line {} has {} but the runs give {}", static_cast<std::size_t>(first) + i,
                     shown(old_lines, i), shown(new_lines, i));
}

}  // namespace posenc::report
