// Converts doubles to text and back like std::to_chars and std::from_chars. Standard libraries without
// their floating-point overloads (emscripten 3.1) get the same results from a fallback.
#pragma once

#include <charconv>
#include <string>

namespace posenc {

// The shortest text that reads back as the same finite number; plain digits where they are not longer.
std::string shortest_text(double number);

// Reads the longest number at the front of [first, last): no space and no plus sign before it. `ec` is
// result_out_of_range for what no double holds, `ptr == first` where there is no number.
std::from_chars_result read_double(const char* first, const char* last, double& number);

// The spelt-out forms, which tests compare with the library's.
std::string shortest_text_by_hand(double number);
std::from_chars_result read_double_by_hand(const char* first, const char* last, double& number);

}  // namespace posenc
