// Runs the program as a user does.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "support/paths.h"

// Of a test that trains, or that asks the program that does.
#ifdef POSENC_HAVE_TORCH
#define POSENC_NEEDS_LIBTORCH() static_cast<void>(0)
#else
#define POSENC_NEEDS_LIBTORCH() GTEST_SKIP() << "built without libtorch"
#endif

namespace posenc::testing {

struct Result {
  int code = -1;
  std::string out;  // both streams
};

// `before` is shell that runs first, such as a limit.
inline Result run(const std::string& arguments, const std::string& before = "") {
  const std::string command = before + kCliPath + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Result result;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) {
    result.out.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

inline nlohmann::json run_json(const std::string& arguments) {
  const Result result = run(arguments + " --json");
  EXPECT_EQ(result.code, 0) << result.out;
  return nlohmann::json::parse(result.out);
}

}  // namespace posenc::testing
