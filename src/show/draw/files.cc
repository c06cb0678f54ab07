#include "draw/files.h"

#include "posenc/core/error.h"

namespace posenc::draw {

std::string base64(std::span<const std::uint8_t> bytes) {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k) word = word << 8U | (k < left ? bytes[i + k] : 0U);
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= left ? kLetters[word >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return out;
}

void check_ending(const std::filesystem::path& name) {
  const std::string ending = name.extension().string();
  if (ending == ".svg" || ending == ".png" || ending == ".pdf" || ending == ".csv") return;
  throw Error(ErrorKind::kOutOfRange, {.scope = "figure",
                                       .key = name.string(),
                                       .rule = "must end in .svg, .png, .pdf or .csv",
                                       .value = ending.empty() ? "no ending" : ending,
                                       .hint = ""});
}

std::string file_content(const Figure& figure, const std::filesystem::path& name,
                         const FileOptions& options) {
  check_ending(name);
  if (name.extension() == ".csv") return to_csv(figure);
  if (name.extension() == ".svg") return to_svg(figure, {.look = options.look});
  const Theme theme = options.look == Look::kDark ? Theme::kDark : Theme::kLight;
  const std::vector<std::uint8_t> bytes =
      name.extension() == ".pdf" ? to_pdf(figure, theme) : to_png(figure, theme, options.scale);
  return {bytes.begin(), bytes.end()};
}

}  // namespace posenc::draw
