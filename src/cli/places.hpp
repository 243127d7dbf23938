// SPDX-License-Identifier: Apache-2.0
// The files that commands write: whether they may be, and writing them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codetta/codetta.hpp"

namespace codetta::cli {

struct OutputFile {
  std::string name, file;  // the output, and what --out gave for it
  TensorView view;
};
// What --out gives is named as the formats that are written: .npy, .safetensors, or without a suffix (.npy, too).
// Output name -> what --out gave. Errors: E0701.
Result<void> check_formats(const std::vector<std::pair<std::string, std::string>>& outputs);
// What a command writes and reads, as it was given; no file need be there.
struct Places {
  using Items = std::vector<std::pair<std::string, std::string>>;
  Items tensors;                    // output name -> what --out gave
  Items files;                      // what it is ("the report") -> its path
  std::vector<std::string> inputs;  // FILE.safetensors:NAME, too; what is no file is passed over
  bool takes_force = true;          // whether the command has --force
  bool force = false;               // it was said
};
// No two outputs may go to one file, or under one name of one archive, and none to a file that is read, however either
// is spelled or linked. Errors: E0701.
Result<void> check_overwrites(const Places& places);
// That, and that each can be written, as far as it is known before there is work. Errors: E0701, E0623.
Result<void> check_places(const Places& places);
// check_overwrites() for a call that writes files itself, which `places` lacks: while it does, until this goes, no
// signal ends the command after a second. Errors: also E0510, where one came before.
WriteGuard guard_of(Places places);
// Each .npy file, and each .safetensors file once, with all that goes into it (under the output's name where none is
// given). All of them, or, where one cannot be written, none. Errors: E0623.
Result<void> write_tensors(const std::vector<OutputFile>& outputs);
// A folder that is made where it is missing, with those around it; without keep() those that are then empty go with it.
class MadeFolder {
 public:
  MadeFolder() = default;
  static Result<MadeFolder> make(const std::string& folder);  // Errors: E0623.
  MadeFolder(MadeFolder&& other) noexcept : made_(std::exchange(other.made_, {})) {}
  MadeFolder& operator=(MadeFolder&& other) noexcept {
    std::swap(made_, other.made_);
    return *this;
  }
  ~MadeFolder();
  void keep() { made_.clear(); }

 private:
  std::vector<std::string> made_;  // the innermost first
};
// Whole, or not at all. Errors: E0623.
Result<void> write_text(const std::string& file, const std::string& text);

}  // namespace codetta::cli
