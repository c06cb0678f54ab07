// docs/tasks.md shows what the code does: its tables of fields and its samples are made again here.
//
//   <!-- fields: flip_flop -->              before a table
//   <!-- sample: flip_flop; sparse; 24 -->  before a block: config, axis, length; row 0 of seed 1
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "core/bind.h"
#include "support/paths.h"
#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

struct Marked {
  std::string kind;
  std::string arguments;
  std::string text;  // the lines of the table or block that follows
};

std::vector<Marked> marked_parts(const std::string& page) {
  std::istringstream stream(page);
  std::vector<Marked> parts;
  bool block = false;
  bool inside = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("<!-- ")) {
      const std::size_t colon = line.find(": ");
      parts.push_back(
          {line.substr(5, colon - 5), line.substr(colon + 2, line.size() - colon - 6), ""});
      inside = true;
      block = false;
    } else if (inside && line.starts_with("```")) {
      inside = !block;
      block = true;
    } else if (inside && !block && line.empty()) {
      inside = false;
    } else if (inside) {
      parts.back().text += line + "\n";
    }
  }
  return parts;
}

template <class Config>
std::string fields_table() {
  std::string text =
      "| field | type | default | range | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const FieldDoc& field : describe_fields<Config>()) {
    text += "| `" + field.name + "` | " + field.type + " | " + field.default_value + " | " +
            field.range + " | " + field.doc + " |\n";
  }
  return text;
}

template <class... Configs>
std::map<std::string, std::string> all_tables(const std::variant<Configs...>& /*tag*/) {
  return {{std::string(Configs::kTraits.name), fields_table<Configs>()}...};
}

std::string sample_text(const std::string& arguments) {
  static constexpr FieldRule kRule{};
  const std::size_t length = arguments.rfind("; ");
  const std::size_t axis = arguments.rfind("; ", length - 1);
  TaskConfig config;
  read_field(parse_yaml(arguments.substr(0, axis), "docs"), FieldContext{"docs", "task", kRule},
             config);
  const Condition condition{arguments.substr(axis + 2, length - axis - 2),
                            std::stol(arguments.substr(length + 2))};
  const auto task = make_task(config);
  return render(*task, make_batch(*task, condition, 1, 0, 1), 0);
}

TEST(Docs, TablesAndSamplesAreWhatTheCodeSays) {
  const std::string page = read_file(std::string(posenc::testing::kTestData) + "/../docs/tasks.md");
  std::map<std::string, std::string> tables = all_tables(TaskConfig{});
  int samples = 0;
  for (const Marked& part : marked_parts(page)) {
    if (part.kind == "sample") {
      EXPECT_EQ(part.text, sample_text(part.arguments)) << part.arguments;
      ++samples;
    } else {
      EXPECT_EQ(part.text, tables[part.arguments]) << part.arguments;
      tables.erase(part.arguments);
    }
  }
  EXPECT_TRUE(tables.empty()) << "no table of " << tables.begin()->first;
  EXPECT_GE(samples, 12);
}

}  // namespace
}  // namespace posenc::tasks
