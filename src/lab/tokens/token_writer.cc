#include "tokens/token_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/open_file.h"
#include "core/strings.h"
#include "posenc/core/error.h"
#include "system/file_errors.h"
#include "system/files.h"
#include "system/folders.h"
#include "system/scratch_folder.h"
#include "system/sha256.h"

namespace posenc::tokens {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "token files are little endian");

enum SplitNumber : std::size_t { kTrain, kValidation, kTest };

constexpr std::size_t kBuffer = std::size_t{1} << 20;
constexpr std::uint64_t kHashSteps = std::uint64_t{1} << 53;

// A new file with the checksum of what was written.
class HashedFile {
 public:
  explicit HashedFile(std::string path)
      : path_(std::move(path)),
        file_(open_regular(path_, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC)) {
    if (file_.number() < 0) throw write_error(path_, errno);
  }
  void write(std::span<const std::byte> data) {
    buffer_.insert(buffer_.end(), data.begin(), data.end());
    if (buffer_.size() >= kBuffer) flush();
  }
  // Syncs and closes; the checksum.
  std::string finish() {
    flush();
    if (::fsync(file_.number()) != 0) throw write_error(path_, errno);
    file_.close();
    return hash_.hex();
  }

 private:
  void flush() {
    hash_.update(buffer_);
    for (std::size_t done = 0; done < buffer_.size();) {
      const ssize_t n = ::write(file_.number(), buffer_.data() + done, buffer_.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw write_error(path_, errno);
      done += static_cast<std::size_t>(n);
    }
    buffer_.clear();
  }

  std::string path_;
  Descriptor file_;
  std::vector<std::byte> buffer_;
  Sha256 hash_;
};

// The shards and the borders of one split.
class SplitFiles {
 public:
  SplitFiles(fs::path folder, std::string name, int token_bytes, std::int64_t shard_tokens)
      : folder_(std::move(folder)),
        name_(std::move(name)),
        token_bytes_(token_bytes),
        shard_tokens_(shard_tokens),
        borders_((folder_ / (name_ + ".documents")).string()) {}

  void add(std::span<const std::int32_t> tokens, std::int64_t text_bytes) {
    split_.bytes += text_bytes;
    split_.tokens += std::ssize(tokens);
    ++split_.documents;
    const auto end = static_cast<std::uint64_t>(split_.tokens);
    borders_.write(std::as_bytes(std::span(&end, 1)));
    while (!tokens.empty()) {
      if (!shard_) open_shard();
      const std::int64_t room = shard_tokens_ - split_.shards.back().tokens;
      const auto now = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(room)));
      write(now);
      split_.shards.back().tokens += std::ssize(now);
      tokens = tokens.subspan(now.size());
      if (split_.shards.back().tokens == shard_tokens_) close_shard();
    }
  }
  TokenSplit finish() {
    if (shard_) close_shard();
    split_.borders = {name_ + ".documents", split_.documents, borders_.finish()};
    return std::move(split_);
  }

 private:
  void open_shard() {
    const std::string file = fmt::format("{}-{:05}.bin", name_, split_.shards.size());
    shard_.emplace((folder_ / file).string());
    split_.shards.push_back({file, 0, ""});
  }
  void close_shard() {
    split_.shards.back().sha256 = shard_->finish();
    shard_.reset();
  }
  void write(std::span<const std::int32_t> tokens) {
    if (token_bytes_ == 4) return shard_->write(std::as_bytes(tokens));
    short_.assign(tokens.begin(), tokens.end());
    shard_->write(std::as_bytes(std::span(short_)));
  }

  fs::path folder_;
  std::string name_;
  int token_bytes_;
  std::int64_t shard_tokens_;
  HashedFile borders_;
  std::optional<HashedFile> shard_;
  std::vector<std::uint16_t> short_;
  TokenSplit split_;
};

Error mistake(const std::string& key, const std::string& rule, const std::string& value,
              const std::string& hint) {
  return {ErrorKind::kConflict, {"data tokens", key, rule, value, hint}};
}

std::int32_t end_token(const Tokenizer& tokenizer, const std::string& wanted) {
  for (const std::string& text : wanted.empty()
                                     ? std::vector<std::string>{"<|endoftext|>", "<|end_of_text|>"}
                                     : std::vector<std::string>{wanted}) {
    if (const auto found = tokenizer.find(text)) return *found;
  }
  throw mistake("end", "must be a token of the tokenizer", wanted,
                "name the token that ends a text with --end");
}

// Uniform in [0, 1), a function of the name alone.
double place_of(const std::string& name) {
  std::uint64_t hash = fnv1a(name);  // its high bits hardly depend on the last characters
  hash = (hash ^ (hash >> 31)) * 0xBF58476D1CE4E5B9u;
  hash ^= hash >> 29;
  return static_cast<double>(hash % kHashSteps) / static_cast<double>(kHashSteps);
}

