#include "draw/files.h"
#include "draw/formula.h"
#include "posenc/core/error.h"

#ifdef POSENC_HAVE_RSVG
#include <cairo-pdf.h>
#include <librsvg/rsvg.h>

#include <cmath>
#include <memory>
#endif

namespace posenc::draw {

#ifdef POSENC_HAVE_RSVG
namespace {

using Surface = std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)>;
using Context = std::unique_ptr<cairo_t, decltype(&cairo_destroy)>;
using Handle = std::unique_ptr<RsvgHandle, void (*)(RsvgHandle*)>;

[[noreturn]] void fail(const std::string& why) {
  throw Error(ErrorKind::kResource, {.scope = "figure",
                                     .key = "",
                                     .rule = "could not be painted",
                                     .value = why,
                                     .hint = "write .svg instead"});
}

std::string take(GError* error) {
  std::string text = error == nullptr ? "unknown" : error->message;
  g_clear_error(&error);
  return text;
}

Handle parse(const std::string& svg) {
  GError* error = nullptr;
  Handle handle(
      rsvg_handle_new_from_data(reinterpret_cast<const guint8*>(svg.data()), svg.size(), &error),
      [](RsvgHandle* h) { g_clear_object(&h); });
  if (handle == nullptr) fail(take(error));
  return handle;
}

cairo_status_t append(void* closure, const unsigned char* data, unsigned int length) {
  auto* bytes = static_cast<std::vector<std::uint8_t>*>(closure);
  bytes->insert(bytes->end(), data, data + length);
  return CAIRO_STATUS_SUCCESS;
}

struct Size {
  double width = 0.0;
  double height = 0.0;
};

Size size_of(const Handle& handle) {
  Size size;
  if (rsvg_handle_get_intrinsic_size_in_pixels(handle.get(), &size.width, &size.height) == 0) {
    fail("it has no size");
  }
  return size;
}

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) fail(cairo_status_to_string(status));
}

// Paper first: the last column and row are only partly the figure's where `size` is not whole.
void paint(const Handle& handle, cairo_surface_t* surface, Size size, Theme theme) {
  const Context context(cairo_create(surface), &cairo_destroy);
  const auto paper = std::stoul(std::string(paper_color(theme)).substr(1), nullptr, 16);
  const auto part = [&](unsigned shift) {
    return static_cast<double>(paper >> shift & 255U) / 255.0;
  };
  cairo_set_source_rgb(context.get(), part(16), part(8), part(0));
  cairo_paint(context.get());
  const RsvgRectangle all{0, 0, size.width, size.height};
  GError* error = nullptr;
  if (rsvg_handle_render_document(handle.get(), context.get(), &all, &error) == 0) {
    fail(take(error));
  }
  check(cairo_status(context.get()));
}

Handle parse(const Figure& figure, Theme theme) {
  return parse(to_svg(figure, {.look = theme == Theme::kDark ? Look::kDark : Look::kLight}));
}

}  // namespace

std::vector<std::uint8_t> to_png(const Figure& figure, Theme theme, double scale) {
  const Handle handle = parse(figure, theme);
  const Size size = size_of(handle);
  const Surface surface(cairo_image_surface_create(
                            CAIRO_FORMAT_RGB24, static_cast<int>(std::lround(size.width * scale)),
                            static_cast<int>(std::lround(size.height * scale))),
                        &cairo_surface_destroy);
  paint(handle, surface.get(), {size.width * scale, size.height * scale}, theme);
  std::vector<std::uint8_t> bytes;
  check(cairo_surface_write_to_png_stream(surface.get(), append, &bytes));
  return bytes;
}

std::vector<std::uint8_t> to_pdf(const Figure& figure, Theme theme) {
  constexpr double kPoints = 0.75;  // of a pixel: 72 of 96 to the inch
  const Handle handle = parse(figure, theme);
  const Size pixels = size_of(handle);
  const Size size{pixels.width * kPoints, pixels.height * kPoints};
  std::vector<std::uint8_t> bytes;
  const Surface surface(
      cairo_pdf_surface_create_for_stream(append, &bytes, size.width, size.height),
      &cairo_surface_destroy);
  cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_TITLE,
                                 plain_formula(figure.title).c_str());
  // No time in it: the same figure is the same file.
  cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_CREATE_DATE, nullptr);
  paint(handle, surface.get(), size, theme);
  cairo_surface_finish(surface.get());
  check(cairo_surface_status(surface.get()));
  return bytes;
}

#else

namespace {

[[noreturn]] void lacks_rsvg(const char* kind) {
  throw Error(ErrorKind::kUnsupported,
              {.scope = kind,
               .key = "",
               .rule = "cannot be painted: built without librsvg",
               .value = "",
               .hint = "write .svg, or install librsvg2-dev and build again"});
}

}  // namespace

std::vector<std::uint8_t> to_png(const Figure& /*figure*/, Theme /*theme*/, double /*scale*/) {
  lacks_rsvg("png");
}
std::vector<std::uint8_t> to_pdf(const Figure& /*figure*/, Theme /*theme*/) { lacks_rsvg("pdf"); }

#endif

}  // namespace posenc::draw
