// posenc data tokenizer train, posenc data tokens: text to tokens.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>

#include "cli/data_verbs.h"
#include "cli/print.h"
#include "posenc/core/error.h"
#include "system/files.h"
#include "system/stop_request.h"
#include "tokens/token_files.h"
#include "tokens/token_writer.h"
#include "tokens/train.h"

namespace posenc::cli {
namespace {

using tokens::SplitPattern;

struct TrainArguments {
  SourceArguments sources;
  tokens::TrainOptions training;
  std::string pattern = "gpt2";
  std::string output;
};

struct TokensArguments {
  SourceArguments sources;
  tokens::TokenFileOptions files;
  std::string tokenizer;
};

void stop_if(const StopRequest& stop) {
  if (!stop.requested()) return;
  throw Error(ErrorKind::kIo, {.scope = "data",
                               .key = "",
                               .rule = "was interrupted " + stop.reason(),
                               .value = "",
                               .hint = "nothing was written; run it again"});
}

SplitPattern pattern_named(const std::string& name) {
  if (name == "llama3") return SplitPattern::kLlama3;
  return name == "qwen2" ? SplitPattern::kQwen2 : SplitPattern::kGpt2;
}

Error empty_corpus() {
  return {ErrorKind::kMissingKey,
          {.scope = "data tokenizer",
           .key = "corpus",
           .rule = "has no documents",
           .value = "",
           .hint = "name files with text"}};
}

void require_no_corpus(const std::string& output, const std::vector<std::string>& corpora) {
  const std::string target = output_target(output);
  for (const std::string& corpus : corpora) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(target, corpus, ignored)) continue;
    throw Error(ErrorKind::kConflict, {.scope = "data tokenizer",
                                       .key = "--output",
                                       .rule = "must not be a file that it is trained on",
                                       .value = output,
                                       .hint = "choose another name"});
  }
}

int train_tokenizer(TrainArguments arguments) {
  require_no_corpus(arguments.output, arguments.sources.corpora);
  arguments.training.pattern = pattern_named(arguments.pattern);
  tokens::Trainer trainer(arguments.training);
  const StopRequest stop;
  std::int64_t bytes = 0;
  std::int64_t documents = 0;
  for_each_document(source_options(arguments.sources), [&](tokens::SourceDocument& document) {
    stop_if(stop);
    trainer.add(document.text);
    bytes += std::ssize(document.text);
    ++documents;
  });
  if (bytes == 0) throw empty_corpus();
  const tokens::Tokenizer tokenizer(trainer.train());
  stop_if(stop);
  write_output(arguments.output, tokenizer_json(tokenizer.parts()));
  print("{}: {} tokens, {} merges, from {} documents ({})\n", arguments.output,
        tokenizer.vocabulary(), tokenizer.parts().merges.size(), documents, megabytes(bytes));
  print("  SHA-256 of the vocabulary {}\n", tokenizer.fingerprint());
  if (tokenizer.vocabulary() < arguments.training.vocabulary) {
    print("  fewer than {}: no pair of tokens is left that occurs {} times\n",
          arguments.training.vocabulary, arguments.training.least_count);
  }
  return kFine;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

int write_tokens(TokensArguments arguments) {
  const tokens::SourceOptions sources = source_options(arguments.sources);
  const tokens::Tokenizer tokenizer = tokens::Tokenizer::read(arguments.tokenizer);
  arguments.files.source = joined(arguments.sources.corpora);
  if (arguments.files.licence.empty()) arguments.files.licence = licences_of(arguments.sources);
  if (arguments.files.licence.empty()) arguments.files.licence = "unknown";
  const auto begin = std::chrono::steady_clock::now();
  const StopRequest stop;
  tokens::TokenWriter writer(tokenizer, arguments.files);
  for_each_document(sources, [&](tokens::SourceDocument& document) {
    stop_if(stop);
    writer.add(document);
  });
  const tokens::TokenIndex index = writer.finish();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  print("{}: {} tokens of {} documents ({}), {:.2f} bytes per token, in {:.1f} s\n",
        arguments.files.folder, index.tokens(), index.documents(), megabytes(index.bytes()),
        static_cast<double>(index.bytes()) /
            static_cast<double>(std::max<std::int64_t>(1, index.tokens())),
        spent.count());
  for (std::size_t s = 0; s < index.splits.size(); ++s) {
    const tokens::TokenSplit& split = index.splits[s];
    print("  {:<10} {} tokens, {} documents, {} shards\n", tokens::kSplitNames[s], split.tokens,
          split.documents, split.shards.size());
  }
  print("  train on them with task: {{language_model: {{tokens: {}}}}}\n", arguments.files.folder);
  return kFine;
}

}  // namespace

