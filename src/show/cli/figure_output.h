// Options that every verb has which writes a figure: -o, --data, --title, --theme, --scale, --columns, --panel-width.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "draw/figure.h"

namespace posenc::cli {

struct FigureOutput {
  std::vector<std::string> files;  // .svg, .png, .pdf or .csv
  std::string data;                // a further .csv
  std::optional<std::string> title;
  std::string theme = "auto";
  double scale = 2.0;
  int columns = 0;           // of panels; 0: as the figure has it
  double panel_width = 0.0;  // in pixels, heights in proportion; 0: as the figure has it
};

void add_figure_options(CLI::App& verb, FigureOutput& output);

// Refuses unsupported endings before the figure is computed.
void check(const FigureOutput& output);

// Writes each file atomically, and prints its name; to `unnamed` where no -o says otherwise.
// Everything is computed before the first file is written.
void write(draw::Figure figure, const FigureOutput& output, const std::string& unnamed);

}  // namespace posenc::cli
