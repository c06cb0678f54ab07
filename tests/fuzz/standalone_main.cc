// Runs a fuzz target without libFuzzer: every file of the corpus, then mutations of them.
//
//   <target> [--mutations N] [--seed S] <folder or file>...
//
// The mutations are a function of the seed alone, so a failure here is a failure everywhere. An
// exception that leaves the target is a finding, and so is an input that takes more than five seconds
// of CPU time or two gigabytes: the input is printed and the exit status is 1.
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

// splitmix64: the standard library's distributions differ between implementations.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  // A number below n; n = 0 gives 0.
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(next() % n); }

 private:
  std::uint64_t state_;
};

// Pieces that parsers trip over: numbers at the edges, brackets, wrong encodings.
constexpr std::string_view kTokens[] = {
    "0",          "-1",       "1e309", "-1e-400", "nan",   "inf",   "9223372036854775808",
    "2147483648", "null",     "true",  "[",       "]",     "{",     "}",
    "(",          ")",        ",",     "=",       ":",     "+",     "\"",
    "\\u0000",    "\xff\xfe", "\n",    "rope",    "alibi", "theta", "factor",
    "&a",         "*a",       "!!int", "---"};

void mutate_once(std::string& text, const std::string& other, Random& random) {
  const std::size_t at = random.below(text.size() + 1);
  const std::size_t length = 1 + random.below(8);
  switch (random.below(6)) {
    case 0:  // flip a bit
      if (at < text.size()) {
        text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      }
      break;
    case 1:
      text.insert(at, 1, static_cast<char>(random.below(256)));
      break;
    case 2:
      text.erase(at, length);
      break;
    case 3:  // repeat a stretch
      text.insert(at, text.substr(at, length));
      break;
    case 4:
      text.insert(at, kTokens[random.below(std::size(kTokens))]);
      break;
    default:  // go on as another input does
      text = text.substr(0, at) + other.substr(random.below(other.size() + 1));
  }
}

std::string printable(const std::string& text) {
  std::string out;
  char buffer[8];
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '\\') {
      out += c;
    } else {
      std::snprintf(buffer, sizeof buffer, "\\x%02x", static_cast<unsigned char>(c));
      out += buffer;
    }
  }
  return out;
}

// The input at hand, for the signal handler.
const std::string* current_input = nullptr;

extern "C" void report_current_input(int signal_number) {
  const char* what = signal_number == SIGPROF ? "took too long" : "crashed";
  // Not async-signal-safe, but the process ends here and the input is what matters.
  std::fprintf(stderr, "an input %s: %s\n", what, printable(*current_input).c_str());
  _exit(1);
}

// Counts CPU time, so that a busy machine raises no alarm.
void start_clock() {
  const itimerval five_seconds{{0, 0}, {5, 0}};
  setitimer(ITIMER_PROF, &five_seconds, nullptr);
}

void set_limits() {
  std::signal(SIGPROF, report_current_input);
#if !POSENC_SANITIZED  // a sanitizer reports crashes better, and reserves terabytes of addresses
  for (const int number : {SIGSEGV, SIGILL, SIGTRAP, SIGABRT, SIGFPE}) {
    std::signal(number, report_current_input);
  }
  const rlimit limit{2UL << 30, 2UL << 30};  // a runaway allocation throws
  setrlimit(RLIMIT_AS, &limit);
#endif
}

bool survives(const std::string& input, const std::string& origin) {
  const char* what = "something that is no std::exception";
  std::string message;
  current_input = &input;
  start_clock();
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    return true;
  } catch (const std::exception& e) {
    message = e.what();
    what = message.c_str();
  } catch (...) {
  }
  std::fprintf(stderr, "%s let an exception escape: %s\ninput: %s\n", origin.c_str(), what,
               printable(input).c_str());
  return false;
}

struct Options {
  long mutations = 1000;
  std::uint64_t seed = 1;
  std::vector<fs::path> files;
};

void add_files(const fs::path& path, std::vector<fs::path>& files) {
  if (fs::is_regular_file(path)) files.push_back(path);
  if (!fs::is_directory(path)) return;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--mutations" && i + 1 < argc) {
      options.mutations = std::atol(argv[++i]);
    } else if (argument == "--seed" && i + 1 < argc) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      add_files(argument, options.files);
    }
  }
  std::sort(options.files.begin(), options.files.end());  // folders list in no fixed order
  return options;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  set_limits();
  if (options.files.empty()) {
    std::fprintf(stderr, "usage: %s [--mutations N] [--seed S] <corpus folder or file>...\n",
                 argv[0]);
    return 2;
  }
  std::vector<std::string> corpus;
  for (const fs::path& path : options.files) {
    corpus.push_back(read_file(path));
    if (!survives(corpus.back(), path.string())) return 1;
  }
  Random random(options.seed);
  for (long i = 0; i < options.mutations; ++i) {
    std::string input = corpus[random.below(corpus.size())];
    const std::size_t steps = 1 + random.below(4);
    for (std::size_t s = 0; s < steps; ++s) {
      mutate_once(input, corpus[random.below(corpus.size())], random);
    }
    if (!survives(input, "mutation " + std::to_string(i))) return 1;
  }
  std::printf("%zu inputs and %ld mutations of them survived\n", corpus.size(), options.mutations);
  return 0;
}
