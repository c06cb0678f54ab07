#include "core/openblas.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <vector>

namespace posenc {
namespace {

// What to set OPENBLAS_CORETYPE to, or nothing where it chose well or was told.
std::string better_core() {
#if defined(__x86_64__)
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) return "";
  const std::string core = openblas_core();
  if (core != "Prescott" && core != "Core2") return "";
  if (__builtin_cpu_supports("avx512f")) return "SkylakeX";
  if (__builtin_cpu_supports("avx2")) return "Haswell";
#endif
  return "";
}

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

}  // namespace

// Looked up by name: this layer does not link it, whoever uses libtorch has it.
std::string openblas_core() {
  using Name = char* (*)();
  const auto name = reinterpret_cast<Name>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return name == nullptr ? "" : name();
}

void restart_with_better_openblas() {
  const std::string core = better_core();
  std::vector<std::string> words = own_arguments();
  if (core.empty() || words.empty()) return;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  setenv("OPENBLAS_CORETYPE", core.c_str(), 1);
  execv("/proc/self/exe", arguments.data());
}

}  // namespace posenc
