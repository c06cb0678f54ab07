#include <fmt/format.h>

int main() { return fmt::format("{:.3f}", 0.25) == "0.250" ? 0 : 1; }