void add_data_tokenizer(CLI::App& data, Action& chosen) {
  CLI::App* verb = data.add_subcommand("tokenizer", "Train a byte-pair tokenizer");
  verb->require_subcommand(1);
  verb->footer("Example:\n  posenc data tokenizer train sotu --vocab 4096 -o tokenizer.json\n");
  CLI::App* train = verb->add_subcommand(
      "train", "Train a byte-level byte-pair tokenizer, as Hugging Face reads it");
  auto arguments = std::make_shared<TrainArguments>();
  add_source_options(*train, arguments->sources);
  train->add_option("-o,--output", arguments->output, "the tokenizer.json to write")->required();
  train->add_option("--vocab", arguments->training.vocabulary, "tokens in all")
      ->capture_default_str();
  train->add_option("--pattern", arguments->pattern, "how text is cut into words")
      ->check(CLI::IsMember(std::array<std::string, 3>{"gpt2", "llama3", "qwen2"}))
      ->capture_default_str();
  train->add_option("--min-count", arguments->training.least_count, "rarer pairs are not merged")
      ->capture_default_str();
  train->add_option("--special", arguments->training.special, "special tokens")
      ->capture_default_str();
  train->add_flag("--nfc", arguments->training.nfc, "normalise text to Unicode's form C first");
  train->footer(
      "Examples:\n"
      "  posenc data tokenizer train sotu --vocab 4096 -o tokenizer.json\n"
      "  posenc data tokenizer train web.jsonl --field content --pattern llama3 \\\n"
      "    -o tokenizer.json\n");
  train->callback(
      [&chosen, arguments] { chosen = [arguments] { return train_tokenizer(*arguments); }; });
}

void add_data_tokens(CLI::App& data, Action& chosen) {
  CLI::App* verb = data.add_subcommand(
      "tokens", "Write a corpus as token files, which training maps into memory");
  auto arguments = std::make_shared<TokensArguments>();
  tokens::TokenFileOptions& files = arguments->files;
  add_source_options(*verb, arguments->sources);
  verb->add_option("--tokenizer", arguments->tokenizer,
                   "a tokenizer.json of the GPT-2, GPT-NeoX, Llama 3 or Qwen kind, or its folder")
      ->required();
  verb->add_option("-o,--output", files.folder, "folder of the token files")->required();
  verb->add_option("--licence", files.licence,
                   "of the text (default: that of the fetched corpus, else unknown)");
  verb->add_option("--validation-share", files.validation_share, "share of the documents")
      ->capture_default_str();
  verb->add_option("--test-share", files.test_share, "share of the documents")
      ->capture_default_str();
  verb->add_option("--shard-tokens", files.shard_tokens, "tokens of a file at most")
      ->capture_default_str();
  verb->add_option("--end", files.end_of_document,
                   "token behind each document (default: <|endoftext|> or <|end_of_text|>)");
  verb->add_flag("--force", files.replace, "replace token files that are there");
  verb->footer(
      "Examples:\n"
      "  posenc data tokens sotu --tokenizer tokenizer.json -o sotu-tokens\n"
      "  posenc data tokens web/ --suffixes .jsonl --tokenizer Llama-3.2-1B \\\n"
      "    -o web-tokens\n");
  verb->callback(
      [&chosen, arguments] { chosen = [arguments] { return write_tokens(*arguments); }; });
}

}  // namespace posenc::cli
