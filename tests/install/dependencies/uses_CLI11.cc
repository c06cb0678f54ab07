#include <CLI/CLI.hpp>

int main() {
  int heads = 0;
  CLI::App app;
  app.add_option("--heads", heads);
  app.parse("--heads 8");
  return heads == 8 ? 0 : 1;
}
