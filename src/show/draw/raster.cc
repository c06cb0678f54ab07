#include "draw/files.h"
#include "posenc/core/error.h"

#ifdef POSENC_HAVE_RSVG
#include <cairo.h>
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
  throw Error(ErrorKind::kResource, {.scope = "png",
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

}  // namespace

std::vector<std::uint8_t> to_png(const Figure& figure, Theme theme, double scale) {
  const Handle handle =
      parse(to_svg(figure, {.look = theme == Theme::kDark ? Look::kDark : Look::kLight}));
  gdouble width = 0;
  gdouble height = 0;
  if (rsvg_handle_get_intrinsic_size_in_pixels(handle.get(), &width, &height) == 0) {
    fail("it has no size");
  }
  const RsvgRectangle all{0, 0, width * scale, height * scale};
  const Surface surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(std::lround(all.width)),
                                 static_cast<int>(std::lround(all.height))),
      &cairo_surface_destroy);
  const Context context(cairo_create(surface.get()), &cairo_destroy);
  GError* error = nullptr;
  if (rsvg_handle_render_document(handle.get(), context.get(), &all, &error) == 0) {
    fail(take(error));
  }
  std::vector<std::uint8_t> bytes;
  const cairo_status_t status = cairo_surface_write_to_png_stream(surface.get(), append, &bytes);
  if (status != CAIRO_STATUS_SUCCESS) fail(cairo_status_to_string(status));
  return bytes;
}

#else

std::vector<std::uint8_t> to_png(const Figure& /*figure*/, Theme /*theme*/, double /*scale*/) {
  throw Error(ErrorKind::kUnsupported,
              {.scope = "png",
               .key = "",
               .rule = "cannot be painted: built without librsvg",
               .value = "",
               .hint = "write .svg, or install librsvg2-dev and build again"});
}

#endif

}  // namespace posenc::draw
