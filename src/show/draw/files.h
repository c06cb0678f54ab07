// Figures as files: SVG, PNG, PDF and the numbers behind them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "draw/svg.h"

namespace posenc::draw {

// All numbers of a figure, a row each: panel,kind,name,x,y,value,low,high. Empty where a kind has none.
std::string to_csv(const Figure& figure);

// A picture of `scale` pixels per unit, painted by librsvg from the SVG. Throws an Error that says what
// to install where the program was built without librsvg.
std::vector<std::uint8_t> to_png(const Figure& figure, Theme theme, double scale = 2.0);

// A page of the figure's size with text and lines as such, painted as a PNG is.
std::vector<std::uint8_t> to_pdf(const Figure& figure, Theme theme);

// 8-bit grey, value = byte: what a page colours by itself. Throws where libpng was not there to build with.
std::vector<std::uint8_t> grey_png(std::span<const std::uint8_t> pixels, std::int64_t rows,
                                   std::int64_t columns);
std::string base64(std::span<const std::uint8_t> bytes);

struct FileOptions {
  Look look = Look::kAuto;  // of an SVG; a PNG or PDF is light unless this says dark
  double scale = 2.0;       // of a PNG
};
// What a file of this name holds, by its ending: .svg, .png, .pdf or .csv. Throws Error for another one.
std::string file_content(const Figure& figure, const std::filesystem::path& name,
                         const FileOptions& options = {});
// Throws as file_content does, before anything is computed.
void check_ending(const std::filesystem::path& name);

}  // namespace posenc::draw
