#include "cli/figure_output.h"

#include <fmt/format.h>

#include "draw/files.h"
#include "posenc/core/error.h"
#include "runs/files.h"

namespace posenc::cli {
namespace {

draw::Look look_of(const std::string& name) {
  const auto names = draw::enum_names(draw::Look{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<draw::Look>(i);
  }
  return draw::Look::kAuto;
}

}  // namespace

void add_figure_options(CLI::App& verb, FigureOutput& output) {
  verb.add_option("-o,--out", output.files,
                  "where to write it: .svg, .png or .csv (may be repeated)")
      ->type_name("FILE");
  verb.add_option("--data", output.data, "write the numbers behind it as CSV")->type_name("FILE");
  verb.add_option("--theme", output.theme,
                  "auto (an SVG follows the reader's setting), light or dark")
      ->check(CLI::IsMember({"auto", "light", "dark"}));
  verb.add_option("--scale", output.scale, "pixels of a PNG per unit")
      ->check(CLI::Range(0.25, 8.0));
}

void check(const FigureOutput& output) {
  for (const std::string& file : output.files) draw::check_ending(file);
  if (output.data.empty() || output.data.ends_with(".csv")) return;
  throw Error(ErrorKind::kOutOfRange, {.scope = "figure",
                                       .key = "--data",
                                       .rule = "must end in .csv",
                                       .value = output.data,
                                       .hint = ""});
}

void write(const draw::Figure& figure, const FigureOutput& output, const std::string& unnamed) {
  std::vector<std::string> files = output.files;
  if (!output.data.empty()) files.push_back(output.data);
  if (files.empty()) files.push_back(unnamed);
  for (const std::string& file : files) {
    runs::atomic_write(file,
                       draw::file_content(figure, file, {look_of(output.theme), output.scale}));
    fmt::print("{}\n", file);
  }
}

}  // namespace posenc::cli
