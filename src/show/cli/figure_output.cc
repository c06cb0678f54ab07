#include "cli/figure_output.h"

#include <fmt/format.h>

#include "cli/choices.h"
#include "cli/print.h"
#include "command/ranges.h"
#include "draw/files.h"
#include "posenc/core/error.h"
#include "runs/files.h"

namespace posenc::cli {

void add_figure_options(CLI::App& verb, FigureOutput& output) {
  verb.add_option("-o,--output", output.files,
                  "a file that ends in .svg, .png, .pdf or .csv; may be given several times")
      ->type_name("FILE")
      ->allow_extra_args(false);
  verb.add_option("--data", output.data, "also the numbers, as a .csv file")->type_name("FILE");
  verb.add_option("--title", output.title, "the figure's title; '' leaves it out")
      ->type_name("TEXT");
  verb.add_option("--theme", output.theme,
                  "of the picture: auto follows the reader's setting (SVG; PNG and PDF are light)")
      ->check(CLI::IsMember(names_of<draw::Look>()))
      ->capture_default_str();
  verb.add_option("--scale", output.scale, "pixels of a PNG per unit of the SVG")
      ->check(command::number_in(0.25, 8.0))
      ->capture_default_str();
  verb.add_option("--columns", output.columns, "panels per row")->check(command::integer_in(1, 12));
  verb.add_option("--panel-width", output.panel_width, "of each, in pixels; heights in proportion")
      ->check(command::number_in(80.0, 2000.0));
}

void check(const FigureOutput& output) {
  for (const std::string& file : output.files) {
    draw::check_ending(file);
    (void)output_target(file);
  }
  if (output.data.empty() || output.data.ends_with(".csv")) return;
  throw Error(ErrorKind::kUnsupported, {.scope = "figure",
                                        .key = "--data",
                                        .rule = "must be a name that ends in .csv",
                                        .value = "'" + output.data + "'",
                                        .hint = "pictures go to -o"});
}

void write(draw::Figure figure, const FigureOutput& output, const std::string& unnamed) {
  if (output.title) figure.title = *output.title;
  if (output.columns > 0) figure.columns = output.columns;
  if (output.panel_width > 0) {
    figure.panel_height *= output.panel_width / figure.panel_width;
    figure.panel_width = output.panel_width;
  }
  std::vector<std::string> files = output.files;
  if (files.empty()) files.push_back(unnamed);
  if (!output.data.empty()) files.push_back(output.data);
  const draw::FileOptions look{.look = value_of<draw::Look>(output.theme), .scale = output.scale};
  std::vector<std::string> contents;
  for (const std::string& file : files) contents.push_back(draw::file_content(figure, file, look));
  for (std::size_t f = 0; f < files.size(); ++f) {
    write_output(files[f], contents[f]);
    print("{}\n", files[f]);
  }
}

}  // namespace posenc::cli
