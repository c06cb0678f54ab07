// The interface of the explorer page: strings of JSON in and out, as WebAssembly can pass them. The page
// draws figures of src/show/plots from the numbers that these calls leave in memory; it computes none itself.
//
// A call that fails returns {"error": one line}. Texts belong to the library: those of a figure live
// until posenc_web_free, all others until the next call of the same function.
#pragma once

#include <cstdint>

extern "C" {

struct posenc_web_figure;

// {"encodings", "schedules", "axes": as in encodings/catalog_json.h,
//  "plots": [{name, doc, fields, defaults, ...}], "request_fields", "palette": {light, dark}}
const char* posenc_web_catalog();

// A spec in its text form or as JSON: {"text", "hash", "terms": [{name, fields}]}, all fields spelt out.
const char* posenc_web_spec(const char* spec);

// Computes a figure from a request such as {"kind": "decay", "encodings": ["rope"]}. Never null.
posenc_web_figure* posenc_web_plot(const char* request);
// The figure without its long arrays: each of these is {"at": address, "count": n, "type": "f32"|"f64"}.
const char* posenc_web_describe(const posenc_web_figure* figure);
// All numbers of one panel as CSV, or of all panels where it is -1.
const char* posenc_web_csv(posenc_web_figure* figure, int panel);
void posenc_web_free(posenc_web_figure* figure);

// 256 colours of 3 bytes, or null where there is no such map ("sequential", ...) or theme ("light", ...).
const std::uint8_t* posenc_web_color_table(const char* map, const char* theme);

}  // extern "C"