// The end of the line at or before byte `at`.
std::size_t line_end(const std::string& text, std::size_t at) {
  const std::size_t found = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  return found == std::string::npos ? at : found + 1;
}

void require_options(const TokenFileOptions& options) {
  const double held_out = options.validation_share + options.test_share;
  if (!(options.validation_share >= 0 && options.test_share >= 0 && held_out < 1)) {
    throw mistake("test-share", "and validation-share must be >= 0 and below 1 together",
                  fmt::format("{} and {}", options.test_share, options.validation_share),
                  "hold out less");
  }
  if (options.shard_tokens < 1) {
    throw mistake("shard-tokens", "must be positive", std::to_string(options.shard_tokens),
                  "100000000 is usual");
  }
  if (!fs::exists(fs::symlink_status(options.folder))) return;
  if (!options.replace) {
    throw mistake("folder", "must be new", options.folder,
                  "name another one with -o, or replace it with --force");
  }
  if (!fs::exists(fs::path(options.folder) / "index.json")) {
    throw mistake("folder", "must hold token files to be replaced", options.folder,
                  "name another one with -o");
  }
}

}  // namespace

class TokenWriter::Work {
 public:
  Work(const Tokenizer& tokenizer, TokenFileOptions options)
      : options_(std::move(options)),
        target_(fs::absolute(options_.folder).lexically_normal()),
        parents_(target_.parent_path()),
        scratch_(target_),
        files_(scratch_.path() / "files"),
        encoder_(tokenizer, {.find_added = false}) {
    fs::create_directory(files_);
    index_.vocabulary = tokenizer.vocabulary();
    index_.token_bytes = index_.vocabulary <= 65536 ? 2 : 4;
    index_.tokenizer_sha256 = tokenizer.fingerprint();
    index_.end_of_document = end_token(tokenizer, options_.end_of_document);
    index_.source = options_.source;
    index_.licence = options_.licence;
    for (std::size_t s = 0; s < kSplitNames.size(); ++s) {
      splits_[s].emplace(files_, std::string(kSplitNames[s]), index_.token_bytes,
                         options_.shard_tokens);
    }
    atomic_write(files_ / "tokenizer.json", tokenizer_json(tokenizer.parts()));
  }

  // The first document waits for a second one: alone, it is cut.
  void add(SourceDocument& document) {
    ++documents_;
    if (documents_ == 1) return std::swap(first_, document);
    if (documents_ == 2) put_whole(first_);
    put_whole(document);
  }

  TokenIndex finish() {
    if (documents_ == 0) throw mistake("corpus", "has no documents", "", "name files with text");
    if (documents_ == 1) put_parts(first_.text);
    for (std::size_t s = 0; s < splits_.size(); ++s) index_.splits[s] = splits_[s]->finish();
    atomic_write(files_ / "index.json", token_index_json(index_));
    const bool there = fs::exists(fs::symlink_status(target_));
    if (there) fs::rename(target_, scratch_.path() / "replaced");
    fs::rename(files_, target_);
    sync_folder(target_.parent_path().string());
    parents_.keep();
    return index_;
  }

 private:
  void put_whole(const SourceDocument& document) {
    const double place = place_of(document.name);
    const double held_out = options_.test_share + options_.validation_share;
    const SplitNumber side = place < options_.test_share ? kTest
                             : place < held_out          ? kValidation
                                                         : kTrain;
    put(document.text, side);
    first_ = {};
  }
  void put_parts(const std::string& text) {
    const auto size = static_cast<double>(text.size());
    const auto at = [&](double share) {
      return line_end(text, static_cast<std::size_t>((1.0 - share) * size));
    };
    const std::size_t test = at(options_.test_share);
    const std::size_t validation =
        std::min(test, at(options_.test_share + options_.validation_share));
    const std::string_view all(text);
    put(all.substr(0, validation), kTrain);
    put(all.substr(validation, test - validation), kValidation);
    put(all.substr(test), kTest);
  }
  void put(std::string_view text, SplitNumber side) {
    if (text.empty()) return;
    tokens_.clear();
    encoder_.append(text, tokens_);
    tokens_.push_back(static_cast<std::int32_t>(index_.end_of_document));
    splits_[side]->add(tokens_, std::ssize(text));
  }

  TokenFileOptions options_;
  fs::path target_;
  NewFolders parents_;
  ScratchFolder scratch_;
  fs::path files_;
  Encoder encoder_;
  TokenIndex index_;
  std::array<std::optional<SplitFiles>, 3> splits_;
  std::int64_t documents_ = 0;
  SourceDocument first_;
  std::vector<std::int32_t> tokens_;
};

TokenWriter::TokenWriter(const Tokenizer& tokenizer, TokenFileOptions options) {
  require_options(options);
  work_ = std::make_unique<Work>(tokenizer, std::move(options));
}
TokenWriter::~TokenWriter() = default;

void TokenWriter::add(SourceDocument& document) { work_->add(document); }
TokenIndex TokenWriter::finish() { return work_->finish(); }

}  // namespace posenc::tokens
