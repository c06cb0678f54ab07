#include "system/restart.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace posenc {
namespace {

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

}  // namespace

// Looked up by name: this layer does not link the library; programs that use libtorch have it.
std::string openblas_core() {
  using Name = char* (*)();
  const auto name = reinterpret_cast<Name>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return name == nullptr ? "" : name();
}

void set_openblas_threads(int threads) {
  using Set = void (*)(int);
  const auto set = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set != nullptr) set(threads);
}

EnvironmentSettings better_openblas() {
#if defined(__x86_64__)
  const std::string core = openblas_core();
  if (core != "Prescott" && core != "Core2") return {};
  if (__builtin_cpu_supports("avx512f")) return {{"OPENBLAS_CORETYPE", "SkylakeX"}};
  if (__builtin_cpu_supports("avx2")) return {{"OPENBLAS_CORETYPE", "Haswell"}};
#endif
  return {};
}

EnvironmentSettings patient_threads() {
  return {{"OMP_WAIT_POLICY", "passive"}, {"OPENBLAS_THREAD_TIMEOUT", "4"}};
}

void restart_with(const EnvironmentSettings& settings) {
  bool changed = false;
  for (const auto& [name, value] : settings) {
    if (std::getenv(name.c_str()) != nullptr) continue;
    changed = setenv(name.c_str(), value.c_str(), 1) == 0 || changed;
  }
  std::vector<std::string> words = own_arguments();
  if (!changed || words.empty()) return;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
}

}  // namespace posenc
