// Each task solved independently from its readable words: no token numbers, no generator code.
#pragma once

#include <algorithm>
#include <map>

#include "tasks/samples.h"

namespace posenc::tasks {

inline bool is_number(const std::string& word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

inline std::ptrdiff_t index_of(const Words& words, const std::string& word) {
  const auto found = std::find(words.begin(), words.end(), word);
  return found == words.end() ? -1 : found - words.begin();
}

inline Solver counting_solver(bool running, std::int64_t modulo) {
  return [=](const Words& words) -> Solution {
    const std::ptrdiff_t sep = index_of(words, "<sep>");
    if (sep < 0 || sep + 1 == static_cast<std::ptrdiff_t>(words.size())) return {};
    if (!running && words.back() != "<query>") return {};
    std::int64_t total = 0;
    for (std::ptrdiff_t name = 2; name < sep; name += 2) {
      total += std::count(words.begin() + sep, words.end(), words[static_cast<std::size_t>(name)]);
    }
    return {true, false, std::to_string(words[1] == "mod" ? total % modulo : total)};
  };
}

inline Solution solve_flip_flop(const Words& words) {
  if (words.back() != "r") return {};
  for (std::size_t t = words.size() - 1; t-- > 0;) {
    if (words[t] == "w") return {true, false, words[t + 1]};
  }
  return {true, true};
}

inline Solution solve_copy(const Words& words) {
  Words symbols;
  std::size_t questions = 0;
  for (const std::string& word : words) {
    if (word == "|" || word == "?" || (questions > 0 && word != ".")) {
      ++questions;
    } else if (word != ".") {
      symbols.push_back(word);
    }
  }
  if (questions == 0) return {};
  return {true, false, symbols.at(questions - 1)};
}

inline Solution solve_program(const Words& words) {
  if (words.size() < 2 || words[words.size() - 2] != "print") return {};
  int increments = 0;
  for (std::size_t t = words.size() - 1; t-- > 0;) {
    if (words[t] != words.back()) continue;
    if (words[t + 1] == "=") return {true, false, std::to_string(increments)};
    if (words[t + 1] == "++;") ++increments;
  }
  return {true, true};
}

inline Solver mqar_solver(std::size_t pairs) {
  return [=](const Words& words) -> Solution {
    const std::size_t t = words.size() - 1;
    if (t < 2 * pairs || words[t].front() != 'k' || t % 2 != 0) return {};
    for (std::size_t i = 0; i < 2 * pairs; i += 2) {
      if (words[i] == words[t]) return {true, false, words[i + 1]};
    }
    return {};
  };
}

inline Solver n_back_solver(std::size_t back) {
  return [=](const Words& words) -> Solution {
    if (words.size() < 2 || words.size() % 2 != 0 || words[words.size() - 2] != "?") return {};
    std::map<std::string, Words> values;
    for (std::size_t t = 0; t + 1 < words.size(); t += 2) {
      if (words[t] != "?" && words[t] != ".") values[words[t]].push_back(words[t + 1]);
    }
    const Words& past = values.at(words.back());
    return {true, false, past.at(past.size() - back)};
  };
}

inline Solver segments_solver(const std::string& mark, bool from_end) {
  return [=](const Words& words) -> Solution {
    if (words.size() < 2 || words[words.size() - 2] != "<query>") return {};
    std::vector<Words> segments(1);
    for (std::size_t t = 1; t + 2 < words.size(); ++t) {
      if (words[t] == mark) {
        segments.emplace_back();
      } else {
        segments.back().push_back(words[t]);
      }
    }
    segments.pop_back();  // behind the last mark there is none
    const auto k = static_cast<std::size_t>(std::stoul(words.back()));
    return {true, false, segments.at(from_end ? segments.size() - k : k - 1).at(0)};
  };
}

inline Solution solve_passkey(const Words& words) {
  const auto query = static_cast<std::size_t>(index_of(words, "<query>"));
  if (query + 1 >= words.size() || index_of(words, "<query>") < 0) return {};
  for (std::size_t t = 0; t < query; ++t) {
    if (words[t] != "<key>" || words[t + 1] != words[query + 1]) continue;
    return {true, false, words.at(t + words.size() - query)};
  }
  return {};
}

inline Solver parity_solver(bool running, long modulo) {
  return [=](const Words& words) -> Solution {
    if (running ? !is_number(words.back()) : words.back() != "<query>") return {};
    long sum = 0;
    for (const std::string& word : words) sum += is_number(word) ? std::stol(word) : 0;
    return {true, false, std::to_string(sum % modulo)};
  };
}

// Permutations are written as the images of 1, 2, 3, ...
inline Solver word_problem_solver(bool running) {
  return [=](const Words& words) -> Solution {
    if (running ? !is_number(words.back()) : words.back() != "<query>") return {};
    std::string places = words.at(1);
    for (std::size_t t = 2; t < words.size() && is_number(words[t]); ++t) {
      for (char& place : places) place = words[t].at(static_cast<std::size_t>(place - '1'));
    }
    return {true, false, places};
  };
}

inline Solution solve_indirect_indexing(const Words& words) {
  if (words.back() != "," || std::count(words.begin(), words.end(), ",") != 3) return {};
  const std::ptrdiff_t end = index_of(words, ",");
  const std::ptrdiff_t source = index_of(words, words.at(static_cast<std::size_t>(end) + 1));
  const long target = source + std::stol(words.at(static_cast<std::size_t>(end) + 3));
  return {true, false, words.at(static_cast<std::size_t>(target))};
}

// Keeps what was seen by coordinates; the map has `side` places in every direction.
inline Solver navigation_solver(int side) {
  return [=](const Words& words) -> Solution {
    if (words.size() % 2 == 0) return {};
    std::map<std::pair<int, int>, std::string> seen;
    std::pair<int, int> at = {0, 0};
    for (std::size_t t = 0; t < words.size(); t += 2) {
      if (words[t] == "<") at.first += side - 1;
      if (words[t] == ">") at.first += 1;
      if (words[t] == "^") at.second += side - 1;
      if (words[t] == "v") at.second += 1;
      at = {at.first % side, at.second % side};
      if (t + 1 < words.size()) seen[at] = words[t + 1];
    }
    if (seen.count(at) == 0 || seen[at] == ".") return {};
    return {true, false, seen[at]};
  };
}

inline Words stack_after(const Words& input) {
  Words stack;
  for (const std::string& word : input) {
    if (word == "pop") {
      if (!stack.empty()) stack.erase(stack.begin());
    } else {
      stack.insert(stack.begin(), word.substr(word.size() - 1));
    }
  }
  stack.emplace_back("<end>");
  return stack;
}

inline std::string missing_symbol(const Words& input) {
  const std::size_t half = input.size() / 2;
  const auto place = static_cast<std::size_t>(index_of(input, "_"));
  return input.at(place < half ? place + half : place - half);
}

inline Words string_answer(const std::string& kind, const Words& input) {
  Words answer;
  const std::size_t n = input.size();
  if (kind == "even_pairs") {
    int changes = 0;
    for (std::size_t t = 1; t < n; ++t) changes += input[t] != input[t - 1] ? 1 : 0;
    answer = {std::to_string(changes % 2)};
  }
  if (kind == "missing_duplicate") answer = {missing_symbol(input)};
  if (kind == "stack") answer = stack_after(input);
  if (kind == "reverse") answer.assign(input.rbegin(), input.rend());
  for (std::size_t t = 0; kind == "duplicate" && t < 2 * n; ++t) answer.push_back(input[t % n]);
  for (std::size_t t = 0; kind == "odds_first" && t < n; ++t) {
    answer.push_back(input[t < (n + 1) / 2 ? 2 * t : 2 * (t - (n + 1) / 2) + 1]);
  }
  for (const char* symbol : {"0", "1", "2", "3", "4"}) {
    if (kind != "bucket_sort") break;
    answer.insert(answer.end(),
                  static_cast<std::size_t>(std::count(input.begin(), input.end(), symbol)), symbol);
  }
  return answer;
}

inline Solver chomsky_solver(const std::string& kind) {
  return [=](const Words& words) -> Solution {
    const auto separator = std::find(words.begin(), words.end(), "|");
    if (separator == words.end()) return {};
    const Words answer = string_answer(kind, Words(words.begin(), separator));
    const auto said = static_cast<std::size_t>(words.end() - separator) - 1;
    if (said >= answer.size()) return {};  // padding
    return {true, false, answer[said]};
  };
}

}  // namespace posenc::tasks
