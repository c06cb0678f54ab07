#include <algorithm>
#include <cmath>

#include "draw/color_png.h"
#include "draw/files.h"
#include "posenc/core/error.h"

#ifdef POSENC_HAVE_PNG
#include <png.h>
#endif

namespace posenc::draw {
namespace {

#ifdef POSENC_HAVE_PNG

[[noreturn]] void fail(const png_image& image) {
  throw Error(ErrorKind::kResource, {.scope = "png",
                                     .key = "",
                                     .rule = "could not be made",
                                     .value = std::string(image.message),
                                     .hint = ""});
}

std::vector<std::uint8_t> encode(png_image image, const void* pixels, const void* table) {
  png_alloc_size_t size = 0;
  if (png_image_write_to_memory(&image, nullptr, &size, 0, pixels, 0, table) == 0) fail(image);
  std::vector<std::uint8_t> bytes(size);
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels, 0, table) == 0) {
    fail(image);
  }
  bytes.resize(size);
  return bytes;
}

png_image header(std::int64_t rows, std::int64_t columns, png_uint_32 format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(columns);
  image.height = static_cast<png_uint_32>(rows);
  image.format = format;
  return image;
}

#else

[[noreturn]] void lacks_png() {
  throw Error(ErrorKind::kUnsupported, {.scope = "png",
                                        .key = "",
                                        .rule = "cannot be written: built without libpng",
                                        .value = "",
                                        .hint = "install libpng-dev and build again"});
}

#endif

}  // namespace

std::uint8_t shade_of(double value, Range range) {
  const double t = (value - range.low) / (range.high - range.low);
  return static_cast<std::uint8_t>(std::lround(std::clamp(t, 0.0, 1.0) * 255));
}

#ifdef POSENC_HAVE_PNG
namespace {

std::vector<std::uint8_t> shades(const Heatmap& map, std::int64_t zoom) {
  const Range range = value_range(map);
  std::vector<std::uint8_t> out;
  out.reserve(map.values.size() * static_cast<std::size_t>(zoom * zoom));
  for (std::int64_t r = 0; r < map.rows * zoom; ++r) {
    for (std::int64_t c = 0; c < map.columns * zoom; ++c) {
      const float v = map.values[r / zoom * map.columns + c / zoom];
      out.push_back(std::isnan(v) ? 0 : std::max<std::uint8_t>(1, shade_of(v, range)));
    }
  }
  return out;
}

}  // namespace

// 255 colours and one that is clear: masked cells are index 0, and the lowest colour shares index 1.
std::vector<std::uint8_t> color_png(const Heatmap& map, Theme theme, std::int64_t zoom) {
  const auto colors = color_table(map.map, theme);
  std::vector<std::uint8_t> table(4, 0);
  for (std::size_t i = 1; i < colors.size(); ++i) {
    const Rgb c = colors[i];
    table.insert(table.end(), {c.r, c.g, c.b, 255});
  }
  const std::vector<std::uint8_t> pixels = shades(map, zoom);
  png_image image = header(map.rows * zoom, map.columns * zoom, PNG_FORMAT_RGBA_COLORMAP);
  image.colormap_entries = 256;
  return encode(image, pixels.data(), table.data());
}

std::vector<std::uint8_t> grey_png(std::span<const std::uint8_t> pixels, std::int64_t rows,
                                   std::int64_t columns) {
  return encode(header(rows, columns, PNG_FORMAT_GRAY), pixels.data(), nullptr);
}

#else

std::vector<std::uint8_t> color_png(const Heatmap& /*map*/, Theme /*theme*/,
                                    std::int64_t /*zoom*/) {
  lacks_png();
}
std::vector<std::uint8_t> grey_png(std::span<const std::uint8_t> /*pixels*/, std::int64_t /*rows*/,
                                   std::int64_t /*columns*/) {
  lacks_png();
}

#endif

}  // namespace posenc::draw
